"""Two nodes: how they become a pair, and what holds while one is away."""
import os
import signal
import subprocess
import time
import uuid

from nodes import PREFERRED, join, make_pair, wait_for
from scratch import GIB, HOST1, HOST2, Scratch, attack


def certificate_and_key(folder):
    """A certificate that signs itself, twice, and its key: PEM."""
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                           "2", "-subj", "/CN=test", "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    certificate = (folder / "certificate.pem").read_text()
    return certificate, certificate, (folder / "key.pem").read_text()


def identity(folder, since, until):
    """tls.crt and tls.key of a node, good from and until these days."""
    folder.mkdir(parents=True)
    settings = folder / "settings"
    settings.write_text(f"[ca]\ndefault_ca=it\n[it]\ndatabase={folder}/index\nnew_certs_dir={folder}\nrand_serial=yes\n"
                        "default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n")
    (folder / "index").touch()
    for command in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test", "-keyout",
                     folder / "tls.key", "-out", folder / "request"],
                    ["ca", "-batch", "-notext", "-selfsign", "-config", settings, "-keyfile", folder / "tls.key", "-in",
                     folder / "request", "-startdate", since, "-enddate", until, "-out", folder / "tls.crt"]):
        made = subprocess.run(["openssl", *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
    for file in folder.iterdir():
        file.unlink() if file.name not in ("tls.crt", "tls.key") else file.chmod(0o600)


class Identity(Scratch):
    def test_nodes_know_one_another_by_the_certificate_itself_not_by_its_dates(self):
        a, b = self.node("node-a", start=False), self.node("node-b", start=False)
        identity(a.folder / "mgmt", "20100101000000Z", "20200101000000Z")  # its end has come
        identity(b.folder / "mgmt", "20900101000000Z", "20990101000000Z")  # or a clock is wrong by decades
        pinned = [(node.folder / "mgmt/tls.crt").read_text() for node in (a, b)]
        for node in (a, b):
            node.ca = False
            node.start()
        make_pair(a, b)
        volume_id = self.volume(b)
        self.assertEqual(a.get(f"/api/v1/volumes/{volume_id}").json["name"], "vm1")
        for node in (a, b):
            node.stop_mgmtd()
            node.start_mgmtd()
        wait_for("both to talk again", lambda: all(
            n["reachable"] for node in (a, b) for n in node.get("/api/v1/nodes").json["items"]))
        self.assertEqual(pinned, [(node.folder / "mgmt/tls.crt").read_text() for node in (a, b)])


class Discovery(Scratch):
    @attack
    def test_discovery_asks_for_a_secret_on_both_nodes_once_it_is_told_to(self):
        a, b = self.pair()
        finder = {"user": "finder", "secret": "f" * 12}

        def both_ask_for(wanted):
            for node in (a, b):
                wait_for("lockstepd to be told",
                         lambda n=node: n.applied() and n.applied()["target"]["discovery_auth"] == wanted)
        both_ask_for(None)
        changed = b.patch("/api/v1/pair", {"discovery_chap": finder})
        self.assertEqual((changed.status, changed.json["discovery_chap_user"]), (200, "finder"), changed)
        self.assertNotIn(finder["secret"], changed.raw.decode())
        both_ask_for({"chap_user": "finder", "chap_secret": "f" * 12, "mutual_user": None, "mutual_secret": None})
        a.stop_mgmtd()
        a.start_mgmtd()
        self.assertEqual(a.get("/api/v1/pair").json["discovery_chap_user"], "finder")
        self.assertIsNone(a.patch("/api/v1/pair", {"discovery_chap": None}).json["discovery_chap_user"])
        both_ask_for(None)

    def test_the_pair_is_renamed_and_its_target_is_not(self):
        a, b = self.pair()
        target = a.get("/api/v1/pair").json["target_name"]
        changed = b.patch("/api/v1/pair", {"name": "rack7"})
        self.assertEqual((changed.status, changed.json["name"], changed.json["target_name"]), (200, "rack7", target), changed)
        wait_for("the other node to know", lambda: a.get("/api/v1/pair").json["name"] == "rack7")
        wait_for("the event on the other node", lambda: "The pair pair1 is called rack7 now." in [
            e["message"] for e in b.get("/api/v1/events").json["items"]])
        self.problem(a.patch("/api/v1/pair", {"name": "Rack 7"}), 422, "invalid", "/name")

    def test_what_is_wrong_with_its_secret_is_named_field_by_field(self):
        a = self.node("node-a")
        self.assertEqual(a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED}).status, 201)
        self.problem(a.patch("/api/v1/pair", {"discovery_chap": {"user": "", "secret": "short"}}), 422, "invalid",
                     "/discovery_chap/user", "/discovery_chap/secret")
        self.problem(a.patch("/api/v1/pair", {}), 422, "invalid", "")
        self.problem(a.patch("/api/v1/pair", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.assertEqual(a.patch("/api/v1/pair", {"discovery_chap": None}).status, 200)

    def test_a_node_in_no_pair_has_no_discovery_to_change(self):
        self.problem(self.node("node-a").patch("/api/v1/pair", {"discovery_chap": None}), 409, "no-pair")


class PairSetUp(Scratch):
    def test_a_pair_is_made_joined_and_seen_from_both_sides(self):
        a, b = self.node("node-a"), self.node("node-b")
        self.problem(a.post("/api/v1/pair/invitations"), 409, "no-pair")
        self.problem(a.post("/api/v1/volumes", {"name": "x", "size_bytes": GIB}), 409, "no-pair")
        made = a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED,
                                       "node": {"name": "left", "portals": [a.portal]}, "settings": {"lease_ms": 2000}})
        self.assertEqual((made.status, made.json["state"], made.json["local_side"]), (201, "alone", "a"))
        self.problem(a.post("/api/v1/pair", {"name": "other", "arbiter": PREFERRED}), 409, "conflict")
        b_token = b.token
        join(a, b)
        for node, side in ((a, "a"), (b, "b")):
            pair = node.get("/api/v1/pair").json
            self.assertEqual((pair["state"], pair["local_side"], pair["settings"]["lease_ms"]), ("complete", side, 2000))
            nodes = node.get("/api/v1/nodes").json["items"]
            self.assertEqual([(n["side"], n["name"]) for n in nodes], [("a", "left"), ("b", "node-b")])
        # Both nodes' first tokens work on both: nobody is locked out.
        self.assertEqual(a.get("/api/v1/pair", token=b_token).status, 200)
        self.assertEqual(b.get("/api/v1/pair", token=a.token).status, 200)
        self.problem(a.post("/api/v1/pair/invitations"), 409, "conflict")
        self.problem(b.post("/api/v1/pair/join", {"invitation": "lsi1.x.y"}), 409, "conflict")
        wait_for("health to tell what the file says", lambda: any(
            "says node_name = node-a, which is not in force: the pair has left" in problem["message"]
            for problem in a.get("/api/v1/health").json["problems"]))
        a.name = "left"
        a.write_configuration()
        self.well(a)

    def test_a_pair_has_the_id_that_it_is_given(self):
        a, given = self.node("node-a"), str(uuid.uuid4())
        for wrong in ("pair1", "00000000-0000-0000-0000-000000000000"):
            self.problem(a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED, "id": wrong}), 422, "invalid", "/id")
        made = a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED, "id": given})
        self.assertEqual((made.status, made.json["id"]), (201, given), made)

    def test_what_is_wrong_with_a_pair_is_named_field_by_field(self):
        a = self.node("node-a")
        self.problem(a.post("/api/v1/pair", {
            "name": "Pair 1", "arbiter": {"kind": "witness"}, "target_name": "x", "colour": "red",
            "node": {"name": "a b", "portals": ["here"], "link_address": "0.0.0.0:1", "x": 1},
            "settings": {"lease_ms": 1}}), 422, "invalid", "/colour", "/node/x", "/settings/lease_ms")
        self.problem(a.post("/api/v1/pair", {
            "name": "Pair 1", "arbiter": {"kind": "witness"}, "target_name": "x",
            "node": {"name": "a b", "portals": ["here"], "link_address": "0.0.0.0:1"}}), 422, "invalid",
            "/name", "/arbiter/endpoints", "/target_name", "/node/name", "/node/portals/0", "/node/link_address")
        self.problem(a.post("/api/v1/pair", raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.assertEqual(a.get("/api/v1/pair").json["state"], "none")

    @attack
    def test_a_witness_is_tried_before_anything_is_recorded_and_its_secrets_are_never_given_out(self):
        a, b = self.node("node-a"), self.node("node-b")
        ca, certificate, key = certificate_and_key(self.folder)
        secured = {"kind": "witness", "endpoints": ["https://127.0.0.1:2379"], "ca": ca, "certificate": certificate,
                   "key": key, "user": "lockstep", "password": "a secret of etcd"}

        def refused(*pointers, **changes):
            wanted = {k: v for k, v in {**secured, **changes}.items() if v is not None}
            return self.problem(a.post("/api/v1/pair", {"name": "pair1", "arbiter": wanted}), 422, "invalid", *pointers)
        refused("/arbiter/ca", ca=None)
        refused("/arbiter/ca", ca="rubbish")
        refused("/arbiter/key", key=None)
        refused("/arbiter/password", password=None)
        refused("/arbiter/ca", "/arbiter/certificate", "/arbiter/key", "/arbiter/user", endpoints=["http://127.0.0.1:2379"])
        refused("/arbiter/endpoints/0", endpoints=["https://127.0.0.1"])
        a.wait_until_spoken_to()  # and so to the witness
        a.script(**{"try": {"answers": False, "refused": True, "problem": "its certificate has expired"}})
        refused("/arbiter/endpoints/0")
        self.assertEqual(a.get("/api/v1/pair").json["state"], "none")
        a.script()
        made = a.post("/api/v1/pair", {"name": "pair1", "arbiter": secured})
        self.assertEqual(made.status, 201, made)
        join(a, b)
        for node in (a, b):
            shown = node.get("/api/v1/pair")
            self.assertEqual(shown.json["arbiter"], {"kind": "witness", "endpoints": secured["endpoints"], "user": "lockstep",
                                                     "client_certificate": True, "preferred_side": None})
            wait_for("lockstepd to be told", node.told)
            self.assertEqual(node.applied()["arbiter"], secured)
            for secret in (secured["password"], key.splitlines()[1]):
                self.assertNotIn(secret, shown.raw.decode())
                self.assertNotIn(secret, node.log())

    def failed_join(self, joining, invitation, **more):
        job = joining.job(joining.post("/api/v1/pair/join", {"invitation": invitation, **more}))
        self.assertEqual(job["state"], "failed", job)
        self.assertEqual(joining.get("/api/v1/pair").json["state"], "none")
        return job["error"]

    def test_wrong_used_replaced_and_expired_invitations_get_a_clear_problem_and_leave_nothing(self):
        a, b, c = self.node("node-a", invitation_life_seconds=2), self.node("node-b"), self.node("node-c")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        invite = lambda: a.post("/api/v1/pair/invitations").json["invitation"]
        for text in ("hello", "lsi1.x.y", invite()[:-9]):
            self.problem(b.post("/api/v1/pair/join", {"invitation": text}), 422, "invalid", "/invitation")
        self.problem(b.post("/api/v1/pair/join", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        first, second = invite(), invite()
        self.assertIn("another one was made since", self.failed_join(b, first)["detail"])
        time.sleep(2.1)  # its life
        self.assertIn("expired", self.failed_join(b, second)["detail"])
        a.extra = ""  # the life that invitations have as they come
        a.stop_mgmtd()
        a.start_mgmtd()
        third = invite()
        job = b.job(b.post("/api/v1/pair/join", {"invitation": third}))
        self.assertEqual(job["state"], "done", job)
        self.assertIn("used already", self.failed_join(c, third)["detail"])
        self.assertEqual(len(a.get("/api/v1/nodes").json["items"]), 2)

    @attack
    def test_an_invitation_for_another_certificate_gets_nothing_sent(self):
        a, b, c = self.node("node-a"), self.node("node-b"), self.node("node-c")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        text = a.post("/api/v1/pair/invitations").json["invitation"]
        a.stop_mgmtd()
        c.stop_mgmtd()
        c.address, c.port = a.address, a.port  # somebody else answers at that address
        c.start_mgmtd()
        self.assertIn("another certificate", self.failed_join(b, text)["detail"])

    def test_a_join_that_cannot_work_is_refused_by_the_inviting_node_and_can_be_tried_again(self):
        a, b = self.node("node-a"), self.node("node-b")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        text = a.post("/api/v1/pair/invitations").json["invitation"]
        error = self.failed_join(b, text, node={"name": "node-a", "portals": [a.portal]})
        self.assertEqual({e["pointer"] for e in error["errors"]}, {"/node/name", "/node/portals/0"})
        error = self.failed_join(b, text, node={"management_address": "127.0.0.1:9"})
        self.assertIn("cannot reach the joining one's management", error["detail"])
        self.assertEqual(a.get("/api/v1/pair").json["state"], "alone")
        self.assertEqual(b.job(b.post("/api/v1/pair/join", {"invitation": text}))["state"], "done")

    def test_an_inviting_node_that_is_gone_fails_the_join_with_what_to_do(self):
        a, b = self.node("node-a"), self.node("node-b")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        text = a.post("/api/v1/pair/invitations").json["invitation"]
        a.stop_mgmtd()
        self.assertIn("cannot be reached", self.failed_join(b, text)["detail"])

    def test_volumes_that_were_there_before_the_second_node_come_to_it(self):
        a, b = self.node("node-a"), self.node("node-b")
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        plain, secret = self.volume(a), self.volume(a, "secret", encrypted=True)
        self.assertEqual(a.volume("vm1")["health"], "degraded")
        join(a, b)
        for volume_id, encrypted in ((plain, None), (secret, True)):
            made = b.replica(volume_id)
            self.assertEqual((made["clean"], made["epoch"]["members"], made["side"]), (False, "a", "b"))
            self.assertEqual(made.get("encrypted"), encrypted)
            self.assertEqual(a.replica(volume_id).get("encrypted"), encrypted)
            self.assertEqual(b.get(f"/api/v1/volumes/{volume_id}").json["encrypted"], bool(encrypted))
        wait_for("the replica on node-b", lambda: len(b.volume("vm1")["replicas"]) == 2
                 and b.volume("vm1")["replicas"][1]["state"] != "unknown")


    def test_a_volume_that_is_not_served_keeps_no_other_from_the_node_that_joins(self):
        a, b = (self.node(name, create_patience_seconds=2) for name in ("node-a", "node-b"))
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        first, *others = [self.volume(a, name) for name in ("vm1", "vm2", "vm3")]
        a.script(lost=[first])
        wait_for("it not to be served", lambda: not any(r["serving"] for r in a.volume("vm1")["replicas"]))
        text = a.post("/api/v1/pair/invitations").json["invitation"]
        job = b.job(b.post("/api/v1/pair/join", {"invitation": text}))
        self.assertEqual(job["state"], "done", job)
        self.assertIn("node-a does not serve vm1. Once it does, `lockstep replica replace --all --node b`", job["message"])
        for volume_id in others:
            self.assertEqual(b.replica(volume_id)["epoch"]["members"], "a")
        with self.assertRaises(KeyError):
            b.replica(first)


class PartnerAway(Scratch):
    def test_only_the_preferred_node_changes_the_configuration_alone_and_the_return_is_noticed(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        a.post("/api/v1/initiators", {"iqn": HOST1})
        token = a.post("/api/v1/tokens", {"name": "ops"}).json["id"]
        wait_for("node-b to have all", lambda: b.get("/api/v1/pair").json["revision"] == a.get("/api/v1/pair").json["revision"])
        for_both = (("POST", "/api/v1/volumes", {"name": "vm2", "size_bytes": GIB}),
                    ("DELETE", f"/api/v1/volumes/{volume_id}?confirm=vm1", None),
                    ("PATCH", f"/api/v1/volumes/{volume_id}", {"size_bytes": 2 * GIB}))
        for_one = (("PATCH", f"/api/v1/volumes/{volume_id}", {"access": [HOST1]}, 200),
                   ("PATCH", "/api/v1/pair", {"name": "renamed"}, 200),
                   ("POST", "/api/v1/initiators", {"iqn": HOST2}, 201),
                   ("DELETE", f"/api/v1/initiators/{HOST2}", None, 204),
                   ("POST", "/api/v1/tokens", {"name": "x"}, 201),
                   ("DELETE", f"/api/v1/tokens/{token}", None, 204))
        for away, here in ((a, b), (b, a)):
            away.stop_mgmtd(signal.SIGKILL)
            revision = here.get("/api/v1/pair").json["revision"]
            self.gone(here, away)
            self.assertNotEqual(here.get("/api/v1/health").json["status"], "ok")
            for method, path, body in for_both[0 if here is b else 1:]:  # the one that is let makes volumes
                reply = here.request(method, path, body)
                self.problem(reply, 503, "not-current")
                self.assertIn("both nodes", reply.json["detail"])
            if here is b:
                for method, path, body, _ in for_one:
                    reply = here.request(method, path.replace(HOST2, HOST1), body)
                    self.problem(reply, 503, "not-current")
                    self.assertIn("only the preferred node, side A,", reply.json["detail"])
                # imports are the other node's
                source = "iscsi://192.0.2.1/iqn.2005-10.org.example:d/0"
                self.problem(here.post("/api/v1/imports", {"name": "m", "source": source}), 503, "not-current")
                self.problem(here.post(f"/api/v1/jobs/{uuid.uuid4()}/cancel"), 503, "not-current")
                self.assertEqual(here.get("/api/v1/pair").json["revision"], revision)
            else:
                for method, path, body, status in for_one:
                    reply = here.request(method, path, body)
                    self.assertEqual(reply.status, status, reply)
                self.assertEqual(here.get("/api/v1/pair").json["revision"], revision + len(for_one))
                self.assertIn("has changed the configuration alone", str(here.get("/api/v1/health").json["problems"]))
                self.lets_in(here, volume_id, HOST1)
            nodes = {n["name"]: n for n in here.get("/api/v1/nodes").json["items"]}
            self.assertFalse(nodes[away.name]["reachable"])
            self.assertEqual(nodes[away.name]["lockstepd"]["state"], "unknown")
            replica = {r["node"]: r for r in here.get(f"/api/v1/volumes/{volume_id}").json["replicas"]}
            self.assertEqual(replica[away.name]["state"], "unknown")
            self.assertEqual(replica[away.name]["allocated_bytes"], 4096)  # as last known
            away.start_mgmtd()
            self.well(a, b)
            kinds = [(e["kind"], e["side"]) for e in here.get("/api/v1/events").json["items"]]
            self.assertIn(("node.unreachable", "a" if away is a else "b"), kinds)
        self.assertIn("configuration.alone", [kind for kind, _ in kinds])
        self.assertEqual(b.get("/api/v1/pair").json["name"], "renamed")
        self.assertEqual(sorted(t["name"] for t in b.get("/api/v1/tokens").json["items"]),
                         sorted(t["name"] for t in a.get("/api/v1/tokens").json["items"]))
        self.lets_in(b, volume_id, HOST1)
        self.assertEqual(b.post("/api/v1/initiators", {"iqn": HOST2}).status, 201)

    @staticmethod
    def lets_in(node, volume_id, host):
        wait_for("lockstepd to be told", lambda: [e["initiator"] for e in node.wanted_volume(volume_id)["access"]] == [host])

    def test_a_preferred_node_that_has_not_met_its_partner_since_it_started_changes_nothing_alone(self):
        a, b = self.pair()
        b.stop_mgmtd()
        a.stop_mgmtd()
        a.start_mgmtd()
        reply = a.post("/api/v1/tokens", {"name": "x"})
        self.problem(reply, 503, "not-current")
        self.assertIn("have not talked", reply.json["detail"])

    def test_a_partner_that_hangs_is_given_up_within_seconds_and_takes_over_what_was_changed(self):
        a, b = self.pair()
        os.kill(b.mgmtd.pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            made = a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": GIB})
            self.assertEqual(made.status, 202, made)
            self.assertEqual(a.post("/api/v1/initiators", {"iqn": HOST1}).status, 201)
            self.assertEqual(a.patch("/api/v1/pair", {"discovery_chap": None}).status, 200)
            self.assertLess(time.monotonic() - begun, 30)
            self.gone(a, b)
            begun = time.monotonic()
            self.assertEqual(a.get("/api/v1/pair/configuration").json["state"], "partner_away")
            self.assertLess(time.monotonic() - begun, 3, "one that is known to be away is not waited for")
        finally:
            os.kill(b.mgmtd.pid, signal.SIGCONT)
        wait_for("both to decide again", lambda: a.post("/api/v1/initiators", {"iqn": HOST2}).status in (201, 409), 40)
        for node in (a, b):
            wait_for("one list on both", lambda n=node: [i["iqn"] for i in n.get("/api/v1/initiators").json["items"]] == [HOST1, HOST2])
        self.assertEqual(a.job(made)["state"], "done")
        wait_for("the volume on both", lambda: len(b.volume("vm1")["replicas"]) == 2
                 and a.volume("vm1")["id"] in [v["id"] for v in b.applied()["volumes"]], 40)

    def test_changes_from_both_nodes_at_once_all_happen_once(self):
        a, b = self.pair()
        from concurrent.futures import ThreadPoolExecutor
        names = [f"iqn.2000-01.com.example:h{i}" for i in range(24)]
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda n: (a if names.index(n) % 2 else b).post("/api/v1/initiators", {"iqn": n}, quiet=True), names))
        self.assertEqual({r.status for r in replies}, {201}, replies)
        for node in (a, b):
            wait_for("all on both", lambda n=node: len(n.get("/api/v1/initiators").json["items"]) == 24)

    def test_killing_either_node_in_the_middle_of_changes_loses_no_answered_change(self):
        a, b = self.pair()
        answered = []
        for round_number, victim in enumerate((a, b, a, b)):
            import threading
            stop = threading.Event()

            def change():
                i = 0
                while not stop.is_set():
                    name = f"iqn.2000-01.com.example:r{round_number}-{i}"
                    i += 1
                    try:
                        if a.post("/api/v1/initiators", {"iqn": name}, quiet=True).status == 201:
                            answered.append(name)
                    except (OSError, ValueError, AssertionError):
                        pass
                    except Exception:  # a connection that broke in the middle of an answer
                        pass
            worker = threading.Thread(target=change)
            before = len(answered)
            worker.start()
            wait_for("a few changes", lambda: len(answered) >= before + 5)
            victim.stop_mgmtd(signal.SIGKILL)
            stop.set()
            worker.join()
            victim.start_mgmtd()
            wait_for("both to be back", lambda: all(n["reachable"] for n in a.get("/api/v1/nodes").json["items"])
                     and all(n["reachable"] for n in b.get("/api/v1/nodes").json["items"]))
        wait_for("one revision on both", lambda: a.get("/api/v1/pair").json["revision"] == b.get("/api/v1/pair").json["revision"])
        lists = [{i["iqn"] for i in n.get("/api/v1/initiators").json["items"]} for n in (a, b)]
        self.assertEqual(lists[0], lists[1])
        self.assertLessEqual(set(answered), lists[0])
