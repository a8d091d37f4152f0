#!/usr/bin/env python3
"""Refuses includes that point up the layers, and includes that let the outside world into a core.

docs/developer/layers.md says which folders are cores, docs/developer/mirror.md what the parts of the mirror are: each sees
only parts that stand below it. `layers.py --self-test` shows that the check can fail.
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
    "replication/link/channel/",
)
OUTSIDE = re.compile(
    r"boost/(asio|beast)|asio\.hpp|spdlog/|liburing|nlohmann/|SQLiteCpp|^sqlite3|sys/(socket|epoll|eventfd|stat|uio)\.h"
    r"|netinet/|arpa/|^(unistd|fcntl|pthread|poll)\.h|^(thread|mutex|shared_mutex|condition_variable|future|filesystem"
    r"|fstream|iostream|random|ctime)$|infiniband/|rdma/")
# The one place in each core where the outside is let in, with the reason.
EXEMPT = {
}
# The parts of a mirror, from the lowest up; those of one row don't see one another. What a part has to tell upwards it
# tells by an interface in its own header. A file belongs to the part whose name it begins with.
PARTS = (
    "arbiter indeterminate_extents left_records link marks operator_command phase pool receipt regions replica_state"
    " sequences volume_status write_same",
    "cleaning_pace cleaning_walk fencing link_budget look_times messages op resync_governor stall_watch verdict witness_memory",
    "lu_state_in_force memory_watch node_settings operations",
    "flap_damping partner standing",
    "forward_entries local_store",
    "completions growth left_epoch outbound space witness_agreement",
    "forwarder resync",
    "applier lu_state_keeper sequencer",
    "front generations store_watch",
    "cleaner forward_server read_repair state_exchange witnessing",
    "epoch_steps mirror_parts",
    "phase_runner",
    "going_alone",
    "step_parts",
    "epoch_driver epoch_follower giving_up",
    "membership",
    "write_cache_switch",
    "mirror",
    "pair_node",
)
PART_OF = {"lu_state_changes": "lu_state_keeper"}
RANK = {part: rank for rank, row in enumerate(PARTS) for part in row.split()}
MIRROR = "replication/core/"
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
CLOCKS = re.compile(r"(system_clock|steady_clock|high_resolution_clock)::now|clock_gettime|std::random_device")


def part_of(name):
    """The part that a file of the mirror belongs to; empty: none."""
    stem = name.removeprefix(MIRROR).rsplit(".", 1)[0]
    if stem in PART_OF:
        return PART_OF[stem]
    while stem and stem not in RANK:
        stem = stem.rpartition("_")[0]
    return stem


def points_up(name, target):
    """Why a file of the mirror may not include that one; empty: it may."""
    if not (name.startswith(MIRROR) and target.startswith(MIRROR)):
        return ""
    here, there = part_of(name), part_of(target)
    if not here or not there:
        return f"no part of the mirror is named for {target if here else name}"
    return "" if here == there or RANK[there] < RANK[here] else f"{there} does not stand below {here}"


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
                if wrong := points_up(name, target):
                    yield f"{where}: {wrong}"
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
        "replication/core/space.cpp": '#include "replication/core/membership.hpp"',
        "replication/core/sequencer.hpp": '#include "replication/core/applier.hpp"',
        "replication/core/core_state.hpp": '#include "replication/core/op.hpp"',
        "engine/metadata/x.cpp": "auto t = std::chrono::steady_clock::now();",
    }
    fine = {
        "mgmt/main/x.cpp": '#include "ui-api/rest/x.hpp"',
        "replication/link/x.hpp": '#include "engine/iscsi/x.hpp"',
        "engine/net/x.cpp": "#include <boost/asio.hpp>",
        "replication/core/sequencer_room.cpp": '#include "replication/core/sequencer.hpp"',
        "replication/core/mirror.hpp": '#include "replication/core/membership.hpp"',
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
