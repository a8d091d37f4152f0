"""The witness is behind a line of 3 s round trip that loses packets (netem): a node is lost, and the other goes on, late and alone.

The delay is on what the nodes send to etcd, all of it, and the loss is that of both ways. What hosts and the link use is as fast as ever."""
import time

from harness import check, wait_for
from lab.trial import trial

WHERE = "host"
SECONDS = 1500
LONGEST = 120  # seconds until the survivor goes on; packets are lost by chance


def delay_the_witness(node, port):
    for command in (
            "tc qdisc add dev eth0 root handle 1: prio bands 4 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
            "tc qdisc add dev eth0 parent 1:4 handle 40: netem delay 3s loss 36% limit 10000",
            f"tc filter add dev eth0 parent 1: protocol ip u32 match ip protocol 6 0xff match ip dport {port} 0xffff flowid 1:4"):
        node.run(*command.split())


def scenario(lab, work):
    with trial(lab, work) as t:
        for node in t.pair.nodes:
            delay_the_witness(node, t.pair.etcd.client)
        for node in t.pair.nodes:
            wait_for("the slow line to be told of", lambda n=node: any("its line takes" in f for f in n.status()["findings"]), 300)
        t.load()
        lost = time.monotonic()
        t.pair.a.power_cut()
        t.pair.b.wait_state(t.volume, "solo", seconds=LONGEST)
        took = time.monotonic() - lost
        check(took > 6, f"two round trips take 6 s, and the survivor went on after {took:.1f} s")
        t.writer.wait_writes(200)
        t.pair.power_on([t.pair.a])
        t.settle()
        return f"the survivor went on after {took:.1f} s; {t.summary()}"
