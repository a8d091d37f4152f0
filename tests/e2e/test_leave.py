"""A node leaves its pair, and a pair is dissolved, while hosts write: real daemons, the command, and the verifying writer."""
import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import types

from etcd import Etcd
from harness import check, check_time, group, wait_for
from managed_pair import scene
from nodes import PREFERRED, join, make_pair
from scsi_client import CONFLICT, GOOD, Initiator
from test_replace import MIB, Scene

LONGEST_GAP_MS = 1500  # to hosts whose path is through the node that stays


class Leaving(Scene):
    etcd = None

    def start(self, witness=False):
        if witness:
            self.etcd = Etcd(pathlib.Path(tempfile.mkdtemp(prefix="etcd-", dir=self.folder)))
            self.etcd.start()
        super().start(arbiter=self.etcd.arbiter if witness else None)

    def stop(self):
        super().stop()
        if self.etcd:
            self.etcd.kill()

    def command_at(self, node, *arguments):
        done = subprocess.run(
            [self.build / "ui-api/cli/lockstep", "--server", f"https://127.0.0.1:{node.port}", "--ca",
             node.folder / "mgmt/tls.crt", "--token-file", node.folder / "mgmt/admin.token", *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
        return done.returncode, done.stdout

    def succeed(self, node, *arguments):
        status, told = self.command_at(node, *arguments)
        check(status == 0, f"{' '.join(map(str, arguments))} at {node.name}: {told}")
        return told

    def refuse(self, node, word, *arguments):
        status, told = self.command_at(node, *arguments)
        check(status == 1 and word in told, f"{' '.join(map(str, arguments))} at {node.name} says {word}: {told}")

    def is_in_no_pair(self, node):
        """And at the end of all that this took."""
        wait_for(f"{node.name} to be in no pair", lambda: node.get("/api/v1/pair").json["state"] == "none" and all(
            j["state"] in ("done", "failed") for j in node.get("/api/v1/jobs").json["items"]))
        check(not list((node.folder / "volumes").glob("*")), f"nothing is left in {node.name}'s folder: "
              f"{list((node.folder / 'volumes').glob('*'))}")

    def identity(self, node):
        volume = self.volume(node)
        return {key: volume[key] for key in ("id", "name", "lun", "serial", "target_name", "size_bytes")}

    def states(self, node):
        return [r["state"] for r in self.volume(node)["replicas"]]

    def has_the_only_copy(self, node):
        wait_for(f"{node.name} to go on with one copy", lambda: self.states(node) == ["solo"])


@contextlib.contextmanager
def kept_running(*nodes):
    """As systemd does: a lockstepd that has ended is started again."""
    over = threading.Event()

    def watch():
        while not over.wait(0.2):
            for node in nodes:
                if node.lockstepd.poll() == 0:
                    node.start_lockstepd()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def in_scene(test=None, **how):
    if test is None:
        return functools.partial(in_scene, **how)

    @functools.wraps(test)
    def run():
        with scene(Leaving, **how) as s:
            return test(s)
    del run.__wrapped__
    return run


@in_scene
def test_a_node_leaves_while_hosts_write_and_one_that_joins_gets_what_is_there(s):
    s.make_volume()
    before = s.identity(s.a)
    writer = s.writer()
    writer.wait_writes(300)
    s.refuse(s.b, "node-a", "pair", "leave", "b", "--confirm", "node-b")  # who stays decides
    s.refuse(s.a, "Leave --lost off", "pair", "leave", "b", "--lost", "--confirm", "node-b")
    reply = s.a.post("/api/v1/nodes/b/leave", {})
    check(reply.status == 409 and "`node-b`" in reply.json["detail"], f"it has to be confirmed: {reply}")
    writer.poll()
    told = len(writer.lines)
    with kept_running(s.b):
        s.succeed(s.a, "pair", "leave", "b", "--confirm", "node-b")
    gap = writer.longest_gap_since(told)
    check_time(gap < LONGEST_GAP_MS, f"hosts had no pause: {gap} ms")
    check(s.identity(s.a) == before, "the volume is the same one to hosts")
    s.has_the_only_copy(s.a)
    s.is_in_no_pair(s.b)
    writer.wait_writes(300)
    s.a.stop_lockstepd(signal.SIGKILL)  # a node that is alone needs nobody's word
    s.a.start_lockstepd()
    writer.wait_writes(300)
    join(s.a, s.b)
    s.wait_for_states("in_sync", "in_sync")
    writer.wait_writes(300)
    writer.stop()
    check(s.identity(s.b) == before, "both nodes tell of the same volume")
    taken = [r["allocated_bytes"] for r in s.volume()["replicas"]]
    check(max(taken) < 128 * MIB, f"only what is allocated was copied: {taken}")
    s.check_both_hold_the_same(s.files(s.b, 2)[0], writer.log)
    return f"longest gap {gap} ms"


@in_scene
def test_hosts_keep_what_they_reserved_as_a_node_leaves_and_joins_again(s):
    s.make_volume()
    at = types.SimpleNamespace(portal=s.a.portal, side="a")
    holder, other = (Initiator(s, at, types.SimpleNamespace(lun=0), name, isid) for name, isid in (("holder", 1), ("other", 2)))
    holder.good([0x16, 0, 0, 0, 0, 0])  # RESERVE(6), which a host loses with its power on alone

    def is_kept():
        refused = other.write()
        check(refused.status == CONFLICT, f"it is reserved: {refused}")
        check(holder.write().status == GOOD, "the holder writes")
        check(set(holder.attentions) <= {0x2A06}, f"of its paths it hears, and of nothing else: {holder.attentions}")
    holder.write()
    is_kept()
    with kept_running(s.b):
        s.succeed(s.a, "pair", "leave", "b", "--confirm", "node-b")
    s.has_the_only_copy(s.a)
    is_kept()
    s.is_in_no_pair(s.b)
    join(s.a, s.b)
    s.wait_for_states("in_sync", "in_sync")
    is_kept()
    for host in (holder, other):
        host.close()


@in_scene
def test_side_a_leaves_and_its_partner_is_killed_on_the_way(s):
    s.make_volume()
    writer = s.writer()
    writer.wait_writes(300)
    with kept_running(s.a):
        reply = s.b.post("/api/v1/nodes/a/leave", {"confirm": "node-a"})
        check(reply.status == 202, f"it is accepted: {reply}")
        for _ in range(4):
            s.b.stop_mgmtd(signal.SIGKILL)
            s.b.start_mgmtd()
        job = s.b.job(reply, 120)
    check(job["state"] == "done", f"the job goes on: {job}")
    s.has_the_only_copy(s.b)
    s.is_in_no_pair(s.a)
    writer.wait_writes(300)
    writer.stop()
    # What is left is a whole pair of one: it makes volumes, lets a node in, and ends.
    made = s.b.job(s.b.post("/api/v1/volumes", {"name": "vm2", "size_bytes": 64 * MIB, "any_initiator": True}))
    check(made["state"] == "done", f"a volume is made by side b alone: {made}")
    join(s.b, s.a)
    for volume in (s.id, made["volume_id"]):
        wait_for("both copies in sync", lambda v=volume: [r["state"] for r in s.b.get(f"/api/v1/volumes/{v}").json["replicas"]] == [
            "in_sync", "in_sync"], 60)
    s.refuse(s.b, "--delete-volumes", "pair", "dissolve", "--confirm", "pair1")
    with kept_running(s.a, s.b):
        s.succeed(s.b, "pair", "dissolve", "--delete-volumes", "--confirm", "pair1")
        for node in (s.a, s.b):
            s.is_in_no_pair(node)
        make_pair(s.b, s.a, "pair2")  # the other way round
    check([n["name"] for n in s.a.get("/api/v1/nodes").json["items"]] == ["node-b", "node-a"], "both are in another pair")


@group("security")
@in_scene
def test_a_machine_that_was_let_go_as_lost_comes_back_and_is_refused(s):
    s.make_volume()
    writer = s.writer()
    writer.wait_writes(300)
    s.refuse(s.b, "answers and has a configuration", "pair", "leave", "a", "--lost", "--confirm", "node-a")
    s.b.stop_lockstepd(signal.SIGKILL)
    s.b.stop_mgmtd(signal.SIGKILL)
    wait_for("node a to go on alone", lambda: s.states(s.a)[0] == "solo")
    s.refuse(s.a, "--lost", "pair", "leave", "b", "--confirm", "node-b")
    s.succeed(s.a, "pair", "leave", "b", "--lost", "--confirm", "node-b")
    s.has_the_only_copy(s.a)
    writer.wait_writes(300)
    s.b.start_lockstepd()
    s.b.start_mgmtd()
    wait_for("node a to refuse it by name", lambda: any(
        e["kind"] == "node.refused" and "node-b, side b" in e["message"] for e in s.a.get("/api/v1/events").json["items"]))
    wait_for("node b to know", lambda: "not in the pair any more" in str(s.b.get("/api/v1/health").json["problems"]))
    check(not any(r["serving"] for r in s.volume(s.b)["replicas"]), f"it serves nothing: {s.volume(s.b)}")
    check(s.b.post("/api/v1/tokens", {"name": "x"}).status == 503, "nothing is changed there")
    writer.wait_writes(300)
    wait_for("its lockstepd to answer", lambda: s.b.get("/api/v1/nodes").json["items"][1]["lockstepd"]["state"] == "running")
    with kept_running(s.b):
        s.succeed(s.b, "pair", "leave", "b", "--confirm", "node-b")
    s.is_in_no_pair(s.b)
    made = s.b.post("/api/v1/pair", {"name": "other", "arbiter": PREFERRED})
    check(made.status == 201, f"it makes a pair of its own: {made}")
    wait_for("lockstepd to be told", lambda: s.b.get("/api/v1/nodes").json["items"][0]["lockstepd"]["state"] == "running")
    made = s.b.job(s.b.post("/api/v1/volumes", {"name": "vm9", "size_bytes": 64 * MIB, "any_initiator": True}))
    check(made["state"] == "done", f"a volume of its own: {made}")
    writer.wait_writes(300)
    writer.stop()


def copy_of(node, to):
    """What is on its disk at one moment, in the middle of its work: it stands still for less than a lease."""
    daemons = (node.mgmtd.pid, node.lockstepd.pid)
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    try:
        subprocess.run(["cp", "-a", "--sparse=always", node.folder, to], check=True)
    finally:
        for pid in daemons:
            os.kill(pid, signal.SIGCONT)


def records(s, pair):
    return [line for line in s.etcd.ctl("get", "--prefix", "--keys-only", f"/lockstep/{pair}/").split() if line]


@group("security")
@in_scene(witness=True)
def test_a_node_that_is_set_back_to_before_it_left_wins_nothing_at_the_witness(s):
    s.make_volume()
    s.wait_for_states("in_sync", "in_sync")
    pair = s.a.get("/api/v1/pair").json["id"]
    wait_for("the witness to have the records", lambda: len(records(s, pair)) >= 2)
    wait_for("both to know them", lambda: all(
        n["volumes_not_known"] == 0 for n in s.a.get("/api/v1/pair/witness").json["nodes"]))
    kept = s.folder / "kept"
    copy_of(s.b, kept)
    s.wait_for_states("in_sync", "in_sync")
    with kept_running(s.b):
        s.succeed(s.a, "pair", "leave", "b", "--confirm", "node-b")
    check(records(s, pair) == [], f"the witness has forgotten the pair: {records(s, pair)}")
    for node in (s.a, s.b):
        node.stop_mgmtd(signal.SIGKILL)
        node.stop_lockstepd(signal.SIGKILL)
    shutil.rmtree(s.b.folder)
    kept.rename(s.b.folder)
    s.b.start_lockstepd()
    s.b.start_mgmtd()
    wait_for("its lockstepd to look for somebody who lets it go on", lambda: s.volume(s.b)["replicas"][1]["state"] in ("waiting", "suspended"))
    for _ in range(20):
        time.sleep(0.25)
        check(not s.volume(s.b)["replicas"][1]["serving"], f"nobody lets it: {s.volume(s.b)['replicas']}")
    s.a.start_lockstepd()
    s.a.start_mgmtd()
    wait_for("node a to refuse it by name", lambda: any(
        e["kind"] == "node.refused" and "node-b, side b" in e["message"] for e in s.a.get("/api/v1/events").json["items"]))
    wait_for("node a to serve alone, without anybody's word", lambda: s.states(s.a) == ["solo"])
