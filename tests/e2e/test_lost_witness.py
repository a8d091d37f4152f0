"""The package lockstep-witness whose etcd has lost its data, and so its users, while /etc/lockstep-witness was kept: it does not
run open to everybody, and one command makes all of it again. Real etcd."""
import contextlib

from basics import check, group, wait_for
from packaged_witness import EtcdSaid, b64
from test_packaged_witness import cut_off, running_witness


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
