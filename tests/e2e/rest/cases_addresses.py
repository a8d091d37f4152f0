"""A node's addresses, as the API tells of their change. What it does to real sessions: tests/e2e/test_addresses.py."""
import socket

from nodes import free_port, wait_for
from scratch import Scratch

HOST = "127.0.0.1"


def fresh():
    return f"{HOST}:{free_port(HOST)}"


class Addresses(Scratch):
    def shown(self, node, side):
        return next(n for n in node.get("/api/v1/nodes").json["items"] if n["side"] == side)["addresses"]

    def test_what_is_asked_for_is_checked_before_anything_is_changed(self):
        a, b = self.node("a"), None
        self.problem(a.patch("/api/v1/nodes/a/addresses", {"link_address": fresh()}), 409, "no-pair")
        a, b = self.pair()
        before = self.shown(a, "b")
        for node in (a, b):
            path = "/api/v1/nodes/b/addresses"
            self.problem(node.patch("/api/v1/nodes/c/addresses", {"link_address": fresh()}), 404, "not-found")
            self.problem(node.patch(path, raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
            self.problem(node.patch(path, {}), 422, "invalid")
            self.problem(node.patch(path, {"portals": [], "x": 1}), 422, "invalid", "/x")
            self.problem(node.patch(path, {"portals": []}), 422, "invalid", "/portals")
            self.problem(node.patch(path, {"portals": [a.portal]}), 422, "invalid", "/portals/0")
            self.problem(node.patch(path, {"link_address": "0.0.0.0:3261"}), 422, "invalid", "/link_address")
            self.problem(node.patch(path, {"management_address": b.portal}), 422, "invalid", "/management_address")
            self.problem(node.patch(path, {"link_address": b.link}), 409, "conflict")
            for wish in ({"link_address": "192.0.2.7:3261"}, {"management_address": "192.0.2.7:8443"}):
                refused = node.patch(path, wish)
                self.problem(refused, 409, "conflict")
                self.assertIn("node-b", refused.json["detail"])
                self.assertIn("192.0.2.7", refused.json["detail"])
        self.assertEqual(self.shown(a, "b"), before)

    def test_all_of_them_change_and_lockstepd_is_told_on_both(self):
        a, b = self.pair()
        new = {"portals": [fresh(), b.portal], "link_address": fresh(), "management_address": fresh()}
        job = b.job(b.patch("/api/v1/nodes/b/addresses", new))
        self.assertEqual(job["state"], "done", job)
        for node in (a, b):
            self.assertEqual(self.shown(node, "b"), {"portals": new["portals"], "link": new["link_address"],
                                                   "management": new["management_address"]})
        wait_for("both to be told the end", lambda: a.told() and b.told())
        links = [node.applied()["partner"]["link"] for node in (a, b)]
        self.assertEqual((links[0]["connect"], links[1]["listen"]), (new["link_address"],) * 2)
        self.assertEqual(b.applied()["target"]["portals"], new["portals"])
        for link in links:
            self.assertFalse("listen_beside" in link or "connect_beside" in link, link)
        host, port = new["management_address"].split(":")
        with socket.create_connection((host, int(port)), 20):
            pass

    def test_a_link_that_does_not_work_is_taken_back_and_the_job_tells_what_was_tried(self):
        a, b = self.pair()
        before = self.shown(a, "b")
        a.script(link="It did not answer.")
        new = fresh()
        job = a.job(a.patch("/api/v1/nodes/b/addresses", {"link_address": new}))
        self.assertEqual(job["state"], "failed", job)
        self.assertIn(new, job["error"]["detail"])
        self.assertIn("node-a has tried it", job["error"]["detail"])
        self.assertEqual(self.shown(b, "b"), before)
        self.well(a)

    def test_a_lockstepd_that_does_not_run_can_try_nothing(self):
        a, b = self.pair()
        b.stop_lockstepd()
        self.problem(a.patch("/api/v1/nodes/b/addresses", {"link_address": fresh()}), 503, "data-plane-away")
