"""The replication link with TLS, with real daemons: who reaches its port without the partner's certificate gets nothing, and a
pair comes to it, and back, under the verifying writer."""
import contextlib
import signal
import socket
import ssl
import subprocess

from harness import Failed, Writer, check, check_time, group, wait_for
from managed_pair import scene
from raw_iscsi import Connection, begin
from test_lost_management import Scene

LONGEST_PAUSE_MS = 500


def link_of(node):
    host, port = node.link.split(":")
    return host, int(port)


def cipher(node, side):
    return next(n["partner_link"]["cipher"] for n in node.get("/api/v1/nodes").json["items"] if n["side"] == side)


def protection(node):
    return node.get("/api/v1/pair").json["link_protection"]


def protect(node, tls):
    return node.post("/api/v1/pair/link-protection", {"tls": tls})


def heard_without_tls(node):
    """What the link's port says to a login, from the partner's own address."""
    with contextlib.closing(socket.create_connection(link_of(node), 5)) as s:
        s.settimeout(10)
        s.sendall(bytes([0x43, 0x87]) + bytes(46))
        with contextlib.suppress(ConnectionError):
            return s.recv(4096)
        return b""


def shakes_hands(node, context):
    """With TLS 1.3 a client learns that it was refused from what it reads next."""
    try:
        with socket.create_connection(link_of(node), 5) as plain, context.wrap_socket(plain) as s:
            s.settimeout(5)
            s.sendall(bytes([0x43, 0x87]) + bytes(46))
            return s.recv(1) != b""
    except (ssl.SSLError, ConnectionError):
        return False


def client(certificate=None, newest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(*certificate)
    if newest:
        context.maximum_version = newest
    return context


def made_by_a_stranger(folder):
    shown, key = folder / "stranger.crt", folder / "stranger.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                    "-subj", "/CN=stranger", "-keyout", key, "-out", shown], check=True, stderr=subprocess.DEVNULL)
    return shown, key


@group("security")
def test_a_new_pairs_link_is_encrypted_and_says_nothing_to_whoever_is_not_the_partner():
    with scene(Scene) as s:
        check(protection(s.a) == protection(s.b) == "required", "the link has TLS from its beginning")
        for side in "ab":
            wait_for(f"it to be encrypted on the way out of {side}", lambda: cipher(s.a, side) == "TLS_AES_256_GCM_SHA384")
        for node in (s.a, s.b):
            check(heard_without_tls(node) == b"", "a login without TLS gets not one byte")
            check(not shakes_hands(node, client()), "who shows no certificate is refused")
            check(not shakes_hands(node, client(made_by_a_stranger(s.folder))), "who shows a stranger's is refused")
            check(not shakes_hands(node, client(newest=ssl.TLSVersion.TLSv1_2)), "who offers less than TLS 1.3 is refused")
            page = node.folder / "mgmt" / "page-made.pem"
            if page.exists():
                check(not shakes_hands(node, client((page, page))), "the page's certificate is not the node's")
            for why in ("does not speak TLS", "shows no certificate", "not the one that the pair knows"):
                wait_for(f"the log to tell of it: {why}", lambda: why in (node.folder / "lockstepd.log").read_text())
        s.in_sync()


@group("security")
def test_the_nodes_own_identity_opens_the_link_but_no_session_without_the_links_secrets():
    with scene(Scene) as s:
        own = tuple(s.a.folder / "mgmt" / name for name in ("tls.crt", "tls.key"))
        context = client(own)
        pair = s.a.get("/api/v1/pair").json["id"]
        with socket.create_connection(link_of(s.b), 5) as plain, context.wrap_socket(plain) as tls:
            with contextlib.closing(Connection(tls)) as call:
                begin(call, *(f"iqn.2026-11.io.lockstep:link.{pair}.{side}" for side in "ab"))
                call.request({"CHAP_N": "link", "CHAP_R": "0x" + "00" * 16})
                check(call.status != 0, "without the secret there is no session")
        s.in_sync()


@group("security")
def test_a_pair_goes_over_to_a_link_without_tls_and_back_while_a_host_writes():
    with scene(Scene, witness=True) as s:
        writer = Writer(s, s.volume, [s.a, s.b], all_paths=True)
        writer.wait_writes(300)
        since, epoch = len(writer.lines), s.epoch(s.a)
        for tls in (False, True):
            job = s.a.job(protect(s.b, tls))
            check(job["state"] == "done", f"it is done: {job}")
            wanted = "TLS_AES_256_GCM_SHA384" if tls else None
            for side in "ab":
                wait_for("the link to be so", lambda side=side: cipher(s.a, side) == wanted)
            writer.wait_writes(200)
            health = s.a.get("/api/v1/health").json
            told = any("not encrypted" in p["message"] for p in health["problems"])
            check(told != tls, f"the health says so: {health}")
            again = protect(s.a, tls)
            check(again.status == 409, f"what is so already is refused: {again}")
        check(s.epoch(s.a) == epoch, "no epoch ended for it")
        gap = writer.longest_gap_since(since)
        check_time(gap <= LONGEST_PAUSE_MS, f"the longest pause was {gap} ms")
        s.in_sync()
        writer.stop()
        s.check_whole()
        return f"longest pause {gap} ms"


def begun(s, tls, progress):
    """A job that has come so far and is not done: the steps are taken within a second."""
    for _ in range(20):
        reply = protect(s.a, tls)
        check(reply.status == 202, f"the job begins: {reply}")
        job = wait_for("the job to come so far", lambda: (
            lambda j: j if j["progress"] >= progress else None)(s.a.get(reply.headers["Location"]).json))
        if job["state"] in ("pending", "running"):
            return reply
        done = s.a.job(protect(s.a, not tls))
        check(done["state"] == "done", f"back again: {done}")
    raise Failed("no job was met at that step")


@group("security")
def test_a_node_that_is_killed_in_a_step_comes_back_to_a_link_that_works():
    with scene(Scene, witness=True) as s:
        writer = Writer(s, s.volume, [s.a, s.b])
        writer.wait_writes(300)
        for tls, progress in ((False, 0.3), (True, 0.3), (False, 0.6), (True, 0.6)):
            reply = begun(s, tls, progress)
            s.b.stop_mgmtd(signal.SIGKILL)
            s.b.stop_lockstepd(signal.SIGKILL)
            writer.wait_writes(50, 40)
            s.b.start()
            job = s.a.job(reply, 120)
            check(job["state"] == "done", f"it goes on: {job}")
            for node in (s.a, s.b):
                wait_for("both replicas to be in sync", lambda n=node: set(s.states(n).values()) == {("in_sync", True)}, 60)
        writer.wait_writes(100)
        writer.stop()
        s.check_whole()
