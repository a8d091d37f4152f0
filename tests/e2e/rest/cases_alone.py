"""Volumes of a node that goes on alone; the configuration forced, parted and given up."""
import signal

from nodes import wait_for
from scratch import GIB, Scratch

CONFIGURATION = "/api/v1/pair/configuration"


class Alone(Scratch):
    def state(self, node):
        return node.get(CONFIGURATION).json["state"]

    def agreed(self, *nodes):
        for node in nodes:
            wait_for("one line on both", lambda n=node: self.state(n) == "one_line" and all(
                line["decided_by"] == "both" for line in n.get(CONFIGURATION).json["nodes"]))

    def force(self, node, other):
        asked = node.post(f"{CONFIGURATION}/force", {})
        self.problem(asked, 409, "confirmation-needed", "/confirm")
        needed = f"{node.name} without {other.name}"
        self.assertIn(needed, asked.json["detail"])
        self.assertIn("two configurations", asked.json["detail"])
        self.problem(node.post(f"{CONFIGURATION}/force", {"confirm": other.name}), 409, "confirmation-needed", "/confirm")
        done = node.post(f"{CONFIGURATION}/force", {"confirm": needed})
        self.assertEqual(done.status, 200, done)
        self.assertIn("by an operator's word", done.json["message"])

    def test_the_node_that_is_let_makes_grows_and_deletes_volumes_alone(self):
        a, b = self.pair()
        self.volume(a)
        self.agreed(a, b)
        b.stop_mgmtd(signal.SIGKILL)
        b.stop_lockstepd(signal.SIGKILL)
        self.gone(a, b)
        job = a.job(a.post("/api/v1/volumes", {"name": "vm2", "size_bytes": GIB}))
        self.assertEqual((job["state"], "on this node" in job["message"]), ("done", True), job)
        path = f"/api/v1/volumes/{job['volume_id']}"
        self.assertEqual(a.replica(job["volume_id"])["epoch"]["members"], "a")
        job = a.job(a.patch(path, {"size_bytes": 2 * GIB}))
        self.assertEqual((job["state"], a.get(path).json["size_bytes"]), ("done", 2 * GIB), job)
        self.assertEqual(a.job(a.delete(f"{path}?confirm=vm2"))["state"], "done")
        self.assertIsNone(a.volume("vm2"))
        # This one is in sync, as its lockstepd says: who has the current copy is not certain.
        refused = a.delete(f"/api/v1/volumes/{a.volume('vm1')['id']}?confirm=vm1")
        self.problem(refused, 503, "not-current")
        self.assertIn("not certain that it is the current one", refused.json["detail"])
        a.script(state="solo", epoch={"members": "a"})
        vm1 = a.volume("vm1")["id"]
        job = a.job(a.delete(f"/api/v1/volumes/{vm1}?confirm=vm1"))
        self.assertEqual((job["state"], "when it is back" in job["message"]), ("done", True), job)
        self.assertEqual(a.volume("vm1")["lifecycle"], "deleting")
        self.problem(a.delete(f"/api/v1/volumes/{vm1}?confirm=vm1"), 409, "conflict")
        self.problem(a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB}), 409, "conflict")
        b.start()
        for node in (a, b):
            wait_for("its copy to be removed, and the name to be free", lambda n=node: n.volume("vm1") is None, 40)

    def test_only_what_nothing_lets_is_forced(self):
        a, b = self.pair()
        self.agreed(a, b)
        self.problem(a.post(f"{CONFIGURATION}/force", {}), 409, "conflict")
        self.problem(a.post(f"{CONFIGURATION}/give-up", {"confirm": "node-a"}), 409, "conflict")
        for path in ("force", "give-up"):
            self.problem(a.post(f"{CONFIGURATION}/{path}", raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
            self.problem(a.post(f"{CONFIGURATION}/{path}", {"colour": "red"}), 422, "invalid", "/colour")
        b.stop_mgmtd(signal.SIGKILL)
        self.assertEqual(self.state(a), "partner_away")
        self.problem(a.post(f"{CONFIGURATION}/give-up", {"confirm": "node-a"}), 503, "not-current")
        let = a.post(f"{CONFIGURATION}/force", {})
        self.assertEqual(let.status, 200, let)
        self.assertIn("Nothing was forced", let.json["message"])
        self.assertEqual(a.post("/api/v1/tokens", {"name": "x"}).status, 201)
        b.start_mgmtd()
        self.agreed(a, b)
        self.problem(self.node("node-c").get(CONFIGURATION), 409, "no-pair")

    def test_two_that_were_forced_stay_apart_until_one_gives_up(self):
        a, b = self.pair()
        self.agreed(a, b)
        a.stop_mgmtd(signal.SIGKILL)
        self.force(b, a)
        self.assertEqual(b.post("/api/v1/tokens", {"name": "of-b"}).status, 201)
        b.stop_mgmtd(signal.SIGKILL)
        a.start_mgmtd()
        self.force(a, b)
        self.assertEqual(a.post("/api/v1/tokens", {"name": "of-a"}).status, 201)
        b.start_mgmtd()
        for node in (a, b):
            wait_for("the two to have parted", lambda n=node: self.state(n) == "parted")
            wait_for("nothing to be changed", lambda n=node: n.post("/api/v1/tokens", {"name": "no"}).status == 503)
            wait_for("the health to say what to do", lambda n=node: any(
                "pair configuration" in p["advice"] for p in n.get("/api/v1/health").json["problems"]))
        self.problem(a.post(f"{CONFIGURATION}/force", {}), 409, "conflict")
        lines = {line["side"]: line for line in a.get(CONFIGURATION).json["nodes"]}
        self.assertEqual([(line["decided_by"], line["forced"]) for line in lines.values()], [("a", True), ("b", True)])
        self.assertIn("Token of-a is not in the other configuration.", lines["a"]["lost_if_given_up"])
        asked = b.post(f"{CONFIGURATION}/give-up", {})
        self.problem(asked, 409, "confirmation-needed", "/confirm")
        self.assertIn("Token of-b", asked.json["detail"])
        done = b.post(f"{CONFIGURATION}/give-up", {"confirm": "node-b"})
        self.assertEqual((done.status, done.json["lost"]), (200, lines["b"]["lost_if_given_up"]), done)
        self.agreed(a, b)
        for node in (a, b):
            names = {t["name"] for t in node.get("/api/v1/tokens").json["items"]}
            self.assertEqual(("of-a" in names, "of-b" in names), (True, False))
        self.assertIn("configuration.given_up", [e["kind"] for e in b.get("/api/v1/events?limit=500").json["items"]])
        self.assertEqual(b.post("/api/v1/tokens", {"name": "together"}).status, 201)
