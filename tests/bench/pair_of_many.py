"""A pair of lockstepd on one core, the volumes that it is given, what its processes use, and clients on another core."""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from basics import MIB, settings  # noqa: E402, F401 -- the bench sets them
from harness import Rpc, Volume, World  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
LEASE_MS = 1500


class Followed:
    """When each volume of a node came to a state, as the node itself tells it; whoever asks it all the time is in the way."""

    def __init__(self, node, volumes, state):
        self.missing, self.came = {v.id for v in volumes}, []
        self.state = state
        self.rpc = Rpc(node.socket, timeout=300)
        self.rpc.call("events.subscribe")
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while self.missing:
            told = self.rpc.next()["params"]
            if told["kind"] == "volume.state" and told["to"] == self.state and told["volume"] in self.missing:
                self.missing.remove(told["volume"])
                self.came.append(told["time_ms"] / 1000)

    def wait(self, begun):
        """Seconds from `begun` (of time.time()) until the median volume, and until the last one."""
        self.thread.join()
        self.rpc.close()
        at = sorted(came - begun for came in self.came)
        return at[len(at) // 2], at[-1]


class Pair(World):
    """`cores`: those of both daemons, as taskset takes them. `reactors` of each; volumes are spread over as many shards."""

    def __init__(self, options, cores="0", reactors=1, witness=False):
        super().__init__(witness=witness, lease_ms=LEASE_MS)
        self.options, self.reactors, self.places = options, reactors, {}
        self.lockstepd = self.folder / "lockstepd.sh"
        self.lockstepd.write_text(f'#!/bin/sh\nexec taskset -c {cores} {options.lockstepd} "$@"\n')
        self.lockstepd.chmod(0o755)
        for node in self.nodes:
            node.options["reactors"] = reactors
            node.data = lambda v, n=node: str(self.places.get((v.name, n.side), n.folder) / f"{n.side}-{v.name}.data")

    def more(self, count, size_mib=16, name="v"):
        """So many volumes more, on both nodes; they serve when both nodes are told."""
        for _ in range(count):
            lun = len(self.volumes)
            volume = self.add(Volume(f"{name}{lun}", lun, size_mib * MIB))
            volume.shard = lun % self.reactors
        return self.volumes[-count:]

    def create(self, volumes):
        for volume in volumes:
            for node in self.nodes:
                node.create(volume)

    def tell(self):
        for node in self.nodes:
            node.apply_cleanly()

    def in_sync(self):
        for node in self.nodes:
            while not all(v["state"] == "in_sync" for v in node.status()["volumes"]):
                time.sleep(0.1)

    @property
    def pids(self):
        return {node.side: node.process.pid for node in self.nodes}

    def client(self, volume, depth, seconds, more=()):
        """Writes 4 KiB at random through A."""
        words = ["taskset", "-c", self.options.client_cores, self.options.build / "tests/bench/bench_initiator",
                 "--address", self.a.address, "--port", self.a.iscsi, "--target", self.target, "--lun", volume.lun,
                 "--span-mib", volume.size // MIB, "--depth", depth, "--seconds", seconds, "--write", *more]
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.children.append(process)
        return process


def outcome(process, or_nothing=False):
    out, said = process.communicate()
    if process.returncode != 0 and or_nothing:
        return None
    if process.returncode != 0:
        sys.exit(f"bench: a client ended with {process.returncode}: {said.strip()}")
    return json.loads(out)


class Used:
    """What a process has used and holds."""

    def __init__(self, pid):
        proc = pathlib.Path(f"/proc/{pid}")
        stat = (proc / "stat").read_text().rsplit(")", 1)[1].split()
        self.at, self.cpu = time.monotonic(), (int(stat[11]) + int(stat[12])) / TICKS
        fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        self.rss_mib = int(fields["VmRSS"].split()[0]) / 1024
        self.threads = int(fields["Threads"])
        self.files = len(os.listdir(proc / "fd"))

    def percent_since(self, earlier):
        return 100 * (self.cpu - earlier.cpu) / (self.at - earlier.at)
