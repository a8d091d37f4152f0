"""What the scenarios on two machines share: a pair under a writer, faults one after the other, and what must hold after each.

LOCKSTEP_VM_SEED decides all random choices; a run prints its seed."""
import contextlib
import os
import random
import time

from harness import MIB
from lab import report
from lab.pair import RESYNC_CEILING, VOLUME_MIB, PairOfMachines
from lab.writer import Writer

SEED = int(os.environ.get("LOCKSTEP_VM_SEED", "0")) or random.randrange(1, 1 << 31)
ROUNDS = int(os.environ.get("LOCKSTEP_VM_ROUNDS", "1"))
DEAD_NODE, HUNG_DISK, HAND_OVER = 2.0, 10.0, 0.2  # seconds: the promised pauses at p99


class Trial:
    def __init__(self, pair, volume, writer, pauses):
        self.pair, self.volume, self.writer, self.pauses = pair, volume, writer, pauses
        self.choice = random.Random(SEED)
        self.begun = 0.0

    def load(self):
        """The writer writes, and a fault may come at any moment."""
        self.begun = time.monotonic()
        self.writer.go()
        self.writer.wait_writes(100)
        time.sleep(self.choice.uniform(0.0, 0.5))

    @contextlib.contextmanager
    def pause_of(self, kind):
        """Counts the pause within this block, until all that was under way at its beginning is acknowledged."""
        self.writer.forget_times()
        since = time.monotonic()
        yield
        self.writer.wait_older_than(since)
        self.writer.wait_writes(20)
        self.pauses.add(kind, self.writer.gap(since), self.writer.longest)

    def read_back(self):
        """In sync again, while nothing is written: each block through both nodes, against the record."""
        self.pair.wait_in_sync(self.volume)
        for node in self.pair.nodes:
            self.writer.read_back(node)

    def settle(self):
        """In sync again after some more writes: each block is read back through both nodes, and the copies are the same."""
        self.pair.wait_in_sync(self.volume)
        self.writer.wait_writes(50)
        self.writer.pause()
        for node in self.pair.nodes:
            node.check_clock()
        self.read_back()
        self.pair.same_data(self.volume)

    def told(self, what):
        print(f"{what}; {time.monotonic() - self.begun:.1f} s", flush=True)

    def summary(self):
        return (f"{self.writer.writes} writes acknowledged, {self.writer.reads} read meanwhile; after each fault every block "
                f"read back through both nodes, copies the same; seed {SEED}")


@contextlib.contextmanager
def trial(lab, work, resync_ceiling=RESYNC_CEILING, rdma=False):
    print(f"seed {SEED}", flush=True)
    pauses = report.Pauses()
    with PairOfMachines(lab, work, SEED, resync_ceiling=resync_ceiling, rdma=rdma) as pair:
        volume = pair.mirror(size=VOLUME_MIB * MIB)
        with Writer(pair, volume, work, SEED) as writer:
            try:
                yield Trial(pair, volume, writer, pauses)
            finally:
                print(pauses.table(), flush=True)
