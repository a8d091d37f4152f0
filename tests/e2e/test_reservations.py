"""Reservations are one for both nodes: taken through one, enforced on the other, kept through the death of either."""
import os
import pathlib

from harness import World, check
from scsi_client import CLEAR, CONFLICT, GOOD, PREEMPT, REGISTER, RELEASE, RESERVE, WRITE_EXCLUSIVE, Initiator


def refused(host):
    answer = host.write()
    check(answer.status == CONFLICT, f"{host.name} may write through node {host.node.side}: {answer}")


def allowed(host):
    answer = host.write()
    check(answer.status == GOOD, f"{host.name} may not write through node {host.node.side}: {answer}")


def reserved_through_a(w, volume, persist=False):
    holder = Initiator(w, w.a, volume, "holder", isid=1)
    holder.must(REGISTER, service_key=0x11, persist=persist)
    holder.must(RESERVE, key=0x11, kind=WRITE_EXCLUSIVE)
    return holder


def test_a_reservation_taken_through_one_node_is_enforced_on_the_other_at_once():
    with World() as w:
        volume = w.mirror()
        other = Initiator(w, w.b, volume, "other", isid=2)
        allowed(other)
        holder = reserved_through_a(w, volume)
        refused(other)
        check(other.read().status == GOOD, "Write Exclusive lets everybody read")
        check(other.reservation() == (0x11, WRITE_EXCLUSIVE), f"node b shows {other.reservation()}")
        allowed(holder)
        holder.must(RELEASE, key=0x11, kind=WRITE_EXCLUSIVE)
        allowed(other)
        check(other.keys() == [0x11], f"node b shows the keys {other.keys()}")


def test_preempting_through_one_node_unseats_the_holder_on_the_other():
    with World() as w:
        volume = w.mirror()
        holder = reserved_through_a(w, volume)
        winner = Initiator(w, w.b, volume, "winner", isid=2)
        winner.must(REGISTER, service_key=0x22)
        winner.must(PREEMPT, key=0x22, service_key=0x11, kind=WRITE_EXCLUSIVE)
        refused(holder)
        check(0x2A05 in holder.attentions, f"the holder was told {[hex(a) for a in holder.attentions]}")
        allowed(winner)
        check(holder.keys() == [0x22], f"node a shows the keys {holder.keys()}")


def test_a_reservation_outlives_either_node():
    with World() as w:
        volume = w.mirror()
        reserved_through_a(w, volume)
        on_b = Initiator(w, w.b, volume, "other", isid=2)
        refused(on_b)
        w.a.kill()
        w.b.wait_state(volume, "solo")
        on_b.connect()
        refused(on_b)
        w.a.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync")
        on_a = Initiator(w, w.a, volume, "other", isid=2)
        refused(on_a)
        check(on_a.reservation() == (0x11, WRITE_EXCLUSIVE), f"node a shows {on_a.reservation()}")
        w.b.kill()
        w.a.wait_state(volume, "solo")
        on_a.connect()
        refused(on_a)
        again = Initiator(w, w.a, volume, "holder", isid=1)
        allowed(again)
        again.must(CLEAR, key=0x11)
        allowed(on_a)


def after_both_died(persist):
    with World() as w:
        volume = w.mirror()
        reserved_through_a(w, volume, persist=persist)
        for node in w.nodes:
            node.kill()
        for node in w.nodes:
            node.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync")
        other = Initiator(w, w.b, volume, "other", isid=2)
        if persist:
            refused(other)
            check(other.reservation() == (0x11, WRITE_EXCLUSIVE), f"node b shows {other.reservation()}")
        else:
            allowed(other)
            check(other.keys() == [], f"node b still shows the keys {other.keys()}")


def test_with_aptpl_a_reservation_outlives_both_nodes():
    after_both_died(persist=True)


def test_without_aptpl_a_reservation_ends_with_both_nodes():
    after_both_died(persist=False)


def test_a_volume_made_by_the_first_version_opens_and_keeps_reservations_from_then_on():
    state = 128 << 10  # bytes that the first version's metadata ends before
    with World() as w:
        volume = w.mirror()
        for node in w.nodes:
            node.kill()
        files = [pathlib.Path(node.metadata(volume)) for node in w.nodes]
        sizes = [f.stat().st_size for f in files]
        for file, size in zip(files, sizes):
            os.truncate(file, size - state)
        for node in w.nodes:
            node.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync")
        check([f.stat().st_size for f in files] == sizes, "the metadata files were not made longer")
        reserved_through_a(w, volume, persist=True)
        for node in w.nodes:
            node.kill()
        for node in w.nodes:
            node.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync")
        refused(Initiator(w, w.b, volume, "other", isid=2))
