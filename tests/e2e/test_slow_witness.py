"""A witness behind a line of 3 s round trip that loses a fifth of all packets: it decides nevertheless, late and never twice;
with the line cut it decides nothing until the line is back. What health says of it is so."""
import contextlib
import time

from harness import Volume, World, Writer, check, wait_for
from slow_line import SlowLine
from test_mirror import in_sync, same_data, verify

GROUP = "security"
MIB = 1 << 20
TOLD = 120       # seconds; the first words take four round trips, and each packet may be lost
FAILOVER = 60    # seconds that a failover may take at the very most; the median is near 10


@contextlib.contextmanager
def behind_a_slow_line(**line):
    with World(lease_ms=1500, secure_witness=True) as w:
        w.etcd.line = SlowLine((w.etcd.address, w.etcd.client), **line)
        w.cleanups.append(w.etcd.line.close)
        volume = w.add(Volume("vm1", 0, 64 * MIB))
        for node in w.nodes:
            node.create(volume)
        for node in w.nodes:
            node.apply_cleanly()
        in_sync(w, volume)
        told(w, volume)
        yield w, volume


def told(w, volume):
    for node in w.nodes:
        wait_for("the witness to be found", lambda: node.status()["witness"]["reachable"], TOLD)
        wait_for("the witness to be told", lambda: not node.volume_status(volume)["failover_limited"], TOLD)


def events(node, kind):
    return [line for line in node.log_text().splitlines() if kind in line]


LOST, FOUND, SLOW = "The witness does not answer", "The witness answers.", "The witness answers, but its line takes"


def least(node):
    """Seconds that a failover takes at least, as the node tells; 0: it tells of no slow line."""
    finding = next((f for f in node.status()["findings"] if SLOW in f), None)
    return float(finding.split("at least ")[1].split(" s")[0]) if finding else 0


def serving(w, volume):
    return [node for node in w.nodes if node.process and (status := node.volume_status(volume)) and status["serving"]]


def test_grants_a_failover_late_and_tells_how_late_at_least():
    with behind_a_slow_line() as (w, volume):
        for node in w.nodes:
            wait_for("an answer without a lost packet, and what it means", lambda: 7 <= least(node) < 9, TOLD)
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(200)
        killed = time.monotonic()
        w.a.kill()
        w.b.wait_state(volume, "solo", seconds=FAILOVER)
        took = time.monotonic() - killed
        check(took >= 6, f"two round trips take 6 s: {took:.1f} s")
        said = least(w.b)
        check(took > said - 1, f"it took {took:.1f} s, and was said to take at least {said} s")
        writer.wait_writes(200, seconds=60)
        w.a.restart()
        in_sync(w, volume)
        told(w, volume)
        writer.wait_writes(100, seconds=60)
        writer.stop()
        verify(w, w.b, volume, writer.log)
        for node in w.nodes:
            node.kill(15)
        same_data(w, volume)
        for node in w.nodes:
            check(not events(node, LOST), f"a line that loses packets is not a witness that is lost: {events(node, LOST)}")
        check(len(events(w.b, SLOW)) == 1, f"that it is slow is told once: {events(w.b, SLOW)}")
        return f"the survivor went on after {took:.1f} s"


def test_lets_a_node_that_was_frozen_never_serve_beside_the_one_that_went_on():
    with behind_a_slow_line() as (w, volume):
        writer = Writer(w, volume, [w.a, w.b], all_paths=True)  # what is read through either is what was written
        writer.wait_writes(200)
        w.a.freeze()
        w.b.wait_state(volume, "solo", seconds=FAILOVER)
        writer.wait_writes(100, seconds=60)
        w.a.thaw()

        def joined():
            states = [node.volume_status(volume) for node in w.nodes]
            alone = [s for s in states if s["state"] == "solo"]
            check(len(alone) < 2, f"both went on alone: {states}")
            return all(s["state"] == "in_sync" for s in states)
        wait_for("the frozen node to be brought up to date", joined, FAILOVER)
        writer.wait_writes(100, seconds=60)
        writer.stop()
        verify(w, w.a, volume, writer.log)


def test_whose_line_is_cut_grants_nothing_until_it_is_back():
    with behind_a_slow_line(loss=0.0, breaks=0.0, refuses=0.0) as (w, volume):
        w.etcd.line.cut()
        for node in w.nodes:
            wait_for("the loss of the witness to be told", lambda: not node.status()["witness"]["reachable"], 60)
        in_sync(w, volume)
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(100)
        w.a.kill()
        w.b.wait_state(volume, "suspended", "waiting")
        until = time.monotonic() + 15
        while time.monotonic() < until:
            check(not serving(w, volume), "without a witness it serves nothing")
            time.sleep(0.2)
        wait_for("node b to say why", lambda: "can't be reached" in w.b.volume_status(volume)["reason"], 60)
        check(not serving(w, volume), "without a witness it serves nothing")
        mended = time.monotonic()
        w.etcd.line.mend()
        w.b.wait_state(volume, "solo", seconds=FAILOVER)
        writer.wait_writes(100, seconds=60)
        writer.stop()
        verify(w, w.b, volume, writer.log)
        for node in w.nodes:
            check(len(events(node, LOST)) <= 1, f"its loss is told once: {events(node, LOST)}")
        return f"the survivor went on {time.monotonic() - mended:.1f} s after the line was back"
