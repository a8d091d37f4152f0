"""The tests of run.py. Names say condition and guarantee."""
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import time
import unittest
import uuid

from nodes import PREFERRED, Node, join, make_pair, wait_for

BUILD = pathlib.Path()
CONTRACT = None
HOST1, HOST2 = "iqn.1993-08.org.debian:01:host1", "iqn.1993-08.org.debian:01:host2"
GIB = 1 << 30


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-rest-"))
        self.started = []

    def tearDown(self):
        for node in self.started:
            node.stop()
        failed = self._outcome.result.failures + self._outcome.result.errors
        if any(test is self for test, _ in failed):
            for node in self.started:
                print(f"--- {node.name}'s log\n{node.log()[-4000:]}")
        shutil.rmtree(self.folder)

    def node(self, name, start=True, **settings):
        node = Node(BUILD, self.folder / name, name)
        node.extra = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        self.started.append(node)
        return node.start() if start else node

    def pair(self, **settings):
        a, b = self.node("node-a", **settings), self.node("node-b", **settings)
        make_pair(a, b)
        return a, b

    def problem(self, reply, status, kind, *pointers):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.type, "application/problem+json")
        self.assertEqual(reply.json["type"], f"urn:lockstep:problem:{kind}", reply)
        self.assertTrue(reply.json["detail"].endswith((".", "\".")), reply.json["detail"])
        found = [e["pointer"] for e in reply.json.get("errors", [])]
        for pointer in pointers:
            self.assertIn(pointer, found, reply)

    def volume(self, node, name="vm1", **more):
        wait_for("lockstepd to run", lambda: all(
            n["lockstepd"]["state"] == "running" for n in node.get("/api/v1/nodes").json["items"]))
        job = node.job(node.post("/api/v1/volumes", {"name": name, "size_bytes": GIB, **more}))
        self.assertEqual(job["state"], "done", job)
        return job["volume_id"]


class FirstStart(Scratch):
    def test_secrets_are_for_this_user_alone(self):
        a = self.node("node-a")
        for name in ("admin.token", "tls.key", "mgmt.db", "mgmt.db-wal"):
            self.assertEqual(stat.S_IMODE((a.folder / "mgmt" / name).stat().st_mode), 0o600, name)
        self.assertEqual(stat.S_IMODE((a.folder / "mgmt").stat().st_mode), 0o700)

    def test_identity_and_token_survive_a_restart(self):
        a = self.node("node-a")
        token, certificate = a.token, (a.folder / "mgmt/tls.crt").read_text()
        a.stop_mgmtd(signal.SIGKILL)
        a.start_mgmtd()
        self.assertEqual((token, certificate), (a.token, (a.folder / "mgmt/tls.crt").read_text()))

    def test_health_says_that_there_is_no_pair_yet(self):
        health = self.node("node-a").get("/api/v1/health").json
        self.assertEqual(health["status"], "degraded")
        self.assertIn("not in a pair", health["summary"])

    def test_sigterm_ends_it_cleanly(self):
        a = self.node("node-a")
        a.mgmtd.terminate()
        self.assertEqual(a.mgmtd.wait(10), 0)

    def run_with(self, *arguments):
        return subprocess.run([BUILD / "mgmt/main/lockstep-mgmtd", *arguments], capture_output=True, text=True, timeout=20)

    def test_version_and_help_are_given(self):
        self.assertIn("0.1.0", self.run_with("--version").stdout)
        self.assertIn("--config", self.run_with("--help").stdout)

    def test_a_bad_configuration_file_is_refused_by_line(self):
        file = self.folder / "x.toml"
        for text, expected in (('listen = "here"', "line 1"), ("\nlisten = 5", "line 2"), ("a = [", "line 1"),
                               ('colour = "red"', "colour"), ('log_level = "loud"', "log_level"),
                               ('portals = ["x"]', "portals"), ("create_patience_seconds = 0", "86400")):
            file.write_text(text)
            result = self.run_with("--config", file)
            self.assertEqual(result.returncode, 1, text)
            self.assertIn(str(file), result.stderr)
            self.assertIn(expected, result.stderr)
        self.assertIn("it is not there", self.run_with("--config", self.folder / "none.toml").stderr)

    def test_an_address_in_use_is_refused_by_name(self):
        a, b = self.node("node-a"), self.node("node-b", start=False)
        b.address = a.address
        b.write_configuration()
        result = self.run_with("--config", b.folder / "mgmtd.toml")
        self.assertEqual(result.returncode, 1)
        self.assertIn(a.address, result.stderr)

    def test_a_damaged_database_is_refused_with_what_to_do(self):
        a = self.node("node-a")
        a.stop_mgmtd()
        (a.folder / "mgmt/mgmt.db").write_bytes(b"x" * 8192)
        for beside in ("mgmt.db-wal", "mgmt.db-shm"):
            (a.folder / "mgmt" / beside).unlink(missing_ok=True)
        result = self.run_with("--config", a.folder / "mgmtd.toml")
        self.assertEqual(result.returncode, 1)
        self.assertIn("backup", result.stderr)


class Access(Scratch):
    def test_every_operation_wants_a_token_and_writing_ones_the_role_admin(self):
        a, b = self.pair()
        viewer = a.post("/api/v1/tokens", {"name": "looker", "role": "viewer"}).json["token"]
        some = str(uuid.uuid4())
        for path, method, operation in CONTRACT.operations():
            if operation.get("security") == []:
                self.assertEqual(a.request(method, path, token=False).status, 200, path)
                continue
            target = path.replace("{id}", some).replace("{iqn}", HOST1)
            schema = CONTRACT.request_schema(operation)
            body = {} if schema else None
            self.problem(a.request(method, target, body, token=False), 401, "unauthorized")
            self.problem(a.request(method, target, body, token="lst_wrong"), 401, "unauthorized")
            if "403" in operation["responses"]:
                self.problem(a.request(method, target, body, token=viewer), 403, "forbidden")
            elif path != "/api/v1/events/stream":
                self.assertIn(a.request(method, target, body, token=viewer).status, (200, 404), path)

    def test_a_token_in_another_scheme_is_none(self):
        a = self.node("node-a")
        self.problem(a.get("/api/v1/pair", headers={"Authorization": f"Basic {a.token}"}), 401, "unauthorized")
        self.problem(a.get("/api/v1/pair", headers={"Authorization": a.token}), 401, "unauthorized")

    def test_tokens_are_made_listed_used_and_revoked_on_both_nodes(self):
        a, b = self.pair()
        made = b.post("/api/v1/tokens", {"name": "ops", "expires_in_seconds": 3600})
        self.assertEqual(made.status, 201, made)
        secret, location = made.json["token"], made.headers["Location"]
        for node in (a, b):
            wait_for("the token to work", lambda n=node: n.get("/api/v1/pair", token=secret, quiet=True).status == 200)
        listed = {t["name"]: t for t in a.get("/api/v1/tokens").json["items"]}
        self.assertNotIn("token", listed["ops"])
        self.assertIsNotNone(listed["ops"]["last_used_at"])
        self.problem(a.post("/api/v1/tokens", {"name": "ops"}), 409, "conflict", "/name")
        self.problem(a.post("/api/v1/tokens", {"name": "", "role": "king", "expires_in_seconds": 5}), 422, "invalid",
                     "/name", "/role", "/expires_in_seconds")
        self.assertEqual(b.delete(location).status, 204)
        for node in (a, b):
            wait_for("the token to be gone", lambda n=node: n.get("/api/v1/pair", token=secret, quiet=True).status == 401)
        self.problem(a.delete(location), 404, "not-found")

    def test_the_last_admin_token_stays(self):
        a = self.node("node-a")
        only = a.get("/api/v1/tokens").json["items"][0]
        self.problem(a.delete(f"/api/v1/tokens/{only['id']}"), 409, "conflict")

    def test_the_peer_api_is_closed_to_people_and_strangers(self):
        a, b = self.pair()
        stranger = self.node("stranger")
        for path in ("/peer/v1/revision", "/peer/v1/report"):
            self.problem(a.get(path), 403, "forbidden")
            context = ssl._create_unverified_context()
            context.load_cert_chain(stranger.folder / "mgmt/tls.crt", stranger.folder / "mgmt/tls.key")
            for name in ("peer.lockstep.internal", "localhost"):
                with socket.create_connection(("127.0.0.1", a.port), 10) as tcp, \
                        context.wrap_socket(tcp, server_hostname=name) as tls:
                    tls.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                    self.assertIn(b" 403 ", tls.recv(65536).split(b"\r\n")[0])


class Wire(Scratch):
    """What is wrong below the resources."""

    def setUp(self):
        super().setUp()
        self.a = self.node("node-a")

    def raw(self, data, read=True):
        context = ssl._create_unverified_context()
        with socket.create_connection(("127.0.0.1", self.a.port), 20) as tcp, context.wrap_socket(tcp) as tls:
            tls.sendall(data)
            received = b""
            while read:
                try:
                    chunk = tls.recv(65536)
                except (ConnectionError, ssl.SSLError):
                    break
                if not chunk:
                    break
                received += chunk
            return received

    def test_unknown_paths_and_methods_are_told_apart(self):
        self.problem(self.a.get("/api/v1/nothing"), 404, "not-found")
        self.problem(self.a.get("/api/v1/nothing", token=False), 401, "unauthorized")
        reply = self.a.request("PUT", "/api/v1/volumes", {})
        self.problem(reply, 405, "method-not-allowed")
        self.assertEqual(reply.headers["Allow"], "GET, HEAD, POST")

    def test_bodies_that_are_not_json_are_refused(self):
        head = {"Content-Type": "application/json"}
        self.problem(self.a.post("/api/v1/tokens", raw=b"{", headers=head), 400, "malformed")
        self.problem(self.a.post("/api/v1/tokens", raw=b"", headers=head), 400, "malformed")
        self.problem(self.a.post("/api/v1/tokens", raw=b"[" * 200000, headers=head), 400, "malformed")
        self.problem(self.a.post("/api/v1/tokens", raw=b"name=x"), 415, "unsupported-media-type")
        self.problem(self.a.post("/api/v1/tokens", raw=b"[]", headers=head), 422, "invalid", "")

    def test_a_body_beyond_a_mebibyte_is_refused_whether_announced_or_not(self):
        head = {"Content-Type": "application/json"}
        self.problem(self.a.post("/api/v1/tokens", raw=b" " * ((1 << 20) + 1), headers=head), 413, "too-large")
        self.assertEqual(self.a.post("/api/v1/tokens", raw=b" " * (1 << 20), headers=head).status, 400)
        answer = self.raw(b"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                          + b"10000\r\n" + b"x" * 0x10000 + b"\r\n" + (b"10000\r\n" + b"x" * 0x10000 + b"\r\n") * 16)
        self.assertIn(b" 413 ", answer.split(b"\r\n")[0])

    def test_a_header_beyond_its_bound_is_refused(self):
        answer = self.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20000 + b"\r\n\r\n")
        self.assertIn(b" 431 ", answer.split(b"\r\n")[0])

    def test_what_is_not_http_is_answered_with_a_problem_and_ends(self):
        for data in (b"GARBAGE\r\n\r\n", b"GET /x HTTP/9.9\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
            answer = self.raw(data)
            self.assertIn(b" 400 ", answer.split(b"\r\n")[0], data)
            self.assertIn(b"urn:lockstep:problem:malformed", answer)

    def test_plain_text_on_the_tls_port_and_silence_harm_nobody(self):
        with socket.create_connection(("127.0.0.1", self.a.port), 5) as tcp:
            tcp.sendall(b"GET / HTTP/1.1\r\n\r\n")
            tcp.recv(1000)
        silent = [socket.create_connection(("127.0.0.1", self.a.port), 5) for _ in range(20)]
        self.assertEqual(self.a.get("/api/v1/pair").status, 200)
        for s in silent:
            s.close()

    def test_connections_beyond_the_bound_are_closed_and_the_others_served(self):
        held = [socket.create_connection(("127.0.0.1", self.a.port), 5) for _ in range(256)]
        time.sleep(0.2)
        with self.assertRaises((OSError, ssl.SSLError)):
            self.a.get("/api/v1/pair", quiet=True)
        for s in held:
            s.close()
        wait_for("room again", lambda: self.a.answers())

    def test_many_requests_go_over_one_connection(self):
        connection = self.a.connect()
        for _ in range(50):
            connection.request("GET", "/api/v1/health", headers={"Authorization": f"Bearer {self.a.token}"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            response.read()
        connection.close()

    def test_head_has_the_header_and_no_body(self):
        connection = self.a.connect()
        connection.request("HEAD", "/api/v1/openapi.yaml")
        response = connection.getresponse()
        self.assertEqual((response.status, response.read()), (200, b""))
        self.assertGreater(int(response.headers["Content-Length"]), 1000)
        connection.close()

    def test_nothing_of_the_api_is_cached_or_sniffed(self):
        headers = self.a.get("/api/v1/pair").headers
        self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")

    def test_the_description_is_served_as_it_is_in_the_source(self):
        served = self.a.get("/api/v1/openapi.yaml", token=False)
        self.assertEqual(served.raw.decode(), (pathlib.Path(__file__).parents[3] / "ui-api/openapi/lockstep.yaml").read_text())


class Page(Scratch):
    def test_the_page_is_served_with_its_policy_and_its_own_addresses_lead_to_it(self):
        web = self.folder / "web"
        (web / "assets").mkdir(parents=True)
        (web / "index.html").write_text("<!doctype html>page")
        (web / "assets/app-1234.js").write_text("1")
        (web / "secret.key").write_text("no")
        a = self.node("node-a", web_folder=str(web))
        for path in ("/", "/volumes/x"):
            page = a.get(path, token=False)
            self.assertEqual((page.status, page.type, page.raw), (200, "text/html", b"<!doctype html>page"))
            self.assertIn("frame-ancestors 'none'", page.headers["Content-Security-Policy"])
            self.assertEqual(page.headers["Cache-Control"], "no-cache")
        self.assertEqual(a.get("/", token=False, headers={"If-None-Match": page.headers["ETag"]}).status, 304)
        self.assertIn("immutable", a.get("/assets/app-1234.js", token=False).headers["Cache-Control"])
        for path in ("/secret.key", "/../mgmt/admin.token", "/%2e%2e/mgmt/admin.token", "/assets/none.js"):
            self.problem(a.get(path, token=False), 404, "not-found")


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
        self.assertEqual(a.get("/api/v1/health").json["status"], "ok", a.get("/api/v1/health").json)

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
        third = invite()
        job = b.job(b.post("/api/v1/pair/join", {"invitation": third}))
        self.assertEqual(job["state"], "done", job)
        self.assertIn("used already", self.failed_join(c, third)["detail"])
        self.assertEqual(len(a.get("/api/v1/nodes").json["items"]), 2)

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


class Volumes(Scratch):
    def test_a_volume_is_made_through_either_node_seen_from_both_and_deleted(self):
        a, b = self.pair()
        for maker, other in ((a, b), (b, a)):
            volume_id = self.volume(maker)
            for node in (a, b):
                volume = node.get(f"/api/v1/volumes/{volume_id}").json
                self.assertEqual((volume["name"], volume["lun"], volume["lifecycle"]), ("vm1", 0, "ready"))
                wait_for("both replicas in sync", lambda n=node: [
                    r["state"] for r in n.get(f"/api/v1/volumes/{volume_id}").json["replicas"]] == ["in_sync"] * 2)
            self.assertEqual(other.get("/api/v1/health").json["status"], "ok")
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
        wait_for("the loss to be seen", lambda: a.get("/api/v1/health").json["status"] == "degraded")
        self.problem(b.post("/api/v1/volumes", {"name": "vm2", "size_bytes": GIB}), 503, "data-plane-away")
        wait_for("the partner to see it", lambda: [n["lockstepd"]["state"] for n in b.get("/api/v1/nodes").json["items"]]
                 == ["stopped", "running"])
        self.assertEqual(a.get(f"/api/v1/volumes/{volume_id}").json["replicas"][0]["state"], "unknown")
        a.start_lockstepd()
        wait_for("the volume to be back", lambda: a.get("/api/v1/health").json["status"] == "ok")
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
        self.problem(b.patch(path, {"name": "x"}), 422, "invalid", "/name")
        self.problem(b.patch(path, {}), 422, "invalid", "")
        self.problem(b.patch(path, raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(b.patch(f"/api/v1/volumes/{uuid.uuid4()}", {"access": []}), 404, "not-found")
        changed = b.patch(path, {"access": []})
        self.assertEqual((changed.status, changed.json["access"]), (200, []))
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
        job = a.job(a.post(path, {"action": "force_solo", "side": "b", "confirm": "vm1"}))
        self.assertEqual(job["state"], "failed")
        self.assertIn("inconsistent", job["error"]["detail"])

    def test_an_action_works_where_the_other_node_burned_down(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        a.stop_mgmtd(signal.SIGKILL)
        a.stop_lockstepd(signal.SIGKILL)
        path = f"/api/v1/volumes/{volume_id}/actions"
        job = b.job(b.post(path, {"action": "force_solo", "side": "b", "confirm": "vm1"}))
        self.assertEqual(job["state"], "done", job)
        job = b.job(b.post(path, {"action": "leave", "side": "a"}))
        self.assertEqual(job["state"], "failed", job)


class PartnerAway(Scratch):
    def test_changes_are_refused_with_what_to_do_reads_go_on_and_the_return_is_noticed(self):
        a, b = self.pair()
        volume_id = self.volume(a)
        a.post("/api/v1/initiators", {"iqn": HOST1})
        token = a.post("/api/v1/tokens", {"name": "ops"}).json["id"]
        wait_for("node-b to have all", lambda: b.get("/api/v1/pair").json["revision"] == a.get("/api/v1/pair").json["revision"])
        for away, here in ((b, a), (a, b)):
            away.stop_mgmtd(signal.SIGKILL)
            revision = here.get("/api/v1/pair").json["revision"]
            changes = (("POST", "/api/v1/volumes", {"name": "vm2", "size_bytes": GIB}),
                       ("PATCH", f"/api/v1/volumes/{volume_id}", {"access": [HOST1]}),
                       ("DELETE", f"/api/v1/volumes/{volume_id}?confirm=vm1", None),
                       ("POST", "/api/v1/initiators", {"iqn": HOST2}),
                       ("DELETE", f"/api/v1/initiators/{HOST1}", None),
                       ("POST", "/api/v1/tokens", {"name": "x"}),
                       ("DELETE", f"/api/v1/tokens/{token}", None))
            for method, path, body in changes:
                reply = here.request(method, path, body)
                self.problem(reply, 503, "not-current")
                self.assertIn("both nodes", reply.json["detail"])
            if here is b:  # imports are the other node's
                source = "iscsi://192.0.2.1/iqn.2005-10.org.example:d/0"
                self.problem(here.post("/api/v1/imports", {"name": "m", "source": source}), 503, "not-current")
                self.problem(here.post(f"/api/v1/jobs/{uuid.uuid4()}/cancel"), 503, "not-current")
            self.assertEqual(here.get("/api/v1/pair").json["revision"], revision)
            wait_for("the loss to be seen", lambda: here.get("/api/v1/health").json["status"] != "ok")
            larger = here.patch(f"/api/v1/volumes/{volume_id}", {"size_bytes": 2 * GIB})
            self.problem(larger, 503, "not-current")
            self.assertIn("both nodes", larger.json["detail"])
            nodes = {n["name"]: n for n in here.get("/api/v1/nodes").json["items"]}
            self.assertFalse(nodes[away.name]["reachable"])
            self.assertEqual(nodes[away.name]["lockstepd"]["state"], "unknown")
            replica = {r["node"]: r for r in here.get(f"/api/v1/volumes/{volume_id}").json["replicas"]}
            self.assertEqual(replica[away.name]["state"], "unknown")
            self.assertEqual(replica[away.name]["allocated_bytes"], 4096)  # as last known
            away.start_mgmtd()
            wait_for("the return to be seen", lambda: here.get("/api/v1/health").json["status"] == "ok")
            kinds = [(e["kind"], e["side"]) for e in here.get("/api/v1/events").json["items"]]
            self.assertIn(("node.unreachable", "a" if away is a else "b"), kinds)
        self.assertEqual(b.post("/api/v1/initiators", {"iqn": HOST2}).status, 201)

    def test_a_partner_that_hangs_is_given_up_within_seconds_and_nothing_is_changed(self):
        a, b = self.pair()
        os.kill(b.mgmtd.pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            self.problem(a.post("/api/v1/initiators", {"iqn": HOST1}), 503, "not-current")
            self.assertLess(time.monotonic() - begun, 20)
            self.assertEqual(a.get("/api/v1/initiators").json, {"items": []})
        finally:
            os.kill(b.mgmtd.pid, signal.SIGCONT)
        wait_for("both to agree again", lambda: a.post("/api/v1/initiators", {"iqn": HOST1}).status in (201, 409))
        for node in (a, b):
            wait_for("one list on both", lambda n=node: [i["iqn"] for i in n.get("/api/v1/initiators").json["items"]] == [HOST1])

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


class Watching(Scratch):
    def test_lists_have_their_limits(self):
        a, b = self.pair()
        self.volume(a)
        self.assertEqual(len(a.get("/api/v1/events?limit=1").json["items"]), 1)
        events = a.get("/api/v1/events?after=0&limit=1000").json["items"]
        self.assertEqual([e["id"] for e in events], sorted(e["id"] for e in events))
        self.assertEqual(a.get(f"/api/v1/events?after={events[0]['id']}&limit=1").json["items"], [events[1]])
        self.assertEqual(len(a.get("/api/v1/jobs?limit=1").json["items"]), 1)
        for query in ("events?limit=0", "events?limit=1001", "events?limit=x", "events?after=-1", "events?limit="):
            self.problem(a.get(f"/api/v1/{query}"), 400, "malformed", "?" + query.split("?")[1].split("=")[0])
        self.problem(a.get("/api/v1/jobs?limit=1e9"), 400, "malformed", "?limit")
        for path in ("jobs", "volumes"):
            self.problem(a.get(f"/api/v1/{path}/{uuid.uuid4()}"), 404, "not-found")
            self.problem(a.get(f"/api/v1/{path}/x"), 404, "not-found")

    def test_jobs_and_events_of_one_node_are_told_by_the_other(self):
        a, b = self.pair()
        self.volume(a)
        job = b.get("/api/v1/jobs").json["items"]
        self.assertIn("volume.create", [j["kind"] for j in job])
        wait_for("the event on the other node", lambda: "volume.created" in [
            e["kind"] for e in b.get("/api/v1/events").json["items"]])

    def test_sessions_of_both_nodes_are_listed(self):
        a, b = self.pair()
        session = {"initiator": HOST1, "address": "10.0.0.1:5000", "portal": "10.0.0.11:3260", "since_ms": 1700000000000}
        b.script(sessions=[session])
        listed = wait_for("the session", lambda: a.get("/api/v1/sessions").json["items"])
        self.assertEqual([(s["side"], s["initiator"], s["since"]) for s in listed], [("b", HOST1, "2023-11-14T22:13:20.000Z")])

    def test_the_witness_and_the_link_are_in_the_health(self):
        a, b = self.node("node-a"), self.node("node-b")
        make_pair(a, b, arbiter={"kind": "witness", "endpoints": ["http://127.0.0.1:2379"]})
        self.assertEqual(a.get("/api/v1/health").json["status"], "ok")
        a.script(witness=False, linked=False)
        subjects = wait_for("both problems", lambda: (lambda s: s if len(s) == 2 else None)(
            [p["subject"] for p in b.get("/api/v1/health").json["problems"]]))
        self.assertEqual(sorted(subjects), ["link", "witness"])

    def test_metrics_are_prometheus_text_with_the_pair(self):
        a, b = self.pair()
        self.volume(a)
        text = wait_for("figures", lambda: (lambda t: t if "lockstep_volume_reads_total" in t else None)(
            a.get("/metrics").raw.decode()))
        self.assertIn('lockstep_volume_state{pair="pair1",node="node-a",volume="vm1",state="in_sync"} 1', text)
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) lockstep_\w+ .*|lockstep_\w+\{pair="pair1".*\} [0-9.e+-]+)$')

    def stream(self, node, last_event_id=None):
        connection = node.connect()
        headers = {"Authorization": f"Bearer {node.token}"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        connection.request("GET", "/api/v1/events/stream", headers=headers)
        response = connection.getresponse()
        self.assertEqual((response.status, response.headers["Content-Type"]), (200, "text/event-stream"))
        CONTRACT.seen.add(("streamEvents", "200"))
        self.addCleanup(connection.close)

        def messages():
            message = {}
            while True:
                line = response.readline().decode().rstrip("\n")
                if not line and message:
                    yield message
                    message = {}
                elif line and not line.startswith(":"):
                    key, value = line.split(": ", 1)
                    message[key] = json.loads(value) if key == "data" else value
        return messages()

    def test_the_stream_begins_with_the_present_and_goes_on_with_what_changes(self):
        a, b = self.pair()
        schemas = {"event": "Event", "volume": "Volume", "job": "Job", "node": "Node"}
        messages = self.stream(b)
        seen = []

        def until(condition, deadline=60):
            """Reads on until a message fulfils the condition; one that was read already will do."""
            if any(condition(m["event"], m["data"]) for m in seen):
                return
            end = time.monotonic() + deadline
            for message in messages:
                self.assertLess(time.monotonic(), end, seen)
                problems = CONTRACT.check(message["data"], {"$ref": f"#/components/schemas/{schemas[message['event']]}"},
                                          f"stream {message['event']}")
                self.assertEqual(problems, [])
                if message["event"] == "event":
                    self.assertEqual(int(message["id"]), message["data"]["id"])
                seen.append(message)
                if condition(message["event"], message["data"]):
                    return
        nodes = set()
        until(lambda kind, data: kind == "node" and (nodes.add(data["side"]) or len(nodes) == 2))
        volume_id = self.volume(a)
        until(lambda kind, data: kind == "event" and data["kind"] == "volume.created")
        self.assertIn(("job", "volume.create"), [(m["event"], m["data"].get("kind")) for m in seen])
        until(lambda kind, data: kind == "volume" and [r["state"] for r in data["replicas"]] == ["in_sync"] * 2)
        last = int([m for m in seen if m["event"] == "event"][-1]["id"])
        b.job(b.delete(f"/api/v1/volumes/{volume_id}?confirm=vm1"))
        until(lambda kind, data: kind == "volume" and data["lifecycle"] == "deleted")
        # Another stream that was away meanwhile is told of the events it missed.
        messages = self.stream(b, last)
        until(lambda kind, data: kind == "event" and data["kind"] == "volume.deleted")

    def test_streams_are_bounded_and_their_places_become_free(self):
        a = self.node("node-a")
        streams = [self.stream(a) for _ in range(32)]
        self.problem(a.get("/api/v1/events/stream"), 429, "too-many")
        self.assertEqual(a.get("/api/v1/pair").status, 200)
        self.doCleanups()
        del streams

        def place():
            connection = a.connect()
            connection.request("GET", "/api/v1/events/stream", headers={"Authorization": f"Bearer {a.token}"})
            status = connection.getresponse().status
            connection.close()
            return status == 200
        wait_for("a free place", place)
