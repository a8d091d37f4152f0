"""Two machines with Soft-RoCE on the wire between them: RDMA is lost in each way there is, under a writer, and returns.

The link is encrypted, as a pair's is. Its second path goes over the bridge, by TCP. LOCKSTEP_VM_LOSSES is the number of losses (7: one
of each kind); each further one makes RDMA prove itself for longer, a minute at most."""
import itertools
import os
import signal
import time

from harness import check, wait_for
from lab.trial import DEAD_NODE, trial

WHERE = "host"
SECONDS = 7200
LOSSES = int(os.environ.get("LOCKSTEP_VM_LOSSES", "7"))
KIND = os.environ.get("LOCKSTEP_VM_LOSS", "")  # a part of its name: only these
# Of TCP in RDMA's place. Half a second is promised; the writer, both machines and their emulation share this one's processors.
TAKEN_OVER = 1.0


def carriers(t):
    return [node.status()["partner"]["path"] for node in t.pair.nodes]


def wait_carried(t, transport, seconds):
    wait_for(f"both nodes' data to go by {transport}", lambda: carriers(t) == [transport, transport], seconds, 0.1)


def interface(node):
    """Soft-RoCE's management queue pair takes nothing in any more when it could not send while the interface was down (Linux 6.1
    makes its sending half ready again, not the other): the device is made anew."""
    node.run("ip", "link", "set", "eth1", "down")

    def mend():
        node.run("ip", "link", "set", "eth1", "up")
        device(node)()
    return mend


def netem(node, *what):
    node.run("tc", "qdisc", "add", "dev", "eth1", "root", "netem", *what)
    return lambda: node.run("tc", "qdisc", "delete", "dev", "eth1", "root")


def device(node):
    node.run("rdma", "link", "delete", "rxe0")
    return lambda: node.run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth1")


LINK_FAULTS = {
    "interface down for 2 s": (interface, 2),
    "packets lost for 1 s": (lambda node: netem(node, "loss", "100%"), 1),
    "packets lost for 10 s": (lambda node: netem(node, "loss", "100%"), 10),
    "packets 200 ms late for 3 s": (lambda node: netem(node, "delay", "200ms"), 3),
    "device removed for 3 s": (device, 3),
}
# Late packets are none that are lost: silence is what lasts for 300 ms.
LOST_FOR_LONG = ("interface down for 2 s", "packets lost for 10 s", "device removed for 3 s")


def link_fault(t, node, what):
    fault, seconds = LINK_FAULTS[what]
    noticed = t.writer.broken_paths, t.writer.unit_attentions, epochs(t)
    with t.pause_of(what):
        begun = time.monotonic()
        mend = fault(node)
        try:
            time.sleep(max(0.0, begun + seconds - time.monotonic()))
            if what in LOST_FOR_LONG:
                check("rdma" not in carriers(t), f"{what}: {carriers(t)}")
        finally:
            mend()
    wait_carried(t, "rdma", 180)
    check((t.writer.broken_paths, t.writer.unit_attentions, epochs(t)) == noticed,
          f"{what}: the writer noticed nothing but a pause: {noticed}, then "
          f"{(t.writer.broken_paths, t.writer.unit_attentions, epochs(t))}")


def epochs(t):
    return [node.volume_status(t.volume)["epoch"]["number"] for node in t.pair.nodes]


def daemon_killed(t, node):
    with t.pause_of("daemon killed"):
        node.kill(signal.SIGKILL)
        t.pair.other(node).wait_state(t.volume, "solo")
    node.restart()
    t.pair.wait_in_sync(t.volume)
    wait_carried(t, "rdma", 180)


def rebooted(t, node):
    with t.pause_of("machine without power"):
        node.power_cut()
        t.pair.other(node).wait_state(t.volume, "solo")
    t.pair.power_on([node])
    t.pair.wait_in_sync(t.volume)
    wait_carried(t, "rdma", 180)


def scenario(lab, work):
    with trial(lab, work, rdma=True) as t:
        wait_carried(t, "rdma", 60)
        for node in t.pair.nodes:
            check(node.status()["partner"]["cipher"] == "AES-256-GCM", node.status()["partner"])
        all_kinds = [*LINK_FAULTS, daemon_killed, rebooted]
        kinds = itertools.cycle([kind for kind in all_kinds if KIND in (kind.__name__ if callable(kind) else kind)])
        victims = itertools.cycle(t.pair.nodes)
        for kind in itertools.islice(kinds, LOSSES):
            node = next(victims)
            t.load()
            kind(t, node) if callable(kind) else link_fault(t, node, kind)
            t.settle()
            t.told(f"node {node.side}: {kind.__name__ if callable(kind) else kind}")
        for kind in t.pauses.gaps:
            t.pauses.must_be_below(kind, TAKEN_OVER if kind in LINK_FAULTS else DEAD_NODE)
        return t.summary()
