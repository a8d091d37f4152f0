"""A node is stopped for maintenance under a writer: it hands over to the other within 200 ms, and comes back.

LOCKSTEP_VM_ROUNDS is the number of rounds, each of which stops both nodes in turn (1). The pause of as long a time in which
nothing is done is measured beside it: what the machines and the host do by themselves."""
import signal
import time

from harness import check
from lab.trial import HAND_OVER, ROUNDS, trial

WHERE = "host"
STOPPED = "a node is stopped"


def scenario(lab, work):
    with trial(lab, work) as t:
        for _ in range(ROUNDS):
            for node in t.pair.nodes:
                hand_over(t, node)
        t.pauses.must_be_below(STOPPED, HAND_OVER)
        return t.summary()


def hand_over(t, node):
    t.load()
    with t.pause_of("nothing is done, 3 s"):
        time.sleep(3)
    with t.pause_of(STOPPED):
        check(node.kill(signal.SIGTERM) == 0, f"node {node.side} ends well")
        t.pair.other(node).wait_state(t.volume, "solo")
    with t.pause_of("it comes back"):
        node.restart()
        t.pair.wait_in_sync(t.volume)
    t.settle()
    t.told(f"node {node.side} stopped and started")
