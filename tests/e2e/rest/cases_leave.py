"""A node leaves its pair, and pairs end: what is asked for first, what is told to lockstepd, and what is left."""
import signal

from nodes import PREFERRED, join, wait_for
from scratch import HOST1, Scratch, attack


class Leave(Scratch):
    def pair_with_a_volume(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        wait_for("both to be in sync", lambda: all(r["state"] == "in_sync" for r in a.volume("vm1")["replicas"]))
        return a, b, volume_id

    @staticmethod
    def goes_on_alone(node, side):
        """Its lockstepd says so, as it does when the other one has left by agreement."""
        node.script(state="solo", epoch={"members": side})

    @staticmethod
    def in_no_pair(*nodes):
        """And at the end of all that this took."""
        for node in nodes:
            wait_for(f"{node.name} to be in no pair", lambda n=node: n.get("/api/v1/pair").json["state"] == "none" and all(
                j["state"] in ("done", "failed") for j in n.get("/api/v1/jobs").json["items"]))

    def test_what_is_asked_for_is_checked_before_anything_is_changed(self):
        a, b, _ = self.pair_with_a_volume()
        revision = a.get("/api/v1/pair").json["revision"]
        self.problem(a.post("/api/v1/nodes/c/leave", {"confirm": "node-b"}), 404, "not-found")
        self.problem(a.post("/api/v1/nodes/b/leave", raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post("/api/v1/nodes/b/leave", {"lost": "yes", "x": 1}), 422, "invalid", "/lost", "/x")
        self.problem(a.post("/api/v1/nodes/b/leave", {"confirm": "node-a"}), 409, "confirmation-needed", "/confirm")
        self.problem(b.post("/api/v1/nodes/b/leave", {"confirm": "node-b"}), 409, "conflict")
        self.problem(a.post("/api/v1/nodes/b/leave", {"confirm": "node-b", "lost": True}), 409, "conflict")
        self.problem(a.post("/api/v1/pair/dissolve", raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post("/api/v1/pair/dissolve", {"delete_volumes": 1}), 422, "invalid", "/delete_volumes")
        self.problem(a.post("/api/v1/pair/dissolve", {"confirm": "pair1"}), 409, "conflict")
        self.problem(b.post("/api/v1/pair/dissolve", {"delete_volumes": True}), 409, "confirmation-needed", "/confirm")
        b.script(state="syncing_target")
        reply = a.post("/api/v1/nodes/b/leave", {"confirm": "node-b"})
        self.problem(reply, 409, "conflict")
        self.assertIn("vm1", reply.json["detail"])
        b.stop_mgmtd()
        self.problem(a.post("/api/v1/nodes/b/leave", {"confirm": "node-b"}), 503, "not-current")
        self.problem(a.post("/api/v1/pair/dissolve", {"confirm": "pair1", "delete_volumes": True}), 503, "not-current")
        self.assertEqual(a.get("/api/v1/pair").json["revision"], revision)
        c = self.node("node-c")
        self.problem(c.post("/api/v1/nodes/a/leave", {"confirm": "x"}), 409, "no-pair")
        self.problem(c.post("/api/v1/pair/dissolve", {"confirm": "x"}), 409, "no-pair")

    def test_a_node_leaves_and_is_in_no_pair_and_joins_again(self):
        a, b, volume_id = self.pair_with_a_volume()
        a.post("/api/v1/initiators", {"iqn": HOST1})
        before = a.get(f"/api/v1/volumes/{volume_id}").json
        self.goes_on_alone(a, "a")
        job = a.job(a.post("/api/v1/nodes/b/leave", {"confirm": "node-b"}))
        self.assertEqual(job["state"], "done", job)
        self.assertIn("node-a goes on alone with one volume", job["message"])
        self.assertEqual(b.get("/api/v1/pair").json["state"], "none")
        self.assertEqual(b.get("/api/v1/volumes").json["items"], [])
        self.assertIsNone(b.applied(), "its lockstepd was told nothing since")
        self.assertEqual([p.name for p in (b.folder / "volumes").iterdir()], [])
        self.in_no_pair(b)
        after = a.get(f"/api/v1/volumes/{volume_id}").json
        for key in ("id", "name", "lun", "serial", "target_name"):
            self.assertEqual(after[key], before[key])
        wait_for("lockstepd to be told", a.told)
        self.assertIsNone(a.applied()["partner"])
        self.assertEqual(a.get("/api/v1/pair").json["state"], "alone")
        self.assertEqual(b.get("/api/v1/pair", token=a.token).status, 200, "the tokens of before are good")
        join(a, b)
        made = b.replica(volume_id)
        self.assertEqual((made["clean"], made["epoch"]["members"], made["epoch"]["id"]),
                         (False, "a", a.replica(volume_id)["epoch"]["id"]))
        self.assertTrue(made["data"].endswith(".2.data"), made)
        self.assertEqual([i["iqn"] for i in b.get("/api/v1/initiators").json["items"]], [HOST1])

    @attack
    def test_one_that_was_let_go_as_lost_is_refused_by_name_until_it_forgets_the_pair(self):
        a, b, volume_id = self.pair_with_a_volume()
        b.stop_mgmtd(signal.SIGKILL)
        reply = a.post("/api/v1/nodes/b/leave", {"confirm": "node-b", "lost": True})
        self.problem(reply, 409, "conflict")
        self.assertIn("force-solo", reply.json["detail"])
        self.goes_on_alone(a, "a")
        self.problem(a.post("/api/v1/nodes/b/leave", {"lost": True}), 409, "confirmation-needed", "/confirm")
        job = a.job(a.post("/api/v1/nodes/b/leave", {"confirm": "node-b", "lost": True}))
        self.assertEqual(job["state"], "done", job)
        told = b.applied()
        b.start_mgmtd()
        wait_for("it to be refused by name", lambda: [
            e for e in a.get("/api/v1/events").json["items"] if e["kind"] == "node.refused" and "node-b" in e["message"]])
        wait_for("it to know", lambda: "not in the pair any more" in str(b.get("/api/v1/health").json["problems"]))
        self.assertEqual(b.applied(), told)
        self.problem(b.post("/api/v1/tokens", {"name": "x"}), 503, "not-current")
        self.problem(b.post("/api/v1/nodes/a/leave", {"confirm": "node-a"}), 409, "conflict")
        self.problem(b.post("/api/v1/nodes/b/leave", {"confirm": "node-b"}), 409, "conflict")  # lockstepd serves
        b.script(serving=False)
        self.problem(b.post("/api/v1/nodes/b/leave", {"confirm": "x"}), 409, "confirmation-needed", "/confirm")
        job = b.job(b.post("/api/v1/nodes/b/leave", {"confirm": "node-b"}))
        self.assertEqual(job["state"], "done", job)
        self.assertEqual(b.get("/api/v1/pair").json["state"], "none")
        self.assertEqual(b.post("/api/v1/pair", {"name": "other", "arbiter": PREFERRED}).status, 201)

    def test_a_pair_ends_with_its_volumes_and_both_nodes_make_another(self):
        a, b, _ = self.pair_with_a_volume()
        self.volume(a, "vm2")
        job = b.job(b.post("/api/v1/pair/dissolve", {"confirm": "pair1", "delete_volumes": True}))
        self.assertEqual(job["state"], "done", job)
        self.in_no_pair(a, b)
        for node in (a, b):
            self.assertEqual([p.name for p in (node.folder / "volumes").iterdir()], [])
        self.assertEqual(b.post("/api/v1/pair", {"name": "pair2", "arbiter": PREFERRED}).status, 201)
        join(b, a)
        self.assertEqual(a.get("/api/v1/pair").json["local_side"], "b")

    def test_a_pair_of_one_ends_too(self):
        a = self.node("node-a")
        self.assertEqual(a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED}).status, 201)
        self.volume(a)
        self.problem(a.post("/api/v1/nodes/b/leave", {"confirm": "node-b"}), 409, "conflict")
        self.problem(a.post("/api/v1/nodes/a/leave", {"confirm": "node-a"}), 409, "conflict")
        job = a.job(a.post("/api/v1/pair/dissolve", {"confirm": "pair1", "delete_volumes": True}))
        self.assertEqual(job["state"], "done", job)
        self.assertEqual(a.get("/api/v1/pair").json["state"], "none")
