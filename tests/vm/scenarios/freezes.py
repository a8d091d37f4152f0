"""A node's whole machine stands still for 1, 5 and 40 s under a writer: the other goes on, and nothing stale comes after.

Two kinds: the machine's clock goes on meanwhile (its host was stuck), or stands still, too (it was paused).
LOCKSTEP_VM_ROUNDS is the number of rounds of these six (1)."""
import itertools
import time

from lab.trial import DEAD_NODE, ROUNDS, trial

WHERE = "host"
SECONDS_FROZEN = (1, 5, 40)
LEASE = 1.5


def stuck(node):
    node.freeze()
    return node.thaw


def paused(node):
    node.monitor("stop")
    return lambda: node.monitor("cont")


KINDS = {"its clock goes on": stuck, "its clock stands still": paused}


def scenario(lab, work):
    with trial(lab, work) as t:
        victims = itertools.cycle(t.pair.nodes)
        for _ in range(ROUNDS):
            for seconds, (kind, freeze) in itertools.product(SECONDS_FROZEN, KINDS.items()):
                victim = next(victims)
                frozen_for(t, victim, seconds, f"frozen for {seconds} s, {kind}", freeze)
            next(victims)  # the next round's kinds meet the other node
        for kind in [kind for kind in t.pauses.gaps if f" {SECONDS_FROZEN[0]} s" not in kind]:  # dead, to its partner
            t.pauses.must_be_below(kind, DEAD_NODE)
        return t.summary()


def frozen_for(t, victim, seconds, what, freeze):
    t.load()
    with t.pause_of(what):
        begun = time.monotonic()
        thaw = freeze(victim)
        try:
            if seconds > 2 * LEASE:
                t.pair.other(victim).wait_state(t.volume, "solo", seconds=seconds)
            time.sleep(max(0.0, begun + seconds - time.monotonic()))
        finally:
            thaw()
        victim.set_clock()
        t.pair.wait_in_sync(t.volume)
    t.settle()
    t.told(f"node {victim.side} {what}")
