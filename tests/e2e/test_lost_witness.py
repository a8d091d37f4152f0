"""The package lockstep-witness whose etcd has lost its data, and so its users, while /etc/lockstep-witness was kept: it does not
run open to everybody, one command makes all of it again, and the nodes tell of an etcd that is open. Real etcd, real daemons."""
import contextlib
import shutil

from basics import check, group, wait_for
from managed_pair import scene
from packaged_witness import EtcdSaid, b64
from test_packaged_witness import WitnessedPair, cut_off, running_witness


def is_closed(w):
    """etcd asks everybody for a password, and the pairs' are as before."""
    try:
        check(False, f"whoever has no password is told: {w.etcd_as_nobody().ask('auth/user/list')}")
    except EtcdSaid as said:
        check(said.message == "user name is empty", f"it asks for a password: {said.message}")


def answers_everybody(w):
    with contextlib.suppress(OSError):
        return w.etcd_as_nobody().ask("auth/user/list") is not None
    return False


def start_open(w):
    w.lose_data()
    w.start_anyhow()
    wait_for("etcd to answer everybody", lambda: answers_everybody(w), 60)


@group("security")
def test_without_its_data_is_not_started_open_and_set_up_makes_all_users_again():
    with running_witness() as w:
        for pair in ("pair1", "pair2"):
            w.done("add-pair", pair)
        ids = [w.id_of(pair) for pair in ("pair1", "pair2")]
        w.lose_data()
        check(not w.unit_would_start_it(), "its unit does not start an etcd that takes everybody")
        w.refused("Run `lockstep-witness setup`", "list")
        check("pair1, pair2" in w.done(*w.setup_arguments), "it says what it made")
        w.start()
        is_closed(w)
        for pair, pair_id in zip(("pair1", "pair2"), ids):
            key = {"key": b64(f"/lockstep/{pair_id}/volume/x")}
            w.etcd_as(pair).ask("kv/put", **key, value=b64("a record"))
        check("pair1, pair2" not in w.done(*w.setup_arguments), "and nothing is done twice")
        check(w.done("list").count(" 1 ") == 2, f"both are there: {w.done('list')}")


@group("security")
def test_that_runs_open_is_closed_by_set_up_and_keeps_nobody_who_came_meanwhile():
    with running_witness() as w:
        w.done("add-pair", "pair1")
        start_open(w)
        stranger = w.etcd_as_nobody()
        for name, role in (("stranger", "root"), ("pair-pair1", "pair-pair1")):
            stranger.ask("auth/role/add", name=role)
            stranger.ask("auth/user/add", name=name, password="the stranger's")
            stranger.ask("auth/user/grant", user=name, role=role)
        w.refused("it has lost its users. Run `lockstep-witness setup`", "list")
        w.refused("Stop it, and run this again", *w.setup_arguments)
        w.kill()
        w.done(*w.setup_arguments)
        w.start()
        is_closed(w)
        w.etcd_as("pair1").keys_below(f"/lockstep/{w.id_of('pair1')}/")
        for name in ("stranger", "pair-pair1"):
            try:
                w.etcd_as_nobody().log_in(name, "the stranger's")
                check(False, f"{name} is let in by the stranger's password")
            except EtcdSaid as said:
                check("invalid user ID or password" in said.message, said.message)


@group("security")
def test_is_not_started_open_by_other_addresses_before_it_is_set_up_to_its_end():
    with running_witness() as w:
        w.done("add-pair", "pair1")
        w.lose_data()
        (w.data / "etcd/member").mkdir(parents=True)  # as a setup leaves it that is cut off while etcd starts
        (w.config / "etcd.yaml").unlink()
        check("run `lockstep-witness setup`" in w.done("renew", "--address", "127.0.0.2", "--no-start"), "it says what is left to do")
        check(not w.unit_would_start_it(), "its unit starts no etcd without users")


@group("security")
def test_set_up_again_without_a_pairs_password_says_so_and_changes_nothing():
    with running_witness() as w:
        for pair in ("pair1", "pair2"):
            w.done("add-pair", pair)
        w.lose_data()
        (w.pair_folder("pair1") / "password").unlink()
        w.refused("pairs/pair1/password is missing or empty", *w.setup_arguments)
        check((w.config / "etcd.yaml").exists(), "nothing was begun")
        shutil.rmtree(w.pair_folder("pair1"))
        w.done(*w.setup_arguments)
        w.start()
        w.etcd_as("pair2")


@group("security")
def test_is_never_started_open_wherever_its_recovery_is_cut_off():
    with running_witness() as w:
        w.done("add-pair", "pair1")
        for wait in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5):
            w.lose_data()
            cut_off(w.spawn(*w.setup_arguments), wait)
            if w.unit_would_start_it():
                w.start_anyhow()
                wait_for("etcd to listen", lambda: w.run("list")[0] == 0 or answers_everybody(w), 60)
                is_closed(w)
                w.kill()
        w.done(*w.setup_arguments)
        w.start()
        is_closed(w)
        w.etcd_as("pair1")


def health_of(node):
    return [p["message"] for p in node.get("/api/v1/health").json["problems"]]


def tells(node, kind):
    return [e for e in node.get("/api/v1/events").json["items"] if e["kind"] == kind]


def test_that_runs_open_is_told_by_both_nodes_until_it_is_set_up_again_and_decides_then():
    with scene(WitnessedPair) as s:
        s.wait_until_known()
        start_open(s.witness)
        for node, side in ((s.a, "node-a"), (s.b, "node-b")):
            wait_for("the health to name both", lambda n=node, o=side: any(
                m.startswith(f"On {o}: The witness takes everybody") for m in health_of(n)), 60)
        for node in (s.a, s.b):
            check({e["side"] for e in tells(node, "witness.open")} <= {"a", "b"} and tells(node, "witness.open"),
                  f"an event tells of it: {tells(node, 'witness.open')}")
            check(tells(node, "witness.open")[0]["severity"] == "warning", "as a warning")
        s.wait_until_known()
        s.witness.kill()
        s.witness.done(*s.witness.setup_arguments)
        s.witness.start()
        for node in (s.a, s.b):
            wait_for("the health to be well", lambda n=node: not health_of(n), 60)
            wait_for("the end to be told", lambda n=node: tells(n, "witness.closed"))
        s.wait_until_known()
        s.loses_a_node_under_a_writer(100)
