"""A copy that is lost is made anew while hosts write: real daemons, the command, and the verifying writer."""
import functools
import os
import pathlib
import random
import signal
import subprocess

import harness
from harness import check, check_verifier, wait_for
from managed_pair import ManagedPair, scene

MIB = 1 << 20
SIZE = 512 * MIB
SPAN_MIB = 64


class Scene(ManagedPair):
    """A pair, and a thin volume in sync on both."""

    def make_volume(self, **more):
        job = self.a.job(self.a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": SIZE, "any_initiator": True, **more}))
        check(job["state"] == "done", f"the volume is made: {job}")
        self.id = job["volume_id"]
        self.target = self.volume()["target_name"]

    def volume(self, node=None):
        return (node or self.a).get(f"/api/v1/volumes/{self.id}").json

    def replica(self, side):
        return next(r for r in self.volume()["replicas"] if r["side"] == side)

    def wait_for_states(self, a, b, seconds=60):
        """As the lockstepds say, and as node a's management knows."""
        wait_for(f"{a} on node a and {b} on node b",
                 lambda: [self.own(node, self.id).get("state") for node in (self.a, self.b)] == [a, b]
                 and [r["state"] for r in self.volume()["replicas"]] == [a, b], seconds)

    def command(self, *arguments):
        """The command, against node a."""
        done = subprocess.run(
            [self.build / "ui-api/cli/lockstep", "--server", f"https://127.0.0.1:{self.a.port}", "--ca",
             self.a.folder / "mgmt/tls.crt", "--token-file", self.a.folder / "mgmt/admin.token", *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
        return done.returncode, done.stdout

    def begin(self, side="b", **body):
        reply = self.a.post(f"/api/v1/volumes/{self.id}/replicas/{side}/replace", body)
        check(reply.status == 202, f"it is accepted: {reply}")
        return reply

    def step_of(self, reply):
        return self.a.get(reply.headers["Location"]).json

    def files(self, node, number=1, folder=None):
        base = pathlib.Path(folder or node.folder / "volumes") / (self.id + ("" if number == 1 else f".{number}"))
        return [pathlib.Path(f"{base}.{kind}") for kind in ("data", "meta")]

    def writer(self, resume=None):
        log = self.folder / f"writer-{random.randrange(1 << 30)}.log"
        portals = [part for node in (self.a, self.b) for part in ("--portal", node.portal)]
        child = Writer(self, log, portals, resume)
        self.children.append(child.process)
        return child

    def check_both_hold_the_same(self, b_data, writer_log):
        """What the writer left can be read through either node; stopped, both files are the same bytes."""
        for node in (self.a, self.b):
            read = subprocess.run([self.build / "tests/e2e/verifier", "--portal", node.portal, "--target", self.target, "--lun",
                                   "0", "--verify", writer_log], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check_verifier(read.returncode, f"node {node.name} answers what was written: {read.stdout[-800:]}")
        self.wait_for_states("in_sync", "in_sync")
        for node in (self.a, self.b):
            node.stop_lockstepd()
        a_data = self.files(self.a)[0]
        with open(a_data, "rb") as one, open(b_data, "rb") as two:
            for at in range(0, SIZE, 4 * MIB):
                check(one.read(4 * MIB) == two.read(4 * MIB), f"both copies are the same at {at}")


class Writer(harness.Writer):
    def __init__(self, scene, log, portals, resume):
        self.log, self.lines, self.partial = log, [], ""
        self.process = subprocess.Popen(
            [str(c) for c in (scene.build / "tests/e2e/verifier", *portals, "--target", scene.target, "--lun", 0, "--span-mib",
                              SPAN_MIB, "--depth", 8, "--log", log, "--read-percent", 30,
                              *(["--resume", resume] if resume else []))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        os.set_blocking(self.process.stdout.fileno(), False)


def in_scene(test):
    @functools.wraps(test)
    def run():
        with scene(Scene) as s:
            return test(s)
    del run.__wrapped__  # it takes nothing
    return run


def lose_files(scene, node):
    """The node's disk is gone, and what lockstepd had open of it."""
    node.stop_lockstepd(signal.SIGKILL)
    for path in scene.files(node):
        path.rename(path.with_name(path.name + ".away"))
    node.start_lockstepd()
    side = "b" if node is scene.b else "a"
    wait_for("the loss to be told", lambda: scene.replica(side)["lost"])


def bring_old_files(scene, node, number):
    for old, new in zip(scene.files(node), scene.files(node, number)):
        subprocess.run(["cp", "--sparse=always", old.with_name(old.name + ".away"), new], check=True)


@in_scene
def test_a_copy_whose_files_are_gone_is_made_anew_where_it_was_while_hosts_write(s):
    s.make_volume()
    writer = s.writer()
    writer.wait_writes(300)
    lose_files(s, s.b)
    wait_for("node a to go on alone", lambda: s.replica("a")["state"] == "solo")
    writer.wait_writes(300)
    status, health = s.command("health")
    check(status == 1 and "lockstep replica replace vm1 --node b" in health, f"health says what to do: {health}")
    status, told = s.command("replica", "replace", "vm1", "--node", "a")
    check(status == 1 and "the only one" in told, f"the only copy is not replaced: {told}")
    status, told = s.command("replica", "replace", "--all", "--node", "node-b", "--yes")
    check(status == 0 and "in sync" in told, f"it is replaced: {told}")
    s.wait_for_states("in_sync", "in_sync")
    writer.wait_writes(300)
    taken = [r["allocated_bytes"] for r in s.volume()["replicas"]]
    check(max(taken) < SIZE / 4, f"only what is allocated was copied: {taken}")
    writer.stop()
    status, told = s.command("replica", "replace", "vm1", "--node", "b")
    check(status == 1 and "--store" in told, f"one that is in sync is not replaced: {told}")
    status, told = s.command("replica", "replace", "--all", "--node", "b")
    check(status == 0 and "No copy" in told, told)
    s.check_both_hold_the_same(s.files(s.b, 2)[0], writer.log)
    return f"{taken[1] >> 20} MiB taken"


@in_scene
def test_the_old_disk_that_is_put_back_is_not_taken_for_the_new_one(s):
    s.make_volume()
    first = s.writer()
    first.wait_writes(300)
    first.stop()
    lose_files(s, s.b)
    wait_for("node a to go on alone", lambda: s.replica("a")["state"] == "solo")
    check(s.a.job(s.begin())["state"] == "done", "it is replaced")
    writer = s.writer(resume=first.log)
    writer.wait_writes(300)
    writer.stop()
    # Where it was: nobody looks at it.
    s.b.stop_lockstepd()
    for path in s.files(s.b):
        path.with_name(path.name + ".away").rename(path)
    s.b.start_lockstepd()
    s.wait_for_states("in_sync", "in_sync")
    # Under the new one's name: it is given everything.
    for path in s.files(s.b):
        path.rename(path.with_name(path.name + ".away"))
    s.b.stop_lockstepd()
    bring_old_files(s, s.b, 2)
    s.b.start_lockstepd()
    s.wait_for_states("in_sync", "in_sync")
    s.check_both_hold_the_same(s.files(s.b, 2)[0], writer.log)


@in_scene
def test_a_copy_is_moved_to_another_folder_and_daemons_die_on_the_way(s):
    s.make_volume(encrypted=True)
    writer = s.writer()
    writer.wait_writes(300)
    store = s.folder / "new-disk"
    status, told = s.command("replica", "replace", "vm1", "--node", "b", "--store", store, "--yes")
    check(status == 1, f"a folder that is not there is refused: {told}")
    s.wait_for_states("in_sync", "in_sync")
    store.mkdir()
    refused = s.a.post(f"/api/v1/volumes/{s.id}/replicas/b/replace", {"store": str(store)})
    check(refused.status == 409 and "one copy" in refused.json["detail"], f"it is said aloud: {refused}")
    reply = s.begin(store=str(store), confirm="vm1")
    s.b.stop_lockstepd(signal.SIGKILL)
    s.b.start_lockstepd()
    s.a.stop_mgmtd(signal.SIGKILL)
    s.a.start_mgmtd()
    wait_for("the new copy to be in place", lambda: s.replica("b")["store"] == str(store), 90)
    s.b.stop_lockstepd(signal.SIGKILL)
    s.b.stop_mgmtd(signal.SIGKILL)
    writer.wait_writes(300)
    s.b.start_lockstepd()
    s.b.start_mgmtd()
    job = s.a.job(reply, 120)
    check(job["state"] == "done", f"the job goes on: {job}")
    s.wait_for_states("in_sync", "in_sync")
    check(not any(p.exists() for p in s.files(s.b)), "the old copy's files are removed")
    writer.wait_writes(300)
    writer.stop()
    for node in (s.a, s.b):
        check(s.volume(node)["replicas"][1]["store"] == str(store), "both nodes know where it is")


@in_scene
def test_a_copy_is_not_replaced_from_one_that_does_not_serve(s):
    s.make_volume()
    lose_files(s, s.a)  # the preferred node, which does not come back: node b must not go on by itself
    wait_for("node b to wait", lambda: s.replica("b")["state"] in ("suspended", "waiting"))
    status, told = s.command("replica", "replace", "vm1", "--node", "a")
    check(status == 1 and "force-solo vm1 --node node-b" in told, f"it says what to do: {told}")
    status, told = s.command("volume", "force-solo", "vm1", "--node", "b", "--yes")
    check(status == 0, told)
    status, told = s.command("replica", "replace", "vm1", "--node", "a")
    check(status == 0, told)
    s.wait_for_states("in_sync", "in_sync")
