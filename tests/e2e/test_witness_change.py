"""Another witness for a pair that is in use: real daemons, two etcds, the command, and the verifying writer."""
import functools
import pathlib
import signal
import tempfile

from etcd import Etcd
from harness import Failed, Rpc, check, wait_for
from managed_pair import scene
from test_replace import Scene


class TwoWitnesses(Scene):
    """A pair with the first of two etcds as its witness, and a volume in sync that the witness knows."""

    def start(self, secure=False):
        self.etcds = [self.etcd(secure), self.etcd(False)]
        super().start(arbiter=self.etcds[0].arbiter)
        self.make_volume()
        self.wait_for_states("in_sync", "in_sync")
        self.wait_until_known()

    def etcd(self, secure=False):
        etcd = Etcd(self.new_folder(), secure=secure)
        etcd.start()
        return etcd

    def new_folder(self):
        return pathlib.Path(tempfile.mkdtemp(prefix="etcd-", dir=self.folder))

    def stop(self):
        super().stop()
        for etcd in self.etcds:
            etcd.kill()

    def witness(self, node=None):
        return (node or self.a).get("/api/v1/pair/witness").json

    def wait_until_known(self):
        def known():
            shown = self.witness()
            return not shown["changing"] and all(n["reachable"] and n["volumes_not_known"] == 0 for n in shown["nodes"])
        wait_for("both nodes to put their records at the witness", known, 60)

    def key(self):
        return f"/lockstep/{self.a.get('/api/v1/pair').json['id']}/volume/{self.id}"

    def holds(self, etcd):
        return bool(etcd.ctl("get", "--keys-only", self.key()).strip())

    def change(self, *etcds, node=None, **more):
        return (node or self.a).patch("/api/v1/pair/witness", {"endpoints": [e.url for e in etcds], **more})

    def change_begins(self, *etcds):
        """The job's reply, as soon as neither node is to ask a witness. That takes a moment, which may be missed."""
        before = [etcd for etcd in self.etcds if etcd.url in self.witness()["endpoints"]]
        for _ in range(20):
            reply = self.change(*etcds)
            check(reply.status == 202, f"the change is accepted: {reply}")
            path = reply.headers["Location"]
            wait_for("the witness to be changing", lambda: self.witness()["changing"] or self.a.get(path).json["state"] == "done",
                     interval=0.001)
            if self.a.get(path).json["state"] != "done":
                return reply
            check(self.a.job(self.change(*before))["state"] == "done", "back again")
        raise Failed("no job was met while the witness was changing")

    def node_dies(self, node):
        node.stop_mgmtd(signal.SIGKILL)
        node.stop_lockstepd(signal.SIGKILL)

    def goes_on_alone(self, node, side):
        wait_for(f"node {side} to go on alone by the witness's word",
                 lambda: next(r for r in self.volume(node)["replicas"] if r["side"] == side)["state"] == "solo", 30)


def with_two(test=None, **how):
    if test is None:
        return functools.partial(with_two, **how)

    @functools.wraps(test)
    def run():
        with scene(TwoWitnesses, **how) as s:
            return test(s)
    del run.__wrapped__  # it takes nothing
    return run


@with_two
def test_is_asked_from_then_on_and_the_old_one_is_not_needed_when_a_node_dies(s):
    old, new = s.etcds
    writer = s.writer()
    writer.wait_writes(300)
    status, said = s.command("pair", "witness", "set", "--endpoint", new.url)
    check(status == 0 and "were removed from the old one" in said, f"the command changes it: {said}")
    for node in (s.a, s.b):
        shown = s.witness(node)
        check(shown["endpoints"] == [new.url] and not shown["changing"], f"it is shown: {shown}")
    for node in (s.a, s.b):
        volume = Rpc(node.socket).call("node.status")["volumes"][0]
        check(volume["state"] == "in_sync" and not volume["failover_limited"], f"each node's replica knows it: {volume}")
    s.wait_until_known()
    check(s.holds(new) and not s.holds(old), "the records are at the new one, and gone from the old one")
    status, said = s.command("pair", "witness", "show")
    check(status == 0 and new.url in said and "reaches it" in said, f"the command shows it: {said}")
    writer.wait_writes(300)
    old.kill()
    s.node_dies(s.a)
    s.goes_on_alone(s.b, "b")
    writer.wait_writes(300)
    s.a.start()
    s.wait_for_states("in_sync", "in_sync")
    writer.wait_writes(300)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b)[0], writer.log)


@with_two
def test_of_which_an_endpoint_does_not_answer_is_taken_and_one_that_is_away_is_not(s):
    old, new = s.etcds
    away = s.etcd()
    away.kill()
    refused = s.change(away, node=s.b)
    check(refused.status == 422, f"nobody is there: {refused}")
    told = [(e["pointer"], e["detail"]) for e in refused.json["errors"]]
    check([p for p, _ in told] == ["/endpoints/0"] * 2 and {d.split(":")[0] for _, d in told} == {"node-a", "node-b"},
          f"it is told what each node tried: {told}")
    refused = s.change(old, new)
    check(refused.status == 422 and "another etcd cluster" in refused.raw.decode(), f"two witnesses are not one: {refused}")
    check(s.witness()["endpoints"] == [old.url] and not s.witness()["changing"], "nothing was changed")
    job = s.b.job(s.change(away, new, node=s.b))
    check(job["state"] == "done", f"one of the endpoints answers: {job}")
    s.node_dies(s.b)
    old.kill()
    s.goes_on_alone(s.a, "a")


@with_two
def test_is_not_changed_while_a_node_is_away(s):
    _, new = s.etcds
    s.b.stop_lockstepd(signal.SIGKILL)
    s.goes_on_alone(s.a, "a")
    refused = s.change(new)
    check(refused.status in (409, 503) and "both nodes" in refused.json["detail"], f"it takes both: {refused}")
    s.b.stop_mgmtd(signal.SIGKILL)
    refused = s.change(new)
    check(refused.status == 503 and "both nodes" in refused.json["detail"], f"it takes both: {refused}")
    s.b.start()
    s.wait_for_states("in_sync", "in_sync")
    check(s.a.job(s.change(new))["state"] == "done", "with both it is done")


@with_two
def test_is_changed_to_the_end_though_the_managements_are_killed_at_each_step(s):
    old, new = s.etcds
    reply = s.change_begins(new)
    s.a.stop_mgmtd(signal.SIGKILL)
    s.a.start_mgmtd()
    wait_for("the new one to be named", lambda: s.witness()["endpoints"] == [new.url])
    s.a.stop_mgmtd(signal.SIGKILL)
    s.b.stop_mgmtd(signal.SIGKILL)
    s.b.start_mgmtd()
    s.a.start_mgmtd()
    job = s.a.job(reply, 120)
    check(job["state"] == "done", f"it goes on: {job}")
    s.wait_until_known()
    # With the partner's management away it waits where it is, and nobody is asked for anything.
    reply = s.change_begins(old)
    s.b.stop_mgmtd(signal.SIGKILL)
    s.a.stop_mgmtd(signal.SIGKILL)
    s.a.start_mgmtd()
    s.b.start_mgmtd()
    check(s.a.job(reply, 120)["state"] == "done", "it goes on when the other management is back")
    new.kill()
    s.node_dies(s.a)
    s.goes_on_alone(s.b, "b")


@with_two
def test_is_changed_to_the_end_though_a_lockstepd_is_killed_and_grants_nothing_on_the_way(s):
    _, new = s.etcds
    new.kill()
    new.start()
    reply = s.change_begins(new)
    s.b.stop_lockstepd(signal.SIGKILL)
    s.b.start_lockstepd()
    job = s.a.job(reply, 120)
    shown = s.witness()
    check(not shown["changing"], f"it ends, one way or the other: {job}")
    check((job["state"] == "done") == (shown["endpoints"] == [new.url]), f"the job says which one it is: {job}, {shown}")
    s.wait_for_states("in_sync", "in_sync")
    s.wait_until_known()


@with_two
def test_that_dies_while_it_is_taken_is_given_up_for_the_old_one_when_that_is_asked(s):
    old, new = s.etcds
    reply = s.change_begins(new)
    new.kill()
    wait_for("the job to wait for the new one", lambda: s.a.get(reply.headers["Location"]).json["message"] and
             s.witness()["endpoints"] == [new.url], 30)
    wait_for("the health to tell of it", lambda: s.a.get("/api/v1/health").json["status"] != "ok")
    cancelled = s.a.post(f"{reply.headers['Location']}/cancel")
    check(cancelled.status == 202, f"it can be cancelled: {cancelled}")
    job = s.a.job(reply, 120)
    check(job["state"] == "failed" and "as before" in job["error"]["detail"], f"it goes back: {job}")
    check(s.witness()["endpoints"] == [old.url], "the old one is in force")
    s.node_dies(s.a)
    s.goes_on_alone(s.b, "b")


@with_two(secure=True)
def test_is_asked_with_another_password_without_another_witness(s):
    etcd = s.etcds[0]
    record = etcd.record(s.key())
    etcd.ctl("user", "delete", etcd.USER)
    etcd.add_user("a new secret of etcd")
    wrong = s.a.patch("/api/v1/pair/witness", {"password": "not this one"})
    check(wrong.status == 422 and "or its password" in wrong.raw.decode(), f"a wrong one is not taken: {wrong}")
    password = s.folder / "password"
    password.write_text("a new secret of etcd\n")
    status, said = s.command("pair", "witness", "set", "--user", etcd.USER, "--password-file", password)
    check(status == 0 and "nothing is removed" in said, f"the password is another one: {said}")
    check(etcd.record(s.key())[40:65] == record[40:65], "the record stays what it was: number, epoch and members")
    etcd.restart()  # its tokens are gone with it
    s.wait_until_known()
    s.node_dies(s.a)
    s.goes_on_alone(s.b, "b")
    for node in (s.a, s.b):
        logs = node.log() + (node.folder / "lockstepd.log").read_text(errors="replace")
        check("secret of etcd" not in logs, f"the logs of {node.name} hold no password")
