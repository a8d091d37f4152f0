"""What was set when a pair was made is changed in use, as the API tells it. What it does to volumes:
tests/e2e/test_settings_change.py."""
import signal

from nodes import make_pair, wait_for
from scratch import Scratch, attack

LEASE = "/api/v1/pair/lease"


class Settings(Scratch):
    def pair(self):
        a, b = self.node("node-a"), self.node("node-b")
        make_pair(a, b)
        return a, b

    def told(self, *nodes, **settings):
        for node in nodes:
            wait_for(f"lockstepd to be told {settings}", lambda: settings.items() <= node.applied()["settings"].items())

    def test_another_lease_is_told_to_both_nodes_step_by_step(self):
        a, b = self.pair()
        b.script(lease={"settled": False})
        reply = b.patch(LEASE, {"lease_ms": 4000})
        self.assertEqual((reply.status, reply.json["kind"]), (202, "pair.lease"), reply)
        self.told(a, b, lease_ms=4000, other_lease_ms=1500)  # and the old one counts, as long as anything rests on it
        self.assertEqual(a.get("/api/v1/pair").json["settings"]["other_lease_ms"], 1500)
        self.problem(a.patch(LEASE, {"lease_ms": 3000}), 409, "conflict")
        b.script()
        job = b.job(reply)
        self.assertEqual((job["state"], job["message"]), ("done", "The lease is 4000 ms now."), job)
        for node in (a, b):
            wait_for("the old one to be forgotten", node.told)
            told = node.applied()["settings"]
            self.assertEqual((told["lease_ms"], told.get("other_lease_ms")), (4000, None))
            self.assertEqual(node.get("/api/v1/pair").json["settings"]["lease_ms"], 4000)
            self.assertIsNone(node.get("/api/v1/pair").json["settings"]["other_lease_ms"])
        self.problem(a.patch(LEASE, {"lease_ms": 4000}), 409, "conflict")

    def test_a_lease_out_of_bounds_is_refused_with_the_reason(self):
        self.problem(self.node("alone").patch(LEASE, {"lease_ms": 2000}), 409, "no-pair")
        a, _ = self.pair()
        for wrong, why in ((499, "nothing is broken"), (20001, "give a disk up")):
            refused = a.patch(LEASE, {"lease_ms": wrong})
            self.problem(refused, 422, "invalid", "/lease_ms")
            self.assertIn(why, refused.json["errors"][0]["detail"])
        self.problem(a.patch(LEASE, {}), 422, "invalid", "/lease_ms")
        self.problem(a.patch(LEASE, {"lease_ms": "2s", "colour": 1}), 422, "invalid", "/lease_ms", "/colour")
        self.problem(a.patch(LEASE, raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")

    def test_a_lease_is_not_changed_while_a_node_is_away_or_too_old(self):
        a, b = self.pair()
        b.script(lease={})
        refused = a.patch(LEASE, {"lease_ms": 2000})
        self.problem(refused, 409, "conflict")
        self.assertIn("lockstepd on node-b runs version 0.1.0", refused.json["detail"])
        b.script()
        b.stop_lockstepd(signal.SIGKILL)
        self.problem(a.patch(LEASE, {"lease_ms": 2000}), 503, "data-plane-away")
        b.start_lockstepd()
        b.stop_mgmtd()
        self.problem(a.patch(LEASE, {"lease_ms": 2000}), 503, "not-current")
        b.start_mgmtd()
        self.assertEqual(a.get("/api/v1/pair").json["settings"]["lease_ms"], 1500)

    def test_limits_of_resync_are_told_to_both_nodes_at_once(self):
        a, b = self.pair()
        limits = {"resync_floor_bytes_per_second": 50 << 20, "resync_ceiling_bytes_per_second": 400 << 20}
        changed = b.patch("/api/v1/pair", {"settings": limits})
        self.assertEqual(changed.status, 200, changed)
        self.assertEqual(changed.json["settings"], {"lease_ms": 1500, "other_lease_ms": None, **limits})
        self.told(a, b, resync_floor=50 << 20, resync_ceiling=400 << 20)
        a.patch("/api/v1/pair", {"settings": {"resync_ceiling_bytes_per_second": 0}})
        self.told(a, b, resync_floor=50 << 20, resync_ceiling=0)
        wait_for("the event", lambda: "Resync has at least 50 MiB/s, and at most 400 MiB/s." in [
            e["message"] for e in a.get("/api/v1/events").json["items"]])
        ceiling = "/settings/resync_ceiling_bytes_per_second"
        for wrong, field in (({"resync_ceiling_bytes_per_second": 10 << 20}, ceiling),
                             ({"resync_floor_bytes_per_second": 0, "resync_ceiling_bytes_per_second": 4096}, ceiling),
                             ({"resync_floor_bytes_per_second": -1}, "/settings/resync_floor_bytes_per_second"),
                             ({"lease_ms": 3000}, "/settings/lease_ms")):
            self.problem(a.patch("/api/v1/pair", {"settings": wrong}), 422, "invalid", field)
        self.told(a, b, resync_floor=50 << 20, resync_ceiling=0)

    def test_nodes_are_renamed_through_either(self):
        a, b = self.pair()
        changed = b.patch("/api/v1/nodes/a", {"name": "rack7-a"})
        self.assertEqual((changed.status, [n["name"] for n in changed.json["items"]]), (200, ["rack7-a", "node-b"]), changed)
        wait_for("lockstepd to be told", lambda: a.applied()["node"]["name"] == "rack7-a" == b.applied()["partner"]["name"])
        self.assertEqual(a.patch("/api/v1/nodes/a", {"name": "rack7-a"}).status, 200, "nothing is to be done")
        self.problem(a.patch("/api/v1/nodes/b", {"name": "rack7-a"}), 409, "conflict", "/name")
        for wrong in ("b", "a", "rack 7", ""):
            self.problem(a.patch("/api/v1/nodes/b", {"name": wrong}), 422, "invalid", "/name")
        self.problem(a.patch("/api/v1/nodes/b", {"name": "x", "colour": 1}), 422, "invalid", "/colour")
        self.problem(a.patch("/api/v1/nodes/c", {"name": "x"}), 404, "not-found")
        self.problem(a.patch("/api/v1/nodes/b", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")

    def test_nodes_are_renamed_by_the_one_that_goes_on_alone(self):
        alone = self.node("alone")
        self.problem(alone.patch("/api/v1/nodes/a", {"name": "x"}), 409, "no-pair")
        a, b = self.pair()
        b.stop_mgmtd()
        self.assertEqual(a.patch("/api/v1/nodes/b", {"name": "lost"}).status, 200)
        b.start_mgmtd()
        wait_for("the other one to take it over", lambda: b.get("/api/v1/nodes").json["items"][1]["name"] == "lost")
        self.problem(b.patch("/api/v1/nodes/a", {"name": "lost"}), 409, "conflict", "/name")
        a.stop_mgmtd()
        self.problem(b.patch("/api/v1/nodes/a", {"name": "other"}), 503, "not-current")  # a is preferred
        a.start_mgmtd()

    @attack
    def test_settings_are_changed_by_administrators_alone(self):
        a, _ = self.pair()
        viewer = a.post("/api/v1/tokens", {"name": "watcher", "role": "viewer"}).json["token"]
        for path, body in ((LEASE, {"lease_ms": 2000}), ("/api/v1/nodes/b", {"name": "x"})):
            self.assertEqual(a.patch(path, body, token=False).status, 401)
            self.assertEqual(a.patch(path, body, token=viewer).status, 403)
