"""The package lockstep-witness: what its command prints makes a pair that survives the loss of a node, and no pair's user
reaches another's keys. Real etcd, real daemons, the verifying writer."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile

from basics import group, settings
from harness import check, wait_for
from managed_pair import scene
from nodes import Node, join
from packaged_witness import EtcdSaid, PackagedWitness, b64, command_in, span
from test_replace import Scene


class WitnessedPair(Scene):
    """Made by the very command that `lockstep-witness add-pair` prints."""

    def start(self):
        self.witness = PackagedWitness(self.folder / "witness")
        self.witness.done(*self.witness.setup_arguments)
        self.witness.start()
        self.a.start()
        self.b.start()
        said = self.witness.done("add-pair", "pair1")
        status, said = self.as_printed(command_in(said, "lockstep", "pair", "create"), "pair1")
        check(status == 0, f"the printed command makes the pair: {said}")
        join(self.a, self.b)
        self.make_volume()
        self.wait_for_states("in_sync", "in_sync")

    def as_printed(self, words, pair):
        """On node a, in a folder with the two files that were copied there."""
        folder = self.folder / "copied"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("ca.pem", "password"):
            shutil.copy(self.witness.pair_folder(pair) / name, folder)
        files = {"ca.pem", "password"}
        return self.command(*[folder / word if word in files else word for word in words])

    def stop(self):
        super().stop()
        self.witness.kill()

    def wait_until_known(self):
        def known():
            nodes = self.a.get("/api/v1/pair/witness").json["nodes"]
            return len(nodes) == 2 and all(n["reachable"] and n["volumes_not_known"] == 0 for n in nodes)
        wait_for("both nodes to put their records at the witness", known, 60)

    def goes_on_alone(self, node, side):
        wait_for(f"node {side} to go on alone by the witness's word",
                 lambda: next(r for r in self.volume(node)["replicas"] if r["side"] == side)["state"] == "solo", 30)

    def loses_a_node_under_a_writer(self, writes):
        """`writes` before, and as many while the other node goes on alone; in the end both hold the same."""
        writer = self.writer()
        writer.wait_writes(writes)
        self.a.stop_mgmtd(signal.SIGKILL)
        self.a.stop_lockstepd(signal.SIGKILL)
        self.goes_on_alone(self.b, "b")
        writer.wait_writes(writes)
        self.a.start()
        self.wait_for_states("in_sync", "in_sync")
        writer.stop()
        self.check_both_hold_the_same(self.files(self.b)[0], writer.log)


def test_serves_a_pair_made_by_what_it_prints_and_the_other_node_goes_on_when_one_is_killed():
    with scene(WitnessedPair) as s:
        s.wait_until_known()
        pair = s.a.get("/api/v1/pair").json["id"]

        def row():
            return next(line.split() for line in s.witness.done("list").splitlines() if line.startswith("pair1"))
        check(row()[1] == pair, f"it is listed with its id: {row()}")
        wait_for("its records to be counted", lambda: int(row()[2]) >= 2)
        s.loses_a_node_under_a_writer(300)
        s.witness.refused("it may still be its witness", "remove", "pair1")


def test_gives_a_pair_another_password_and_another_certificate_while_it_is_used():
    with scene(WitnessedPair) as s:
        s.wait_until_known()
        status, said = s.as_printed(command_in(s.witness.done("new-password", "pair1"), "lockstep", "pair", "witness", "set"),
                                    "pair1")
        check(status == 0, f"the printed command tells the pair: {said}")
        s.witness.done("renew")
        s.witness.kill()  # and whoever comes back sees the new certificate
        s.witness.start()
        s.wait_until_known()
        s.a.stop_mgmtd(signal.SIGKILL)
        s.a.stop_lockstepd(signal.SIGKILL)
        s.goes_on_alone(s.b, "b")


@contextlib.contextmanager
def witness():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-witness-"))
    made = PackagedWitness(folder / "witness")
    try:
        yield made
    finally:
        made.kill()
        if not settings.keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def running_witness():
    with witness() as w:
        w.done(*w.setup_arguments)
        w.start()
        yield w


def is_denied(what, ask, *arguments, **body):
    try:
        check(False, f"{what}: {ask(*arguments, **body)}")
    except EtcdSaid as said:
        check("permission denied" in said.message or "user name is empty" in said.message, f"{what}: {said.message}")


@group("security")
def test_lets_a_pairs_user_reach_the_keys_of_that_pair_alone():
    with running_witness() as w:
        w.done("add-pair", "pair1")
        w.done("add-pair", "pair2")
        one, two = w.etcd_as("pair1"), w.etcd_as("pair2")
        key = {"key": b64(f"/lockstep/{w.id_of('pair1')}/volume/x")}
        one.ask("kv/put", **key, value=b64("a record"))
        swap = {"compare": [{"target": "MOD", "result": "GREATER", **key, "mod_revision": "0"}], "failure": [],
                "success": [{"request_delete_range": key}]}
        nobody = w.etcd_as("pair2")
        nobody.token = None
        for who, etcd in (("the other pair's user", two), ("who has no password", nobody)):
            is_denied(f"{who} reads", etcd.ask, "kv/range", **key)
            is_denied(f"{who} writes", etcd.ask, "kv/put", **key, value=b64("another"))
            is_denied(f"{who} swaps", etcd.ask, "kv/txn", **swap)
            is_denied(f"{who} deletes", etcd.ask, "kv/deleterange", **key)
            is_denied(f"{who} reads all", etcd.ask, "kv/range", **span("/lockstep/"))
            is_denied(f"{who} deletes all", etcd.ask, "kv/deleterange", key="AA==", range_end="AA==")
            is_denied(f"{who} makes users", etcd.ask, "auth/user/add", name="x", password="x")
            is_denied(f"{who} gives itself a role", etcd.ask, "auth/user/grant", user="pair-pair2", role="root")
            is_denied(f"{who} switches users off", etcd.ask, "auth/disable")
        check(one.keys_below(f"/lockstep/{w.id_of('pair1')}/") == 1, "the record is there")
        w.refused("There is no pair", "remove", "pair3")
        w.refused("it may still be its witness", "remove", "pair1")
        w.done("remove", "pair1", "--with-records")
        check("pair1" not in w.done("list"), "it is gone")


@group("security")
def test_is_closed_to_others_from_its_first_start_on():
    """While there are no users yet, etcd takes nobody's connection but that of the command."""
    with witness() as w:
        setup, refused, taken = w.spawn(*w.setup_arguments), 0, []
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        while setup.poll() is None:
            for port in listening_ports(children_of(setup.pid)):
                try:
                    taken.append(asked_by(stranger, port))
                except OSError:
                    refused += 1
        check(setup.wait() == 0, setup.stdout.read())
        check(refused > 0 and not taken, f"{refused} connections were refused, and these were taken: {taken}")
        log = w.config.parent / "etcd.log"
        w.start()
        for port in (w.port, w.port + 1):
            with contextlib.suppress(OSError):
                check(b"user name is empty" in asked_by(stranger, port) and port == w.port, f"nothing without a password: {port}")
        check(log.exists(), "etcd was started")


def children_of(pid):
    """Those of all its threads."""
    children = set()
    for task in entries_of(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            children |= {int(child) for child in (task / "children").read_text().split()}
    return children


def entries_of(folder):
    """None of a process that has ended meanwhile."""
    with contextlib.suppress(OSError):
        return list(pathlib.Path(folder).iterdir())
    return []


def listening_ports(pids):
    sockets = set()
    for pid in pids:
        for descriptor in entries_of(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(descriptor))
    ports = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
            ports.add(int(words[1].split(":")[1], 16))
    return ports


def asked_by(context, port):
    """What is answered to whoever asks for the users there, over TLS."""
    body = b"{}"
    with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain) as secure:
        secure.sendall(b"POST /v3/auth/user/list HTTP/1.0\r\nContent-Length: 2\r\n\r\n" + body)
        said = secure.recv(4096)
        if not said:
            raise ConnectionError("it hung up")
        return said


def test_a_pair_made_with_another_id_than_its_user_is_for_is_refused_in_a_sentence():
    with running_witness() as w:
        w.done("add-pair", "pair1")
        node = Node(settings.build, w.folder.parent / "node-a", "node-a", real=True)
        try:
            node.start()
            wait_for("management to speak to lockstepd", lambda: "lockstepd answers" in node.log())
            arbiter = {"kind": "witness", "endpoints": [f"https://127.0.0.1:{w.port}"], "user": "pair-pair1",
                       "ca": (w.pair_folder("pair1") / "ca.pem").read_text(),
                       "password": (w.pair_folder("pair1") / "password").read_text().strip()}
            made = node.post("/api/v1/pair", {"name": "pair1", "arbiter": arbiter})
            check(made.status == 422 and "the id that the user was made for" in made.raw.decode(), f"it says why: {made}")
            made = node.post("/api/v1/pair", {"name": "pair1", "arbiter": arbiter, "id": w.id_of("pair1")})
            check(made.status == 201, f"with its id it is made: {made}")
        finally:
            node.stop()


def files_of(w):
    return {path: path.read_bytes() for path in sorted(w.config.rglob("*")) if path.is_file()}


def test_changes_nothing_when_it_is_run_again():
    with running_witness() as w:
        w.done("add-pair", "pair1")
        before = files_of(w)
        w.done(*w.setup_arguments)
        w.refused("There is a witness here already", "setup", "--address", "127.0.0.2", "--no-start")
        w.done("add-pair", "pair1")
        w.refused("is here already", "add-pair", "pair1", "--id", "0f8fad5b-d9cb-469f-a165-70867728950e")
        w.refused("has that id here already", "add-pair", "pair2", "--id", w.id_of("pair1"))
        w.refused("is no pair's id", "add-pair", "pair2", "--id", "00000000-0000-0000-0000-000000000000")
        check(files_of(w) == before, "every file is as it was")
        w.etcd_as("pair1")
        for file in (w.config / "ca.key", w.config / "root.password", w.pair_folder("pair1") / "password"):
            check(file.stat().st_mode & 0o077 == 0, f"nobody else reads {file}")


def test_finishes_what_was_cut_off_wherever_that_was():
    with witness() as w:
        for wait in (0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 1.6, 2.0):
            cut_off(w.spawn(*w.setup_arguments), wait)
        w.done(*w.setup_arguments)
        w.start()
        for wait in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
            cut_off(w.spawn("add-pair", "pair1"), wait)
        w.done("add-pair", "pair1")
        w.etcd_as("pair1").keys_below(f"/lockstep/{w.id_of('pair1')}/")
        for wait in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
            cut_off(w.spawn("remove", "pair1"), wait)
        w.run("remove", "pair1")
        check("pair1" not in w.done("list") and not w.pair_folder("pair1").exists(), "it is gone")


def test_what_etcd_has_begun_with_when_it_is_cut_off_is_not_taken_for_its_data():
    """etcd that is killed while it makes its first data never elects itself with them."""
    with witness() as w:
        process = w.spawn(*w.setup_arguments)
        wait_for("etcd to begin with its first data", lambda: any(w.data.rglob("member/wal")), 60, interval=0.001)
        cut_off(process, 0)
        check(not w.unit_would_start_it(), "no unit starts such an etcd")
        w.done(*w.setup_arguments)
        check([entry.name for entry in (w.data / "etcd").iterdir()] == ["member"], "nothing of the first attempt is left")
        w.start()


def cut_off(process, seconds):
    """Killed after so long, whatever it is at."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=seconds)
    process.kill()
    process.communicate()


def test_takes_a_certificate_of_a_ca_of_ones_own_and_refuses_one_that_nodes_would_not_take():
    with witness() as w:
        made = w.folder / "given"
        other = PackagedWitness(w.folder / "other")
        other.done(*other.setup_arguments)
        made.mkdir()
        for name in ("ca.pem", "server.pem", "server.key", "peer.pem"):
            shutil.copy(other.config / name, made / name)
            (made / name).chmod(0o644)
        made.chmod(0o755)

        def given(ca="ca.pem", certificate="server.pem", key="server.key", address="127.0.0.1"):
            return ["setup", "--address", address, "--port", str(w.port), "--no-start", "--ca", str(made / ca),
                    "--certificate", str(made / certificate), "--key", str(made / key)]
        w.refused("is the key that of the certificate", *given(certificate="peer.pem"))
        w.refused("A node could not use this certificate for 127.0.0.9", *given(address="127.0.0.9"))
        w.refused("A node could not use this certificate", *given(ca="peer.pem"))
        check(not (w.config / "settings.json").exists(), "nothing was set up")
        w.done(*given())
        check(not (w.config / "ca.key").exists(), "the CA's key is not here")
        w.start()
        w.done("add-pair", "pair1")
        w.etcd_as("pair1")
        w.refused("have it sign another certificate", "renew")


def test_whose_database_is_full_takes_writes_again_after_one_command():
    with witness() as w:
        w.done(*w.setup_arguments)
        settings_file = w.config / "etcd.yaml"
        small, found = re.subn("quota-backend-bytes: .*", "quota-backend-bytes: 2097152", settings_file.read_text())
        check(found == 1, "the quota is made small, so that the database is soon full")
        settings_file.write_text(small)
        w.start()
        w.done("add-pair", "pair1")
        one = w.etcd_as("pair1")
        record = {"key": b64(f"/lockstep/{w.id_of('pair1')}/volume/x"), "value": b64("x" * 40000)}
        try:
            for _ in range(200):
                one.ask("kv/put", **record)
            check(False, "the database is full")
        except EtcdSaid as said:
            check(said.message == "mvcc: database space exceeded", said.message)
        check("takes writes again" in w.done("compact"), "it says that it was full")
        for _ in range(20):
            one.ask("kv/put", **record)
        check("takes writes again" not in w.done("compact"), "once more, it was not")
        check(one.keys_below(f"/lockstep/{w.id_of('pair1')}/") == 1, "and the record is there")
