"""Credentials that change: hosts' secrets, the link's, and what the page shows, as the API tells it. What it does to real
sessions: tests/e2e/test_rotation.py."""
import pathlib
import signal
import socket
import ssl
import subprocess

import scratch
from nodes import make_pair, wait_for
from scratch import HOST1, HOST2, Scratch, attack

OLD, NEW, NEWER, TARGETS = "old-secret-0001", "new-secret-0001", "newer-secret-01", "targets-secret1"
PATH = f"/api/v1/initiators/{HOST1}"


class InitiatorSecrets(Scratch):
    def host(self):
        a, b = self.pair()
        made = a.post("/api/v1/initiators", {"iqn": HOST1, "chap": {"user": "u", "secret": OLD},
                                             "mutual_chap": {"user": "m", "secret": TARGETS}})
        self.assertEqual((made.status, made.json["old_secret_valid_until"]), (201, None), made)
        self.id = self.volume(a, access=[HOST1])
        return a, b

    def change(self, node, secret, seconds=None, **more):
        body = {"chap": {"secret": secret}, **({} if seconds is None else {"old_valid_for_seconds": seconds}), **more}
        return node.post(f"{PATH}/secret", body)

    def entry(self, node):
        return node.wanted_volume(self.id)["access"][0]

    def accepts(self, a, b, now, old, seconds=20):
        for node in (a, b):
            wait_for("lockstepd to be told", lambda n=node: (
                self.entry(n)["chap_secret"], self.entry(n).get("old", {}).get("chap_secret")) == (now, old), seconds)

    def test_both_are_accepted_on_both_nodes_and_none_is_shown(self):
        a, b = self.host()
        changed = self.change(b, NEW, 7200)
        self.assertEqual((changed.status, changed.json["chap"], changed.json["chap_user"]), (200, "mutual", "u"), changed)
        self.assertIsNotNone(changed.json["old_secret_valid_until"])
        for secret in (OLD, NEW, TARGETS):
            self.assertNotIn(secret.encode(), changed.raw)
        self.accepts(a, b, NEW, OLD)
        self.assertEqual(self.entry(a)["old"]["mutual_secret"], TARGETS)
        for node in (a, b):
            self.assertEqual(node.get(PATH).json["old_secret_valid_until"], changed.json["old_secret_valid_until"])
        third = self.change(a, NEWER, 60)
        self.problem(third, 409, "conflict")
        self.assertIn("no more than two", third.json["detail"])
        self.assertEqual(b.delete(f"{PATH}/old-secret").status, 204)
        self.accepts(a, b, NEW, None)
        self.problem(a.delete(f"{PATH}/old-secret"), 404, "not-found")
        self.assertEqual(self.change(a, NEWER, 0).json["old_secret_valid_until"], None)
        self.accepts(a, b, NEWER, None)

    def test_the_time_goes_on_through_restarts_and_then_the_old_one_is_in_no_file(self):
        a, b = self.host()
        self.assertEqual(self.change(a, NEW, 25).status, 200)
        self.accepts(a, b, NEW, OLD)
        for node in (a, b):
            node.stop_mgmtd(signal.SIGKILL)
        for node in (a, b):
            node.start_mgmtd()
        self.assertIsNotNone(a.get(PATH).json["old_secret_valid_until"])
        self.accepts(a, b, NEW, None, 60)
        self.assertIsNone(b.get(PATH).json["old_secret_valid_until"])

        def holds(node, secret):
            return [f.name for f in node.folder.glob("*/*") if f.is_file() and secret.encode() in f.read_bytes()]
        for node in (a, b):
            wait_for("the old secret to be erased", lambda n=node: not holds(n, OLD), 30)
            self.assertTrue(holds(node, NEW), "the search would not have found it")

    def test_what_is_wrong_is_refused_and_changes_nothing(self):
        a, b = self.host()
        a.post("/api/v1/initiators", {"iqn": HOST2, "chap": {"user": "v", "secret": "another-hosts-1"}})
        self.problem(self.change(a, NEW, 2592001), 422, "invalid", "/old_valid_for_seconds")
        self.problem(self.change(a, NEW, 1, wrong=1), 422, "invalid", "/wrong")
        self.problem(a.post(f"{PATH}/secret", {}), 422, "invalid", "/chap")
        for secret in ("short", OLD, TARGETS, "another-hosts-1"):
            self.problem(self.change(a, secret, 60), 422, "invalid", "/chap/secret")
        self.problem(self.change(a, NEW, 60, mutual_chap={"secret": OLD}), 422, "invalid", "/mutual_chap/secret")
        self.problem(a.post(f"{PATH}/secret", raw=b"x", headers={"Content-Type": "application/json"}), 400, "malformed")
        self.problem(a.post(f"/api/v1/initiators/{HOST1}x/secret", {"chap": {"secret": NEW}}), 404, "not-found")
        self.accepts(a, b, OLD, None)
        self.assertEqual(self.change(a, NEW, 600).status, 200)
        self.accepts(a, b, NEW, OLD)
        a.stop_mgmtd()
        self.problem(self.change(b, NEWER, 0), 503, "not-current")
        self.problem(b.delete(f"{PATH}/old-secret"), 503, "not-current")

    @attack
    def test_an_old_secret_has_no_other_use(self):
        a, _ = self.host()
        self.assertEqual(self.change(a, NEW, 3600, mutual_chap={"secret": "targets-secret2"}).status, 200)
        for secret in (OLD, TARGETS):
            self.problem(a.post("/api/v1/initiators", {"iqn": HOST2, "chap": {"user": "v", "secret": secret}}), 422,
                         "invalid", "/chap/secret")
            self.problem(a.patch("/api/v1/pair", {"discovery_chap": {"user": "f", "secret": secret}}), 422, "invalid",
                         "/discovery_chap/secret")


class LinkSecrets(Scratch):
    @staticmethod
    def link(node):
        return node.applied()["partner"]["link"]

    def test_they_are_new_on_both_nodes_and_the_old_ones_are_gone(self):
        a, b = self.pair()
        self.volume(a)
        before = self.link(a)["chap_secret"]
        reply = b.post("/api/v1/pair/link-secrets")
        self.assertEqual(reply.status, 202, reply)
        job = b.job(reply)
        self.assertEqual((job["kind"], job["state"]), ("pair.link_secrets", "done"), job)
        wait_for("both to be told", lambda: a.told() and b.told())
        self.assertFalse("also" in self.link(a) or "also" in self.link(b))
        self.assertEqual(*[{k: v for k, v in self.link(n).items() if "chap" in k or "mutual" in k} for n in (a, b)])
        self.assertNotEqual(self.link(a)["chap_secret"], before)
        self.well(a)
        for node in (a, b):
            self.assertNotIn(before, node.log())

    def test_it_takes_a_pair_of_two_that_answer(self):
        a = self.node("alone")
        self.problem(a.post("/api/v1/pair/link-secrets"), 409, "no-pair")
        a, b = self.pair()
        b.stop_mgmtd()
        self.problem(a.post("/api/v1/pair/link-secrets"), 503, "not-current")

    def test_a_job_that_waits_is_the_only_one_and_is_finished_when_the_node_is_back(self):
        a, b = self.pair()
        reply = a.post("/api/v1/pair/link-secrets")
        self.assertEqual(reply.status, 202, reply)
        b.stop_mgmtd(signal.SIGKILL)
        a.stop_mgmtd(signal.SIGKILL)
        a.start_mgmtd()
        unfinished = a.get(reply.headers["Location"]).json["state"] in ("pending", "running")
        if unfinished:
            self.assertIn(a.post("/api/v1/pair/link-secrets").status, (409, 503))
        b.start_mgmtd()
        self.assertEqual(a.job(reply)["state"], "done")


class LinkProtection(Scratch):
    PATH = "/api/v1/pair/link-protection"

    def pair(self):
        a, b = self.node("node-a"), self.node("node-b")
        make_pair(a, b)
        return a, b

    @staticmethod
    def mode(node):
        return node.applied()["partner"]["link"].get("tls", {}).get("mode", "off")

    def test_a_new_pair_has_it_and_loses_and_gets_it_step_by_step(self):
        a, b = self.pair()
        wait_for("both to be told", lambda: self.mode(a) == self.mode(b) == "required")
        ours, theirs = (n.applied()["partner"]["link"]["tls"] for n in (a, b))
        self.assertNotEqual(ours["key"], theirs["key"])
        self.assertNotEqual(ours["partner"], theirs["partner"])
        for tls, mode in ((False, "off"), (True, "required")):
            reply = b.post(self.PATH, {"tls": tls})
            self.assertEqual((reply.status, reply.json["kind"]), (202, "pair.link_tls"), reply)
            job = b.job(reply)
            self.assertEqual(job["state"], "done", job)
            wait_for("both to be told", lambda: self.mode(a) == self.mode(b) == mode)
            self.assertEqual(a.get("/api/v1/pair").json["link_protection"], mode)
            self.problem(a.post(self.PATH, {"tls": tls}), 409, "conflict")
        for node in (a, b):
            self.assertNotIn("PRIVATE KEY", node.log())

    def test_it_takes_a_pair_of_two_that_answer_and_a_request_that_makes_sense(self):
        a = self.node("alone")
        self.problem(a.post(self.PATH, {"tls": True}), 409, "no-pair")
        a, b = self.pair()
        self.problem(a.post(self.PATH, {"tls": "yes"}), 422, "invalid", "/tls")
        self.problem(a.post(self.PATH, {"tls": False, "more": 1}), 422, "invalid", "/more")
        self.problem(a.post(self.PATH, raw=b"{", headers={"Content-Type": "application/json"}), 400, "malformed")
        b.stop_mgmtd()
        self.problem(a.post(self.PATH, {"tls": False}), 503, "not-current")


class Certificates(Scratch):
    NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

    def issue(self, name, names="DNS:node-a.example,IP:127.0.0.1", days="2", key=NEW_KEY):
        files = [self.folder / f"{name}.{kind}" for kind in ("crt", "key")]
        made = subprocess.run(["openssl", "req", "-x509", *key, "-days", days, "-subj", f"/CN={name}", "-out", files[0],
                               "-keyout", files[1], *(["-addext", f"subjectAltName={names}"] if names else [])],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return files

    @staticmethod
    def body(certificate, key):
        return {"certificate": certificate.read_text(), "key": key.read_text()}

    @staticmethod
    def shown(node, name=None):
        context = ssl._create_unverified_context()
        with socket.create_connection(("127.0.0.1", node.port), 10) as tcp, \
                context.wrap_socket(tcp, server_hostname=name) as tls:
            return ssl.DER_cert_to_PEM_cert(tls.getpeercert(True))

    def give(self, node, certificate, key):
        reply = node.request("PUT", "/api/v1/certificate", self.body(certificate, key))
        if reply.status == 200:
            node.ca = certificate
        return reply

    def together(self, a, b):
        for node in (a, b):
            wait_for("both managements to see each other", lambda n=node: all(
                x["reachable"] for x in n.get("/api/v1/nodes").json["items"]))
        self.assertEqual(b.post("/api/v1/tokens", {"name": f"t{len(a.get('/api/v1/tokens').json['items'])}"}).status, 201)

    def test_an_own_one_is_shown_at_once_and_kept_while_the_nodes_go_on_with_theirs(self):
        a, b = self.pair()
        first = (a.folder / "mgmt/tls.crt").read_text()
        before = a.get("/api/v1/certificate").json
        self.assertEqual((before["own"], before["node"], before["missing_names"]), (False, "node-a", []), before)
        for name in ("node-a", "localhost", "127.0.0.1"):
            self.assertIn(name, before["names"])
        certificate, key = self.issue("own")
        given = self.give(a, certificate, key)
        self.assertEqual((given.status, given.json["own"], given.json["subject"]), (200, True, "CN=own"), given)
        self.assertNotIn(b"PRIVATE", given.raw)
        self.assertEqual(given.json["missing_names"][0], "node-a", given.json)
        self.assertEqual(self.shown(a).strip(), certificate.read_text().strip())
        self.assertEqual((a.folder / "mgmt/tls.crt").read_text(), first)
        self.assertEqual((a.folder / "mgmt/page-own.pem").stat().st_mode & 0o777, 0o600)
        self.together(a, b)
        a.stop_mgmtd(signal.SIGKILL)
        a.start_mgmtd()
        self.assertEqual(self.shown(a).strip(), certificate.read_text().strip())
        self.together(a, b)
        self.assertFalse(b.get("/api/v1/certificate").json["own"], "each node has its own")
        # It ends in two days.
        wait_for("the health to tell", lambda: any(
            "certificate" in p["message"] for p in a.get("/api/v1/health").json["problems"]))
        self.assertEqual(a.delete("/api/v1/certificate").status, 204)
        a.ca = None
        self.assertEqual(self.shown(a).strip(), first.strip())
        self.problem(a.delete("/api/v1/certificate"), 404, "not-found")
        self.together(a, b)
        self.assertNotIn("PRIVATE", a.log())

    def test_one_with_another_kind_of_key_is_the_only_one_shown(self):
        a, _ = self.pair()
        certificate, key = self.issue("rsa", key=("-newkey", "rsa:2048", "-nodes"))
        self.assertEqual(self.give(a, certificate, key).status, 200)
        self.assertEqual(self.shown(a).strip(), certificate.read_text().strip())
        context = ssl._create_unverified_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
        with self.assertRaises(ssl.SSLError), socket.create_connection(("127.0.0.1", a.port), 10) as tcp:
            context.wrap_socket(tcp)

    def test_the_partners_channel_shows_the_pinned_one(self):
        a, b = self.pair()
        self.assertEqual(self.give(a, *self.issue("own")).status, 200)
        context = ssl._create_unverified_context()
        context.load_cert_chain(b.folder / "mgmt/tls.crt", b.folder / "mgmt/tls.key")
        with socket.create_connection(("127.0.0.1", a.port), 10) as tcp, \
                context.wrap_socket(tcp, server_hostname="peer.lockstep.internal") as tls:
            seen = ssl.DER_cert_to_PEM_cert(tls.getpeercert(True))
        self.assertEqual(seen.strip(), (a.folder / "mgmt/tls.crt").read_text().strip())

    def test_what_is_not_fit_is_refused_and_the_one_that_is_shown_stays(self):
        a = self.node("node-a")
        good, other = self.issue("good"), self.issue("other")
        protected = self.folder / "protected.key"
        subprocess.run(["openssl", "pkey", "-in", good[1], "-aes256", "-passout", "pass:four", "-out", protected],
                       check=True, capture_output=True)

        def refused(pointer, certificate, key):
            self.problem(a.request("PUT", "/api/v1/certificate", self.body(certificate, key)), 422, "invalid", pointer)
        refused("/key", good[0], other[1])
        refused("/key", good[0], protected)
        refused("/key", good[0], good[0])
        refused("/certificate", good[1], good[1])
        refused("/certificate", *self.issue("nameless", names=None))
        self.problem(a.request("PUT", "/api/v1/certificate", {"key": 1}), 422, "invalid", "/key", "/certificate")
        self.problem(a.request("PUT", "/api/v1/certificate", raw=b"x", headers={"Content-Type": "application/json"}), 400,
                     "malformed")
        self.assertEqual(self.shown(a).strip(), (a.folder / "mgmt/tls.crt").read_text().strip())

    def test_the_command_sets_shows_and_resets_it(self):
        a = self.node("node-a")
        certificate, key = self.issue("own")

        def run(*arguments):
            return subprocess.run([scratch.BUILD / "ui-api/cli/lockstep", "--server", f"https://{a.address}", "--ca", a.ca or a.folder / "mgmt/tls.crt",
                                   "--token-file", a.folder / "mgmt/admin.token", "node", "certificate",
                                   *map(str, arguments)], capture_output=True, text=True, timeout=30)
        done = run("set", "--certificate", certificate, "--key", key)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("its own", done.stdout)
        a.ca = certificate
        self.assertIn("CN=own", run("show").stdout)
        self.assertEqual(run("reset").returncode, 0)
        a.ca = None
        self.assertIn("self-made", run("show").stdout)
        missing = run("set", "--certificate", pathlib.Path("/none"), "--key", key)
        self.assertEqual(missing.returncode, 2, missing)
