"""Strangers on the hosts' network: what they learn, and how fast they may guess."""
import threading
import time

from harness import MIB, Volume, World, check
from raw_iscsi import FULL_FEATURE, OPERATIONAL, OUT_OF_RESOURCES, Connection, begin, log_in

GROUP = "security"

SECRET = "the-secret-of-mail-01"
MAIL, NOBODY = "iqn.2026-11.io.example:mail", "iqn.2026-11.io.example:nobody"


def guarded(w):
    entry = {"initiator": MAIL, "chap_user": MAIL, "chap_secret": SECRET, "mutual_user": None, "mutual_secret": None}
    w.add(Volume("mails", 0, 16 * MIB, mirrored=False, memory=True, access=[entry]))
    w.a.apply_cleanly()
    net = w.a.address.rsplit(".", 1)[0]
    return f"{net}.251", f"{net}.252"  # the thief's address and the host's


class Thief:
    """Guesses at one secret from one address, on many connections at once, until it is told to stop."""

    def __init__(self, w, address, name=MAIL, hands=8):
        self.w, self.address, self.name, self.stopped, self.answered = w, address, name, False, 0
        self.hands = [threading.Thread(target=self.guess) for _ in range(hands)]
        for hand in self.hands:
            hand.start()

    def guess(self):
        while not self.stopped:
            try:
                status = log_in(self.w.a.portal, self.name, self.w.target, self.name, "wrong", self.address)
                self.answered += status != OUT_OF_RESOURCES  # refused unseen
            except OSError:
                pass

    def stop(self):
        self.stopped = True
        for hand in self.hands:
            hand.join()


def test_a_secret_is_guessed_slowly_and_keeps_its_host_in_all_the_while():
    with World(nodes=1, witness=False) as w:
        thiefs, hosts = guarded(w)

        def host_gets_in(where):
            check(log_in(w.a.portal, MAIL, w.target, MAIL, SECRET, where) == 0, f"the host is kept out, at {where}")
        host_gets_in(thiefs)
        thief = Thief(w, thiefs, NOBODY)
        begun = time.monotonic()
        while time.monotonic() < begun + 2:
            host_gets_in(thiefs)  # from the very address that the thief guesses from
            host_gets_in(hosts)
            time.sleep(0.1)
        thief.stop()
        guesses, seconds = thief.answered, time.monotonic() - begun
        check(guesses <= 10, f"{guesses} guesses in {seconds:.1f} s")


def test_a_name_that_is_guessed_from_many_addresses_gets_its_host_in_after_a_bounded_wait():
    with World(nodes=1, witness=False) as w:
        _, hosts = guarded(w)
        net = w.a.address.rsplit(".", 1)[0]
        thieves = [Thief(w, f"{net}.{i}", hands=1) for i in range(200, 230)]
        try:
            for _ in range(3):
                check(log_in(w.a.portal, MAIL, w.target, MAIL, SECRET, hosts) == 0, "the host is kept out")
        finally:
            for thief in thieves:
                thief.stopped = True
            for thief in thieves:
                thief.stop()


def test_discovery_tells_only_who_proves_itself_once_it_asks_for_a_secret():
    with World(nodes=1, witness=False) as w:
        guarded(w)

        def finds(secret=None):
            who = f"finder%{secret}@" if secret else ""
            return w.target in w.run("timeout", "10", "iscsi-ls", "-i", MAIL, f"iscsi://{who}{w.a.portal}/").stdout
        check(finds(), "discovery is open until it is told otherwise")
        early = Connection.to(w.a.portal)
        early.request({"InitiatorName": MAIL, "SessionType": "Discovery"}, stage=OPERATIONAL, to=FULL_FEATURE)
        check(early.status == 0, "an early discovery session is let in")
        auth = {"chap_user": "finder", "chap_secret": "a-finders-secret", "mutual_user": None, "mutual_secret": None}
        w.a.apply_cleanly(target={"name": w.target, "portals": [w.a.portal], "discovery_auth": auth})
        check(early.is_closed(), "the early session did not prove anything and goes on")
        check(not finds(), "it is told without a secret")
        check(not finds("a-wrong-secret"), "it is told with a wrong secret")
        check(finds("a-finders-secret"), "it is not told with the secret")


def test_a_name_that_is_known_is_answered_as_one_that_is_not():
    with World(nodes=1, witness=False) as w:
        guarded(w)

        def answers(name):
            c = Connection.to(w.a.portal)
            challenge = begin(c, name, w.target)
            seen = [c.status, sorted(challenge or {})]
            c.close()
            seen.append(log_in(w.a.portal, name, w.target, name, "wrong"))
            found = w.run("timeout", "10", "iscsi-ls", "-i", name, f"iscsi://{w.a.portal}/").stdout
            return seen, w.target in found
        known, unknown = answers(MAIL), answers(NOBODY)
        check(known == unknown, f"{known} and {unknown}")
