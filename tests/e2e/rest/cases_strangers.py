"""Nobody gets into the management, and nobody stands in its way: what strangers send, against a real lockstep-mgmtd."""
import fcntl
import json
import os
import re
import select
import socket
import ssl
import subprocess
import time

from nodes import wait_for
from scratch import Scratch, attack
import scratch

F_SETPIPE_SZ = 1031


def tls(node, server_name=None, timeout=20):
    """A connection that trusts whoever answers."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", node.port), timeout), server_hostname=server_name)


def answers(connection):
    """The statuses of all answers that come until the connection is closed; nothing more is sent."""
    received = b""
    with socket.socket(fileno=os.dup(connection.fileno())) as below:
        below.shutdown(socket.SHUT_WR)
    try:
        while piece := connection.recv(65536):
            received += piece
    except (TimeoutError, ConnectionError, ssl.SSLError):
        pass
    return re.findall(r"HTTP/1\.1 ([0-9]{3}) ", received.decode("latin-1"))


@attack
class Log(Scratch):
    def test_an_event_that_happened_often_is_one_that_says_how_often(self):
        a = self.node("node-a", start=False)
        a.script(events=[{"kind": "session.refused", "message": "Refused.", "times": 791}])
        a.start()
        event = wait_for("the event", lambda: [
            e for e in a.get("/api/v1/events").json["items"] if e["kind"] == "session.refused"])[0]
        self.assertEqual((event["count"], event["message"]), (791, "Refused."))
        listed = subprocess.run([scratch.BUILD / "ui-api/cli/lockstep", "--server", f"https://{a.address}", "--ca",
                                 a.folder / "mgmt/tls.crt", "--token-file", a.folder / "mgmt/admin.token",
                                 "event", "list"], capture_output=True, text=True, timeout=30)
        self.assertIn("Refused. (791 times)", listed.stdout, listed)

    def test_a_log_that_nobody_reads_holds_nothing_up(self):
        a = self.node("node-a", start=False)
        reader, writer = os.pipe()
        fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
        a.start_lockstepd()
        a.write_configuration()
        a.mgmtd = subprocess.Popen([scratch.BUILD / "mgmt/main/lockstep-mgmtd", "--config", a.folder / "mgmtd.toml"],
                                   stdin=subprocess.DEVNULL, stdout=writer, stderr=writer)
        wait_for("node-a to answer", a.answers)
        for number in range(100):  # each is an event, and a line of the log
            self.assertEqual(a.post("/api/v1/tokens", {"name": f"t{number}", "role": "viewer"}).status, 201)
        wait_for("the log to be full: else the test shows nothing", lambda: not select.select([], [writer], [], 0)[1])
        self.assertEqual(a.get("/api/v1/pair").status, 200)
        a.mgmtd.terminate()
        self.assertEqual(a.mgmtd.wait(20), 0)
        os.close(reader)
        os.close(writer)


@attack
class Framing(Scratch):
    """RFC 9112 section 6: where a request ends is beyond doubt, or it is refused and the connection closed."""

    def send(self, node, *fields, body="", version="1.1", method="POST"):
        with tls(node, timeout=10) as connection:
            head = [f"{method} /api/v1/tokens HTTP/{version}", f"Authorization: Bearer {node.token}",
                    "Content-Type: application/json", *fields]
            connection.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode("latin-1"))
            return answers(connection)

    HIDDEN = "GET /api/v1/openapi.yaml HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

    def test_no_byte_behind_a_doubtful_body_is_taken_for_a_request(self):
        a = self.node("node-a")
        chunked = f"{len(self.HIDDEN):x}\r\n{self.HIDDEN}\r\n0\r\n\r\n"
        for fields, body, status in [
                (["Transfer-Encoding: chunked, identity"], self.HIDDEN, "400"),
                (["Transfer-Encoding: identity"], self.HIDDEN, "400"),
                (["Transfer-Encoding: gzip, chunked"], chunked, "501"),
                (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], self.HIDDEN, "400"),
                (["Content-Length: 4", "Transfer-Encoding: chunked"], chunked, "400"),
                (["Transfer-Encoding: chunked", "Content-Length: 4"], chunked, "400"),
                (["Content-Length: 0", f"Content-Length: {len(self.HIDDEN)}"], self.HIDDEN, "400"),
                (["Content-Length: 0", "Content-Length: 0"], self.HIDDEN, "400"),
                (["Content-Length: +0"], self.HIDDEN, "400"),
                (["X-Folded: a", " Content-Length: 5"], self.HIDDEN, "400"),
                (["Transfer-Encoding : chunked"], self.HIDDEN, "400"),
                (["Host: other"], self.HIDDEN, "400"),
                (["Content-Length: 18446744073709551616"], self.HIDDEN, "400")]:
            self.assertEqual(self.send(a, "Host: h", *fields, body=body), [status], fields)
        self.assertEqual(self.send(a, "Transfer-Encoding: chunked", body=self.HIDDEN, version="1.0"), ["400"])
        self.assertEqual(self.send(a, body=self.HIDDEN), ["400"], "without a Host")

    def test_chunks_of_malformed_size_are_refused(self):
        a = self.node("node-a")
        for chunk in ("-2\r\n{}", "0x2\r\n{}", "+2\r\n{}", "2_\r\n{}", "g\r\n{}", "\r\n{}", "10000000000000002\r\n{}",
                      "2\n{}", "2\r\n{}x\r\n"):
            self.assertEqual(self.send(a, "Host: h", "Transfer-Encoding: chunked", body=f"{chunk}\r\n0\r\n\r\n{self.HIDDEN}"),
                             ["400"], chunk)
        token = json.dumps({"name": "chunked", "role": "viewer"})
        self.assertEqual(self.send(a, "Host: h", "Connection: close", "Transfer-Encoding: chunked",
                                   body=f"{len(token):x};a=b\r\n{token}\r\n0\r\nX-After: b\r\n\r\n"), ["201"])

    def test_a_chunk_header_without_an_end_takes_no_memory(self):
        a = self.node("node-a")
        with tls(a) as connection:
            connection.sendall((f"POST /api/v1/tokens HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {a.token}\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n2;").encode() + b"a" * (1 << 20))
            self.assertEqual(answers(connection), ["431"])


STRANGER = "127.0.0.66"
MIB = 1 << 20


def silent(node, source=STRANGER):
    return socket.create_connection(("127.0.0.1", node.port), 20, (source, 0))


def certificate(folder):
    """Of anybody: self-signed, made for the occasion."""
    key, chain = folder / "stranger.key", folder / "stranger.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=stranger", "-keyout", key, "-out", chain], check=True, capture_output=True)
    return chain, key


def resident(process, field="VmRSS"):
    text = open(f"/proc/{process.pid}/status").read()
    return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) * 1024


@attack
class Crowds(Scratch):
    """Connections that only stand there keep nobody out, and bodies of strangers take no memory."""

    def test_silent_connections_keep_nobody_out(self):
        a, b = self.pair()
        crowd = [silent(a) for _ in range(600)]
        self.assertEqual(a.get("/api/v1/pair").status, 200, "this machine itself")
        with socket.create_connection(("127.0.0.1", a.port), 20, ("127.0.0.77", 0)) as s:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(s) as other:
                other.sendall(f"GET /api/v1/pair HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {a.token}\r\n\r\n".encode())
                self.assertEqual(answers(other), ["200"], "an operator from elsewhere")
        self.volume(a)  # both nodes take part
        for node in (a, b):
            wait_for("both nodes to see each other", lambda n=node: all(
                x["reachable"] for x in n.get("/api/v1/nodes").json["items"]))
        for s in crowd:
            s.close()

    def test_silent_connections_from_many_places_keep_nobody_out(self):
        a = self.node("node-a")
        crowd = [silent(a, f"127.1.{n // 250}.{n % 250 + 1}") for n in range(600)]
        for _ in range(3):
            self.assertEqual(a.get("/api/v1/pair").status, 200)
        for s in crowd:
            s.close()

    def test_silent_connections_of_this_machine_keep_its_root_in(self):
        a = self.node("node-a")
        crowd = [silent(a, "127.0.0.1") for _ in range(600)]
        self.assertEqual(a.get("/api/v1/pair").status, 200)
        for s in crowd:
            s.close()

    def test_a_header_that_never_ends_is_given_up(self):
        a = self.node("node-a")
        with tls(a, timeout=40) as connection:
            begun = time.monotonic()
            connection.sendall(b"GET / HTTP/1.1\r\n")
            connection.settimeout(0.5)
            while time.monotonic() - begun < 35:
                try:
                    connection.sendall(b"X: y\r\n")
                    if connection.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            self.assertLess(time.monotonic() - begun, 20)

    def test_unfinished_bodies_of_strangers_take_no_memory(self):
        a = self.node("node-a")
        chain, key = certificate(a.folder)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(chain, key)
        before = resident(a.mgmtd)
        crowd = []
        piece = b"x" * MIB
        for number in range(100):
            path = ["/peer/v1/forward", "/peer/v1/join", "/api/v1/tokens"][number % 3]
            s = context.wrap_socket(socket.create_connection(("127.0.0.1", a.port), 20), server_hostname="peer.lockstep.internal")
            s.settimeout(5)
            crowd.append(s)
            try:
                s.sendall(f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                          f"Content-Length: {16 * MIB}\r\n\r\n".encode())
                for _ in range(10):
                    s.sendall(piece)
            except OSError:
                pass  # refused: that is as good
        grown = resident(a.mgmtd, "VmHWM") - before
        self.assertLess(grown, 64 * MIB)
        for s in crowd:
            s.close()
        self.assertEqual(a.get("/api/v1/pair").status, 200)

    def test_who_sends_is_known_before_the_body_is_read(self):
        a = self.node("node-a")
        viewer = a.post("/api/v1/tokens", {"name": "viewer", "role": "viewer"}).json["token"]
        for token, status in (("wrong", "401"), (viewer, "403")):
            with tls(a) as connection:
                connection.sendall(f"POST /api/v1/volumes HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
                                   "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                                   "Content-Length: 1000\r\n\r\n".encode())
                self.assertEqual(re.findall(r"HTTP/1\.1 (\d+)", connection.recv(4096).decode()), [status])

    def test_json_that_would_grow_is_refused(self):
        a = self.node("node-a")
        before = resident(a.mgmtd)
        for body in ("[" * 900_000, "[" + "[]," * 300_000 + "[]]", '{"a":' * 150_000, "[" + "1," * 500_000 + "1]"):
            reply = a.request("POST", "/api/v1/tokens", raw=body.encode(), headers={"Content-Type": "application/json"})
            self.problem(reply, 400, "malformed")
        self.assertLess(resident(a.mgmtd, "VmHWM") - before, 16 * MIB)


@attack
class Secrets(Scratch):
    def test_no_answer_shows_a_secret_that_was_given(self):
        a, b = self.pair()
        own, targets, finders = "own-secret-of-1", "targets-secret-1", "finders-secret-1"
        given = [a.post("/api/v1/initiators", {"iqn": scratch.HOST1, "chap": {"user": "u", "secret": own},
                                               "mutual_chap": {"user": "m", "secret": targets}}),
                 a.patch("/api/v1/pair", {"discovery_chap": {"user": "finder", "secret": finders}})]
        self.assertEqual([reply.status for reply in given], [201, 200])
        token = a.post("/api/v1/tokens", {"name": "looker", "role": "viewer"}).json["token"]
        self.volume(a, access=[scratch.HOST1])
        read = [node.get(path, token=who) for node in (a, b) for who in (True, token)
                for path in ("/api/v1/pair", "/api/v1/initiators", f"/api/v1/initiators/{scratch.HOST1}", "/api/v1/volumes",
                             "/api/v1/events", "/api/v1/tokens", "/api/v1/jobs", "/api/v1/nodes", "/metrics")]
        for reply in given + read:
            for secret in (own, targets, finders, token, a.token):
                self.assertNotIn(secret, reply.raw.decode(), reply)
        self.assertLessEqual({reply.status for reply in read}, {200, 403})  # the viewer sees no tokens


@attack
class Streams(Scratch):
    """A stream of events goes on for as long as the token that opened it holds."""

    def ended(self, connection, seconds=10):
        connection.settimeout(seconds)
        try:
            while connection.recv(65536):
                pass
            return True
        except TimeoutError:
            return False

    def opened(self, node, token):
        connection = tls(node)
        connection.sendall(f"GET /api/v1/events/stream HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        self.assertIn(b" 200 ", connection.recv(4096))
        return connection

    def test_it_ends_with_its_token(self):
        a = self.node("node-a")
        revoked = a.post("/api/v1/tokens", {"name": "revoked", "role": "viewer"}).json
        kept = a.post("/api/v1/tokens", {"name": "kept", "role": "viewer"}).json
        first, second = self.opened(a, revoked["token"]), self.opened(a, kept["token"])
        self.assertEqual(a.delete(f"/api/v1/tokens/{revoked['id']}").status, 204)
        self.assertTrue(self.ended(first), "the stream of a token that was revoked")
        self.assertFalse(self.ended(second, 2), "the other's goes on")
