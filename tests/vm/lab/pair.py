"""A pair whose nodes are machines of their own, each with a disk that forgets what was not flushed when the power goes.

The witness, the writer and the tests stay on the host, which is every machine's neighbour on one bridge. The nodes talk to
each other on a wire of their own. harness.World and harness.Node are as in tests/e2e, but for where a node runs."""
import contextlib
import filecmp
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import agent
import harness
from harness import Failed, check, wait_for
from lab import image, machine
from lab.remote import Remote

REPO = image.REPO
DISK_MIB, VOLUME_MIB, MEMORY_MIB = 64, 4, 320
RDMA_MEMORY_MIB = 832  # messages and copies are pinned
# An emulated machine moves a megabyte or three in a second. A resync that is not held back fills the link, the heartbeats
# wait behind it for longer than a lease, and it begins anew (scenario slow_link).
RESYNC_CEILING = 1 << 20
LINKS = {"a": "10.255.255.1", "b": "10.255.255.2"}


def ip(*arguments, may_fail=False):
    done = subprocess.run(["ip", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0 and not may_fail:
        raise harness.Skipped(f"ip {' '.join(arguments)}: {done.stdout.strip()}")


class Network:
    """A bridge with the host's address, and a tap for each node."""

    def __init__(self):
        number = random.randrange(1, 250)
        self.prefix, self.bridge = f"10.78.{number}", f"lockstep{number}"
        self.taps = {side: f"lockstep{number}{side}" for side in "ab"}
        self.host = f"{self.prefix}.1"
        self.addresses = {"a": f"{self.prefix}.2", "b": f"{self.prefix}.3"}

    def __enter__(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("address", "add", f"{self.host}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for tap in self.taps.values():
            ip("tuntap", "add", "dev", tap, "mode", "tap")
            ip("link", "set", tap, "master", self.bridge, "up")
        return self

    def __exit__(self, *_):
        for name in (*self.taps.values(), self.bridge):
            ip("link", "delete", name, may_fail=True)


class Disk:
    """A disk.py and its image, which starts as an empty ext4."""

    def __init__(self, folder, seed):
        self.image, self.socket = folder / "disk.img", folder / "disk.sock"
        with open(self.image, "wb") as f:
            f.truncate(DISK_MIB << 20)
        image.run("the node's file system", "mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0", self.image)
        self.process = subprocess.Popen(
            [sys.executable, REPO / "tests/vm/lab/disk.py", self.image, self.socket, str(seed)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        check(answer, "the disk's process ended")
        return answer.strip()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


class RemoteRpc(harness.Rpc):
    """A control socket inside a node's machine."""

    def __init__(self, node, timeout=120.0):
        self.socket = node.ask({"connect": node.socket}, keep=True, seconds=timeout)
        self.reader = self.socket.makefile("r", encoding="utf-8")
        self.ids = 0
        check(json.loads(self.reader.readline()) == {}, "the control socket is there")


class MachineNode(harness.Node, Remote):
    """One machine with one lockstepd; both go when the power does."""

    def __init__(self, world, side, seed):
        self.world, self.side, self.name = world, side, f"node {side}"
        self.address = world.network.addresses[side]
        self.id = str(harness.uuid.uuid4())
        self.host_folder = self.here = world.folder / side
        self.host_folder.mkdir()
        self.folder = self.volume_folder = pathlib.Path("/data")  # in the machine
        self.socket, self.iscsi, self.link = "/data/lockstepd.sock", 3260, 4000
        # On the host, so that a power cut does not take its last lines.
        self.log, self.host_log = f"/host/lockstepd-{side}.log", world.share / f"lockstepd-{side}.log"
        self.options = {"buffer_mib": 32, "link_buffer_mib": 32, "busy_poll_us": 0, "rdma": "auto" if world.rdma else "off"}
        self.rpc = self.process = None
        self.disk = Disk(self.host_folder, seed)
        self.boots = 0
        self.machine = None

    @property
    def link_address(self):
        return f"{LINKS[self.side]}:{self.link}"

    # ---- the machine ----

    def power_on(self):
        self.boots += 1
        wire = self.world.folder / "wire"
        other = "b" if self.side == "a" else "a"
        monitor = self.host_folder / "monitor"
        monitor.unlink(missing_ok=True)
        (self.world.folder / f"wire-{self.side}").unlink(missing_ok=True)
        mac = f"52:54:00:4c:0{1 if self.side == 'a' else 2}:0"
        self.machine = machine.Machine(
            self.world.kernel, self.host_folder / f"console-{self.boots}", RDMA_MEMORY_MIB if self.world.rdma else MEMORY_MIB,
            own_clock=False,
            line=f"lab.root=/dev/vda lab.overlay=1 lab.share=1 lab.init=/lab/tests/vm/guest/node "
                 f"node.address={self.address} node.link={LINKS[self.side]} node.rdma={int(self.world.rdma)}",
            extra=[*machine.disk(self.world.root.path, "root", readonly="on"),
                   *machine.disk(f"nbd+unix:///?socket={self.disk.socket}", "data", cache="none"),
                   "-netdev", f"tap,id=net0,ifname={self.world.network.taps[self.side]},script=no,downscript=no",
                   "-device", f"virtio-net-pci,netdev=net0,mac={mac}1",
                   "-netdev", f"dgram,id=net1,local.type=unix,local.path={wire}-{self.side},"
                              f"remote.type=unix,remote.path={wire}-{other}",
                   "-device", f"virtio-net-pci,netdev=net1,mac={mac}2",
                   "-monitor", f"unix:{monitor},server=on,wait=off",
                   *machine.share(REPO, "lab", read_only=True), *machine.share(self.world.share, "host")])
        self.machine.start()

    def power_cut(self):
        """Gives how many writes stood in the disk's cache, and how many of them were lost or torn."""
        self.machine.kill()
        self.forget()
        return tuple(map(int, self.disk.tell("cut").split()))

    def forget(self):
        if self.rpc:
            self.rpc.close()
        self.rpc = self.process = None

    def monitor(self, command):
        """A command of qemu's monitor."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(self.host_folder / "monitor"))
            reader = s.makefile("rb")
            for text in ("", command + "\n"):
                s.sendall(text.encode())
                answer = b""
                while not answer.endswith(b"(qemu) "):
                    answer += reader.read(1)

    def answers(self):
        if not self.machine.running():
            raise Failed(f"the machine of node {self.side} ended: {self.machine.output()[-1500:]}")
        with contextlib.suppress(OSError, Failed, ValueError):
            return self.run("test", "-d", "/data/lost+found") == ""
        return False

    def set_clock(self):
        """From now on check_clock() counts."""
        self.clock = time.monotonic(), self.ask({"clock": "boottime"})["seconds"]

    def check_clock(self):
        """A machine whose clock is wrong by a tenth shows nothing about leases."""
        here, there = self.clock
        least = time.monotonic() - here
        gone = self.ask({"clock": "boottime"})["seconds"] - there
        most = time.monotonic() - here
        check(least * 0.95 - 0.2 < gone < most * 1.05 + 0.2,
              f"the clock of node {self.side}'s machine went on by {gone:.1f} s in {least:.1f} s to {most:.1f} s")

    # ---- the process ----

    def start(self):
        lines = [f'rpc_socket = "{self.socket}"', f'state_folder = "{self.folder}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.options.items()]
        text = "\n".join(lines)
        self.run("sh", "-c", f"rm -f {self.socket}; printf '%s\\n' '{text}' >/run/lockstepd.toml")
        self.process = self.ask({"start": ["/run/lockstepd", "--config", "/run/lockstepd.toml"], "log": self.log})["pid"]
        self.rpc = wait_for(f"lockstepd {self.side} to answer", self._connect, 90, 0.1)

    def _connect(self):
        code = self.exit_code()
        check(code is None, f"lockstepd {self.side} ended with {code}: {self.log_tail(5)}")
        with contextlib.suppress(OSError, Failed, ValueError):
            return RemoteRpc(self)
        return None

    def desired(self, volumes, **changes):
        state = super().desired(volumes, **changes)
        state["settings"]["resync_ceiling"] = self.world.resync_ceiling
        if self.world.rdma and self.world.paired:
            other = self.world.other(self)
            state["partner"]["link"]["more_paths"] = [{"listen": f"{self.address}:{self.link + 1}", "last_resort": False,
                                                       "connect": f"{other.address}:{other.link + 1}"}]
        return state

    def kill(self, sig=signal.SIGKILL):
        """Ends the process, not the machine."""
        self.ask({"signal": self.process, "number": int(sig)})
        wait_for(f"lockstepd {self.side} to end", lambda: self.exit_code() is not None, 40)
        code = self.exit_code()
        self.forget()
        return code

    def exit_code(self):
        """Nothing while it runs."""
        return self.ask({"ended": self.process})["code"]

    def freeze(self):
        """The machine stands still; its clock goes on, as that of a machine whose host is stuck."""
        self.machine.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.machine.process.send_signal(signal.SIGCONT)

    def log_text(self):
        return self.host_log.read_text(errors="replace") if self.host_log.exists() else ""

    def describe(self):
        """For a scenario that failed: where the daemon's threads are, and what the machine's kernel says."""
        threads = f"for t in /proc/{self.process}/task/*; do cat $t/comm $t/wchan $t/stack; grep State $t/status; done"
        script = f"{threads if self.process else ''}\ntail -n 25 {self.log}; dmesg | tail -n 25; ps axo stat,time,args"
        with contextlib.suppress(OSError, Failed, ValueError):
            return self.ask({"run": ["sh", "-c", script]}, seconds=10)["output"]
        return f"it does not answer; {self.log_tail(25)}"

    def sanitizer_reports(self):
        return []

    def fetch(self, path, target):
        """Copies a file out of the machine, past its page cache."""
        with self.ask({"read": path}, keep=True) as connection, open(target, "wb") as out:
            reader = connection.makefile("rb")
            header = json.loads(reader.readline())
            check("error" not in header, f"node {self.side}: {path}: {header}")
            shutil.copyfileobj(reader, out, 1 << 20)
        check(os.path.getsize(target) == header["size"], f"node {self.side}: {path} was read only in part")


class PairOfMachines(harness.World):
    """Two machines, and a witness beside them. With `rdma` the wire has Soft-RoCE, the link is encrypted, and has a second path
    over the bridge, by TCP."""

    def __init__(self, lab, work, seed, lease_ms=1500, resync_ceiling=RESYNC_CEILING, rdma=False):
        self.kernel, self.root, self.share = lab.kernel, lab.root, work / "share"
        self.share.mkdir()
        subprocess.run(["cp", "-rl", lab.programs, self.share / "build"], check=True)
        self.build = harness.settings.build
        self.folder = work / "pair"
        self.folder.mkdir()
        self.pair = str(harness.uuid.uuid4())
        self.target = f"iqn.2026-11.io.lockstep:test-{self.pair[:8]}"
        self.lease_ms, self.paired, self.revision = lease_ms, True, 0
        self.volumes, self.cleanups, self.children, self.nodes = [], [], [], []
        self.network = Network()
        self.etcd = None
        self.rdma = self.link_tls = rdma
        self.seed, self.resync_ceiling = seed, resync_ceiling

    def __enter__(self):
        self.network.__enter__()
        try:
            self.etcd = harness.Etcd(self.folder, self.network.host)
            self.etcd.start()
            for number, side in enumerate("ab"):
                self.nodes.append(MachineNode(self, side, self.seed + number))
            self.a, self.b = self.nodes
            self.boot(self.nodes)
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, *_):
        for node in self.nodes:
            if node.machine and node.machine.running():
                node.thaw()
                if kind:
                    print(f"--- node {node.side}\n{node.describe()}")
                node.machine.kill()
            node.disk.stop()
        if self.etcd:
            self.etcd.kill()
        self.network.__exit__()

    def boot(self, nodes):
        for node in nodes:
            node.power_on()
        for node in nodes:
            wait_for(f"the machine of node {node.side} to answer", node.answers, 300, 0.1)
            node.set_clock()

    def power_on(self, nodes):
        """Machines, daemons, and what they are to serve: neither daemon waits for the other to be told first."""
        self.boot(nodes)
        for node in nodes:
            node.start()
        for node in nodes:
            node.apply_cleanly()

    def wait_in_sync(self, volume, seconds=120):
        for node in self.nodes:
            node.wait_state(volume, "in_sync", seconds=seconds)
        wait_for("the witness to be told", lambda: not any(
            node.volume_status(volume)["failover_limited"] for node in self.nodes), 60)

    def same_data(self, volume):
        """Compares the copies byte by byte; nobody writes meanwhile."""
        copies = [node.host_folder / "copy" for node in self.nodes]
        threads = [threading.Thread(target=node.fetch, args=(node.data(volume), copy))
                   for node, copy in zip(self.nodes, copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(all(copy.exists() for copy in copies), "both copies were read")
        if not filecmp.cmp(*copies, shallow=False):
            raise Failed(f"the two copies of {volume.name} differ: {differences(*copies)}")
        for copy in copies:
            copy.unlink()


def differences(one, other, block=4096, most=20):
    with open(one, "rb") as first, open(other, "rb") as second:
        found, number = [], 0
        while (left := first.read(block)) or number == 0:
            if left != second.read(block):
                found.append(number)
            number += 1
    return f"{len(found)} blocks of {block}: {found[:most]}"
