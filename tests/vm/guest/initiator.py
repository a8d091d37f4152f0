"""The Linux kernel's initiator and dm-multipath inside the guest, as an operator uses them."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess

from harness import Failed, check, wait_for

DROP_IN = pathlib.Path("/lab/packaging/multipath/lockstep.conf")
# What an operator's own file says; everything else is the drop-in's.
OWN = """defaults {
    find_multipaths no
    user_friendly_names yes
}
"""


def run(*command, seconds=120, may_fail=False):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds)
    if done.returncode != 0 and not may_fail:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stdout.strip()[-1500:]}")
    return done.stdout if not may_fail else done


class Initiator:
    """iscsid and multipathd, started for one world and stopped with it; `drop_in` replaces the shipped one's text. Its
    sessions go over `transport`: tcp, or iser."""

    def __init__(self, world, drop_in=None, transport="tcp"):
        self.world, self.drop_in, self.transport = world, drop_in or DROP_IN.read_text(), transport
        self.daemons = []

    def __enter__(self):
        name = "iqn.2026-11.io.lockstep.lab:guest"
        pathlib.Path("/etc/iscsi/initiatorname.iscsi").write_text(f"InitiatorName={name}\n")
        for module in ("iscsi_tcp", "sd_mod", "sg", "dm_multipath", "dm_service_time", "dm_round_robin", "scsi_dh_alua"):
            run("modprobe", module)
        for left in ("/etc/multipath", "/etc/iscsi/nodes", "/etc/iscsi/send_targets"):
            shutil.rmtree(left, ignore_errors=True)
        pathlib.Path("/etc/multipath.conf").write_text(OWN)
        folder = pathlib.Path("/etc/multipath/conf.d")
        folder.mkdir(parents=True)
        (folder / "lockstep.conf").write_text(self.drop_in)
        pathlib.Path("/run/lock/iscsi").mkdir(parents=True, exist_ok=True)
        self.daemon("iscsid", "-f")
        self.daemon("multipathd", "-d", "-s")
        wait_for("multipathd to answer", lambda: run("multipathd", "show", "daemon", may_fail=True).returncode == 0, 60)
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.describe()
        with contextlib.suppress(Exception):
            self.release()
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()

    def daemon(self, *command):
        log = open(f"/tmp/{command[0]}.log", "ab")
        self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def describe(self):
        """For the console of a scenario that failed."""
        for command in ("multipath -ll", "iscsiadm -m session -P 3", "dmesg", "tail -n 60 /tmp/multipathd.log"):
            with contextlib.suppress(Exception):
                print(f"--- {command}\n" + "\n".join(run(*command.split(), may_fail=True).stdout.splitlines()[-80:]), flush=True)

    def release(self):
        """Lets go of the device and logs out; what still waits for a path fails."""
        run("multipathd", "disablequeueing", "maps", may_fail=True, seconds=20)
        run("multipath", "-F", may_fail=True, seconds=30)
        run("iscsiadm", "-m", "node", "-u", may_fail=True, seconds=60)

    # ---- sessions ----

    def discover(self, portal):
        """The portals that one SendTargets discovery reports, each "ADDRESS:PORT TARGET"."""
        found = run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", portal)
        return sorted(f"{line.split(',')[0]} {line.split()[1]}" for line in found.splitlines())

    def login(self):
        # Discovery always goes over TCP.
        if self.transport != "tcp":
            for node in self.world.nodes:
                run("iscsiadm", "-m", "node", "-T", self.world.target, "-p", node.portal, "-o", "update",
                    "-n", "iface.transport_name", "-v", self.transport)
        run("iscsiadm", "-m", "node", "-T", self.world.target, "-l")

    def logged_in(self):
        """The portals with a session that works."""
        portals = []
        for session in pathlib.Path("/sys/class/iscsi_session").glob("session*"):
            if (session / "state").read_text().strip() == "LOGGED_IN":
                for connection in (session / "device").glob("connection*/iscsi_connection/*"):
                    portals.append(":".join((connection / part).read_text().strip()
                                            for part in ("persistent_address", "persistent_port")))
        return sorted(portals)

    def attach(self, first=None, paths=2):
        """One discovery, both logins; gives the multipath device once all its paths are active."""
        found = self.discover((first or self.world.a).portal)
        check(len(found) == len(self.world.nodes), f"one discovery reports both nodes: {found}")
        self.login()
        return self.device(paths)

    # ---- multipath ----

    def maps(self):
        answer = run("multipathd", "show", "maps", "json", may_fail=True)
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(answer.stdout)["maps"]
        return []

    def map(self):
        maps = self.maps()
        return maps[0] if len(maps) == 1 else None

    def paths(self):
        found = self.map()
        return [path for group in found["path_groups"] for path in group["paths"]] if found else []

    def active(self):
        return [p for p in self.paths() if p["dm_st"] == "active" and p["chk_st"] == "ready"]

    def wait_paths(self, count, seconds=60):
        try:
            wait_for(f"{count} active paths", lambda: len(self.active()) == count, seconds, 0.25)
        except Failed as failed:
            raise Failed(f"{failed}; there are {[(p['dev'], p['dm_st'], p['chk_st']) for p in self.paths()]}") from None

    def wait_for_return(self, node, volume):
        """Starts a node that was killed; both are in sync and both paths active again."""
        node.restart()
        for each in self.world.nodes:
            each.wait_state(volume, "in_sync", seconds=120)
        self.wait_paths(2, seconds=120)

    def device(self, paths=2):
        self.wait_paths(paths)
        device = pathlib.Path("/dev/mapper") / self.map()["name"]
        wait_for(f"{device} to appear", device.exists)
        return device

    def path_of(self, node):
        """The disk behind a node: /dev/sdX."""
        for session in pathlib.Path("/sys/class/iscsi_session").glob("session*"):
            for connection in (session / "device").glob("connection*/iscsi_connection/*"):
                if (connection / "persistent_address").read_text().strip() == node.address:
                    for block in (session / "device").glob("target*/*/block/*"):
                        return pathlib.Path("/dev") / block.name
        raise Failed(f"no disk through node {node.side}")


def kernel_complaints():
    """Lines of the kernel's log that tell of an error that reached a user of the multipath device."""
    marks = ("Buffer I/O error", "EXT4-fs error", "EXT4-fs warning", "Aborting journal", "I/O error, dev dm-", "hung_task",
             "blocked for more than", "BUG:", "WARNING:")
    return [line for line in run("dmesg").splitlines() if any(mark in line for mark in marks)]


def write_direct(path, offset, data):
    """One write past the page cache; `data` is a multiple of the block size."""
    import mmap
    buffer = mmap.mmap(-1, len(data))
    buffer.write(data)
    handle = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        check(os.pwritev(handle, [buffer], offset) == len(data), f"{path} took less than {len(data)} bytes")
    finally:
        os.close(handle)


def read_direct(path, offset, length):
    import mmap
    buffer = mmap.mmap(-1, length)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        check(os.preadv(handle, [buffer], offset) == length, f"{path} gave less than {length} bytes")
        return buffer[:]
    finally:
        os.close(handle)
