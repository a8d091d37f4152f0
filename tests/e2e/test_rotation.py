"""Credentials that change in use, with real daemons: a host's secret, the link's secrets under the verifying writer, and
what the page shows."""
import datetime
import signal
import ssl
import subprocess
import threading
import time

from harness import Failed, Rpc, Writer, check, group, wait_for
from managed_pair import scene
from scsi_client import GOOD, Initiator
from test_lost_management import Lun, MIB, Scene

HOST = "mail"
IQN = f"iqn.2026-11.io.example:{HOST}"
OLD, NEW, WRONG = "an-old-secret-01", "a-newer-secret-2", "a-wrong-secret-3"


class WithAHost(Scene):
    """Beside the writer's volume there is one that a host with a secret may use."""

    def start(self, **shape):
        super().start(**shape)
        made = self.a.post("/api/v1/initiators", {"iqn": IQN, "chap": {"user": IQN, "secret": OLD}})
        check(made.status == 201, f"the host is made known: {made}")
        job = self.a.job(self.a.post("/api/v1/volumes", {"name": "mails", "size_bytes": 16 * MIB, "access": [IQN]}))
        check(job["state"] == "done", f"the host's volume is made: {job}")
        self.mails = Lun(self.a.volume("mails"))
        self.isid = 0

    def revision(self, node):
        return Rpc(node.socket).call("node.status")["revision"]

    def log_in(self, node, secret):
        self.isid += 1
        return Initiator(self, node, self.mails, HOST, self.isid, secret)

    def lets_in(self, node, secret):
        try:
            self.log_in(node, secret).close()
        except Failed:
            return False
        return True

    def change(self, seconds):
        """When the old secret's time is over, by this machine's clock."""
        before = max(self.revision(n) for n in (self.a, self.b))
        changed = self.b.post(f"/api/v1/initiators/{IQN}/secret",
                              {"chap": {"secret": NEW}, "old_valid_for_seconds": seconds})
        check(changed.status == 200, f"the secret is changed: {changed}")
        for node in (self.a, self.b):
            wait_for("lockstepd to be told", lambda n=node: self.revision(n) > before)
        until = changed.json["old_secret_valid_until"]
        return datetime.datetime.fromisoformat(until.replace("Z", "+00:00")).timestamp() if until else 0

    def is_out(self, host):
        try:
            return host.read().status != GOOD
        except (ConnectionError, Failed):
            return True

    def files_with(self, node, secret):
        return [f.name for f in node.folder.glob("*/*")
                if f.is_file() and f.suffix != ".data" and secret.encode() in f.read_bytes()]


@group("security")
def test_a_host_logs_in_with_both_secrets_until_the_time_is_over_and_with_the_new_one_after():
    with scene(WithAHost) as s:
        session = s.log_in(s.a, OLD)
        until = s.change(30)
        for node in (s.a, s.b):
            check(s.lets_in(node, NEW), f"{node.name} lets in the new one")
            check(s.lets_in(node, OLD), f"{node.name} lets in the old one, too")
        check(not s.lets_in(s.a, WRONG), "and no other")
        check(session.write().status == GOOD, "the session that there was goes on")
        s.b.stop_mgmtd(signal.SIGKILL)
        s.b.stop_lockstepd(signal.SIGKILL)
        s.b.start()
        wait_for("the old one to be let in after a restart, too", lambda: s.lets_in(s.b, OLD) or time.time() > until)
        check(time.time() < until, "it is let in before its time is over")
        # Nobody tells B's lockstepd any more: it goes by the time that it was told.
        s.b.stop_mgmtd(signal.SIGKILL)
        wait_for("the time to be over", lambda: time.time() > until, 60)
        for node in (s.a, s.b):
            check(not s.lets_in(node, OLD), f"{node.name} lets in the old one no more")
            check(s.lets_in(node, NEW), f"{node.name} lets in the new one")
        wait_for("the session by the old one to end", lambda: s.is_out(session))
        s.b.start_mgmtd()
        for node in (s.a, s.b):
            wait_for("the old one to be erased", lambda n=node: not s.files_with(n, OLD), 30)
            check(s.files_with(node, NEW), "the search would have found it")


@group("security")
def test_a_new_secret_may_be_the_only_one_at_once():
    with scene(WithAHost) as s:
        session = s.log_in(s.b, OLD)
        s.change(0)
        wait_for("the session by the old one to end", lambda: s.is_out(session))
        for node in (s.a, s.b):
            check(not s.lets_in(node, OLD) and s.lets_in(node, NEW), f"{node.name} lets in the new one alone")


def begun(s, progress):
    """A job that has come so far and is not done: the steps are taken within a second."""
    for _ in range(20):
        reply = s.a.post("/api/v1/pair/link-secrets")
        check(reply.status == 202, f"the job begins: {reply}")
        job = wait_for("the job to come so far", lambda: (
            lambda j: j if j["progress"] >= progress else None)(s.a.get(reply.headers["Location"]).json))
        if job["state"] in ("pending", "running"):
            return reply
    raise Failed("no job was met at that step")


def lost_partners(node, side):
    """As that node's lockstepd told: what the other one's told comes later."""
    return [e for e in node.get("/api/v1/events?limit=1000").json["items"] if (e["kind"], e["side"]) == ("partner.lost", side)]


def test_the_links_secrets_are_replaced_under_a_host_without_a_break():
    with scene(Scene, witness=True) as s:
        writer = Writer(s, s.volume, [s.a, s.b])
        writer.wait_writes(300)
        before = [len(lost_partners(n, n.side)) for n in (s.a, s.b)]
        for _ in range(3):
            job = s.a.job(s.b.post("/api/v1/pair/link-secrets"))
            check(job["state"] == "done", f"they are replaced: {job}")
        writer.wait_writes(300)
        check([len(lost_partners(n, n.side)) for n in (s.a, s.b)] == before, "the link's session went on")
        # The new ones are good for a login, and the witness's records for a failover.
        s.b.stop_lockstepd(signal.SIGKILL)
        writer.wait_writes(100, 40)
        s.b.start_lockstepd()
        s.in_sync()
        s.a.stop_mgmtd(signal.SIGKILL)
        s.a.stop_lockstepd(signal.SIGKILL)
        writer.wait_writes(100, 40)
        s.a.start()
        s.in_sync()
        writer.stop()
        s.check_whole()


@group("security")
def test_the_links_secrets_are_replaced_though_a_node_is_killed_in_each_step():
    with scene(Scene, witness=True) as s:
        writer = Writer(s, s.volume, [s.a, s.b])
        writer.wait_writes(300)
        for progress in (0.3, 0.6):
            for kills in ((s.b.stop_lockstepd,), (s.a.stop_lockstepd,), (s.b.stop_mgmtd,),
                          (s.a.stop_mgmtd, s.b.stop_mgmtd), (s.b.stop_mgmtd, s.b.stop_lockstepd)):
                reply = begun(s, progress)
                for kill in kills:
                    kill(signal.SIGKILL)
                writer.wait_writes(50, 40)
                for kill in kills:
                    node = kill.__self__
                    (node.start_mgmtd if kill.__name__ == "stop_mgmtd" else node.start_lockstepd)()
                job = s.a.job(reply, 120)
                check(job["state"] == "done", f"it goes on at {progress}: {job}")
                s.in_sync()
        writer.wait_writes(100)
        writer.stop()
        s.check_whole()


def issue(folder, name):
    files = [folder / f"{name}.{kind}" for kind in ("crt", "key")]
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                           "90", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0],
                           "-keyout", files[1]], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    check(made.returncode == 0, made.stderr)
    return files


class Poller(threading.Thread):
    """A client that trusts each of the certificates and asks a node over and over, on connections of its own."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.over = node, False
        self.answers, self.troubles = 0, []

    def run(self):
        while not self.over:
            try:
                reply = self.node.get("/api/v1/nodes", quiet=True)
                nodes = reply.json["items"]
                if reply.status != 200 or not all(n["reachable"] for n in nodes):
                    self.troubles.append(str(reply))
                self.answers += 1
            except (OSError, ssl.SSLError) as why:
                self.troubles.append(str(why))
            time.sleep(0.01)

    def more(self):
        had = self.answers
        wait_for("more answers", lambda: self.answers > had + 3 or self.troubles)


@group("security")
def test_the_pages_certificate_is_exchanged_while_a_client_polls_and_the_nodes_talk():
    with scene(Scene) as s:
        given = [issue(s.folder, name) for name in ("first", "second")]
        pollers = []
        for node in (s.a, s.b):
            bundle = s.folder / f"{node.name}.pem"
            own = (node.folder / "mgmt/tls.crt").read_text()
            bundle.write_text(own + "".join(c.read_text() for c, _ in given))
            node.ca = bundle
            pollers.append(Poller(node))
        for poller in pollers:
            poller.start()
        for step in (given[0], given[1], None, given[0]):
            for node in (s.a, s.b):
                if step:
                    body = {"certificate": step[0].read_text(), "key": step[1].read_text()}
                    reply = node.request("PUT", "/api/v1/certificate", body)
                    check(reply.status == 200 and reply.json["own"], f"it is taken: {reply}")
                else:
                    check(node.delete("/api/v1/certificate").status == 204, "the self-made one is shown again")
                for poller in pollers:
                    poller.more()
            made = s.b.post("/api/v1/tokens", {"name": f"t{time.monotonic_ns()}"})
            check(made.status == 201, f"the two nodes decide together: {made}")
        for poller in pollers:
            poller.over = True
            poller.join()
        troubles = [t for poller in pollers for t in poller.troubles]
        check(not troubles, f"nobody was turned away: {troubles[:3]}")
        check(not [e for e in s.a.get("/api/v1/events?limit=1000").json["items"] if e["kind"] == "node.unreachable"],
              "the partner was there throughout")
