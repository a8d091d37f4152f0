"""What iscsi-test-cu is run against, and the profiles of volumes that each target has."""
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import uuid

from suite import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
IQN = "iqn.2026-11.io.lockstep:conformance"
CHAP_INITIATOR = "iqn.2026-11.io.lockstep:chap-initiator"
SIZE = 96 << 20  # above MAXIMUM WRITE SAME LENGTH, below what READ(6) can address
START_SECONDS = 30

# Shapes of volumes by the name of their profile; the first is what a volume is unless somebody says otherwise.
PROFILES = {
    "512e-thin": {},
    "512n-thin-removable": {"physical_block_size": 512, "removable": True},
    "4kn-thin": {"block_size": 4096},
    "512e-full": {"thin": False},
    "512e-thin-encrypted": {"encrypted": True},
}


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise Failed("the target did not end within 20 s of SIGTERM")
    if process.returncode != 0:
        raise Failed(f"the target ended with {process.returncode}")


class Running:
    """A target that somebody else started."""
    profiles = ["512e-thin"]
    read_only_lun = None
    chap_lun = None
    chap_portal = None
    chap = ("initiator", "a-secret-of-16-b")
    chap_iqn = IQN + "-chap"

    def __init__(self, text):
        self.portal, self.iqn = text.split(",", 1)
        self.second_portal = self.portal

    def close(self):
        pass

    def alive(self):
        return True

    def lun_of(self, profile):
        return self.profiles.index(profile)

    def url(self, lun=0, portal=None):
        return f"iscsi://{portal or self.portal}/{self.iqn}/{lun}"

    def urls(self, family, profile):
        """Where a family is run; a reason instead when it can't be."""
        lun = self.lun_of(profile)
        if family == "ReadOnly":
            return "this target has no read-only volume" if self.read_only_lun is None else [self.url(self.read_only_lun)]
        if family == "MultipathIO":
            return [self.url(lun), self.url(lun, self.second_portal)]
        return [self.url(lun)]


class ConformanceTarget(Running):
    """Sessions, logical units and stores without a daemon."""

    def __init__(self, build, folder):
        self.program = build / "tests/conformance/conformance_target"
        self.processes = []
        portal = self.start(folder, "plain", ["--target", IQN, "--file", str(folder / "lun0"), str(SIZE), f"{SIZE}r"])
        super().__init__(f"{portal},{IQN}")
        self.read_only_lun = 1
        self.chap_portal = self.start(folder, "chap", ["--target", self.chap_iqn, "--chap", *self.chap, str(SIZE)])

    def start(self, folder, name, arguments):
        errors = open(folder / f"{name}.log", "w")
        process = subprocess.Popen([self.program, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True)
        self.processes.append(process)
        words = process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise Failed(f"{self.program} did not start: {(folder / f'{name}.log').read_text()}")
        return words[1]

    def alive(self):
        return all(p.poll() is None for p in self.processes)

    def close(self):
        for process in self.processes:
            stop(process)


class Lockstepd(Running):
    """The daemon with unmirrored volumes in memory, one of each shape, one read-only, and one that wants CHAP."""
    profiles = list(PROFILES)
    read_only_lun = len(PROFILES)
    chap_lun = len(PROFILES) + 1

    def __init__(self, build, folder):
        portals = [self.free_portal(), self.free_portal()]
        super().__init__(f"{portals[0]},{IQN}")
        self.second_portal = portals[1]
        self.rpc = folder / "rpc.sock"
        (folder / "state").mkdir()
        config = folder / "lockstepd.toml"
        config.write_text(f'rpc_socket = "{self.rpc}"\nstate_folder = "{folder / "state"}"\nreactors = 2\nbuffer_mib = 256\n')
        self.log = folder / "lockstepd.log"
        self.process = subprocess.Popen([build / "mgmt/main/lockstepd", "--config", config],
                                        stdout=open(self.log, "w"), stderr=subprocess.STDOUT)
        self.apply(portals)
        self.chap_portal = self.portal

    @staticmethod
    def free_portal():
        with socket.socket() as probe:  # free a moment ago; nobody else picks from this address
            probe.bind(("127.0.0.77", 0))
            return "127.0.0.77:%d" % probe.getsockname()[1]

    def apply(self, portals):
        def volume(lun, **shape):
            return {"id": str(uuid.UUID(int=0x5EED << 64 | 0x8 << 60 | lun + 1)), "name": f"conformance{lun}",
                    "serial": f"CONFORMANCE{lun}", "lun": lun, "size": SIZE, "block_size": 512, "thin": True,
                    "read_only": False, "write_cache": False, "mirrored": False, "data": "memory:", "metadata": "",
                    "access": [], **shape}
        user, secret = self.chap
        volumes = [volume(lun, **shape) for lun, shape in enumerate(PROFILES.values())]
        volumes.append(volume(self.read_only_lun, read_only=True))
        volumes.append(volume(self.chap_lun, access=[{"initiator": CHAP_INITIATOR, "chap_user": user,
                                                      "chap_secret": secret, "mutual_user": None,
                                                      "mutual_secret": None}]))
        answer = self.call("node.apply", {
            "revision": 1, "pair": {"id": str(uuid.UUID(int=7 << 100 | 8 << 60)), "name": "conformance"},
            "node": {"side": "a", "id": str(uuid.UUID(int=9 << 100 | 8 << 60)), "name": "node-a"},
            "target": {"name": IQN, "portals": portals, "discovery_auth": None}, "partner": None,
            "arbiter": {"kind": "preferred", "preferred": "a"},
            "settings": {"lease_ms": 1500, "resync_floor": 8388608, "resync_ceiling": 0}, "volumes": volumes})
        if answer["problems"]:
            raise Failed(f"node.apply: {answer['problems']}")

    def call(self, method, params):
        end = time.monotonic() + START_SECONDS
        connection = socket.socket(socket.AF_UNIX)
        while True:
            try:
                connection.connect(str(self.rpc))
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise Failed(f"lockstepd does not answer: {self.log.read_text()[-2000:]}")
                time.sleep(0.05)
        with connection, connection.makefile("rw") as lines:
            lines.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
            lines.flush()
            answer = json.loads(lines.readline())
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']}")
        return answer["result"]

    def alive(self):
        return self.process.poll() is None

    def close(self):
        stop(self.process)


class Pair(Running):
    """Two daemons with mirrored volumes in files, reached through one of them; `degraded`: the other one was killed."""
    profiles = ["512e-thin", "512n-thin-removable", "512e-thin-encrypted"]
    read_only_lun = len(profiles)

    def __init__(self, build, folder, side, degraded=False):
        sys.path.insert(0, str(ROOT / "tests/e2e"))
        import harness
        harness.settings.build = build.resolve()
        self.world = harness.World(nodes=2, witness=degraded)
        self.world.__enter__()
        try:
            shapes = [PROFILES[profile] for profile in self.profiles] + [{"read_only": True}]
            volumes = [harness.Volume(f"conformance{lun}", lun, SIZE, encrypted=shape.get("encrypted", False))
                       for lun, shape in enumerate(shapes)]
            for volume in volumes:
                self.world.add(volume)
            for node in self.world.nodes:
                for volume in volumes:
                    node.create(volume)
            for node in self.world.nodes:
                self.apply(node, volumes, shapes)
            for node in self.world.nodes:
                for volume in volumes:
                    node.wait_state(volume, "in_sync")
            self.node = self.world.a if side == "a" else self.world.b
            other = self.world.other(self.node)
            super().__init__(f"{self.node.portal},{self.world.target}")
            self.wait_for_writes(harness, volumes[:-1])
            self.second_portal = self.portal if degraded else other.portal
            if degraded:
                harness.wait_for("the witness to be told", lambda: not any(
                    n.volume_status(v)["failover_limited"] for n in self.world.nodes for v in volumes))
                other.kill()
                for volume in volumes:
                    self.node.wait_state(volume, "degraded", "solo")
        except harness.Failed as problem:
            self.close()
            raise Failed(str(problem))

    def wait_for_writes(self, harness, volumes):
        """In its first moments a node answers a write with BUSY now and then. A host comes again; iscsi-test-cu takes it as the end."""
        from scsi_client import GOOD, Initiator
        for volume in volumes:
            first = Initiator(self.world, self.node, volume, "first")
            harness.wait_for(f"{volume.name} to take a write", lambda host=first: host.write(0, b"\0").status == GOOD)
            first.close()

    def apply(self, node, volumes, shapes):
        desired = node.desired(volumes)
        for volume, shape in zip(desired["volumes"], shapes):
            volume.update(shape)
        answer = node.rpc.call("node.apply", **desired)
        if answer["problems"]:
            raise Failed(f"node {node.side}: {answer['problems']}")

    def alive(self):
        return self.node.process is not None and self.node.process.poll() is None

    def close(self):
        self.world.__exit__(None, None, None)


KINDS = {
    "lockstepd": Lockstepd,
    "conformance_target": ConformanceTarget,
    "pair-a": lambda build, folder: Pair(build, folder, "a"),
    "pair-b": lambda build, folder: Pair(build, folder, "b"),
    "pair-degraded": lambda build, folder: Pair(build, folder, "b", degraded=True),
}


def start_target(kind, build, folder):
    if "," in kind:
        return Running(kind)
    if kind == "auto":
        kind = "lockstepd" if (build / "mgmt/main/lockstepd").exists() else "conformance_target"
    if kind not in KINDS:
        raise Failed(f"no target is called {kind}: {', '.join(KINDS)}, or IP:PORT,IQN")
    return KINDS[kind](build, folder)
