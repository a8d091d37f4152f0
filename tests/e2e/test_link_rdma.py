"""The link over RDMA, with real daemons on the tests' fabric: what carries the data, and what happens when RDMA is lost."""
from harness import World, Writer, check, wait_for
from test_mirror import hosts_noticed_nothing, same_data
from test_paths import LIMIT_MS, marks_of


def carrier(node):
    return node.status()["partner"]["path"]


def wait_carried(w, transport, seconds=40):
    wait_for(f"both nodes' data to go by {transport}", lambda: all(carrier(node) == transport for node in w.nodes), seconds)


def over_rdma(w):
    """As it is after a while: TCP has proven itself, too, and RDMA is preferred."""
    volume = w.mirror()
    wait_for("the path over TCP to have proven itself",
             lambda: all(node.status()["partner"]["paths"][0]["state"] == "proven" for node in w.nodes), 30)
    wait_carried(w, "rdma")
    return volume


def test_rdma_carries_the_data_where_there_is_rdma_and_a_kill_is_as_ever():
    with World(rdma=True) as w:
        volume = over_rdma(w)
        for node in w.nodes:
            check(node.status()["partner"]["why_not_rdma"] == "", node.status()["partner"])
        writer = Writer(w, volume, [w.a, w.b])
        for victim in (w.b, w.a):
            writer.wait_writes(300)
            victim.kill()
            writer.wait_writes(300)
            victim.restart()
            for node in w.nodes:
                node.wait_state(volume, "in_sync")
            wait_carried(w, "rdma")
        writer.stop()
        same_data(w, volume)
        check(not w.rdma_faults(), w.rdma_faults())


def copied_blocks(node):
    """Bytes of hosts' data that the processor copied between the link's messages and their place."""
    copied = node.status()["rdma"]["link"]["copied"]
    return {why: copied[why] for why in ("immediate_prefix", "ahs", "bounce")}


def test_the_processor_copies_nothing_of_what_is_mirrored():
    with World(rdma=True) as w:
        volume = over_rdma(w)
        before = [copied_blocks(node) for node in w.nodes]
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(1000)
        writer.stop()
        check([copied_blocks(node) for node in w.nodes] == before, f"{before}, {[copied_blocks(n) for n in w.nodes]}")
        for node in w.nodes:
            moved = node.status()["rdma"]["link"]
            check(moved["messages_out"] > 500 and moved["messages_in"] > 500, moved)
        check(any(node.status()["rdma"]["link"]["eager"] > 300 for node in w.nodes), "writes went with their messages")


LOST = ("silent", "broke", "closed", "Nobody answers", "not reached", "Cannot connect")


def says_that_it_is_lost(node):
    """Of the first path over RDMA, in words that are there only when it was lost."""
    rdma = node.status()["partner"]["paths"][0]["rdma"]
    return rdma["state"] != "proven" and any(word in rdma["problem"] for word in LOST)


def is_lost_and_returns(w, volume, through):
    before = marks_of(w, volume)
    writer = Writer(w, volume, [through])
    writer.wait_writes(100)
    for state in ("cut", "silent", "cut"):
        with w.rdma_cable(state):
            wait_carried(w, "tcp")
            writer.wait_writes(100)
            for node in w.nodes:
                wait_for(f"{node.side} to say what became of RDMA", lambda node=node: says_that_it_is_lost(node))
                check(node.status()["partner"]["why_not_rdma"], "it is told why")
        writer.wait_writes(100)
        wait_carried(w, "rdma")
        writer.wait_writes(100)
    check(marks_of(w, volume) == before, f"the partner was never lost: {before}, {marks_of(w, volume)}")
    noticed = hosts_noticed_nothing(w, volume, writer, LIMIT_MS)
    check(not w.rdma_faults(), w.rdma_faults())
    return noticed


def test_rdma_is_lost_and_returns_and_a_writer_through_the_ordering_node_notices_nothing():
    with World(lease_ms=1500, rdma=True) as w:
        return is_lost_and_returns(w, over_rdma(w), w.a)


def test_rdma_is_lost_and_returns_and_a_writer_through_the_other_node_notices_nothing():
    with World(lease_ms=1500, rdma=True) as w:
        return is_lost_and_returns(w, over_rdma(w), w.b)


def test_tcp_carries_it_and_says_why_where_the_partner_has_no_rdma():
    with World(rdma=True) as w:
        w.b.options["rdma"] = "off"
        w.b.kill()
        w.b.start()
        w.mirror()
        wait_carried(w, "tcp")
        check("is off" in w.b.status()["partner"]["why_not_rdma"], w.b.status()["partner"])
        rdma_of_a = lambda: w.a.status()["partner"]["paths"][0]["rdma"]
        wait_for("A to say that nobody answers over RDMA", lambda: rdma_of_a()["state"] == "down" and rdma_of_a()["problem"])
        wait_for("A to say so of the link", lambda: w.a.status()["partner"]["why_not_rdma"] == rdma_of_a()["problem"])
        check(not w.rdma_faults(), w.rdma_faults())
