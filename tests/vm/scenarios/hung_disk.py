"""A node's disk hangs for 1, 10 and 60 s under a writer: the pair goes on without it and takes it back.

It hangs in three ways: the disk answers nothing, dm-delay holds what is written, or fsfreeze holds the file system.
LOCKSTEP_VM_ROUNDS is the number of rounds of these nine (1)."""
import itertools
import time

from lab.trial import HUNG_DISK, ROUNDS, trial

WHERE = "host"
SECONDS_HUNG = (1, 10, 60)


def no_answer(node, _):
    node.disk.tell("hold")
    return lambda: node.disk.tell("release")


def fsfreeze(node, _):
    node.run("fsfreeze", "--freeze", "/data")
    return lambda: node.run("fsfreeze", "--unfreeze", "/data")


def dm_delay(node, seconds):
    sectors = node.run("cat", "/sys/class/block/vdb/size").strip()
    load(node, f"0 {sectors} delay /dev/vdb 0 0 /dev/vdb 0 {seconds * 1000}")
    return lambda: load(node, f"0 {sectors} linear /dev/vdb 0")


def load(node, table):
    """Without the file system's freeze: only the layer below it changes."""
    node.run("sh", "-ec", f"dmsetup suspend --nolockfs --noflush data; dmsetup load data --table '{table}'; "
                          "dmsetup resume --noudevsync data")


KINDS = {"no answer": no_answer, "fsfreeze": fsfreeze, "dm-delay": dm_delay}


def scenario(lab, work):
    with trial(lab, work) as t:
        victims = itertools.cycle(t.pair.nodes)
        for _ in range(ROUNDS):
            for seconds, (kind, hang) in itertools.product(SECONDS_HUNG, KINDS.items()):
                hung_for(t, next(victims), seconds, f"hung for {seconds} s, {kind}", hang)
        for kind in t.pauses.gaps:
            t.pauses.must_be_below(kind, HUNG_DISK)
        return t.summary()


def hung_for(t, victim, seconds, what, hang):
    t.load()
    with t.pause_of(what):
        begun = time.monotonic()
        release = hang(victim, seconds)
        try:
            time.sleep(max(0.0, begun + seconds - time.monotonic()))
        finally:
            release()
        t.pair.wait_in_sync(t.volume)
    t.settle()
    t.told(f"disk of node {victim.side} {what}")
