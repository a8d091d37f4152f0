"""A pair whose arbiter is a fence, as the API tells it. What it does to volumes: tests/e2e/test_fence.py."""
from nodes import join, make_pair, wait_for
from scratch import Scratch

FENCE = {"kind": "fence"}
DEAD = {"answers": False, "problem": "/usr/sbin/fence_ipmilan (status) exited with 1 and said: Connection timed out."}


class Fence(Scratch):
    def ready(self, name):
        node = self.node(name)
        node.wait_until_spoken_to()  # and so to the device
        return node

    def create(self, node, **more):
        return node.post("/api/v1/pair", {"name": "pair1", "arbiter": {**FENCE, **more}})

    def test_is_the_arbiter_of_both_nodes_and_shown_by_both(self):
        a, b = self.ready("node-a"), self.ready("node-b")
        make_pair(a, b, arbiter=FENCE)
        self.volume(a)
        for node in (a, b):
            wait_for("lockstepd to be told", lambda n=node: n.applied() and n.applied()["arbiter"] == FENCE)
            self.assertEqual(node.get("/api/v1/pair").json["arbiter"], {
                "kind": "fence", "endpoints": [], "user": None, "client_certificate": False, "preferred_side": None})
            self.assertEqual(node.get("/api/v1/pair/witness").json["kind"], "fence")
            wait_for("both to say that they have it", lambda n=node: [
                x["witness"]["kind"] for x in n.get("/api/v1/nodes").json["items"]] == ["fence"] * 2)
        for node in (a, b):
            node.stop_mgmtd()
            node.start_mgmtd()
        self.assertEqual(wait_for("the pair to be read again", lambda: a.get("/api/v1/pair").json["arbiter"])["kind"], "fence")

    def test_that_does_not_answer_makes_no_pair_and_says_what_it_said(self):
        a = self.ready("node-a")
        a.script(fence=DEAD)
        refused = self.create(a)
        self.problem(refused, 422, "invalid", "/arbiter/kind")
        self.assertIn("exited with 1 and said: Connection timed out.", refused.json["errors"][0]["detail"])
        self.assertEqual(a.get("/api/v1/pair").json["state"], "none")
        a.script()
        self.assertEqual(self.create(a).status, 201)

    def test_of_the_second_node_is_tried_before_it_joins(self):
        a, b = self.ready("node-a"), self.ready("node-b")
        self.assertEqual(self.create(a).status, 201)
        b.script(fence=DEAD)
        text = a.post("/api/v1/pair/invitations").json["invitation"]
        job = b.job(b.post("/api/v1/pair/join", {"invitation": text}))
        self.assertEqual(job["state"], "failed")
        self.assertIn("could not power its partner off: /usr/sbin/fence_ipmilan (status) exited with 1", job["error"]["detail"])
        self.assertEqual(b.get("/api/v1/pair").json["state"], "none")
        b.script()
        join(a, b)

    def test_is_not_said_by_the_api_what_it_runs(self):
        a = self.ready("node-a")
        for field in ("agent", "command", "options", "limit", "delay"):
            self.problem(self.create(a, **{field: "/bin/sh"}), 422, "invalid", f"/arbiter/{field}")
        self.problem(self.create(a, endpoints=["http://127.0.0.1:2379"]), 422, "invalid", "/arbiter/endpoints")
        self.problem(self.create(a, preferred_side="a"), 422, "invalid", "/arbiter/preferred_side")

    def told(self, *nodes, **arbiter):
        for node in nodes:
            wait_for(f"lockstepd to be told {arbiter}", lambda: arbiter.items() <= node.applied()["arbiter"].items())

    def test_takes_the_place_of_another_and_gives_it_up_in_use(self):
        a, b = self.ready("node-a"), self.ready("node-b")
        make_pair(a, b)
        self.volume(a)
        for arbiter, said in ((FENCE, "The arbiter is the fence now."),
                              ({"kind": "preferred", "preferred_side": "b"}, "The arbiter is side B preferred now.")):
            reply = b.patch("/api/v1/pair/arbiter", arbiter)
            self.assertEqual(reply.status, 202, reply)
            job = b.job(reply)
            self.assertEqual((job["state"], job["message"]), ("done", said), job)
            self.told(a, b, kind=arbiter["kind"])
            self.assertEqual(a.get("/api/v1/pair").json["arbiter"]["kind"], arbiter["kind"])
        self.assertEqual(a.job(a.patch("/api/v1/pair/arbiter", FENCE))["state"], "done")
        self.assertEqual(a.get("/api/v1/pair").json["arbiter"]["kind"], "fence")
        self.problem(a.patch("/api/v1/pair/arbiter", FENCE), 409, "conflict")

    def test_of_each_node_is_tried_before_it_decides_in_use(self):
        a, b = self.ready("node-a"), self.ready("node-b")
        make_pair(a, b)
        for node in (a, b):
            node.script(fence=DEAD)
            refused = a.patch("/api/v1/pair/arbiter", FENCE)
            self.problem(refused, 422, "invalid", "/kind")
            self.assertIn(f"{node.name}: ", refused.json["errors"][0]["detail"])
            self.assertIn("Connection timed out.", refused.json["errors"][0]["detail"])
            node.script()
        for node in (a, b):
            self.assertEqual(node.applied()["arbiter"]["kind"], "preferred")

    def test_that_says_a_running_partner_is_off_is_refused(self):
        a, b = self.ready("node-a"), self.ready("node-b")
        for node in (a, b):
            node.script(fence={"off": True})
        self.assertEqual(self.create(a).status, 201, "a pair is made before its partner runs")
        text = a.post("/api/v1/pair/invitations").json["invitation"]
        job = b.job(b.post("/api/v1/pair/join", {"invitation": text}))
        self.assertEqual(job["state"], "failed")
        self.assertIn("says that the partner is off, while it answers", job["error"]["detail"])
        b.script()
        join(a, b)
        self.assertEqual(b.job(a.patch("/api/v1/pair/arbiter", {"kind": "preferred", "preferred_side": "a"}))["state"], "done")
        for node, other in ((a, b), (b, a)):
            node.script(fence={"off": True})
            other.script()
            refused = a.patch("/api/v1/pair/arbiter", FENCE)
            self.problem(refused, 422, "invalid", "/kind")
            self.assertIn(f"{node.name}: ", refused.json["errors"][0]["detail"])
            self.assertIn("it names another machine", refused.json["errors"][0]["detail"])

    def test_lets_nobody_change_the_configuration_alone(self):
        a, b = self.ready("node-a"), self.ready("node-b")
        make_pair(a, b, arbiter=FENCE)
        b.stop_mgmtd()
        refused = a.post("/api/v1/initiators", {"iqn": "iqn.2026-11.host:one"})
        self.problem(refused, 503, "not-current")
        self.assertIn("fence", refused.json["detail"])
        b.start_mgmtd()
