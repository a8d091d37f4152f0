"""Another witness for a pair that is in use, as the API tells it. What it does to volumes: tests/e2e/test_witness_change.py."""
import json
import pathlib
import signal

from nodes import make_pair, wait_for
from scratch import Scratch, attack

OLD, NEW, NEWER = ("http://127.0.0.1:%d" % port for port in (2379, 2479, 2579))


class AnotherWitness(Scratch):
    def pair_with_witness(self):
        a, b = self.node("node-a"), self.node("node-b")
        make_pair(a, b, arbiter={"kind": "witness", "endpoints": [OLD]})
        self.volume(a)
        return a, b

    def change(self, node, *endpoints, **more):
        return node.patch("/api/v1/pair/witness", {"endpoints": list(endpoints), **more})

    def forgotten(self, node):
        path = pathlib.Path(str(node.socket) + ".forgotten")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asks(self, node, *endpoints):
        wait_for("lockstepd to be told", lambda: node.applied()["arbiter"].get("endpoints") == list(endpoints))

    def test_is_named_to_both_nodes_and_shown_by_both(self):
        a, b = self.pair_with_witness()
        reply = self.change(b, NEW)
        self.assertEqual((reply.status, reply.json["kind"]), (202, "pair.witness"), reply)
        job = b.job(reply)
        self.assertEqual((job["state"], job["progress"]), ("done", 1), job)
        self.assertIn(f"The witness is {NEW} now. Its records were removed", job["message"])
        for node in (a, b):
            self.asks(node, NEW)
            shown = node.get("/api/v1/pair/witness").json
            self.assertEqual((shown["endpoints"], shown["changing"]), ([NEW], False))
            wait_for("both to reach it, and it to know all", lambda n=node: [
                (x["side"], x["reachable"], x["volumes_not_known"]) for x in n.get("/api/v1/pair/witness").json["nodes"]]
                == [("a", True, 0), ("b", True, 0)])
        told = self.forgotten(a)
        self.assertEqual([(f["endpoint"], f["keep"], len(f["volumes"])) for f in told], [(OLD, "2479", 2)], told)
        for order in told:  # the configuration's record goes, too, beside the volume's
            self.assertIn(order["pair"], order["volumes"], told)
        self.assertIn(job["message"], [e["message"] for e in a.get("/api/v1/events").json["items"]])
        self.problem(self.change(a, NEW), 409, "conflict")

    def test_of_two_clusters_makes_no_pair(self):
        a = self.node("node-a")
        a.wait_until_spoken_to()  # and so to the witness
        refused = a.post("/api/v1/pair", {"name": "pair1", "arbiter": {"kind": "witness", "endpoints": [OLD, NEW]}})
        self.problem(refused, 422, "invalid", "/arbiter/endpoints/1")
        self.assertIn("another etcd cluster", refused.json["errors"][0]["detail"])

    def test_what_is_wrong_with_it_is_named_field_by_field(self):
        a, b = self.pair_with_witness()
        self.problem(a.patch("/api/v1/pair/witness", {}), 422, "invalid", "")
        self.problem(self.change(a), 422, "invalid", "/endpoints")
        self.problem(self.change(a, "here", colour="red"), 422, "invalid", "/colour")
        self.problem(self.change(a, "here"), 422, "invalid", "/endpoints/0")
        self.problem(a.patch("/api/v1/pair/witness", {"ca": "x", "user": "u", "password": "p"}), 422, "invalid", "/ca", "/user")
        self.problem(a.patch("/api/v1/pair/witness", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        away = {"answers": False, "refused": False, "problem": "127.0.0.1:2479: no route", "cluster": ""}
        b.script(tries={NEW: away})
        refused = self.change(b, NEW)
        self.problem(refused, 422, "invalid", "/endpoints/0")
        self.assertEqual([e["detail"] for e in refused.json["errors"]], ["node-b: 127.0.0.1:2479: no route"])
        refused = self.change(a, NEW, NEWER)
        self.problem(refused, 422, "invalid", "/endpoints/1")
        self.assertIn("of another etcd cluster (2579) than http://127.0.0.1:2479 (2479)", refused.json["errors"][0]["detail"])
        b.script(tries={NEW: away, NEWER: {"cluster": "2479"}})
        a.script(tries={NEWER: {"cluster": "2479"}})
        self.assertEqual(a.job(self.change(a, NEW, NEWER))["state"], "done", "one of them answers each node")

    def test_is_not_changed_where_there_is_none(self):
        alone = self.node("alone")
        self.problem(alone.get("/api/v1/pair/witness"), 409, "no-pair")
        self.problem(self.change(alone, NEW), 409, "no-pair")
        preferred, _ = self.pair()
        self.assertEqual(preferred.get("/api/v1/pair/witness").json["kind"], "preferred")
        self.problem(self.change(preferred, NEW), 409, "conflict")

    def test_is_not_changed_while_a_node_is_away_or_not_in_sync(self):
        a, b = self.pair_with_witness()
        b.script(state="syncing_target")
        self.problem(self.change(a, NEW), 409, "conflict")
        b.script()
        b.stop_mgmtd()
        self.problem(self.change(a, NEW), 503, "not-current")
        b.start_mgmtd()
        b.stop_lockstepd(signal.SIGKILL)
        self.problem(self.change(a, NEW), 503, "data-plane-away")
        b.start_lockstepd()
        # Health is of a moment ago: it may not know yet that lockstepd was away.
        changed = wait_for("both to be in sync", lambda: (r := self.change(a, NEW)).status == 202 and r)
        self.assertEqual(a.job(changed)["state"], "done")

    def test_that_is_never_told_is_given_up_and_the_old_one_is_asked_again(self):
        a, b = self.pair_with_witness()
        b.script(limited=True)
        reply = self.change(a, NEW)
        for node in (a, b):
            self.asks(node, NEW)
        wait_for("it to be told how far it is", lambda: "0 of 1 volumes" in a.get(reply.headers["Location"]).json["message"])
        self.problem(self.change(a, NEWER), 409, "conflict")
        a.stop_mgmtd(signal.SIGKILL)
        a.start_mgmtd()
        self.assertEqual(a.post(f"{reply.headers['Location']}/cancel").status, 202)
        for node in (a, b):
            self.asks(node, OLD)
        b.script()
        job = a.job(reply)
        self.assertEqual(job["state"], "failed")
        self.assertIn(f"The witness is {OLD}, as before", job["error"]["detail"])
        self.assertEqual(self.forgotten(a), [])

    def test_while_it_is_being_changed_the_health_says_so(self):
        a, b = self.pair_with_witness()
        b.script(fail={"node.apply": "Not yet."})
        reply = self.change(a, NEW)
        self.assertEqual(reply.status, 202, reply)
        self.asks(a)  # nobody
        for node in (a, b):
            problem = wait_for("the health to tell", lambda n=node: [
                p for p in n.get("/api/v1/health").json["problems"] if "The witness is being changed" in p["message"]])[0]
            self.assertIn("if a node fails now, I/O stops", problem["message"])
            self.assertTrue(node.get("/api/v1/pair/witness").json["changing"])
        b.script()
        self.assertEqual(a.job(reply)["state"], "done")

    def test_that_a_lockstepd_does_not_let_go_of_is_the_one_that_stays(self):
        a, b = self.pair_with_witness()
        b.script(silent=["node.apply"])
        reply = self.change(a, NEW)
        self.asks(a)  # nobody
        self.asks(a, OLD)
        b.script()
        job = a.job(reply)
        self.assertEqual(job["state"], "failed")
        self.assertIn("lockstepd on node-b has yet to be told", job["error"]["detail"])
        self.assertIn(f"The witness is {OLD}, as before", job["error"]["detail"])

    @attack
    def test_is_changed_by_administrators_alone_and_its_secrets_are_never_given_out(self):
        a, b = self.pair_with_witness()
        self.assertEqual(a.get("/api/v1/pair/witness", token=False).status, 401)
        self.assertEqual(a.patch("/api/v1/pair/witness", {"endpoints": [NEW]}, token=False).status, 401)
        viewer = a.post("/api/v1/tokens", {"name": "watcher", "role": "viewer"}).json["token"]
        self.assertEqual(a.get("/api/v1/pair/witness", token=viewer).status, 200)
        self.assertEqual(a.patch("/api/v1/pair/witness", {"endpoints": [NEW]}, token=viewer).status, 403)
        self.assertEqual(b.post("/peer/v1/witness-trial", {}).status, 403)
