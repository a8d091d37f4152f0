"""A witness that is another than it should be, or holds what no node of the pair wrote: a real etcd, over TLS and with users.
Nothing is granted, and a sentence says why."""
import contextlib
import pathlib
import shutil
import sys
import tempfile
import time

from etcd import Etcd
from harness import Rpc, RpcError, World, Writer, check, settings, wait_for
from test_mirror import in_sync, pause_is_short, same_data, verify

sys.path.insert(0, str(pathlib.Path(__file__).parent / "rest"))
from nodes import Node as ManagedNode  # noqa: E402

GROUP = "security"
SECONDS = 40  # probes are seconds apart, and ever more after a wrong password


def of_another_ca(etcd):
    etcd.make_ca("stranger")
    etcd.make_certificate(ca="stranger")


# What etcd shows, how it comes by it, and what is said of it: none of them is the one of this witness.
WRONG_CERTIFICATES = (("one that has expired", lambda etcd: etcd.make_certificate(expired=True), "has expired"),
                      ("one of another host", lambda etcd: etcd.make_certificate(host="127.9.9.9"), "is of another host"),
                      ("one of another CA of the same name", of_another_ca, "not signed by the CA"))


class Listener:
    """What a node tells from now on."""

    def __init__(self, node):
        self.node, self.rpc, self.seen = node, Rpc(node.socket, SECONDS), []
        self.rpc.call("events.subscribe")

    def wait(self, kind, words):
        """Each event that was told is used up by one wait."""
        while True:
            event = self.rpc.next()["params"]
            self.seen.append(event["message"])
            if event["kind"] == kind and words in event["message"]:
                return


@contextlib.contextmanager
def listening(w, kind, words):
    """Both nodes tell this of what is done within."""
    listeners = [Listener(node) for node in w.nodes]
    yield
    for listener in listeners:
        try:
            listener.wait(kind, words)
        except TimeoutError:
            check(False, f"node {listener.node.side} does not tell by {kind} that \"{words}\", but {listener.seen}")


def witness_is_told(w, volume):
    for node in w.nodes:
        wait_for("the witness to be found", lambda: node.status()["witness"]["reachable"], SECONDS)
    wait_for("the witness to be told", lambda: not any(
        node.volume_status(volume)["failover_limited"] for node in w.nodes), SECONDS)


def killed_with_record(w, key, record):
    """Node a is killed, and the record is another one before b asks for it. Nodes that run may put it right at once, and b
    alone may until its lease is over: nobody else has decided anything before that."""
    for node in w.nodes:
        node.freeze()
    w.etcd.put(key, record)
    w.a.kill()
    time.sleep(w.lease_ms / 1000)
    w.b.thaw()


def grants_nothing(w, volume, words):
    """Node a is dead: b suspends, and says why."""
    status = w.b.wait_state(volume, "suspended", "waiting")
    wait_for(f"node b to say that \"{words}\"", lambda: words in w.b.volume_status(volume)["reason"], SECONDS)
    check(not status["serving"], f"it serves nothing: {status}")


def is_put_right(w, volume):
    """By both nodes together, once a is back."""
    w.a.restart()
    in_sync(w, volume)
    witness_is_told(w, volume)


def grants_again(w, volume):
    is_put_right(w, volume)
    w.a.kill()
    w.b.wait_state(volume, "solo")


def goes_on_alone(w, volume, writer):
    """The witness decides for b, and a comes back."""
    writer.wait_writes(100)
    w.a.kill()
    w.b.wait_state(volume, "solo")
    writer.wait_writes(100)
    is_put_right(w, volume)


def test_over_tls_that_asks_for_a_password_decides_when_a_node_is_killed():
    with World(lease_ms=1500, secure_witness=True) as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(200)
        w.etcd.kill()  # its tokens are gone with it
        for node in w.nodes:
            wait_for("the loss of the witness to be told", lambda: not node.status()["witness"]["reachable"])
        w.etcd.start()
        witness_is_told(w, volume)
        w.a.kill()
        w.b.wait_state(volume, "solo")
        writer.wait_writes(200)
        note = pause_is_short(writer.stop())
        verify(w, w.b, volume, writer.log)
        for node in w.nodes:
            check(w.etcd.PASSWORD not in node.log_text(), f"the log of node {node.side} holds the password")
        return note


def test_is_tried_as_it_would_be_asked_and_what_is_wrong_is_said():
    with World(secure_witness=True) as w:
        def tried(**changes):
            given = {key: w.etcd.arbiter[key] for key in ("ca", "user", "password")}
            return w.a.rpc.call("witness.try", endpoint=w.etcd.url, **{**given, **changes})
        right = tried()
        cluster = right.pop("cluster")
        check(right == {"answers": True, "refused": False, "problem": ""}, f"the right way: {right}")
        check(len(cluster) > 8 and int(cluster, 16) > 0, f"it is told which etcd it is: {cluster}")
        for wrong in (tried(password="wrong"), tried(user="nobody")):
            check(wrong["refused"] and "or its password" in wrong["problem"], f"a wrong password or user: {wrong}")
        for what, make, words in WRONG_CERTIFICATES:
            make(w.etcd)  # etcd shows it at once
            found = tried()
            check(found["refused"] and words in found["problem"], f"{what}: {found}")
        w.etcd.kill()
        away = tried()
        check(not away["answers"] and not away["refused"] and away["problem"], f"an etcd that is away: {away}")


def test_forgets_a_pairs_records_only_where_it_is_not_the_one_in_use():
    with World(secure_witness=True) as w:
        volume = w.mirror()
        witness_is_told(w, volume)
        key = f"/lockstep/{w.pair}/volume/{volume.id}"
        how = {"endpoint": w.etcd.url, **{k: w.etcd.arbiter[k] for k in ("ca", "user", "password")}}
        order = {**how, "pair": w.pair, "volumes": [volume.id]}
        try:
            w.a.rpc.call("witness.forget", keep=w.a.rpc.call("witness.try", **how)["cluster"], **order)
            check(False, "what is in use is forgotten")
        except RpcError as refused:
            check("may be the witness that is in use" in str(refused), f"it says why: {refused}")
        check(w.etcd.record(key), "the record is there")
        w.a.rpc.call("witness.forget", keep="1", **order)
        check(not w.etcd.ctl("get", "--keys-only", key).strip(), "that of another one is gone")


def test_with_another_certificate_is_told_by_an_event_and_grants_nothing():
    with World(secure_witness=True) as w:
        volume = w.mirror()
        for _, make, words in WRONG_CERTIFICATES:
            with listening(w, "witness.lost", words):
                make(w.etcd)
                w.etcd.restart()
            in_sync(w, volume)
        w.a.kill()
        grants_nothing(w, volume, "can't be reached")
        w.etcd.make_certificate()
        w.b.wait_state(volume, "solo", seconds=SECONDS)
        grants_again(w, volume)


def test_that_refuses_the_user_is_told_by_an_event_and_grants_nothing():
    with World(secure_witness=True) as w:
        volume = w.mirror()
        with listening(w, "witness.lost", "or its password"):
            w.etcd.ctl("user", "delete", w.etcd.USER)
            w.etcd.add_user("another password")
            w.etcd.restart()  # its tokens are gone with it
        w.a.kill()
        grants_nothing(w, volume, "can't be reached")
        w.etcd.ctl("user", "delete", w.etcd.USER)
        w.etcd.add_user(w.etcd.PASSWORD)
        w.b.wait_state(volume, "solo", seconds=SECONDS)
        is_put_right(w, volume)
        with listening(w, "witness.lost", "does not permit"):
            w.etcd.ctl("user", "revoke-role", w.etcd.USER, "witness")
        in_sync(w, volume)


def test_with_a_record_that_was_forged_grants_nothing_until_both_nodes_put_it_right():
    with World(secure_witness=True) as w:
        volume = w.mirror()
        key = f"/lockstep/{w.pair}/volume/{volume.id}"
        of_the_pair = w.etcd.record(key)
        only_b = bytearray(of_the_pair)
        only_b[64] = 2  # b is the only member, if it were sealed
        for forged in (bytes(only_b), of_the_pair, b"rubbish"):
            killed_with_record(w, key, forged)
            grants_nothing(w, volume, "Somebody else has written to the witness's record")
            is_put_right(w, volume)
        w.a.kill()
        w.b.wait_state(volume, "solo")


def test_with_an_older_record_put_back_grants_nothing_until_both_nodes_put_it_right():
    with World(secure_witness=True) as w:
        volume = w.mirror()
        key = f"/lockstep/{w.pair}/volume/{volume.id}"
        older = w.etcd.record(key)
        w.a.kill()
        w.b.wait_state(volume, "solo")
        is_put_right(w, volume)
        check(w.etcd.record(key) != older, "the record has changed: otherwise the test shows nothing")
        killed_with_record(w, key, older)
        grants_nothing(w, volume, "Somebody else has written to the witness's record")
        grants_again(w, volume)


def test_restored_from_a_backup_grants_nothing_until_both_nodes_put_it_right():
    with World(secure_witness=True) as w:
        volume = w.mirror()
        w.etcd.kill()
        w.etcd.backup()
        w.etcd.start()
        w.a.kill()
        w.b.wait_state(volume, "solo")
        is_put_right(w, volume)
        w.etcd.kill()
        w.a.kill()
        w.b.wait_state(volume, "suspended")
        w.etcd.restore()
        w.etcd.start()
        grants_nothing(w, volume, "The witness was set back in time")
        grants_again(w, volume)


def test_set_back_lost_or_another_is_put_right_within_a_minute_while_a_host_writes_and_decides_again():
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        witness_is_told(w, volume)
        key = f"/lockstep/{w.pair}/volume/{volume.id}"
        w.etcd.kill()
        w.etcd.backup()
        w.etcd.start()
        older = w.etcd.record(key)
        writer = Writer(w, volume, [w.a, w.b])
        goes_on_alone(w, volume, writer)
        check(w.etcd.record(key) != older, "the record has changed: otherwise setting it back shows nothing")
        for change in (w.etcd.restore, w.etcd.empty, w.etcd.become_another):
            w.etcd.kill()
            change()
            w.etcd.start()
            wait_for("both nodes to put it right", lambda: w.etcd.holds(key) and w.etcd.record(key) != older, 60)
            witness_is_told(w, volume)
            goes_on_alone(w, volume, writer)
        note = pause_is_short(writer.stop())
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        for node in w.nodes:
            node.kill(15)
        same_data(w, volume)
        return note


@contextlib.contextmanager
def managed_node_and_witness():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-witness-"))
    etcd, node = Etcd(folder, secure=True), ManagedNode(settings.build, folder / "node-a", "node-a", real=True)
    try:
        etcd.start()
        yield node.start(), etcd
    finally:
        node.stop()
        etcd.kill()
        shutil.rmtree(folder, ignore_errors=True)


def test_that_is_wrong_is_refused_by_the_api_and_told_in_health_and_events():
    with managed_node_and_witness() as (node, etcd):
        wait_for("the management to speak to the lockstepd that tries the witness", lambda: connections(node.socket) == 2)

        def refused(words, **changes):
            answer = node.post("/api/v1/pair", {"name": "pair1", "arbiter": {**etcd.arbiter, **changes}})
            check(answer.status == 422 and words in answer.raw.decode(), f"\"{words}\" is not what is said: {answer}")
            check(answer.json["errors"][0]["pointer"] == "/arbiter/endpoints/0", f"the field is named: {answer}")
        refused("or its password", password="wrong")
        for _, make, words in WRONG_CERTIFICATES:
            make(etcd)
            refused(words)
        etcd.make_certificate()
        made = node.post("/api/v1/pair", {"name": "pair1", "arbiter": etcd.arbiter})
        check(made.status == 201, f"the right one is taken: {made}")

        def events():
            return [e["message"] for e in node.get("/api/v1/events").json["items"] if e["kind"] == "witness.lost"]
        wait_for("the witness to be found", lambda: not problems(node), SECONDS)
        of_another_ca(etcd)
        etcd.restart()
        wait_for("the event to say why", lambda: any("not signed by the CA" in message for message in events()), SECONDS)
        wait_for("the health to tell of it", lambda: problems(node), SECONDS)


def connections(path):
    """Of a socket, the one that listens included."""
    return sum(line.endswith(f" {path}") for line in pathlib.Path("/proc/net/unix").read_text().splitlines())


def problems(node):
    return [p for p in node.get("/api/v1/health").json["problems"] if "witness" in p["message"]]
