"""Neither a database nor a saved copy of the configuration is left: it is made anew from the replicas."""
import shutil
import signal
import uuid

import replica_files
from cases_lost import Lost
from nodes import PREFERRED, join
from scratch import HOST1


class FromReplicas(Lost):
    """Neither a database nor a saved copy is left."""

    def lose_all(self, node):
        node.stop_mgmtd(signal.SIGKILL)
        shutil.rmtree(node.folder / "mgmt")
        (node.folder / "volumes/configuration.saved").unlink()
        node.start_mgmtd()

    def idle(self, node, uptime_ms=100_000):
        """Its lockstepd begins anew, and has been there for long."""
        node.stop_lockstepd()
        node.script(uptime_ms=uptime_ms)
        node.subscribed.unlink(missing_ok=True)
        node.start_lockstepd()
        node.wait_until_spoken_to()

    def fresh(self, *replicas):
        """A node in no pair that has such files."""
        a = self.node("node-a")
        for replica in replicas:
            replica_files.write(a.folder / "volumes", **replica)
        self.idle(a)
        return a

    def contents(self, node):
        def beginning(path):
            with open(path, "rb") as file:
                return file.read(65536)
        return {path.name: beginning(path) for path in (node.folder / "volumes").iterdir()}

    def refused(self, node, body, status, kind, *pointers):
        before = self.contents(node)
        reply = node.post("/api/v1/pair/recovery", body)
        self.problem(reply, status, kind, *pointers)
        self.assertEqual(node.get("/api/v1/pair").json["state"], "none")
        self.assertEqual(self.contents(node), before)
        return reply.json["detail"]

    def test_the_pair_is_made_anew_on_side_a_and_made_whole(self):
        self.make_anew_and_whole("a", "b")

    def test_the_pair_is_made_anew_on_side_b_and_made_whole(self):
        self.make_anew_and_whole("b", "a")

    def make_anew_and_whole(self, first, side):
        a, b, volume_id = self.configured_pair()
        here, there = {"a": (a, b), "b": (b, a)}[first]
        pair, before, told = a.get("/api/v1/pair").json, a.volume("vm1"), here.applied()
        for node, of in ((here, first), (there, side)):
            replica_files.write(node.folder / "volumes", pair["id"], volume_id, of)
        self.lose_all(here)
        self.lose_all(there)
        self.assertIn("still serves a volume", self.refused(here, {"name": "pair1", "confirm": "pair1"}, 409, "conflict"))
        self.idle(here, uptime_ms=15_000)
        self.assertIn("Try again in 60 seconds.", self.refused(here, {"name": "pair1", "confirm": "pair1"}, 409, "conflict"))
        self.idle(here)
        found = here.get("/api/v1/pair/recovery").json
        self.assertEqual((found["recoverable"], found["saved"], found["problem"]), (True, None, ""))
        self.assertEqual((found["rebuild"]["pair_id"], found["rebuild"]["side"]), (pair["id"], first))
        self.assertEqual([(v["name"], v["lun"], v["epoch"]["members"]) for v in found["rebuild"]["volumes"]], [("vm1", 0, "both")])
        self.refused(here, {"confirm": "pair1"}, 422, "invalid", "/name")
        self.refused(here, {"name": "pair1"}, 409, "confirmation-needed", "/confirm")
        made = here.post("/api/v1/pair/recovery", {"name": "pair1", "confirm": "pair1"})
        self.assertEqual((made.status, made.json["state"], made.json["local_side"]), (201, "alone", first))
        self.assertEqual(made.json["id"], pair["id"])
        self.assertRegex(made.json["target_name"], f"^{pair['target_name']}-[0-9a-f]{{8}}$")
        self.told(here)
        volume = here.wanted_volume(volume_id)
        known = next(v for v in told["volumes"] if v["id"] == volume_id)
        for field in ("serial", "size", "block_size", "data", "metadata", "name"):
            self.assertEqual(volume[field], known[field])
        self.assertEqual((volume["access"], volume["any_initiator"], here.applied()["partner"]), ([], False, None))
        # Hosts can be let in before the other node is there, on either side.
        self.assertEqual(here.post("/api/v1/initiators", {"iqn": HOST1}).status, 201)
        self.assertEqual(here.patch(f"/api/v1/volumes/{volume_id}", {"access": [HOST1]}).status, 200)
        if first == "b":
            self.problem(here.post("/api/v1/volumes", {"name": "vm2", "size_bytes": 1 << 30}), 409, "conflict")
        self.problem(here.post(f"/api/v1/nodes/{side}/replacement", {"confirm": f"node-{side}"}), 409, "conflict")
        join(here, there)
        self.whole(a, b)
        self.assertEqual([n["side"] for n in there.get("/api/v1/nodes").json["items"] if n["local"]], [side])
        self.told(here, there)
        secrets = [node.applied()["partner"]["link"]["chap_secret"] for node in (here, there)]
        self.assertEqual(secrets[0], secrets[1])
        self.assertNotEqual(secrets[0], told["partner"]["link"]["chap_secret"])
        for node in (a, b):
            self.assertEqual(node.volume("vm1")["access"], [HOST1])
            self.assertEqual(node.volume("vm1")["serial"], before["serial"])
            self.assertEqual(node.post("/api/v1/tokens", {"name": f"ops-{node.name}"}).status, 201)

    def test_an_operator_says_of_which_pair_where_replicas_of_several_are_there(self):
        one, other = ({"pair": str(uuid.uuid4()), "volume": str(uuid.uuid4()), "name": name} for name in ("vm1", "vm2"))
        a = self.fresh(one, other)
        found = a.get("/api/v1/pair/recovery").json
        self.assertEqual((found["recoverable"], found["rebuild"]), (False, None))
        for replica in (one, other):
            self.assertIn(f"{replica['pair']} ({replica['name']})", found["problem"])
        self.refused(a, {"name": "pair1", "confirm": "pair1"}, 409, "conflict")
        self.refused(a, {"name": "pair1", "confirm": "pair1", "pair": str(uuid.uuid4())}, 409, "conflict")
        self.refused(a, {"name": "pair1", "confirm": "pair1", "pair": "first"}, 422, "invalid", "/pair")
        self.problem(a.get("/api/v1/pair/recovery?pair=first"), 400, "malformed")
        found = a.get(f"/api/v1/pair/recovery?pair={other['pair']}").json
        self.assertEqual([v["id"] for v in found["rebuild"]["volumes"]], [other["volume"]])
        self.assertIn("another pair", next(r for r in found["replicas"] if r["volume_id"] == one["volume"])["left_alone"])
        self.assertEqual(a.post("/api/v1/pair/recovery", {"name": "pair2", "confirm": "pair2", "pair": other["pair"]}).status, 201)
        self.assertEqual((a.get("/api/v1/pair").json["id"], a.volume("vm1")), (other["pair"], None))

    def test_replicas_of_both_sides_or_copies_that_leave_a_choice_are_refused(self):
        pair = str(uuid.uuid4())
        one, other = ({"pair": pair, "volume": str(uuid.uuid4()), "name": name} for name in ("vm1", "vm2"))
        a = self.fresh(one, {**other, "side": "b"})
        self.assertIn("Replicas of both sides", self.refused(a, {"name": "pair1", "confirm": "pair1"}, 409, "conflict"))
        replica_files.write(a.folder / "volumes", **other)
        replica_files.write(a.folder / "volumes", **other, copy=2, members="b")
        self.assertIn("was not whole yet", self.refused(a, {"name": "pair1", "confirm": "pair1"}, 409, "conflict"))
        replica_files.write(a.folder / "volumes", **other, copy=2)
        self.assertEqual(a.post("/api/v1/pair/recovery", {"name": "pair1", "confirm": "pair1"}).status, 201)
        self.told(a)
        self.assertTrue(a.wanted_volume(other["volume"])["data"].endswith(f"{other['volume']}.2.data"))

    def test_metadata_that_is_damaged_or_hostile_is_listed_and_left_alone(self):
        pair = str(uuid.uuid4())
        volumes = [str(uuid.uuid4()) for _ in range(4)]
        good, torn, serial, name = volumes
        a = self.fresh({"pair": pair, "volume": good}, {"pair": pair, "volume": torn, "name": "torn"},
                       {"pair": pair, "volume": serial, "serial": "\x1b[2J"}, {"pair": pair, "volume": name, "name": "\x1b]0;x\x07"})
        file = a.folder / f"volumes/{torn}.meta"
        content = bytearray(file.read_bytes())
        content[200] ^= 1
        content[4096 + 200] ^= 1
        file.write_bytes(content)
        before = self.contents(a)
        found = a.get("/api/v1/pair/recovery").json
        alone = {r["volume_id"]: r["left_alone"] for r in found["replicas"]}
        self.assertIn("no superblock is left", alone[torn])
        self.assertIn("serial is not one", alone[serial])
        self.assertEqual((alone[good], alone[name]), (None, None))
        self.assertEqual({v["id"]: v["name"] for v in found["rebuild"]["volumes"]}, {good: "vm1", name: f"volume-{name[:8]}"})
        self.assertEqual(a.post("/api/v1/pair/recovery", {"name": "pair1", "confirm": "pair1"}).status, 201)
        after = self.contents(a)
        self.assertEqual({k: after[k] for k in before}, before)

    def test_a_witness_is_the_one_that_the_replicas_name_or_is_named_anew(self):
        pair, volume = str(uuid.uuid4()), str(uuid.uuid4())
        a = self.fresh({"pair": pair, "volume": volume, "arbiter": replica_files.WITNESS_ARBITER, "address": "https://10.0.0.10:2379"})
        self.assertEqual(a.get("/api/v1/pair/recovery").json["rebuild"]["arbiter"]["endpoints"], ["https://10.0.0.10:2379"])
        wanted = {"name": "pair1", "confirm": "pair1"}
        self.refused(a, wanted, 422, "invalid", "/arbiter/ca")
        self.refused(a, {**wanted, "arbiter": PREFERRED}, 422, "invalid", "/arbiter")
        elsewhere = {"kind": "witness", "endpoints": ["http://10.0.0.99:2379"]}
        made = a.post("/api/v1/pair/recovery", {**wanted, "arbiter": elsewhere})
        self.assertEqual((made.status, made.json["arbiter"]["endpoints"]), (201, elsewhere["endpoints"]))

    def test_a_saved_copy_takes_no_other_names(self):
        a = self.node("node-a")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        self.lose(a)
        self.problem(a.post("/api/v1/pair/recovery", {"name": "pair2", "confirm": "pair1"}), 422, "invalid")
        self.assertEqual(a.post("/api/v1/pair/recovery", {"confirm": "pair1"}).status, 201)
