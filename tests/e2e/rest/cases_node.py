"""One node by itself: its first start, who may use it, what comes over the wire, the page."""
import json
import pathlib
import signal
import socket
import ssl
import stat
import subprocess
import uuid

import scratch
from nodes import wait_for
from scratch import HOST1, Scratch, attack


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
        return subprocess.run([scratch.BUILD / "mgmt/main/lockstep-mgmtd", *arguments], capture_output=True, text=True, timeout=20)

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
        for command in ("lockstep node replace", "lockstep pair join", "lockstep pair recover"):
            self.assertIn(command, result.stderr)


class Access(Scratch):
    @attack
    def test_every_operation_wants_a_token_and_writing_ones_the_role_admin(self):
        a, b = self.pair()
        viewer = a.post("/api/v1/tokens", {"name": "looker", "role": "viewer"}).json["token"]
        some = str(uuid.uuid4())
        for path, method, operation in scratch.CONTRACT.operations():
            if operation.get("security") == []:
                self.assertEqual(a.request(method, path, token=False).status, 200, path)
                continue
            target = path.replace("{id}", some).replace("{iqn}", HOST1)
            schema = scratch.CONTRACT.request_schema(operation)
            body = {} if schema else None
            self.problem(a.request(method, target, body, token=False), 401, "unauthorized")
            self.problem(a.request(method, target, body, token="lst_wrong"), 401, "unauthorized")
            if "403" in operation["responses"]:
                self.problem(a.request(method, target, body, token=viewer), 403, "forbidden")
            elif path != "/api/v1/events/stream":
                self.assertIn(a.request(method, target, body, token=viewer).status, (200, 404), path)

    @attack
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

    def test_tokens_end_at_their_bound(self):
        node = self.node("node-a")
        head = {"Authorization": f"Bearer {node.token}", "Content-Type": "application/json"}
        connection = node.connect()
        for number in range(1, 1000):  # the first one is there
            connection.request("POST", "/api/v1/tokens", json.dumps({"name": f"t{number}"}), head)
            reply = connection.getresponse()
            self.assertEqual((reply.status, reply.read() and None), (201, None))
        connection.close()
        self.problem(node.post("/api/v1/tokens", {"name": "one-more"}), 429, "too-many")
        self.assertEqual(len(node.get("/api/v1/tokens").json["items"]), 1000)

    def test_the_last_admin_token_stays(self):
        a = self.node("node-a")
        only = a.get("/api/v1/tokens").json["items"][0]
        self.problem(a.delete(f"/api/v1/tokens/{only['id']}"), 409, "conflict")

    def test_root_is_never_shut_out_of_a_node(self):
        a, b = self.pair()
        file, old = a.folder / "mgmt/admin.token", a.token
        b.stop_mgmtd()
        a.stop_mgmtd()
        file.unlink()
        a.start_mgmtd()
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        own = a.token
        self.assertNotEqual(own, old)
        self.assertEqual(a.get("/api/v1/pair", token=own).status, 200)
        self.assertEqual(a.get("/api/v1/pair", token=old).status, 200, "the others go on")
        b.start_mgmtd()
        self.assertEqual(b.get("/api/v1/pair", token=own).status, 401, "it is this node's alone")
        made = wait_for("a token of the pair", lambda: self.made(a, own))
        wait_for("the other node to know it", lambda: b.get("/api/v1/pair", token=made, quiet=True).status == 200)
        a.stop_mgmtd()
        file.write_text("")
        a.start_mgmtd()
        self.assertEqual(file.read_text(), "", "who wants none there leaves it empty")
        self.assertEqual(a.get("/api/v1/pair", token=own).status, 200)
        a.stop_mgmtd()
        file.unlink()
        a.start_mgmtd()
        self.assertEqual(a.get("/api/v1/pair", token=own).status, 200, "none that is in use ends unasked")
        self.assertEqual(a.get("/api/v1/pair").status, 200)
        self.assertNotEqual(a.token, own)
        file.unlink()
        wait_for("another one without a restart", file.exists)
        self.assertEqual(a.get("/api/v1/pair").status, 200)

    def test_a_nodes_own_tokens_are_listed_and_revoked_there(self):
        _, b = self.pair()
        file = b.folder / "mgmt/admin.token"
        shared = b.token
        file.unlink()
        wait_for("a token of the node's own", file.exists)
        own = [t for t in b.get("/api/v1/tokens").json["items"] if t["node_only"]]
        self.assertEqual(len(own), 1, own)
        self.assertEqual(b.delete(f"/api/v1/tokens/{own[0]['id']}").status, 204)
        self.assertEqual(b.get("/api/v1/pair").status, 401, "the one in the file was revoked")
        listed = b.get("/api/v1/tokens", token=shared).json["items"]
        self.assertTrue(listed and not any(t["node_only"] for t in listed), listed)

    def test_root_makes_a_token_by_the_command_though_all_are_lost_and_the_partner_is_away(self):
        a, b = self.pair()
        b.stop()
        before = a.token
        (a.folder / "mgmt/admin.token").write_text("")
        made = subprocess.run([scratch.BUILD / "ui-api/cli/lockstep", "token", "create", "--local", "--token-file", a.folder / "mgmt/admin.token"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(made.stdout.strip(), a.token)
        self.assertEqual(a.get("/api/v1/pair").status, 200)
        self.assertEqual(a.get("/api/v1/pair", token=before).status, 200, "it ends no other")

    @staticmethod
    def made(node, token):
        reply = node.post("/api/v1/tokens", {"name": "ops"}, token=token, quiet=True)
        return reply.status == 201 and reply.json["token"]

    @attack
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
        answer = self.raw(b"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer "
                          + self.a.token.encode() + b"\r\n\r\n"
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
        with socket.create_connection(("127.0.0.1", self.a.port), 20) as tcp:
            tcp.sendall(b"GET / HTTP/1.1\r\n\r\n")
            tcp.recv(1000)
        silent = [socket.create_connection(("127.0.0.1", self.a.port), 20) for _ in range(20)]
        self.assertEqual(self.a.get("/api/v1/pair").status, 200)
        for s in silent:
            s.close()

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
