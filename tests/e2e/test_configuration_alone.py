"""The configuration is changed while the partner is away, and the partner takes it over: real daemons, real etcd."""
import contextlib
import signal

from etcd import Etcd
from harness import Failed, check, wait_for
from managed_pair import ManagedPair, scene
from scsi_client import GOOD, Initiator

MIB = 1 << 20
HOST = "iqn.2026-11.io.example:{}"


class Lun:
    def __init__(self, volume):
        self.id, self.name, self.lun = volume["id"], volume["name"], volume["lun"]


class Scene(ManagedPair):
    """A pair with a witness and one volume, which the host "first" may use."""

    etcd = None

    def start(self):
        self.etcd = Etcd(self.folder)
        self.etcd.start()
        self.a.side, self.b.side = "a", "b"
        super().start(arbiter=self.etcd.arbiter)
        self.target = self.a.get("/api/v1/pair").json["target_name"]
        self.made(self.a.post("/api/v1/initiators", {"iqn": HOST.format("first")}))
        job = self.a.job(self.a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": 64 * MIB, "access": [HOST.format("first")]}))
        check(job["state"] == "done", f"the volume is made: {job}")
        self.volume = Lun(self.a.volume("vm1"))
        self.whole()

    def stop(self):
        super().stop()
        if self.etcd:
            self.etcd.kill()

    @staticmethod
    def made(reply):
        check(reply.status in (200, 201, 204), f"the change is made: {reply}")
        return reply

    def revision(self, node):
        return node.get("/api/v1/pair").json["revision"]

    def whole(self):
        """Both nodes run, agree, and the witness has heard of it: the revision stands still."""
        for node in (self.a, self.b):
            wait_for("all to be well", lambda n=node: n.get("/api/v1/health").json["status"] == "ok", 60)
        wait_for("one revision on both", lambda: self.revision(self.a) == self.revision(self.b))
        wait_for("the witness to hear of the epoch of both", self.witness_has_both, 30)

    def witness_has_both(self):
        pair = self.a.get("/api/v1/pair").json["id"]
        members = 64  # replication/arbiter/witness_value.hpp
        with contextlib.suppress(KeyError):  # no record yet
            return self.etcd.record(f"/lockstep/{pair}/volume/{pair}")[members] == 3
        return False

    def leave(self, node):
        node.stop_mgmtd(signal.SIGKILL)
        node.stop_lockstepd(signal.SIGKILL)

    def reads(self, node, host):
        try:
            initiator = Initiator(self, node, self.volume, host)
            answer = initiator.read().status
            initiator.close()
            return answer == GOOD
        except Failed:
            return False

    def refused(self, node, *words):
        reply = node.post("/api/v1/tokens", {"name": "refused"})
        check(reply.status == 503, f"nothing is changed on {node.name}: {reply}")
        for word in words:
            check(word in reply.json["detail"], f"it says why: {word!r} is in {reply.json['detail']!r}")


def alone_and_back(s, here, away, host):
    """What is changed on the one that is left is in force there at once, and on the other when it is back."""
    name = f"by-{here.name}"
    s.leave(away)
    wait_for("the volume to be served alone", lambda: s.reads(here, "first"), 60)
    check(not s.reads(here, host), "the other host is not known yet")
    first = wait_for("the witness to let it go on",
                     lambda: (r := here.post("/api/v1/tokens", {"name": name})).status == 201 and r, 30)
    token = first.json["token"]
    check(here.get("/api/v1/pair", token=token).status == 200, "the new token is good at once")
    s.made(here.post("/api/v1/initiators", {"iqn": HOST.format(host)}))
    s.made(here.patch(f"/api/v1/volumes/{s.volume.id}", {"name": name, "access": [HOST.format("first"), HOST.format(host)]}))
    wait_for("the other host to be let in", lambda: s.reads(here, host), 10)
    check(any("alone" in p["message"] for p in here.get("/api/v1/health").json["problems"]), "its health says so")
    saved = (here.folder / "volumes/configuration.saved").read_text(errors="replace")
    check(name in saved and HOST.format(host) in saved, "the copy beside the volumes has it, too")
    revision = s.revision(here)

    here.stop_mgmtd(signal.SIGKILL)
    here.stop_lockstepd(signal.SIGKILL)
    away.start()
    wait_for("the witness's word", lambda: "witness has let the partner go on" in away.post(
        "/api/v1/tokens", {"name": "refused"}).json["detail"], 30)
    s.refused(away, "partner", "witness has let the partner go on", "when the two can talk")
    check(s.revision(away) < revision, "what it does not know is not in force there")
    unsure = away.post(f"/api/v1/nodes/{here.side}/replacement", {"confirm": here.name})
    check(unsure.status == 409 and f"{here.name} without its changes" in unsure.json["detail"],
          f"nobody takes the other's place before it is said that its changes are lost: {unsure}")

    here.start()
    s.whole()
    check(s.revision(away) >= revision, "it took over what was changed")
    check(away.get("/api/v1/pair", token=token).status == 200, "the token is good there, too")
    check(away.volume(name)["access"] == [HOST.format("first"), HOST.format(host)], "so is the access list")
    check("refused" not in [t["name"] for t in away.get("/api/v1/tokens").json["items"]], "and nothing that was refused")
    wait_for("the other host to be let in there", lambda: s.reads(away, host), 60)


def test_what_one_node_changed_alone_is_in_force_at_once_and_taken_over_by_the_other():
    with scene(Scene) as s:
        alone_and_back(s, s.a, s.b, "second")
        alone_and_back(s, s.b, s.a, "third")
        s.made(s.b.post("/api/v1/tokens", {"name": "together"}))
        job = s.a.job(s.a.post("/api/v1/volumes", {"name": "vm2", "size_bytes": 64 * MIB, "any_initiator": True}))
        check(job["state"] == "done", f"both nodes decide again: {job}")


def test_with_partner_and_witness_away_nothing_is_changed_and_both_are_named():
    with scene(Scene) as s:
        s.leave(s.b)
        s.etcd.kill()
        s.refused(s.a, "the partner can't be reached", "the witness does not answer either")
        s.etcd.start()
        wait_for("the witness to let it go on", lambda: s.a.post("/api/v1/tokens", {"name": "later"}).status == 201, 30)
        s.b.start()
        s.whole()
        check("later" in [t["name"] for t in s.b.get("/api/v1/tokens").json["items"]], "the partner has it")
