"""The link over RDMA, with real daemons on the tests' fabric: what carries the data, and what happens when RDMA is lost. It is
encrypted, as a pair's is from the beginning, unless a test is about what is not."""
from basics import MIB
from harness import World, Writer, check, wait_for
from test_mirror import hosts_noticed_nothing, same_data
from test_paths import LIMIT_MS, marks_of
from test_rdma import check_clean, figures_at_rest


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


def measured_by_rdma(node, to):
    before = node.status()["rdma"]["link"]
    sizes = node.rpc.call("link.test", to=to, transport="rdma")["sizes"]
    check([size["bytes"] for size in sizes] == [64, 4096, 65536, 1 << 20], sizes)
    check(all(size["round_trips"] > 0 and size["bytes_a_second"] > 0 for size in sizes), sizes)
    moved = node.status()["rdma"]["link"]
    check(moved["windows"] - before["windows"] > 10, "what is measured went by windows")
    by_windows = sum(size["bytes"] * size["round_trips"] for size in sizes if size["bytes"] > 8192)
    return moved["copied"]["control"] - before["copied"]["control"], by_windows


def test_rdma_carries_the_data_where_there_is_rdma_and_a_kill_is_as_ever():
    with World(rdma=True, link_tls=True) as w:
        volume = over_rdma(w)
        for node in w.nodes:
            partner = node.status()["partner"]
            check(partner["why_not_rdma"] == "" and partner["cipher"] == "AES-256-GCM", partner)
            check(partner["paths"][0]["cipher"] == "TLS_AES_256_GCM_SHA384", partner)
            measured_by_rdma(node, partner["paths"][0]["to"])
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
        for node in w.nodes:
            check(node.status()["partner"]["cipher"] == "AES-256-GCM", node.status()["partner"])
            check(node.status()["rdma"]["link"]["copied"]["cipher"] > MIB, "what it copied for that is told")
        check(not w.rdma_faults(), w.rdma_faults())


def copied_blocks(node):
    """Bytes of hosts' data that the processor copied between the link's messages and their place."""
    copied = node.status()["rdma"]["link"]["copied"]
    return {why: copied[why] for why in ("immediate_prefix", "ahs", "bounce")}


def test_the_processor_copies_nothing_of_what_is_mirrored():
    with World(rdma=True) as w:
        volume = over_rdma(w)
        before = [copied_blocks(node) for node in w.nodes]
        at_rest = [figures_at_rest(node, "link") for node in w.nodes]
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(1000)
        writer.stop()
        same_data(w, volume)
        for node, figures in zip(w.nodes, at_rest):
            check_clean(figures, figures_at_rest(node, "link"))
            queues = node.status()["rdma"]["link"]["queues"]
            check(queues["connections"] > 0 and 0 < queues["most"] <= queues["depth"], queues)
        check([copied_blocks(node) for node in w.nodes] == before, f"{before}, {[copied_blocks(n) for n in w.nodes]}")
        for node in w.nodes:
            moved = node.status()["rdma"]["link"]
            check(moved["messages_out"] > 500 and moved["messages_in"] > 500, moved)
        check(any(node.status()["rdma"]["link"]["eager"] > 300 for node in w.nodes), "writes went with their messages")
        to = w.a.status()["partner"]["paths"][0]["to"]
        copied, by_windows = measured_by_rdma(w.a, to)
        check(copied < by_windows / 2, f"of {by_windows} bytes that were read by windows {copied} were copied, or of messages")


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
    for node in w.nodes:
        wait_for("the log to say what carried the data, and for how long",
                 lambda node=node: all(node.log_text().count(said) >= 2 for said in (
                     "TCP carries the data, after ", "RDMA carries the data, after ")))
    for node in w.nodes:
        switches = lambda node=node: node.status()["shards"][0]["carried"]
        wait_for("the last switch to be told", lambda: switches()["last_switch"]["to"] == "rdma")
        check(switches()["to_tcp"] >= 2 and switches()["to_rdma"] >= 2 and switches()["last_switch"]["after_ms"] > 0, switches())
        check(switches()["rdma_ms"] > 0 and switches()["tcp_ms"] > 0, switches())
    check(marks_of(w, volume) == before, f"the partner was never lost: {before}, {marks_of(w, volume)}")
    noticed = hosts_noticed_nothing(w, volume, writer, LIMIT_MS)
    check(not w.rdma_faults(), w.rdma_faults())
    return noticed


def test_rdma_is_lost_and_returns_and_a_writer_through_the_ordering_node_notices_nothing():
    with World(lease_ms=1500, rdma=True, link_tls=True) as w:
        return is_lost_and_returns(w, over_rdma(w), w.a)


def test_rdma_is_lost_and_returns_and_a_writer_through_the_other_node_notices_nothing():
    with World(lease_ms=1500, rdma=True, link_tls=True) as w:
        return is_lost_and_returns(w, over_rdma(w), w.b)


def test_a_link_without_encryption_is_lost_and_returns_as_well():
    with World(lease_ms=1500, rdma=True) as w:
        return is_lost_and_returns(w, over_rdma(w), w.b)


def cipher(node):
    return node.status()["partner"]["cipher"]


def test_a_link_goes_over_to_encryption_and_back_while_a_host_writes():
    """By the steps that management has both nodes take, one after the other."""
    with World(lease_ms=1500, rdma=True) as w:
        volume = over_rdma(w)
        before = marks_of(w, volume)
        writer = Writer(w, volume, [w.a])
        for steps, wanted in ((("accepted", "used", True), "AES-256-GCM"), (("used", "accepted", False), None)):
            for mode in steps:
                w.link_tls = mode
                for node in (w.b, w.a):
                    node.apply_cleanly()
                    writer.wait_writes(50)
            wait_for("both nodes' data to go by RDMA as it is to",
                     lambda: all(carrier(node) == "rdma" and cipher(node) == wanted for node in w.nodes), 60)
            writer.wait_writes(100)
        check(marks_of(w, volume) == before, f"the partner was never lost: {before}, {marks_of(w, volume)}")
        noticed = hosts_noticed_nothing(w, volume, writer, LIMIT_MS)
        check(not w.rdma_faults(), w.rdma_faults())
        return noticed


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
