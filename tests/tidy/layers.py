#!/usr/bin/env python3
"""Refuses includes that point up the layers, and includes that let the outside world into a core.

docs/developer/layers.md says which folders are cores. `layers.py --self-test` shows that the check can fail.
"""
import pathlib
import re
import sys
import tempfile

MAY_SEE = {
    "engine": {"engine"},
    "iscsi_target": {"iscsi_target", "engine"},
    "replication": {"replication", "engine"},
    "mgmt": {"mgmt", "replication", "iscsi_target", "engine"},
    "ui-api": {"ui-api", "mgmt", "replication", "iscsi_target", "engine"},
}
MAINS = ("mgmt/main/",)  # main() wires everything

CORES = (
    "engine/base/", "engine/seams/", "engine/metadata/", "engine/locks/", "engine/iscsi/", "engine/scsi/",
    "iscsi_target/session/", "iscsi_target/scsi/", "replication/core/",
)
OUTSIDE = re.compile(
    r"boost/(asio|beast)|asio\.hpp|spdlog/|liburing|nlohmann/|SQLiteCpp|^sqlite3|sys/(socket|epoll|eventfd|stat|uio)\.h"
    r"|netinet/|arpa/|^(unistd|fcntl|pthread|poll)\.h|^(thread|mutex|shared_mutex|condition_variable|future|filesystem"
    r"|fstream|iostream|random|ctime)$|infiniband/|rdma/")
# The one place in each core where the outside is let in, with the reason.
EXEMPT = {
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
CLOCKS = re.compile(r"(system_clock|steady_clock|high_resolution_clock)::now|clock_gettime|std::random_device")


def problems(root):
    for layer, allowed in MAY_SEE.items():
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".hpp", ".cpp", ".h") or "node_modules" in path.parts:
                continue
            name = path.relative_to(root).as_posix()
            core = name.startswith(CORES)
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                where = f"{name}:{number}"
                if core and CLOCKS.search(line.split("//")[0]):
                    yield f"{where}: a core reads a clock or a random source of its own"
                match = INCLUDE.match(line)
                if not match:
                    continue
                kind, target = match.groups()
                room = target.split("/")[0]
                if kind == '"' and room in MAY_SEE and room not in allowed and not name.startswith(MAINS):
                    yield f"{where}: {layer} may not see {target}"
                if core and OUTSIDE.search(target) and target not in EXEMPT.get(name, ()):
                    yield f"{where}: a core may not include {target}"


def self_test():
    cases = {
        "engine/base/x.hpp": '#include "mgmt/control/x.hpp"',
        "replication/link/x.cpp": '#include "iscsi_target/session/x.hpp"',
        "replication/core/x.hpp": "#include <boost/asio.hpp>",
        "iscsi_target/scsi/x.cpp": "#include <thread>",
        "engine/metadata/x.cpp": "auto t = std::chrono::steady_clock::now();",
    }
    fine = {
        "mgmt/main/x.cpp": '#include "ui-api/rest/x.hpp"',
        "replication/link/x.hpp": '#include "engine/iscsi/x.hpp"',
        "engine/net/x.cpp": "#include <boost/asio.hpp>",
    }
    for name, line in {**cases, **fine}.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(line + "\n")
            if bool(list(problems(pathlib.Path(folder)))) != (name in cases):
                print(f"the check is wrong about {name}: {line}")
                return False
    return True


if __name__ == "__main__":
    if not self_test():
        sys.exit(1)
    found = list(problems(pathlib.Path(__file__).resolve().parents[2]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
