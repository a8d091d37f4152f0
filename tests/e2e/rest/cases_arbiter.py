"""Another arbiter for a pair that is in use, of whichever kind, as the API tells it. What it does to volumes:
tests/e2e/test_arbiter_change.py."""
import json
import pathlib
import signal

from nodes import make_pair, wait_for
from scratch import Scratch, attack

WITNESS, OTHER = ("http://127.0.0.1:%d" % port for port in (2379, 2479))


class AnotherArbiter(Scratch):
    def pair_with(self, **arbiter):
        a, b = self.node("node-a"), self.node("node-b")
        make_pair(a, b, arbiter=arbiter)
        self.volume(a)
        return a, b

    def change(self, node, kind, **more):
        return node.patch("/api/v1/pair/arbiter", {"kind": kind, **more})

    def forgotten(self, node):
        path = pathlib.Path(str(node.socket) + ".forgotten")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def told(self, *nodes, **arbiter):
        for node in nodes:
            wait_for(f"lockstepd to be told {arbiter}", lambda: arbiter.items() <= node.applied()["arbiter"].items())

    def test_may_be_a_preferred_side_in_the_place_of_a_witness_whose_records_go(self):
        a, b = self.pair_with(kind="witness", endpoints=[WITNESS])
        reply = self.change(b, "preferred", preferred_side="b")
        self.assertEqual((reply.status, reply.json["kind"]), (202, "pair.arbiter"), reply)
        job = b.job(reply)
        self.assertEqual((job["state"], job["progress"]), ("done", 1), job)
        self.assertIn("The arbiter is side B preferred now. Its records were removed", job["message"])
        self.told(a, b, kind="preferred", preferred="b")
        for node in (a, b):
            shown = node.get("/api/v1/pair").json["arbiter"]
            self.assertEqual((shown["kind"], shown["preferred_side"], shown["endpoints"]), ("preferred", "b", []))
        self.assertEqual([(f["endpoint"], "keep" in f) for f in self.forgotten(a)], [(WITNESS, False)])
        self.well(a)
        self.problem(self.change(a, "preferred", preferred_side="b"), 409, "conflict")

    def test_may_be_a_witness_in_the_place_of_a_preferred_side_or_the_other_side(self):
        a, b = self.pair_with(kind="preferred", preferred_side="a")
        job = a.job(self.change(a, "preferred", preferred_side="b"))
        self.assertEqual((job["state"], job["message"]), ("done", "The arbiter is side B preferred now."), job)
        self.told(a, b, kind="preferred", preferred="b")
        job = a.job(self.change(a, "witness", endpoints=[WITNESS]))
        self.assertEqual((job["state"], job["message"]), ("done", f"The arbiter is {WITNESS} now."), job)
        self.told(a, b, kind="witness", endpoints=[WITNESS])
        self.assertEqual(a.get("/api/v1/pair/witness").json["endpoints"], [WITNESS])
        job = a.job(self.change(a, "witness", endpoints=[OTHER]))
        self.assertEqual(job["state"], "done", job)
        self.assertEqual([(f["endpoint"], f["keep"]) for f in self.forgotten(a)], [(WITNESS, "2479")])

    def test_what_is_wrong_with_it_is_named_field_by_field(self):
        a, b = self.pair_with(kind="preferred", preferred_side="a")
        self.problem(a.patch("/api/v1/pair/arbiter", {}), 422, "invalid", "/kind")
        self.problem(self.change(a, "nobody"), 422, "invalid", "/kind")
        self.problem(self.change(a, "witness"), 422, "invalid", "/endpoints")
        self.problem(self.change(a, "witness", endpoints=[WITNESS], preferred_side="a", colour="red"), 422, "invalid",
                     "/preferred_side", "/colour")
        self.problem(self.change(a, "preferred", preferred_side="b", endpoints=[WITNESS]), 422, "invalid", "/endpoints")
        self.problem(a.patch("/api/v1/pair/arbiter", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        b.script(tries={WITNESS: {"answers": False, "refused": False, "problem": "127.0.0.1:2379: no route", "cluster": ""}})
        refused = self.change(a, "witness", endpoints=[WITNESS])
        self.problem(refused, 422, "invalid", "/endpoints/0")
        self.assertEqual([e["detail"] for e in refused.json["errors"]], ["node-b: 127.0.0.1:2379: no route"])
        self.assertEqual(a.get("/api/v1/pair").json["arbiter"]["kind"], "preferred")

    def test_is_not_changed_alone_while_a_node_is_away_or_not_in_sync(self):
        alone = self.node("alone")
        self.problem(self.change(alone, "preferred", preferred_side="b"), 409, "no-pair")
        a, b = self.pair_with(kind="preferred", preferred_side="a")
        b.script(state="syncing_target")
        self.problem(self.change(a, "preferred", preferred_side="b"), 409, "conflict")
        b.script()
        b.stop_mgmtd()
        self.problem(self.change(a, "preferred", preferred_side="b"), 503, "not-current")
        b.start_mgmtd()
        b.stop_lockstepd(signal.SIGKILL)
        self.problem(self.change(a, "preferred", preferred_side="b"), 503, "data-plane-away")
        b.start_lockstepd()

    def test_is_not_changed_where_a_lockstepd_is_too_old_for_that(self):
        a, b = self.pair_with(kind="preferred", preferred_side="a")
        b.script(epoch={"arbiter": ""})
        refused = self.change(a, "preferred", preferred_side="b")
        self.problem(refused, 409, "conflict")
        self.assertIn("lockstepd on node-b runs version 0.1.0", refused.json["detail"])

    def test_that_a_volume_does_not_take_is_given_up_for_the_old_one(self):
        a, b = self.pair_with(kind="preferred", preferred_side="a")
        b.script(epoch={"arbiter": "preferred_a"})
        reply = self.change(a, "preferred", preferred_side="b")
        self.told(a, b, kind="witness", changing=True)  # nobody decides
        problem = wait_for("the health to tell", lambda: [
            p for p in a.get("/api/v1/health").json["problems"] if "The arbiter is being changed" in p["message"]])[0]
        self.assertIn("if a node fails now, I/O stops", problem["message"])
        made = a.post("/api/v1/volumes", {"name": "vm9", "size_bytes": 1 << 30})
        self.problem(made, 409, "conflict")
        self.assertIn("being changed", made.json["detail"])
        job = a.job(reply)
        self.assertEqual(job["state"], "failed")
        self.assertIn("vm1 on node-b goes by preferred_a.", job["error"]["detail"])
        self.told(a, b, kind="preferred", preferred="a")
        self.assertIn("The arbiter is side A preferred, as before", job["error"]["detail"])

    def test_goes_on_where_it_was_when_the_management_is_killed(self):
        a, b = self.pair_with(kind="witness", endpoints=[WITNESS])
        b.script(epoch={"arbiter": "witness"})
        reply = self.change(a, "preferred", preferred_side="a")
        self.told(a, b, kind="preferred", preferred="a")  # and the volume on b has yet to take it
        a.stop_mgmtd(signal.SIGKILL)
        a.start_mgmtd()
        self.assertNotIn(a.get(reply.headers["Location"]).json["state"], ("done", "failed"))
        b.script()
        self.assertEqual(a.job(reply)["state"], "done")

    def test_that_a_volume_does_not_go_by_is_in_the_health(self):
        a, b = self.pair_with(kind="preferred", preferred_side="a")
        for node in (a, b):
            node.script(epoch={"arbiter": "preferred_b"})
        problem = wait_for("the health to tell", lambda: [
            p for p in a.get("/api/v1/health").json["problems"] if "does not go by the pair's arbiter" in p["message"]])[0]
        self.assertIn("its copies name preferred_b, and the pair preferred_a", problem["message"])

    @attack
    def test_is_changed_by_administrators_alone(self):
        a, _ = self.pair_with(kind="preferred", preferred_side="a")
        self.assertEqual(a.patch("/api/v1/pair/arbiter", {"kind": "preferred"}, token=False).status, 401)
        viewer = a.post("/api/v1/tokens", {"name": "watcher", "role": "viewer"}).json["token"]
        self.assertEqual(a.patch("/api/v1/pair/arbiter", {"kind": "preferred"}, token=viewer).status, 403)
