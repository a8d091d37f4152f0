"""The link is cut in one direction, then in the other, under a writer: one node goes on, and both are equal afterwards.

What one node sends to the other is lost (netem), for a moment or until one is alone. LOCKSTEP_VM_ROUNDS is the number of
rounds of these four (1)."""
import itertools
import time

from harness import wait_for
from lab.trial import ROUNDS, trial

WHERE = "host"
BRIEFLY, LASTING = "for a moment", "until one node is alone"


def scenario(lab, work):
    with trial(lab, work) as t:
        for _ in range(ROUNDS):
            for sender, how_long in itertools.product(t.pair.nodes, (BRIEFLY, LASTING)):
                cut(t, sender, how_long)
        return t.summary()


def cut(t, sender, how_long):
    t.load()
    with t.pause_of(f"link cut one way {how_long}"):
        sender.run("tc", "qdisc", "add", "dev", "eth1", "root", "netem", "loss", "100%")
        try:
            if how_long == LASTING:
                wait_for("one node to go on alone", lambda: "solo" in [
                    node.volume_status(t.volume)["state"] for node in t.pair.nodes], 30, 0.1)
            time.sleep(t.choice.uniform(0.1, 1.0))
        finally:
            sender.run("tc", "qdisc", "delete", "dev", "eth1", "root")
        t.pair.wait_in_sync(t.volume)
    t.settle()
    t.told(f"what node {sender.side} sends is lost {how_long}")
