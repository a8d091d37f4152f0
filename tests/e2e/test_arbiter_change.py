"""Another arbiter for a pair that is in use: real daemons, etcd, the command, and the verifying writer."""
import functools
import pathlib
import signal
import tempfile

from etcd import Etcd
from harness import Rpc, check, wait_for
from managed_pair import scene
from test_replace import Scene

PREFERRED_A = {"kind": "preferred", "preferred_side": "a"}


class Arbitrated(Scene):
    """A pair with a volume in sync, and an etcd that may be its witness."""

    def start(self, witness=False):
        self.etcd = Etcd(pathlib.Path(tempfile.mkdtemp(prefix="etcd-", dir=self.folder)))
        self.etcd.start()
        super().start(arbiter=self.etcd.arbiter if witness else PREFERRED_A)
        self.make_volume()
        self.wait_for_states("in_sync", "in_sync")

    def stop(self):
        super().stop()
        self.etcd.kill()

    def named(self):
        """What each node's copy goes by."""
        return [Rpc(node.socket).call("node.status")["volumes"][0]["epoch"]["arbiter"] for node in (self.a, self.b)]

    def holds(self):
        key = f"/lockstep/{self.a.get('/api/v1/pair').json['id']}/volume/{self.id}"
        return bool(self.etcd.ctl("get", "--keys-only", key).strip())

    def set(self, *how):
        status, said = self.command("pair", "arbiter", "set", *how)
        check(status == 0, f"the command changes it: {said}")
        return said

    def begins(self, **arbiter):
        reply = self.a.patch("/api/v1/pair/arbiter", arbiter)
        check(reply.status == 202, f"the change is accepted: {reply}")
        return reply

    def changing(self):
        return self.a.get("/api/v1/pair/witness").json["changing"]

    def wait_until_nobody_decides(self, reply):
        """That takes a moment: the job may be past it before it is seen."""
        path = reply.headers["Location"]
        wait_for("nobody to decide", lambda: self.changing() or self.a.get(path).json["state"] in ("done", "failed"),
                 interval=0.001)

    def node_dies(self, node):
        node.stop_mgmtd(signal.SIGKILL)
        node.stop_lockstepd(signal.SIGKILL)

    def state(self, side):
        other = self.b if side == "b" else self.a
        return next(r for r in self.volume(other)["replicas"] if r["side"] == side)["state"]

    def goes_on_alone(self, side):
        wait_for(f"node {side} to go on alone", lambda: self.state(side) == "solo", 30)

    def comes_back(self, node):
        node.start()
        self.wait_for_states("in_sync", "in_sync")


def arbitrated(test=None, **how):
    if test is None:
        return functools.partial(arbitrated, **how)

    @functools.wraps(test)
    def run():
        with scene(Arbitrated, **how) as s:
            return test(s)
    del run.__wrapped__  # it takes nothing
    return run


@arbitrated
def test_decides_from_then_on_whichever_it_is_while_hosts_write(s):
    writer = s.writer()
    writer.wait_writes(300)
    check(s.named() == ["preferred_a"] * 2, f"as it was made: {s.named()}")
    said = s.set("--preferred", "b")
    check("The arbiter is side B preferred now." in said, f"the other side: {said}")
    check(s.named() == ["preferred_b"] * 2, f"both copies go by it: {s.named()}")
    writer.wait_writes(300)
    s.node_dies(s.a)
    s.goes_on_alone("b")
    writer.wait_writes(300)
    s.comes_back(s.a)
    said = s.set("--witness", s.etcd.url)
    check(f"The arbiter is {s.etcd.url} now." in said, f"a witness: {said}")
    check(s.named() == ["witness"] * 2 and s.holds(), f"both copies go by it, and it knows: {s.named()}")
    writer.wait_writes(300)
    s.node_dies(s.b)
    s.goes_on_alone("a")
    writer.wait_writes(300)
    s.comes_back(s.b)
    said = s.set("--preferred", "a")
    check("were removed from the old one" in said and not s.holds(), f"a side again: {said}")
    check(s.named() == ["preferred_a"] * 2, f"both copies go by it: {s.named()}")
    s.etcd.kill()
    writer.wait_writes(300)
    s.node_dies(s.b)
    s.goes_on_alone("a")
    writer.wait_writes(300)
    s.comes_back(s.b)
    writer.wait_writes(300)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b)[0], writer.log)


@arbitrated(witness=True)
def test_is_a_preferred_side_and_the_other_node_does_not_go_on(s):
    s.set("--preferred", "a")
    s.node_dies(s.a)
    wait_for("node b to stop", lambda: s.state("b") not in ("in_sync", "solo"), 30)
    s.a.start_lockstepd()
    s.a.start_mgmtd()
    s.wait_for_states("in_sync", "in_sync")


@arbitrated
def test_is_changed_to_the_end_though_the_managements_are_killed_at_each_step(s):
    writer = s.writer()
    writer.wait_writes(100)
    for arbiter, named in (({"kind": "preferred", "preferred_side": "b"}, "preferred_b"), (s.etcd.arbiter, "witness"),
                           (PREFERRED_A, "preferred_a")):
        reply = s.begins(**arbiter)
        s.wait_until_nobody_decides(reply)
        s.a.stop_mgmtd(signal.SIGKILL)
        s.b.stop_mgmtd(signal.SIGKILL)
        s.b.start_mgmtd()
        s.a.start_mgmtd()
        wait_for("the new one to be named", lambda: not s.changing(), 60)
        s.a.stop_mgmtd(signal.SIGKILL)
        s.a.start_mgmtd()
        job = s.a.job(reply, 120)
        check(job["state"] == "done", f"it goes on: {job}")
        check(s.named() == [named] * 2, f"both copies go by it: {s.named()}")
        writer.wait_writes(100)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b)[0], writer.log)


@arbitrated
def test_is_changed_or_not_though_a_lockstepd_is_killed_and_in_the_end_all_name_the_same(s):
    for node, side in ((s.a, "a"), (s.b, "b")):
        reply = s.begins(kind="preferred", preferred_side="b" if s.named()[0] == "preferred_a" else "a")
        s.wait_until_nobody_decides(reply)
        node.stop_lockstepd(signal.SIGKILL)
        node.start_lockstepd()
        job = s.a.job(reply, 120)
        s.wait_for_states("in_sync", "in_sync")
        kept = s.a.get("/api/v1/pair").json["arbiter"]["preferred_side"]
        wait_for(f"both to go by side {kept} ({job['state']}, killed {side})", lambda: s.named() == [f"preferred_{kept}"] * 2, 30)
        wait_for("all to be well", lambda: s.a.get("/api/v1/health").json["status"] == "ok", 30)


@arbitrated
def test_is_not_changed_while_a_node_is_away(s):
    s.b.stop_lockstepd(signal.SIGKILL)
    s.goes_on_alone("a")
    refused = s.a.patch("/api/v1/pair/arbiter", {"kind": "preferred", "preferred_side": "b"})
    check(refused.status in (409, 503) and "both nodes" in refused.json["detail"], f"it takes both: {refused}")
    check(s.a.get("/api/v1/pair").json["arbiter"]["preferred_side"] == "a", "nothing was changed")
