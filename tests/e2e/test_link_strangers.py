"""Strangers on the partners' network: who is no partner gets nothing out of the link."""
import contextlib
import socket

from harness import MIB, Volume, World, check, wait_for
from raw_iscsi import OPERATIONAL, Connection, begin
from test_mirror import in_sync

GROUP = "security"


def names(w):
    return [f"iqn.2026-11.io.lockstep:link.{w.pair}.{side}" for side in "ab"]


def at_the_dead_nodes_address(w):
    """Takes the calls of the survivor, a."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((w.b.address, w.b.link))
    listener.listen()
    listener.settimeout(20)
    return listener


def call_of(listener):
    call = Connection(listener.accept()[0])
    call.hear()
    call.reply({"AuthMethod": "CHAP", "TargetPortalGroupTag": "1"})
    call.offer = call.hear()
    return call


def test_a_node_does_not_answer_its_own_challenge_to_whoever_stands_in_for_a_dead_partner():
    with World() as w:
        volume = w.mirror()
        w.b.kill()
        w.a.wait_state(volume, "solo")
        a, b = names(w)
        with contextlib.closing(at_the_dead_nodes_address(w)) as listener, \
                contextlib.closing(call_of(listener)) as call, \
                contextlib.closing(Connection.to(w.a.link_address, w.b.address)) as intruder:
            challenge = begin(intruder, b, a)
            call.reply({key: challenge[key] for key in ("CHAP_A", "CHAP_I", "CHAP_C")})
            answer = None
            with contextlib.suppress(ConnectionError):
                answer = call.hear()
            if answer:
                intruder.request({"CHAP_N": answer["CHAP_N"], "CHAP_R": answer["CHAP_R"]}, to=OPERATIONAL)
                check(intruder.status != 0, "whoever hands a node its own challenge back is let in as the partner")
        wait_for("the log to tell of it", lambda: "challenge of our own" in w.a.log_text())
        w.b.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync")


def test_a_call_to_the_link_from_another_address_than_the_partners_is_refused_and_told():
    with World() as w:
        volume = w.mirror()
        a, b = names(w)
        stranger = w.a.address.rsplit(".", 1)[0] + ".254"
        for _ in range(30):
            with contextlib.closing(Connection.to(w.a.link_address, stranger)) as c:
                try:
                    begin(c, b, a)
                    refused = c.status != 0
                except ConnectionError:
                    refused = True
                check(refused, "a stranger is challenged as if it were the partner")
        wait_for("the log to tell of it", lambda: stranger in w.a.log_text())
        told = [line for line in w.a.log_text().splitlines() if stranger in line]
        check(len(told) < 10, f"30 calls were told {len(told)} times: {told[:3]}")
        for node in w.nodes:
            node.wait_state(volume, "in_sync")


def test_the_wrong_secret_on_the_link_is_refused_and_said_on_both_nodes():
    with World() as w:
        volume = w.add(Volume("vm1", 0, 16 * MIB))
        for node in w.nodes:
            node.create(volume)
        w.a.apply_cleanly()
        partner = w.b.desired([])["partner"]
        partner["link"]["chap_secret"] = "not-the-secret-at-all"
        w.b.apply_cleanly(partner=partner)
        wait_for("node a to refuse", lambda: "was refused" in w.a.log_text())
        wait_for("node b to be told", lambda: "did not let us in" in w.b.log_text())
        check("not-the-secret-at-all" not in w.a.log_text() + w.b.log_text(), "secrets are never logged")
        w.b.apply_cleanly()
        in_sync(w, volume)


def test_a_node_of_another_pair_is_refused():
    with World() as w:
        volume = w.mirror()
        stranger = w.b
        stranger.kill()
        w.a.wait_state(volume, "solo")
        stranger.start()
        stranger.apply([], pair={"id": "12345678-1234-1234-1234-123456789abc", "name": "another"})
        wait_for("the stranger to be told", lambda: "did not let us in" in stranger.log_text())
        check(not w.a.status()["partner"]["connected"], "the pair is not connected to it")
