"""A node of a running pair gets other addresses: the link moves and portals come and go, under a verifying writer."""
import socket

from basics import free_port
from harness import World, Writer, check, check_time, settings, wait_for
from test_mirror import hosts_noticed_nothing, verify

LIMIT_MS = 500  # the promise: a move of the link is a pause below this, whichever node is written through


def link_of(node, listen, connect, listen_beside=None, connect_beside=None):
    """The partner as node.apply is told of it."""
    partner = node.desired([])["partner"]
    partner["link"].update(listen=listen, connect=connect)
    if listen_beside:
        partner["link"]["listen_beside"] = listen_beside
    if connect_beside:
        partner["link"]["connect_beside"] = connect_beside
    return partner


def goes_to(node):
    return node.status()["partner"]["address"]


def new_address(node, offset=2):
    net, host = node.address.rsplit(".", 1)
    address = f"{net}.{int(host) + offset}"
    return f"{address}:{free_port(address)}"


def epochs(w, volume):
    return [node.volume_status(volume)["epoch"]["number"] for node in w.nodes]


def try_link(node, source, to):
    return node.rpc.call("link.try", **{"from": source, "connect": to})["problem"]


def move(w, mover, writer, volume):
    """The three revisions of a change of `mover`'s link address, told to both nodes one after the other."""
    other = w.other(mover)
    old, new, theirs = mover.link_address, new_address(mover), other.link_address
    before = epochs(w, volume)

    def tell(node, **link):
        node.apply_cleanly(partner=link_of(node, **link))
        writer.wait_writes(100)

    tell(mover, listen=old, connect=theirs, listen_beside=new)
    tell(other, listen=theirs, connect=old, connect_beside=new)
    check(try_link(other, theirs, new) == "", "the partner logs in at the new address")
    check(try_link(mover, new, theirs) == "", "the node logs in from the new address")
    check(goes_to(other) == old, "nothing has moved by then")
    tell(mover, listen=new, connect=theirs, listen_beside=old)
    tell(other, listen=theirs, connect=new, connect_beside=old)
    wait_for("the partner to call the new address", lambda: goes_to(other) == new)
    tell(other, listen=theirs, connect=new)
    tell(mover, listen=new, connect=theirs)
    mover.link_at = new
    writer.wait_writes(200)
    check(epochs(w, volume) == before, f"no epoch has changed: {before}, {epochs(w, volume)}")
    address, port = old.rsplit(":", 1)
    with socket.socket() as s:
        check(s.connect_ex((address, int(port))) != 0, "the old address is closed")


def moves_under_a_writer(through, mover):
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a if through == "a" else w.b])
        writer.wait_writes(300)
        move(w, w.a if mover == "a" else w.b, writer, volume)
        return hosts_noticed_nothing(w, volume, writer, LIMIT_MS)


def test_the_sequencers_link_moves_while_written_through_it():
    return moves_under_a_writer("a", "a")


def test_the_sequencers_link_moves_while_written_through_the_other():
    return moves_under_a_writer("b", "a")


def test_the_other_nodes_link_moves_while_written_through_the_sequencer():
    return moves_under_a_writer("a", "b")


def test_the_other_nodes_link_moves_while_written_through_it():
    return moves_under_a_writer("b", "b")


def test_a_way_that_does_not_work_is_named_and_the_link_stays_where_it_is():
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b])
        nowhere = new_address(w.a)
        problem = try_link(w.b, w.b.link_address, nowhere)
        check(nowhere in problem, f"the trial names what was tried: {problem}")
        foreign = w.b.rpc.call("listen.try", addresses=["192.0.2.1:3261", w.a.link_address])["problems"]
        check([p["object"] for p in foreign] == ["192.0.2.1:3261", w.a.link_address], f"both are refused: {foreign}")
        # Told of it all the same, as the first way, it stays on the other one.
        w.b.apply_cleanly(partner=link_of(w.b, listen=w.b.link_address, connect=nowhere, connect_beside=w.a.link_address))
        writer.wait_writes(300)
        check(goes_to(w.b) == w.a.link_address, "the link stays where it is")
        status = writer.stop()
        check(status["path_failures"] == 0, f"nobody has noticed: {status}")
        check_time(status["worst_gap_ms"] < LIMIT_MS * (5 if settings.sanitized else 1), f"nor was there a pause: {status}")


def test_only_the_partners_addresses_may_call_while_there_are_two():
    with World(lease_ms=1500) as w:
        w.mirror()
        new = new_address(w.a)
        w.b.apply_cleanly(partner=link_of(w.b, listen=w.b.link_address, connect=w.a.link_address, connect_beside=new))
        address, port = w.b.link_address.rsplit(":", 1)

        def answers(source, seconds):
            with socket.create_connection((address, int(port)), 5, (source, 0)) as s:
                s.sendall(b"x")
                try:
                    s.settimeout(seconds)
                    return s.recv(1) != b""
                except TimeoutError:
                    return True
                except ConnectionError:
                    return False
        check(answers(w.a.address, 1) and answers(new.rsplit(":", 1)[0], 1), "the partner may call from both")
        check(not answers("127.77.251.1", 10), "nobody else may")


def test_initiators_of_a_removed_portal_are_asked_to_log_out_and_the_others_are_not():
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        old, new = w.a.portal, new_address(w.a)
        target = {"name": w.target, "discovery_auth": None}
        leaves = Writer(w, volume, [w.a, w.b])
        leaves.wait_writes(100)
        w.a.apply_cleanly(target={**target, "portals": [old, new]})
        check({s["portal"] for s in w.a.status()["sessions"]} == {old}, "the writer came by the old portal")
        w.a.apply_cleanly(target={**target, "portals": [new]})
        wait_for("its session to be over", lambda: not w.a.status()["sessions"], 10)
        leaves.wait_writes(100)
        check_time(leaves.stop()["worst_gap_ms"] < 2000, "it has gone on through the other node")
        verify(w, w.b, volume, leaves.log)
