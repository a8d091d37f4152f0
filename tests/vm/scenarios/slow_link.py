"""A link of 4 Mbit/s between two nodes, one of which comes back: the resync ends, although it fills the link.

Nothing is written meanwhile. The resync is not held back by a ceiling of the operator's, as by default."""
import signal
import time

from lab.trial import trial

WHERE = "host"
RATE = "4mbit"


def scenario(lab, work):
    with trial(lab, work, resync_ceiling=0) as t:
        t.load()
        with t.pause_of("a node is stopped"):
            t.pair.a.kill(signal.SIGTERM)
            t.pair.b.wait_state(t.volume, "solo")
        t.writer.wait_writes(500)
        t.writer.pause()
        for node in t.pair.nodes:
            node.run("tc", "qdisc", "add", "dev", "eth1", "root", "netem", "rate", RATE, "limit", "10000")
        begun = time.monotonic()
        t.pair.a.restart()
        t.pair.wait_in_sync(t.volume)
        took = time.monotonic() - begun
        t.writer.go()
        t.settle()
        return f"in sync {took:.1f} s after the start; {t.summary()}"
