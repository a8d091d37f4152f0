"""Real lockstepd processes on loopback addresses of their own, a real etcd, and what tests need to ask of them."""
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import uuid

from basics import (MIB, REPO, Failed, Skipped, TooSlow, Wrong, check, check_data, check_time, free_port, group, settings,  # noqa: F401
                    wait_for)
from etcd import Etcd


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.errc = error.get("data", {}).get("code")
        self.field = error.get("data", {}).get("field")


class Rpc:
    """One connection to a control socket."""

    def __init__(self, path, timeout=30.0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))
        self.reader = self.socket.makefile("r", encoding="utf-8")
        self.ids = 0

    def call(self, method, **params):
        self.ids += 1
        request = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        self.socket.sendall((json.dumps(request) + "\n").encode())
        answer = self.next()
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def next(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("the control socket was closed")
        return json.loads(line)

    def close(self):
        self.reader.close()
        self.socket.close()


class Volume:
    """A volume as both nodes are told of it."""

    def __init__(self, name, lun, size, mirrored=True, memory=False, block_size=512, access=None, encrypted=False, closed=False):
        self.id, self.epoch = str(uuid.uuid4()), str(uuid.uuid4())
        self.name, self.lun, self.size = name, lun, size
        self.mirrored, self.memory, self.block_size = mirrored, memory, block_size
        self.serial = "LS" + self.id.replace("-", "")[:12]
        self.access = access or []
        self.encrypted = encrypted
        self.closed = closed
        self.shard = None


class Node:
    """One lockstepd with its folder and address."""

    def __init__(self, world, side, address):
        self.world, self.side, self.address = world, side, address
        self.id = str(uuid.uuid4())
        self.folder = world.folder / side
        self.folder.mkdir()
        self.volume_folder = self.here = self.folder
        self.socket = self.folder / "lockstepd.sock"
        self.log = self.folder / "lockstepd.log"
        self.iscsi, self.link = free_port(address), free_port(address)
        self.link_at = None  # where the link has moved to
        self.options = {"buffer_mib": 64, "link_buffer_mib": 64, **({"reactors": settings.shards} if settings.shards > 1 else {})}
        self.process = None
        self.rpc = None

    @property
    def portal(self):
        return f"{self.address}:{self.iscsi}"

    @property
    def link_address(self):
        return self.link_at or f"{self.address}:{self.link}"

    def data(self, volume):
        return "memory:" if volume.memory else str(self.volume_folder / f"{volume.name}.data")

    def metadata(self, volume):
        return "" if volume.memory else str(self.volume_folder / f"{volume.name}.meta")

    # ---- the process ----

    def configure(self):
        lines = [f'rpc_socket = "{self.socket}"', f'state_folder = "{self.folder}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.options.items()]
        (self.folder / "lockstepd.toml").write_text("\n".join(lines) + "\n")

    def start(self):
        self.configure()
        log = open(self.log, "ab")
        self.process = subprocess.Popen([self.world.lockstepd, "--config", self.folder / "lockstepd.toml"],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.world.environment)
        self.rpc = wait_for(f"lockstepd {self.side} to answer", self._connect, 20)

    def _connect(self):
        if self.process.poll() is not None:
            raise Failed(f"lockstepd {self.side} ended with {self.process.returncode}: {self.log_tail(3)}")
        with contextlib.suppress(OSError):
            return Rpc(self.socket)
        return None

    def kill(self, sig=signal.SIGKILL):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
        return self.wait()

    def wait(self, seconds=40):
        code = self.process.wait(seconds) if self.process else None
        if self.rpc:
            self.rpc.close()
        self.process = self.rpc = None
        return code

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self, lines=30):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def sanitizer_reports(self):
        marks = ("ERROR: AddressSanitizer", "runtime error:", "WARNING: ThreadSanitizer", "ERROR: LeakSanitizer")
        return [line for line in self.log_text().splitlines() if any(mark in line for mark in marks)]

    # ---- what it is told ----

    def create(self, volume, clean=True):
        members = "both" if self.world.paired else self.side
        return self.rpc.call(
            "replica.create", volume=volume.id, pair=self.world.pair, side=self.side, name=volume.name,
            serial=volume.serial, size=volume.size, block_size=volume.block_size, data=self.data(volume),
            metadata=self.metadata(volume), epoch={"id": volume.epoch, "members": members,
                                                   "sequencer": "a" if self.world.paired else self.side},
            arbiter=self.world.recorded_arbiter(), clean=clean, encrypted=volume.encrypted)

    @functools.cached_property
    def identity(self):
        """The node's certificate for the link, its key, and its fingerprint."""
        key, shown = self.here / "link.key", self.here / "link.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", f"/CN=node-{self.side}", "-keyout", key, "-out", shown], check=True, stderr=subprocess.DEVNULL)
        certificate = shown.read_text()
        return certificate, key.read_text(), hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()

    def link_protection(self, other):
        if not self.world.link_tls:
            return {}
        certificate, key, _ = self.identity
        mode = "required" if self.world.link_tls is True else self.world.link_tls
        return {"tls": {"certificate": certificate, "key": key, "partner": other.identity[2], "mode": mode}}

    def desired(self, volumes, **changes):
        other = self.world.other(self)
        state = {
            "revision": self.world.next_revision(),
            "pair": {"id": self.world.pair, "name": "test"},
            "node": {"side": self.side, "id": self.id, "name": f"node-{self.side}"},
            "target": {"name": self.world.target, "portals": [self.portal], "discovery_auth": None},
            "partner": other and {
                "name": f"node-{other.side}", "portals": [other.portal],
                "link": {"listen": self.link_address, "connect": other.link_address, "chap_user": "link",
                         "chap_secret": "link-secret-0001", "mutual_user": "knil", "mutual_secret": "knil-secret-0001",
                         **self.link_protection(other)}},
            "arbiter": self.world.arbiter(),
            "settings": {"lease_ms": self.world.lease_ms, "resync_floor": 64 * MIB, "resync_ceiling": 0},
            "volumes": [{"id": v.id, "name": v.name, "serial": v.serial, "lun": v.lun, "size": v.size,
                         "block_size": v.block_size, "thin": True, "read_only": False, "write_cache": False,
                         "encrypted": v.encrypted,
                         "mirrored": v.mirrored, "data": self.data(v), "metadata": self.metadata(v),
                         **({"shard": v.shard} if v.shard else {}),
                         "access": v.access, **({"any_initiator": False} if v.closed else {})} for v in volumes],
        }
        state.update(changes)
        return state

    def apply(self, volumes=None, **changes):
        return self.rpc.call("node.apply", **self.desired(self.world.volumes if volumes is None else volumes, **changes))

    def apply_cleanly(self, volumes=None, **changes):
        """As management does, which applies again what left a problem: on a busy machine the kernel takes seconds to let go
        of what a killed process had open."""
        def problems():
            return self.apply(volumes, **changes)["problems"]
        left = problems()
        deadline = time.monotonic() + 60
        while any("is in use" in problem["message"] for problem in left) and time.monotonic() < deadline:
            time.sleep(1)
            left = problems()
        check(not left, f"node {self.side} reports problems: {left}")

    def restart(self):
        self.start()
        self.apply_cleanly()

    # ---- what it says ----

    def status(self):
        return self.rpc.call("node.status")

    def volume_status(self, volume):
        return next((v for v in self.status()["volumes"] if v["id"] == volume.id), None)

    def wait_state(self, volume, *states, seconds=30):
        def there():
            status = self.volume_status(volume)
            return status if status and status["state"] in states else None
        try:
            return wait_for(f"volume {volume.name} on node {self.side} to be {' or '.join(states)}", there, seconds)
        except Failed as failed:
            raise Failed(f"{failed}; it is {self.volume_status(volume)}") from None


class World:
    """One or two nodes, perhaps a witness, in a folder of their own that goes away with a test that passes."""

    def __init__(self, nodes=2, witness=True, lease_ms=1000, secure_witness=False, addresses=None, rdma=False, link_tls=False):
        """`link_tls`: False, True, or a mode of node.apply's link.tls short of "required"."""
        self.build = settings.build
        self.lockstepd = self.build / "mgmt/main/lockstepd"
        self.environment = None  # this process's
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-e2e-", dir=os.environ.get("LOCKSTEP_E2E_FOLDER")))
        if rdma:
            self.lockstepd = self.build / "tests/support/lockstepd_test_fabric"
            self.rdma_folder = self.folder / "rdma"
            self.rdma_folder.mkdir()
            self.environment = {**os.environ, "LOCKSTEP_TEST_FABRIC": str(self.rdma_folder)}
        self.pair = str(uuid.uuid4())
        self.target = f"iqn.2026-11.io.lockstep:test-{self.pair[:8]}"
        self.lease_ms = lease_ms
        self.link_tls = link_tls
        self.paired = nodes == 2
        self.revision = 0
        self.volumes = []
        self.cleanups = []
        self.children = []
        # Addresses of this run's own, so that runs side by side do not meet.
        net = random.randrange(1, 250)
        host = random.randrange(1, 60) * 4
        self.etcd = Etcd(self.folder, secure=secure_witness) if witness else None
        addresses = addresses or (f"127.77.{net}.{host}", f"127.77.{net}.{host + 1}")
        self.a = Node(self, "a", addresses[0])
        self.b = Node(self, "b", addresses[1]) if nodes == 2 else None
        self.nodes = [n for n in (self.a, self.b) if n]

    def __enter__(self):
        try:
            if self.etcd:
                self.etcd.start()
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__(*sys.exc_info())  # nothing is left running
            raise
        return self

    def __exit__(self, kind, error, trace):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        for node in self.nodes:
            if node.process:
                node.thaw()
                node.kill()
        if self.etcd:
            self.etcd.kill()
        for cleanup in reversed(self.cleanups):
            cleanup()
        reports = [r for n in self.nodes for r in n.sanitizer_reports()] if settings.sanitized else []
        if reports or kind and not issubclass(kind, KeyboardInterrupt):
            for node in self.nodes:
                print(f"--- log of node {node.side}, its last lines ({node.log})\n{node.log_tail()}")
        if reports:
            raise Wrong("a sanitizer reports: " + "; ".join(reports)) from error
        if not kind and not settings.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def other(self, node):
        return None if not self.paired else self.b if node is self.a else self.a

    def rdma_faults(self):
        """What the daemons did against the rules of the verbs seam, in sentences."""
        faults = self.rdma_folder / "faults"
        return faults.read_text() if faults.exists() else ""

    @contextlib.contextmanager
    def rdma_cable(self, state):
        """Meanwhile it is "cut", or "silent": then nothing gets through, and nobody is told."""
        (self.rdma_folder / state).touch()
        try:
            yield
        finally:
            (self.rdma_folder / state).unlink()

    def next_revision(self):
        self.revision += 1
        return self.revision

    def arbiter(self):
        if self.etcd:
            return self.etcd.arbiter
        return {"kind": "preferred", "preferred": "a"}

    def recorded_arbiter(self):
        """What an epoch record keeps of it."""
        return {key: value for key, value in self.arbiter().items() if key in ("kind", "endpoints", "preferred")}

    def add(self, volume):
        if settings.shards > 1 and volume.mirrored and volume.shard is None:
            volume.shard = (settings.shards - 1 - len(self.volumes)) % settings.shards  # the first is not in the first
        self.volumes.append(volume)
        return volume

    def mirror(self, size=64 * MIB, name="vm1", lun=0, encrypted=False):
        """A mirrored volume on both nodes, in sync."""
        volume = self.add(Volume(name, lun, size, encrypted=encrypted))
        for node in self.nodes:
            node.create(volume)
        for node in self.nodes:
            node.apply_cleanly()
        for node in self.nodes:
            node.wait_state(volume, "in_sync")
        if self.etcd:
            wait_for("the witness to be told", lambda: not any(
                node.volume_status(volume)["failover_limited"] for node in self.nodes))
        return volume

    def start_both(self):
        """Then tells them what to serve: neither waits for the other to be told first."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.apply_cleanly()

    def kill_both_and_start_again(self):
        for node in self.nodes:
            node.kill()
        self.start_both()

    def small_file_system(self, size):
        """A folder on a file system of its own, of `size` bytes."""
        image, mount = self.folder / f"small-{len(self.cleanups)}.img", self.folder / f"small-{len(self.cleanups)}"
        mount.mkdir()
        with open(image, "wb") as f:
            f.truncate(size)
        for command in (["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], ["mount", "-o", "loop", image, mount]):
            done = self.run(*command)
            if done.returncode != 0:
                raise Skipped(f"{command[0]}: {done.stdout.strip()}")
        self.cleanups.append(lambda: wait_for("the file system to be unmounted",
                                              lambda: self.run("umount", mount).returncode == 0))
        return mount

    # ---- initiators ----

    def url(self, node, volume, user=None):
        who = f"{user}@" if user else ""
        return f"iscsi://{who}{node.portal}/{self.target}/{volume.lun}"

    def run(self, *command, seconds=60):
        return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds)

    def verifier(self, *arguments):
        known = f"LSAN_OPTIONS=suppressions={REPO / 'tests/lsan.supp'}:print_suppressions=0"
        return ["env", known, self.build / "tests/e2e/verifier", *arguments, "--target", self.target]


def check_verifier(code, message):
    """How a verifier may end: 1 is data that is not what it was told, or an error; all else that it could not do its work."""
    check_data(code != 1, message)
    check(code == 0, message)


class Writer:
    """The verifying initiator, writing through the given nodes until it is stopped: one after the other as they fail,
    or, `all_paths`, through all at once, as a host's multipath does. An answer that no host tries again elsewhere is its end,
    unless it `may_fail`."""

    def __init__(self, world, volume, nodes, span_mib=16, depth=8, log=None, resume=None, read_percent=30, all_paths=False,
                 rate=0, may_fail=False):
        self.log = log or world.folder / f"writer-{random.randrange(1 << 30)}.log"
        portals = [part for node in nodes for part in ("--portal", node.portal)]
        command = world.verifier(*portals, "--lun", volume.lun, "--span-mib", span_mib, "--depth", depth, "--log", self.log,
                                 "--read-percent", read_percent, *(["--resume", resume] if resume else []),
                                 *(["--all-paths"] if all_paths else []), *(["--may-fail"] if may_fail else []), "--rate", rate)
        self.lines = []
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.partial = ""
        world.children.append(self.process)

    def poll(self):
        """The latest status line."""
        with contextlib.suppress(BlockingIOError, TypeError):
            self.partial += self.process.stdout.read() or ""
        *whole, self.partial = self.partial.split("\n")
        self.lines += whole
        for line in reversed(self.lines):
            if line.startswith("{"):
                return json.loads(line)
        return {}

    def field(self, name):
        return self.poll().get(name, 0)

    def longest_gap_since(self, line):
        """Milliseconds without an answer, since that many lines were there."""
        self.poll()
        return max(json.loads(told)["gap_ms"] for told in self.lines[line:] if told.startswith("{"))

    def wait_writes(self, more, seconds=20):
        begun = self.field("writes")

        def grown():
            code = self.process.poll()
            check_data(code != 1, f"the writer found something wrong: {self.output()}")
            check(code is None, f"the writer ended with {code}: {self.output()}")
            return self.field("writes") >= begun + more
        wait_for(f"{more} more acknowledged writes", grown, seconds)

    def output(self):
        self.poll()
        return "\n".join(self.lines[-5:])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 40
        while self.process.poll() is None:
            check(time.monotonic() < deadline, "the writer does not end")
            self.poll()
            time.sleep(0.01)
        status = self.poll()
        check_verifier(self.process.returncode, f"the writer found something wrong ({self.process.returncode}): {self.output()}")
        return status
