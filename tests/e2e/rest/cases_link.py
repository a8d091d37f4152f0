"""The link's paths, as the API tells of them. What they do to real sessions: tests/e2e/test_link_paths.py."""
from nodes import free_port, wait_for
from scratch import Scratch

LINK, PATHS = "/api/v1/pair/link", "/api/v1/pair/link/paths"
HOST = "127.0.0.1"


def fresh():
    return f"{HOST}:{free_port(HOST)}"


def wish(last_resort=False):
    return {"a": fresh(), "b": fresh(), "last_resort": last_resort}


class LinkPaths(Scratch):
    def paths(self, node):
        return node.get(LINK).json["paths"]

    def configured(self, node):
        return [(tuple(end["address"] for end in path["nodes"]), path["last_resort"]) for path in self.paths(node)]

    def told(self, node):
        return [(p["listen"], p["connect"], p["last_resort"]) for p in node.applied()["partner"]["link"].get("more_paths", [])]

    def states(self, node):
        return [[end["state"] for end in path["nodes"]] for path in self.paths(node)]

    def linked(self):
        """A pair whose lockstepds have been told of one another, and have said so."""
        a, b = self.pair()
        for node in (a, b):
            wait_for("both ends of the first path to be known", lambda n=node: self.states(n) == [["proven", "proven"]])
        return a, b

    def kept(self, node):
        return [e["message"] for e in node.get("/api/v1/events").json["items"] if e["kind"] == "pair.changed"]

    def test_paths_are_added_and_removed_through_either_node_and_both_lockstepds_are_told(self):
        a, b = self.linked()
        self.assertEqual(self.configured(b), [((a.link, b.link), False)])
        last, more = wish(last_resort=True), wish()
        del more["last_resort"]
        for node, asked in ((a, last), (b, more)):
            made = node.post(PATHS, asked)
            self.assertEqual((made.status, made.headers["Location"]), (201, LINK), made)
        expected = [((a.link, b.link), False), ((more["a"], more["b"]), False), ((last["a"], last["b"]), True)]
        for node, mine, its in ((a, "a", "b"), (b, "b", "a")):
            wait_for("both to show them", lambda n=node: self.configured(n) == expected)
            wait_for("lockstepd to be told", lambda n=node, m=mine, i=its: self.told(n) == [
                (more[m], more[i], False), (last[m], last[i], True)])
            wait_for("both to see them", lambda n=node: self.states(n) == [["proven", "proven"]] * 3)
        self.assertEqual([p["number"] for p in self.paths(a)], [1, 2, 3])
        self.well(a, b)
        for node, address in ((a, last["b"]), (b, more["a"])):
            self.assertEqual(node.delete(f"{PATHS}/{address}").status, 204)
        for node in (a, b):
            wait_for("both to show the first alone", lambda n=node: self.configured(n) == expected[:1])
            wait_for("lockstepd to be told", lambda n=node: self.told(n) == [])
        self.assertEqual(len([m for m in self.kept(a) if "path" in m]), 4, self.kept(a))

    def test_what_is_asked_for_is_checked_before_anything_is_changed(self):
        alone = self.node("alone")
        self.problem(alone.get(LINK), 409, "no-pair")
        self.problem(alone.post(PATHS, wish()), 409, "no-pair")
        a, b = self.linked()
        used = wish()
        self.assertEqual(a.post(PATHS, used).status, 201)
        before = self.configured(a)
        for node in (a, b):
            self.problem(node.post(PATHS, raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
            self.problem(node.post(PATHS, {}), 422, "invalid", "/a", "/b")
            self.problem(node.post(PATHS, {**wish(), "more": 1}), 422, "invalid", "/more")
            for wrong in ("", "node-a:3261", HOST, "0.0.0.0:3261", a.portal, b.link, b.address, used["a"], used["b"]):
                self.problem(node.post(PATHS, {**wish(), "a": wrong}), 422, "invalid", "/a")
            self.problem(node.post(PATHS, {"a": used["b"], "b": used["a"]}), 422, "invalid", "/a", "/b")
            first = node.delete(f"{PATHS}/{b.link}")
            self.problem(first, 409, "conflict")
            self.assertIn("`lockstep node set b --link-address", first.json["detail"])
            self.problem(node.delete(f"{PATHS}/127.0.0.9:9"), 404, "not-found")
            self.problem(node.delete(f"{PATHS}/nothing"), 404, "not-found")
            self.problem(node.patch("/api/v1/nodes/a/addresses", {"link_address": used["b"]}), 422, "invalid", "/link_address")
        self.assertEqual(self.configured(a), before)

    def test_a_path_is_measured_and_what_stands_out_is_told(self):
        a, b = self.linked()
        more = wish()
        self.assertEqual(a.post(PATHS, more).status, 201)
        wait_for("both to see them", lambda: self.states(a) == [["proven", "proven"]] * 2)
        for node, name, mine, its in ((a, "node-a", "a", "b"), (b, "node-b", "b", "a")):
            wait_for("it to see them", lambda n=node: self.states(n) == [["proven", "proven"]] * 2)
            found = node.post(f"{LINK}/measurement", {"path": 2})
            self.assertEqual(found.status, 200, found)
            self.assertEqual({k: found.json[k] for k in ("path", "node", "from", "to", "transport", "findings")}, {
                "path": 2, "node": name, "from": HOST, "to": more[its], "transport": "tcp", "findings": []})
            self.assertEqual([s["bytes"] for s in found.json["sizes"]], [64, 4096, 65536, 1048576])
        a.script(paths={more["b"]: {"segments_out": 1000, "segments_sent_again": 40, "path_mtu": 1500}})
        wait_for("that to be seen", lambda: self.paths(a)[1]["nodes"][0]["segments_sent_again"] == 40)
        findings = a.post(f"{LINK}/measurement", {"path": 2}).json["findings"]
        self.assertIn("40 of 1000 packets", " ".join(findings))
        self.problem(a.post(f"{LINK}/measurement", raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post(f"{LINK}/measurement", {}), 422, "invalid", "/path")
        self.problem(a.post(f"{LINK}/measurement", {"path": 5}), 422, "invalid", "/path")
        self.problem(a.post(f"{LINK}/measurement", {"path": 3}), 404, "not-found")
        a.script(paths={more["b"]: {"state": "down", "problem": "It does not answer."}})
        wait_for("it to be down", lambda: self.states(a)[1][0] == "down")
        self.problem(a.post(f"{LINK}/measurement", {"path": 2}), 409, "conflict")
        a.script(measured={"sizes": "many"})
        wait_for("it to be back", lambda: self.states(a)[1][0] == "proven")
        self.problem(a.post(f"{LINK}/measurement", {"path": 2}), 503, "data-plane-away")
        alone = self.node("alone")
        self.problem(alone.post(f"{LINK}/measurement", {"path": 1}), 409, "no-pair")

    def test_there_are_four_at_the_most(self):
        a, b = self.linked()
        for _ in range(3):
            self.assertEqual(a.post(PATHS, wish()).status, 201)
        self.problem(b.post(PATHS, wish()), 409, "conflict")
        self.assertEqual(len(self.paths(b)), 4)

    def test_it_takes_both_nodes_and_lockstepds_that_know_of_paths(self):
        a, b = self.linked()
        there = wish()
        self.assertEqual(a.post(PATHS, there).status, 201)
        b.script(paths=None)
        refused = wait_for("that to be seen", lambda: self.states(a)[0] == ["proven", "unknown"]) and a.post(PATHS, wish())
        self.problem(refused, 409, "conflict")
        self.assertIn("lockstepd on node-b", refused.json["detail"])
        b.script()
        wait_for("all to be as before", lambda: self.states(a)[0] == ["proven"] * 2)
        b.stop_mgmtd()
        self.problem(a.post(PATHS, wish()), 503, "not-current")
        self.problem(a.delete(f"{PATHS}/{there['a']}"), 503, "not-current")
        self.gone(a, b)
        self.assertEqual(self.states(a), [["proven", "unknown"]] * 2)

    def test_a_path_that_is_down_is_told_while_the_link_is_up_and_metrics_count_it(self):
        a, b = self.linked()
        path = wish(last_resort=True)
        self.assertEqual(a.post(PATHS, path).status, 201)
        self.well(a, b)
        down = {"state": "down", "problem": "It does not answer.", "losses": 3, "bytes_out": 5, "round_trip_us": 87}
        a.script(paths={path["b"]: down})
        for node in (a, b):
            health = wait_for("it to be told", lambda n=node: (h := n.get("/api/v1/health").json)["status"] == "degraded" and h)
            self.assertEqual(health["summary"], f"Path 2 of the link, between {path['a']} and {path['b']}, is down: It does not answer.")
            end = self.paths(node)[1]["nodes"][0]
            self.assertEqual({k: end[k] for k in down}, down)
        metrics = a.get("/metrics").raw.decode()
        for line in ("lockstep_link_path_up", "lockstep_link_path_losses_total"):
            found = [x for x in metrics.splitlines() if x.startswith(line + "{") and 'path="2"' in x]
            self.assertEqual([x.split()[-1] for x in found], ["0" if "up" in line else "3"], metrics)
        a.script(paths={path["b"]: down}, linked=False)
        wait_for("the link's loss alone to be told", lambda: [
            p["message"] for p in a.get("/api/v1/health").json["problems"]] == ["node-a has no replication link to node-b."])
        a.script()
        self.well(a, b)
