"""A node that has lost its management database, or all of its management: how the pair becomes whole again."""
import json
import shutil
import signal

from nodes import PREFERRED, join, wait_for
from scratch import HOST1, Scratch


def replace(survivor, lost, side):
    """Both commands; the job of the node that takes the place."""
    name = next(n["name"] for n in survivor.get("/api/v1/nodes").json["items"] if n["side"] == side)
    invitation = survivor.post(f"/api/v1/nodes/{side}/replacement", {"confirm": name})
    assert invitation.status == 201, invitation
    job = lost.job(lost.post("/api/v1/pair/join", {"invitation": invitation.json["invitation"]}))
    assert job["state"] == "done", job
    return job


class Lost(Scratch):
    def lose(self, node, everything=True):
        """The management's folder, or the database alone; the daemon begins anew."""
        node.stop_mgmtd(signal.SIGKILL)
        if everything:
            shutil.rmtree(node.folder / "mgmt")
        else:
            for file in (node.folder / "mgmt").glob("mgmt.db*"):
                file.unlink()
        node.start_mgmtd()

    def whole(self, *nodes):
        for node in nodes:
            wait_for("both nodes to see each other", lambda n=node: len(n.get("/api/v1/nodes").json["items"]) == 2 and all(
                x["reachable"] and x["lockstepd"]["state"] == "running" for x in n.get("/api/v1/nodes").json["items"]))
            self.well(node)

    @staticmethod
    def told(*nodes):
        for node in nodes:
            wait_for("lockstepd to have all that was configured", node.told)

    def events(self, node, kind):
        return [e for e in node.get("/api/v1/events?limit=500").json["items"] if e["kind"] == kind]

    def configured_pair(self):
        a, b = self.pair()
        self.volume(a)
        a.post("/api/v1/initiators", {"iqn": HOST1, "chap": {"user": "host", "secret": "s" * 12}})
        volume_id = a.volume("vm1")["id"]
        self.assertEqual(a.patch(f"/api/v1/volumes/{volume_id}", {"access": [HOST1]}).status, 200)
        self.whole(a, b)
        self.told(a, b)
        return a, b, volume_id


class OneNode(Lost):
    def test_side_b_that_lost_all_of_its_management_is_replaced_by_itself(self):
        self.take_over("b", everything=True)

    def test_side_b_that_lost_its_database_is_replaced_by_itself(self):
        self.take_over("b", everything=False)

    def test_side_a_that_lost_all_of_its_management_is_replaced_by_itself(self):
        self.take_over("a", everything=True)

    def test_side_a_that_lost_its_database_is_replaced_by_itself(self):
        self.take_over("a", everything=False)

    def take_over(self, side, everything):
        a, b, volume_id = self.configured_pair()
        lost, left = (b, a) if side == "b" else (a, b)
        before, link_before = lost.applied(), left.applied()["partner"]["link"]
        self.lose(lost, everything)
        # Nothing is taken from the lockstepd of the node that knows nothing, and both nodes say what to do.
        unknown = "serves a volume that the management does not know"
        health = wait_for("the lost node to say so", lambda: (h := lost.get("/api/v1/health").json)
                          and h["status"] == "critical" and unknown in h["summary"] and h)
        self.assertIn("lockstep node replace", next(p for p in health["problems"] if unknown in p["message"])["advice"])
        problem = wait_for("the other node to notice", lambda: next(
            (p for p in left.get("/api/v1/health").json["problems"] if "lockstep node replace" in p.get("advice", "")), None))
        self.assertIn(f"lockstep node replace {side}", problem["advice"])
        self.problem(lost.post("/api/v1/pair", {"name": "other", "arbiter": PREFERRED}), 409, "conflict")
        self.problem(left.post("/api/v1/tokens", {"name": "ops"}), 503, "not-current")
        self.assertEqual(lost.applied(), before)
        token_of_before = left.token
        replace(left, lost, side)
        self.whole(a, b)
        self.assertEqual([n["side"] for n in lost.get("/api/v1/nodes").json["items"] if n["local"]], [side])
        volume = lost.volume("vm1")
        self.assertEqual((volume["id"], volume["access"]), (volume_id, [HOST1]))
        self.assertEqual(lost.get("/api/v1/pair", token=token_of_before).status, 200)
        self.told(a, b)
        link = left.applied()["partner"]["link"]
        self.assertNotEqual(link["chap_secret"], link_before["chap_secret"])
        self.assertNotEqual(link["mutual_secret"], link_before["mutual_secret"])
        self.assertEqual(lost.applied()["partner"]["link"]["chap_secret"], link["chap_secret"])
        for node in (a, b):
            self.assertEqual(node.post("/api/v1/tokens", {"name": f"ops-{node.name}"}).status, 201)
        self.assertTrue(self.events(left, "pair.replaced"))

    def test_a_witness_keeps_the_seal_that_its_records_have(self):
        a, b = self.node("node-a"), self.node("node-b")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": {"kind": "witness", "endpoints": ["http://127.0.0.1:2379"]}})
        join(a, b)
        first = wait_for("lockstepd to be told", lambda: (a.applied() or {}).get("partner") and a.applied())
        self.assertNotIn("seal", first["arbiter"])
        for _ in range(2):  # the second time, too
            self.lose(b)
            replace(a, b, "b")
            self.whole(a, b)
            for node in (a, b):
                wait_for("lockstepd to be told", lambda n=node: n.applied()["arbiter"].get("seal") == {
                    "one": first["partner"]["link"]["chap_secret"], "other": first["partner"]["link"]["mutual_secret"]})

    def test_a_node_that_has_the_configuration_is_not_replaced(self):
        a, b = self.pair()
        for node, side in ((a, "b"), (b, "a")):
            self.problem(node.post(f"/api/v1/nodes/{side}/replacement", {"confirm": f"node-{side}"}), 409, "conflict")
        self.problem(a.post("/api/v1/nodes/a/replacement", {"confirm": "node-a"}), 409, "conflict")
        self.problem(a.post("/api/v1/nodes/c/replacement", {}), 404, "not-found")
        self.problem(a.post("/api/v1/nodes/b/replacement", raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post("/api/v1/nodes/b/replacement", {"colour": "red"}), 422, "invalid", "/colour")
        self.problem(self.node("node-c").post("/api/v1/nodes/b/replacement", {"confirm": "x"}), 409, "no-pair")
        b.stop_mgmtd()
        for word in ("node-b", "node-b without its changes"):
            refused = a.post("/api/v1/nodes/b/replacement", {"confirm": word})
            self.problem(refused, 409, "conflict")
            self.assertIn("its lockstepd runs and is connected", refused.json["detail"])
        a.script(linked=False)
        asked = a.post("/api/v1/nodes/b/replacement", {})
        self.problem(asked, 409, "confirmation-needed", "/confirm")
        self.assertIn("cannot be reached", asked.json["detail"])
        # It is back before the invitation is used.
        invitation = a.post("/api/v1/nodes/b/replacement", {"confirm": "node-b"}).json["invitation"]
        b.start_mgmtd()
        a.script()
        wait_for("node-b to be seen", lambda: a.get("/api/v1/nodes").json["items"][1]["reachable"])
        c = self.node("node-d")
        job = c.job(c.post("/api/v1/pair/join", {"invitation": invitation}))
        self.assertIn("has a configuration of the pair", job["error"]["detail"])
        self.assertEqual(c.get("/api/v1/pair").json["state"], "none")
        self.whole(a, b)

    def test_another_machine_takes_the_place_and_the_old_one_is_refused_by_name_and_does_no_harm(self):
        a, b, volume_id = self.configured_pair()
        b.stop_mgmtd(signal.SIGKILL)
        c = self.node("node-c")
        wait_for("node-c's lockstepd", lambda: c.get("/api/v1/health").status == 200)
        a.script(state="solo", linked=False, epoch={"members": "a"})
        replace(a, c, "b")
        a.script()
        wait_for("the missing replica to be told of", lambda: any(
            "lockstep replica replace vm1 --node b" in p.get("advice", "") for p in a.get("/api/v1/health").json["problems"]))
        self.assertEqual(a.post("/api/v1/tokens", {"name": "meanwhile"}).status, 201)
        told = b.applied()
        b.start_mgmtd()
        wait_for("the old machine to be refused", lambda: any("node-b" in e["message"] for e in self.events(a, "node.refused")))
        health = wait_for("the old machine to know", lambda: next(
            (p for p in b.get("/api/v1/health").json["problems"] if "took the place of this one" in p["message"]), None))
        self.assertEqual(health["severity"], "critical")
        self.problem(b.post("/api/v1/tokens", {"name": "late"}), 503, "not-current")
        self.problem(b.post("/api/v1/nodes/a/replacement", {"confirm": "node-a"}), 409, "conflict")
        self.assertEqual(b.applied(), told)
        b.stop_mgmtd()
        self.assertEqual(len(self.events(a, "node.refused")), 1)  # once an hour, from a's start on
        a.stop_mgmtd()  # what it was told holds without the partner, too
        b.start_mgmtd()
        b.stop_lockstepd()
        b.start_lockstepd()
        wait_for("lockstepd to run", lambda: b.get("/api/v1/nodes").json["items"][1]["lockstepd"]["state"] == "running")
        self.assertIn("took the place of this one", json.dumps(b.get("/api/v1/health").json))
        a.start_mgmtd()
        wait_for("the pair to be as it was", lambda: a.get("/api/v1/nodes").json["items"][1]["reachable"])
        self.assertEqual(a.get("/api/v1/nodes").json["items"][1]["name"], "node-c")

    def test_side_bs_old_database_that_comes_back_under_the_new_ones_certificate_is_refused(self):
        self.old_database_comes_back("b")

    def test_side_as_old_database_that_comes_back_under_the_new_ones_certificate_is_refused(self):
        self.old_database_comes_back("a")

    def old_database_comes_back(self, side):
        a, b, _ = self.configured_pair()
        lost, left = (b, a) if side == "b" else (a, b)
        lost.stop_mgmtd()
        shutil.copytree(lost.folder / "mgmt", lost.folder / "kept")
        self.lose(lost, everything=False)
        replace(left, lost, side)
        self.whole(a, b)
        self.told(lost)
        told = lost.applied()
        lost.stop_mgmtd()
        shutil.rmtree(lost.folder / "mgmt")
        shutil.move(lost.folder / "kept", lost.folder / "mgmt")
        lost.start_mgmtd()
        wait_for("it to be refused", lambda: self.events(left, "node.refused"))
        wait_for("it to know", lambda: "took the place of this one" in json.dumps(lost.get("/api/v1/health").json))
        self.assertEqual(lost.applied(), told)
        self.assertFalse(self.events(left, "configuration.conflict"))
        # And takes the place once more.
        self.lose(lost, everything=False)
        replace(left, lost, side)
        self.whole(a, b)

    def test_a_node_with_its_old_database_and_a_new_certificate_is_told_what_to_move_away(self):
        a, b, volume_id = self.configured_pair()
        b.stop_mgmtd()
        for name in ("tls.crt", "tls.key"):
            (b.folder / "mgmt" / name).unlink()
        b.start_mgmtd()
        advice = wait_for("node-b to say so", lambda: next(
            (p["advice"] for p in b.get("/api/v1/health").json["problems"]
             if "does not take this node for its partner" in p["message"]), None))
        self.assertIn("run `lockstep node replace b` on node-a", advice)
        wait_for("node-a to say so", lambda: any(
            "move mgmt.db" in p.get("advice", "") for p in a.get("/api/v1/health").json["problems"]))
        invitation = a.post("/api/v1/nodes/b/replacement", {"confirm": "node-b"}).json["invitation"]
        refused = b.post("/api/v1/pair/join", {"invitation": invitation})
        self.problem(refused, 409, "conflict")
        self.assertIn("move mgmt.db", refused.json["detail"])
        self.lose(b, everything=False)  # as it was told
        self.assertEqual(b.job(b.post("/api/v1/pair/join", {"invitation": invitation}))["state"], "done")
        self.whole(a, b)
        self.assertEqual(b.volume("vm1")["id"], volume_id)

    def test_an_invitation_into_a_place_works_once_and_for_that_place_only(self):
        a, b, _ = self.configured_pair()
        self.lose(b)
        invitation = a.post("/api/v1/nodes/b/replacement", {"confirm": "node-b"}).json["invitation"]
        self.assertEqual(b.job(b.post("/api/v1/pair/join", {"invitation": invitation}))["state"], "done")
        b.stop_mgmtd()
        c = self.node("node-c")
        job = c.job(c.post("/api/v1/pair/join", {"invitation": invitation}))
        self.assertIn("used already", job["error"]["detail"])

    def test_a_volume_that_was_being_made_by_the_lost_node_is_deleted(self):
        a, b, volume_id = self.configured_pair()
        b.script(silent=["replica.create"])
        a.post("/api/v1/volumes", {"name": "vm2", "size_bytes": 1 << 30})
        wait_for("node-b to know of it", lambda: (v := b.volume("vm2")) and v["lifecycle"] == "creating")
        self.lose(a)
        b.script()
        replace(b, a, "a")
        self.whole(a, b)
        for node in (a, b):
            wait_for("vm2 to be gone", lambda n=node: n.volume("vm2") is None, 40)
            self.assertEqual(node.volume("vm1")["id"], volume_id)


class BothNodes(Lost):
    def saved(self, node):
        return node.folder / "volumes/configuration.saved"

    def test_the_pair_is_recovered_on_side_a_and_made_whole(self):
        self.recover_and_make_whole("a", "b")

    def test_the_pair_is_recovered_on_side_b_and_made_whole(self):
        self.recover_and_make_whole("b", "a")

    def recover_and_make_whole(self, first, side):
        a, b, volume_id = self.configured_pair()
        nodes = {"a": a, "b": b}
        here, there = nodes[first], nodes[side]
        revision = a.get("/api/v1/pair").json["revision"]
        wait_for("both to have saved", lambda: all(f'"n":{revision}'.encode() in self.saved(n).read_bytes() for n in (a, b)))
        self.assertEqual(self.saved(a).stat().st_mode & 0o777, 0o600)
        told = here.applied()
        self.lose(here)
        found = here.get("/api/v1/pair/recovery").json
        self.assertEqual((found["recoverable"], found["partner"]), (False, "paired"))
        self.assertIn(f"lockstep node replace {first}", found["problem"])
        self.problem(here.post("/api/v1/pair/recovery", {"confirm": "pair1"}), 409, "conflict")
        self.lose(there, everything=False)
        found = here.get("/api/v1/pair/recovery").json
        self.assertEqual((found["recoverable"], found["saved"]["pair"], found["saved"]["side"]), (True, "pair1", first))
        self.assertEqual([v["name"] for v in found["saved"]["volumes"]], ["vm1"])
        self.assertEqual([r["volume_id"] for r in found["replicas"]], [volume_id])
        self.problem(here.post("/api/v1/pair/recovery", {}), 409, "confirmation-needed", "/confirm")
        made = here.post("/api/v1/pair/recovery", {"confirm": "pair1"})
        self.assertEqual((made.status, made.json["local_side"]), (201, first))
        self.told(here)
        for order in (now := here.applied(), told):
            order["partner"]["link"]["tls"].pop("certificate"), order["partner"]["link"]["tls"].pop("key")  # of each process
        self.assertEqual(now["partner"], told["partner"])  # so that the link stands
        self.assertEqual(now["volumes"], told["volumes"])
        replace(here, there, side)
        self.whole(a, b)
        for node in (a, b):
            self.assertEqual(node.volume("vm1")["access"], [HOST1])
            self.assertEqual(node.post("/api/v1/tokens", {"name": f"ops-{node.name}"}).status, 201)

    def test_the_older_copy_gives_way_to_the_newer_one(self):
        a, b, _ = self.configured_pair()
        revision = a.get("/api/v1/pair").json["revision"]
        wait_for("node-b to have saved", lambda: f'"n":{revision}'.encode() in self.saved(b).read_bytes())
        old = self.saved(b).read_bytes()
        self.assertEqual(a.post("/api/v1/tokens", {"name": "later"}).status, 201)
        wait_for("node-b to have it", lambda: self.saved(b).read_bytes() != old)
        self.lose(a, everything=False)
        self.lose(b, everything=False)
        self.saved(b).write_bytes(old)
        found = b.get("/api/v1/pair/recovery").json
        self.assertEqual((found["recoverable"], found["partner"]), (False, "newer"))
        self.problem(b.post("/api/v1/pair/recovery", {"confirm": "pair1"}), 409, "conflict")
        self.assertEqual(a.post("/api/v1/pair/recovery", {"confirm": "pair1"}).status, 201)

    def test_a_single_node_is_recovered_and_usable_at_once(self):
        a = self.node("node-a")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        self.volume(a)
        self.lose(a)
        self.assertEqual(a.get("/api/v1/pair/recovery").json["partner"], "none")
        self.assertEqual(a.post("/api/v1/pair/recovery", {"confirm": "pair1"}).json["state"], "alone")
        self.assertEqual(a.post("/api/v1/tokens", {"name": "ops"}).status, 201)
        self.assertEqual(a.volume("vm1")["lifecycle"], "ready")

    def test_a_copy_that_is_garbled_or_hostile_is_refused_with_a_sentence(self):
        a = self.node("node-a")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        good = wait_for("the copy", lambda: self.saved(a).exists() and self.saved(a).read_bytes())
        self.lose(a)
        head, body = good.split(b"\n", 1)
        for content, why in ((b"", "not one that Lockstep made"), (b"x" * 4096, "not one that Lockstep made"),
                             (good[:-9], "damaged"), (head[:40], "not whole"),
                             (good.replace(b"pair1", b"pair2"), "damaged"),
                             (good.replace(b"configuration 1", b"configuration 2", 1), "newer version"),
                             (good[:len(head)] + b"\n" + b"[" * 100000, "damaged")):
            self.saved(a).write_bytes(content)
            found = a.get("/api/v1/pair/recovery").json
            self.assertFalse(found["recoverable"])
            self.assertIn(why, found["problem"])
            self.problem(a.post("/api/v1/pair/recovery", {"confirm": "pair1"}), 409, "conflict")
            self.assertIn(why, json.dumps(a.get("/api/v1/health").json))
        self.saved(a).unlink()
        self.saved(a).mkdir()
        self.assertIn("not a file that Lockstep made", a.get("/api/v1/pair/recovery").json["problem"])
        self.saved(a).rmdir()
        self.assertIn("no saved copy", a.get("/api/v1/pair/recovery").json["problem"])
        self.problem(a.post("/api/v1/pair/recovery", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post("/api/v1/pair/recovery", {"x": 1}), 422, "invalid", "/x")
        self.saved(a).write_bytes(good)
        self.assertEqual(a.post("/api/v1/pair/recovery", {"confirm": "pair1"}).status, 201)

    def test_another_pairs_copy_is_kept_aside(self):
        a = self.node("node-a")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        first = a.get("/api/v1/pair").json["id"]
        good = wait_for("the copy", lambda: self.saved(a).exists() and self.saved(a).read_bytes())
        self.lose(a)
        self.assertEqual(a.post("/api/v1/pair", {"name": "pair2", "arbiter": PREFERRED}).status, 201)
        self.assertEqual((a.folder / f"volumes/configuration.saved.{first}").read_bytes(), good)
