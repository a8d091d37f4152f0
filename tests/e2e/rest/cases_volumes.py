"""Volumes, from their making to their end."""
import json
import signal
import socket
import uuid

from nodes import wait_for
from scratch import GIB, HOST1, HOST2, Scratch, attack


class Volumes(Scratch):
    def test_a_volume_is_made_through_either_node_seen_from_both_and_deleted(self):
        a, b = self.pair()
        for lun, (maker, other) in enumerate(((a, b), (b, a))):  # the first one's is not given again at once
            volume_id = self.volume(maker)
            for node in (a, b):
                volume = node.get(f"/api/v1/volumes/{volume_id}").json
                self.assertEqual((volume["name"], volume["lun"], volume["lifecycle"]), ("vm1", lun, "ready"))
                wait_for("both replicas in sync", lambda n=node: [
                    r["state"] for r in n.get(f"/api/v1/volumes/{volume_id}").json["replicas"]] == ["in_sync"] * 2)
            self.well(other)
            self.problem(other.delete(f"/api/v1/volumes/{uuid.uuid4()}?confirm=vm1"), 404, "not-found")
            self.problem(other.delete(f"/api/v1/volumes/{volume_id}"), 409, "confirmation-needed", "?confirm")
            self.problem(other.delete(f"/api/v1/volumes/{volume_id}?confirm=x"), 409, "confirmation-needed", "?confirm")
            job = other.job(other.delete(f"/api/v1/volumes/{volume_id}?confirm=vm1"))
            self.assertEqual(job["state"], "done", job)
            for node in (a, b):
                wait_for("it to be gone", lambda n=node: n.get(f"/api/v1/volumes/{volume_id}").status == 404)
                self.assertEqual(json.loads((node.folder / "lockstepd.sock.replicas").read_text()), {})

    def test_what_is_wrong_with_a_volume_is_named_field_by_field(self):
        a, b = self.pair()
        for node in (a, b):
            self.problem(node.post("/api/v1/volumes", {
                "name": "a b", "size_bytes": 4097, "block_size_bytes": 520, "thin": "yes", "encrypted": 1,
                "access": [HOST1, 5], "x": 1}),
                422, "invalid", "/name", "/size_bytes", "/block_size_bytes", "/thin", "/encrypted", "/access/0", "/access/1",
                "/x")
            self.problem(node.post("/api/v1/volumes", {}), 422, "invalid", "/name", "/size_bytes")
            for size in (0, -4096, 1 << 63, 1 << 64, 1.5, "1", True, None, (64 << 40) + 4096):
                self.problem(node.post("/api/v1/volumes", {"name": "x", "size_bytes": size}), 422, "invalid", "/size_bytes")
            self.problem(node.post("/api/v1/volumes", raw=b"{]", headers={"Content-Type": "application/json"}), 400,
                         "malformed")
        self.assertEqual(a.get("/api/v1/volumes").json, {"items": []})

    def test_names_are_taken_once(self):
        a, b = self.pair()
        self.volume(a)
        for node in (a, b):
            self.problem(node.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB}), 409, "conflict", "/name")

    def test_a_partner_that_cannot_make_its_replica_leaves_nothing_behind_on_either(self):
        a, b = self.pair()
        b.script(fail={"replica.create": "No space left on device."})
        job = a.job(a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB}))
        self.assertEqual(job["state"], "failed")
        self.assertIn("No space left on device", job["error"]["detail"])
        self.assertIsNone(a.volume("vm1"))
        for node in (a, b):
            replicas = node.folder / "lockstepd.sock.replicas"
            self.assertEqual(json.loads(replicas.read_text()) if replicas.exists() else {}, {})
        b.script()
        self.volume(b)

    def test_a_partner_that_dies_in_the_middle_has_everything_taken_back_when_it_returns(self):
        a, b = self.pair(create_patience_seconds=2)
        b.script(silent=["replica.create"])
        reply = a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB})
        path = reply.headers["Location"]
        wait_for("the partner to be asked", lambda: "partner" in a.get(path).json["message"])
        b.stop_mgmtd(signal.SIGKILL)
        wait_for("the job to give up", lambda: "take everything back" in a.get(path).json["message"], 60)
        b.script()
        b.start_mgmtd()
        job = a.job(reply)
        self.assertEqual(job["state"], "failed", job)
        for node in (a, b):
            wait_for("nothing to be left", lambda n=node: n.volume("vm1") is None)
            replicas = node.folder / "lockstepd.sock.replicas"
            self.assertEqual(json.loads(replicas.read_text()) if replicas.exists() else {}, {})

    def test_a_job_goes_on_after_its_node_was_killed(self):
        a, b = self.pair()
        a.script(silent=["replica.create"])
        reply = a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB})
        a.stop_mgmtd(signal.SIGKILL)
        a.script()
        a.start_mgmtd()
        self.assertEqual(a.job(reply)["state"], "done")

    def test_lockstepd_restarted_is_put_right(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        a.stop_lockstepd(signal.SIGKILL)
        wait_for("the loss to be seen", lambda: [n["lockstepd"]["state"] for n in a.get("/api/v1/nodes").json["items"]]
                 == ["stopped", "running"])
        self.assertEqual(a.get("/api/v1/health").json["status"], "degraded")
        self.problem(b.post("/api/v1/volumes", {"name": "vm2", "size_bytes": GIB}), 503, "data-plane-away")
        wait_for("the partner to see it", lambda: [n["lockstepd"]["state"] for n in b.get("/api/v1/nodes").json["items"]]
                 == ["stopped", "running"])
        self.assertEqual(a.get(f"/api/v1/volumes/{volume_id}").json["replicas"][0]["state"], "unknown")
        a.start_lockstepd()
        self.well(a)
        kinds = [e["kind"] for e in a.get("/api/v1/events").json["items"]]
        self.assertIn("lockstepd.stopped", kinds)

    def test_a_volume_has_the_shape_that_was_asked_for(self):
        a, b = self.pair()
        for name, wish, logical, physical in (
                ("plain", {}, 512, 4096), ("n", {"block_format": "512n"}, 512, 512),
                ("k", {"block_format": "4kn"}, 4096, 4096), ("old", {"block_size_bytes": 4096}, 4096, 4096),
                ("all", {"block_format": "512e", "thin": False, "read_only": True, "removable": True,
                         "encrypted": True, "write_cache": True}, 512, 4096),
                ("secret", {"encrypted": True}, 512, 4096)):
            volume_id = self.volume(a, name, **wish)
            seen = b.get(f"/api/v1/volumes/{volume_id}").json
            self.assertEqual((seen["block_size_bytes"], seen["physical_block_size_bytes"]), (logical, physical))
            for key in ("read_only", "removable", "encrypted", "write_cache"):
                self.assertEqual(seen[key], wish.get(key, False), key)
            wanted = a.wanted_volume(volume_id)
            self.assertEqual((wanted["block_size"], wanted["physical_block_size"]), (logical, physical))
            for key in ("read_only", "removable", "write_cache"):
                self.assertEqual(wanted[key], wish.get(key, False), key)
            self.assertEqual(wanted["thin"], wish.get("thin", True))
            for node in (a, b):  # an older lockstepd would refuse the word, so it is there only if it is true
                self.assertEqual(node.wanted_volume(volume_id).get("encrypted"), wish.get("encrypted"), name)
                self.assertEqual(node.replica(volume_id).get("encrypted"), wish.get("encrypted"), name)
        for wrong in ({"block_format": "520"}, {"block_format": "4kn", "block_size_bytes": 512},
                      {"block_format": "512n", "block_size_bytes": 4096}):
            reply = a.post("/api/v1/volumes", {"name": "bad", "size_bytes": GIB, **wrong})
            self.assertEqual(reply.status, 422, reply)

    def test_an_import_is_checked_begun_and_can_be_cancelled(self):
        a, b = self.pair()
        for body, *pointers in (({}, "/name", "/source"), ({"name": "x y", "source": "http://h/t/0"}, "/source"),
                                ({"name": "m", "source": "iscsi://h/iqn.2005-10.org.example:d/0", "initiator": "me",
                                  "block_format": "4kn", "size_bytes": 5, "encrypted": "yes"},
                                 "/initiator", "/block_format", "/size_bytes", "/encrypted")):
            self.problem(a.post("/api/v1/imports", body), 422, "invalid", *pointers)
        self.problem(a.request("POST", "/api/v1/imports", raw=b"{", headers={"Content-Type": "application/json"}),
                     400, "malformed")
        silent = socket.create_server(("127.0.0.1", 0))  # takes connections and says nothing
        self.addCleanup(silent.close)
        source = f"iscsi://mover%hidden-from-all@127.0.0.1:{silent.getsockname()[1]}/iqn.2005-10.org.example:d/0"
        begun = b.post("/api/v1/imports", {"name": "moved", "source": source, "encrypted": True})
        self.assertEqual(begun.status, 202, begun)
        path = begun.headers["Location"]
        job = a.job(a.post(path + "/cancel"))
        self.assertEqual((job["state"], job["id"]), ("failed", begun.json["id"]))
        self.assertIn("cancelled", job["error"]["detail"])
        self.problem(a.post(path + "/cancel"), 409, "conflict")
        self.problem(a.post(f"/api/v1/jobs/{uuid.uuid4()}/cancel"), 404, "not-found")
        made = a.job(a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB}))
        self.problem(a.post(f"/api/v1/jobs/{made['id']}/cancel"), 409, "conflict")
        self.problem(a.post("/api/v1/imports", {"name": "vm1", "source": source}), 409, "conflict", "/name")
        for node in (a, b):
            self.assertNotIn(b"hidden-from-all", node.get("/api/v1/jobs").raw)
            self.assertNotIn("hidden-from-all", node.log())

    def test_use_may_change_later_and_shape_may_not(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        path = f"/api/v1/volumes/{volume_id}"
        changed = b.patch(path, {"read_only": True, "write_cache": True})
        self.assertEqual((changed.status, changed.json["read_only"], changed.json["write_cache"]), (200, True, True))
        for node in (a, b):
            wait_for("lockstepd to be told", lambda n=node: n.wanted_volume(volume_id)["read_only"]
                     and n.wanted_volume(volume_id)["write_cache"])
        changed = a.patch(path, {"read_only": False})
        self.assertEqual((changed.json["read_only"], changed.json["write_cache"]), (False, True))
        for field, value in (("thin", False), ("block_format", "4kn"), ("block_size_bytes", 4096), ("removable", True),
                             ("encrypted", True)):
            reply = a.patch(path, {field: value})
            self.problem(reply, 422, "invalid", f"/{field}")
            self.assertIn("can't be changed", reply.json["errors"][0]["detail"])
        self.problem(a.patch(path, {"read_only": "yes"}), 422, "invalid", "/read_only")

    def test_a_volume_is_renamed(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        self.volume(a, "vm2")
        path = f"/api/v1/volumes/{volume_id}"
        changed = b.patch(path, {"name": "mail"})
        self.assertEqual((changed.status, changed.json["name"]), (200, "mail"))
        for node in (a, b):
            wait_for("lockstepd to be told", lambda n=node: n.wanted_volume(volume_id)["name"] == "mail")
            wait_for("the other node to show it", lambda n=node: n.volume("mail")["id"] == volume_id)
        wait_for("the other node to hear of it",
                 lambda: "mail was called vm1 before." in [e["message"] for e in b.get("/api/v1/events").json["items"]])
        self.problem(a.patch(path, {"name": "vm2"}), 409, "conflict", "/name")
        self.problem(a.patch(path, {"name": "a b"}), 422, "invalid", "/name")
        self.assertEqual(a.patch(path, {"name": "mail"}).status, 200, "as it is called already")

    def test_a_volume_grows_by_a_job_and_never_shrinks(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        path = f"/api/v1/volumes/{volume_id}"
        for by, size in ((a, 2 * GIB), (b, 3 * GIB)):
            begun = by.patch(path, {"size_bytes": size})
            self.assertEqual((begun.status, begun.json["kind"]), (202, "volume.grow"))
            job = by.job(begun)
            self.assertEqual((job["state"], job["volume_id"]), ("done", volume_id), job)
            for node in (a, b):
                wait_for("lockstepd to be told", lambda n=node: n.wanted_volume(volume_id)["size"] == size)
                self.assertEqual(node.get(path).json["size_bytes"], size)
        self.assertIn("volume.grown", [e["kind"] for e in a.get("/api/v1/events").json["items"]])
        for size, why in ((2 * GIB, "can only grow"), (3 * GIB, "already"), (3 * GIB + 512, "multiple of 4096"),
                          (1 << 47, "at most"), ("4GiB", "")):
            reply = a.patch(path, {"size_bytes": size})
            self.problem(reply, 422, "invalid", "/size_bytes")
            self.assertIn(why, reply.json["errors"][0]["detail"])
        self.problem(a.patch(path, {"size_bytes": 4 * GIB, "read_only": True}), 422, "invalid", "/size_bytes")
        for node in (a, b):
            node.script(fail={"replica.grow": "Only 7 bytes are free."})
            job = a.job(a.patch(path, {"size_bytes": 4 * GIB}))
            self.assertEqual(job["state"], "failed")
            self.assertIn("Only 7 bytes are free.", job["error"]["detail"])
            self.assertIn("as it was", job["error"]["detail"])
            node.script()
            self.assertEqual(b.get(path).json["size_bytes"], 3 * GIB)
        b.script(state="syncing_target")
        wait_for("the resync to be seen", lambda: "syncing_target" in
                 [r["state"] for r in a.get(path).json["replicas"]])
        reply = a.patch(path, {"size_bytes": 4 * GIB})
        self.problem(reply, 409, "conflict")
        self.assertIn("when both are in sync", reply.json["detail"])
        b.script()
        b.stop_lockstepd()
        wait_for("lockstepd's end to be seen", lambda: a.patch(path, {"size_bytes": 4 * GIB}).status == 503)

    @attack
    def test_a_new_volume_is_closed_until_somebody_is_let_in(self):
        a, b = self.pair()
        a.post("/api/v1/initiators", {"iqn": HOST1})
        job = a.job(a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB}))
        self.assertIn("No host may use it yet", job["message"])
        self.assertIn("lockstep volume access vm1 --add IQN", job["message"])
        path = f"/api/v1/volumes/{job['volume_id']}"

        def stands(any_initiator, access):
            for node in (a, b):
                wait_for("the change", lambda n=node: [
                    n.get(path).json[key] for key in ("any_initiator", "access")] == [any_initiator, access])
                # An older lockstepd would refuse the word, and takes an empty list for anybody: it is there if it must be.
                told = False if not any_initiator and not access else None
                wait_for("lockstepd to be told", lambda n=node: (
                    n.wanted_volume(job["volume_id"]).get("any_initiator"),
                    [e["initiator"] for e in n.wanted_volume(job["volume_id"])["access"]]) == (told, access))
        stands(False, [])
        for change, any_initiator, access in (
                ({"access": [HOST1]}, False, [HOST1]), ({"any_initiator": True}, True, []), ({"access": [HOST1]}, False, [HOST1]),
                ({"any_initiator": False}, False, [HOST1]), ({"access": []}, False, [])):
            self.assertEqual(b.patch(path, change).status, 200, change)
            stands(any_initiator, access)
        named = a.job(a.post("/api/v1/volumes", {"name": "vm2", "size_bytes": GIB, "access": [HOST1]}))
        opened = a.job(a.post("/api/v1/volumes", {"name": "vm3", "size_bytes": GIB, "any_initiator": True}))
        for made in (named, opened):
            self.assertNotIn("No host", made["message"])
        self.problem(a.post("/api/v1/volumes", {"name": "vm4", "size_bytes": GIB, "access": [HOST1], "any_initiator": True}),
                     422, "invalid", "/any_initiator")

    @attack
    def test_a_secret_has_one_use(self):
        a, b = self.pair()
        own, targets = "s" * 12, "t" * 12
        made = a.post("/api/v1/initiators", {"iqn": HOST1, "chap": {"user": "u", "secret": own},
                                             "mutual_chap": {"user": "m", "secret": targets}})
        self.assertEqual(made.status, 201, made)

        def refused(pointer, **body):
            self.problem(a.post("/api/v1/initiators", {"iqn": HOST2, **body}), 422, "invalid", pointer)
        refused("/chap/secret", chap={"user": "other", "secret": own})
        refused("/chap/secret", chap={"user": "other", "secret": targets})
        refused("/mutual_chap/secret", chap={"user": "v", "secret": "v" * 12}, mutual_chap={"user": "m", "secret": own})
        for taken in (own, targets):
            self.problem(a.patch("/api/v1/pair", {"discovery_chap": {"user": "finder", "secret": taken}}), 422, "invalid",
                         "/discovery_chap/secret")
        self.assertEqual(a.patch("/api/v1/pair", {"discovery_chap": {"user": "finder", "secret": "f" * 12}}).status, 200)
        refused("/chap/secret", chap={"user": "other", "secret": "f" * 12})
        # The target is one towards all hosts.
        made = a.post("/api/v1/initiators", {"iqn": HOST2, "chap": {"user": "v", "secret": "v" * 12},
                                             "mutual_chap": {"user": "m", "secret": targets}})
        self.assertEqual(made.status, 201, made)

    def test_access_lists_and_initiators_hold_together(self):
        a, b = self.pair()
        self.problem(a.get(f"/api/v1/initiators/{HOST1}"), 404, "not-found")
        made = b.post("/api/v1/initiators", {"iqn": HOST1, "chap": {"user": "u", "secret": "s" * 12},
                                             "mutual_chap": {"user": "m", "secret": "t" * 12}})
        self.assertEqual((made.status, made.headers["Location"]), (201, f"/api/v1/initiators/{HOST1}"))
        self.assertNotIn(b"ssss", made.raw)
        self.problem(a.post("/api/v1/initiators", {"iqn": HOST1}), 409, "conflict", "/iqn")
        self.problem(a.post("/api/v1/initiators", {"iqn": "x", "chap": {"user": "", "secret": "short"},
                                                   "mutual_chap": {"user": "m", "secret": "short"}}),
                     422, "invalid", "/iqn", "/chap/user", "/chap/secret", "/mutual_chap/secret")
        self.problem(a.post("/api/v1/initiators", {"iqn": HOST2, "mutual_chap": {"user": "m", "secret": "t" * 12}}),
                     422, "invalid", "/mutual_chap")
        self.problem(a.post("/api/v1/initiators", {"iqn": HOST2, "chap": {"user": "m", "secret": "t" * 12, "x": 1}}),
                     422, "invalid", "/chap/x")
        self.problem(a.post("/api/v1/initiators", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        volume_id = self.volume(a, access=[HOST1])
        path = f"/api/v1/volumes/{volume_id}"
        for node in (a, b):
            listed = node.get("/api/v1/initiators").json["items"]
            self.assertEqual([(i["iqn"], i["chap"], i["volumes"]) for i in listed], [(HOST1, "mutual", [volume_id])])
            self.assertEqual(node.get(f"/api/v1/initiators/{HOST1.replace(':', '%3A')}").status, 200)
        self.problem(b.delete(f"/api/v1/initiators/{HOST1}"), 409, "conflict")
        self.problem(b.patch(path, {"access": [HOST2]}), 422, "invalid", "/access/0")
        self.problem(b.patch(path, {"access": [HOST1, HOST1]}), 422, "invalid", "/access/1")
        self.problem(b.patch(path, {"thin": False}), 422, "invalid", "/thin")
        self.problem(b.patch(path, {}), 422, "invalid", "")
        self.problem(b.patch(path, raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(b.patch(f"/api/v1/volumes/{uuid.uuid4()}", {"access": []}), 404, "not-found")
        self.problem(b.patch(path, {"access": [HOST1], "any_initiator": True}), 422, "invalid", "/any_initiator")
        changed = b.patch(path, {"access": []})
        self.assertEqual((changed.status, changed.json["access"], changed.json["any_initiator"]), (200, [], False))
        self.assertEqual(b.delete(f"/api/v1/initiators/{HOST1}").status, 204)
        self.problem(a.delete(f"/api/v1/initiators/{HOST1}"), 404, "not-found")

    def test_actions_reach_the_replica_that_is_meant(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        path = f"/api/v1/volumes/{volume_id}/actions"
        for node in (a, b):
            for side in "ab":
                job = node.job(node.post(path, {"action": "leave", "side": side}))
                self.assertEqual((job["kind"], job["state"]), ("volume.leave", "done"), job)
        self.problem(a.post(path, {"action": "force_solo", "side": "b"}), 409, "confirmation-needed", "/confirm")
        self.problem(a.post(path, {"action": "give_up", "side": "b", "confirm": "x"}), 409, "confirmation-needed", "/confirm")
        self.problem(a.post(path, {"action": "dance", "side": "c", "x": 1}), 422, "invalid", "/action", "/side", "/x")
        self.problem(a.post(path, raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post(f"/api/v1/volumes/{uuid.uuid4()}/actions", {"action": "leave", "side": "a"}), 404, "not-found")
        b.script(fail={"volume.force_solo": "The replica is inconsistent."})
        job = a.job(a.post(path, {"action": "force_solo", "side": "b", "confirm": "vm1", "despite_partner": True}))
        self.assertEqual(job["state"], "failed")
        self.assertIn("inconsistent", job["error"]["detail"])

    def test_a_node_cut_off_is_not_forced_while_the_other_says_that_it_serves(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        path = f"/api/v1/volumes/{volume_id}/actions"
        force = {"action": "force_solo", "side": "a", "confirm": "vm1"}
        a.script(state="waiting", serving=False, linked=False, epoch={"members": "both"})
        b.script(state="solo", linked=False, epoch={"members": "b"})
        for node in (a, b):
            wait_for("both to know", lambda n=node: "Served by node-b alone" in json.dumps(n.get("/api/v1/health").json))
            refused = node.post(path, force)
            self.problem(refused, 409, "conflict")
            for words in ("node-b says at this moment that it serves vm1 (solo)", "lost later", "--despite-partner"):
                self.assertIn(words, refused.json["detail"])
        job = a.job(a.post(path, {**force, "despite_partner": True}))
        self.assertEqual(job["state"], "done", job)
        a.script(state="solo", linked=False, epoch={"members": "a"})
        for node in (a, b):
            health = wait_for("the health to call it by its name", lambda n=node: (h := n.get("/api/v1/health").json)
                              and "vm1: Both node-a and node-b serve it alone" in h["summary"] and h)
            self.assertEqual(health["status"], "critical")
        b.script(state="waiting", serving=False, linked=False, epoch={"members": "both"})
        wait_for("both to know", lambda: "Served by node-a alone" in json.dumps(a.get("/api/v1/health").json))
        job = b.job(b.post(path, {"action": "force_solo", "side": "a", "confirm": "vm1"}))
        self.assertEqual(job["state"], "done", "a node that serves nothing is in nobody's way")

    def test_a_lost_copy_is_replaced_through_either_node(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        path = f"/api/v1/volumes/{volume_id}/replicas/b/replace"

        def replica_b():
            return a.get(f"/api/v1/volumes/{volume_id}").json["replicas"][1]
        self.problem(a.post(path, {}), 409, "conflict")
        self.problem(a.post(path, {"store": "/srv/new"}), 409, "confirmation-needed", "/confirm")
        self.problem(a.post(path, {"store": "srv", "x": 1}), 422, "invalid", "/x")
        self.problem(a.post(path, {"store": "srv"}), 422, "invalid", "/store")
        self.problem(a.post(path, raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post(path.replace("/b/", "/c/"), {}), 404, "not-found")
        self.problem(a.post(path.replace(volume_id, str(uuid.uuid4())), {}), 404, "not-found")
        self.assertEqual((replica_b()["lost"], replica_b()["store"]), (False, None))
        a.script(state="solo", epoch={"members": "a"})
        b.script(lost=[volume_id])
        b.stop_lockstepd()
        b.start_lockstepd()
        wait_for("the loss to be told", lambda: (r := replica_b())["lost"] and "missing" in r["reason"])
        wait_for("the health to say what to do",
                 lambda: "lockstep replica replace vm1 --node b" in json.dumps(a.get("/api/v1/health").json))
        store = b.folder / "new"
        store.mkdir()
        reply = b.post(path, {"store": f"{store}/"})
        wait_for("the new copy to be told of", lambda: any(
            v["data"] == f"{store}/{volume_id}.2.data" for v in b.applied()["volumes"]))
        a.script(state="in_sync")
        b.script(lost=[volume_id], state="in_sync")
        job = b.job(reply)
        self.assertEqual((job["kind"], job["state"]), ("replica.replace", "done"), job)
        made = b.replica(volume_id)
        self.assertEqual((made["epoch"]["members"], made["clean"], made["data"]),
                         ("a", False, f"{store}/{volume_id}.2.data"))
        self.assertTrue(a.wanted_volume(volume_id)["data"].endswith(f"/{volume_id}.data"))
        self.assertEqual(replica_b()["store"], str(store))
        wait_for("the new copy not to be called lost", lambda: not replica_b()["lost"])
        b.stop_mgmtd()
        self.problem(a.post(path, {}), 503, "not-current")

    def test_an_action_works_where_the_other_node_burned_down(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        a.stop_mgmtd(signal.SIGKILL)
        a.stop_lockstepd(signal.SIGKILL)
        self.gone(b, a)
        path = f"/api/v1/volumes/{volume_id}/actions"
        job = b.job(b.post(path, {"action": "force_solo", "side": "b", "confirm": "vm1"}))
        self.assertEqual(job["state"], "done", job)
        job = b.job(b.post(path, {"action": "leave", "side": "a"}))
        self.assertEqual(job["state"], "failed", job)
