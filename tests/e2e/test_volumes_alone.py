"""Volumes are made, grown and deleted by one node while its partner is away, which makes, grows and removes its copies when it
is back; and two configurations after a force: real daemons, real etcd, verifying writers."""
import filecmp
import shutil
import signal

import harness
from harness import Writer, check, check_data, wait_for
from managed_pair import scene
from nodes import Node
from test_configuration_alone import MIB, Lun
from test_configuration_alone import Scene as AloneScene


class Scene(AloneScene):
    """A pair with a witness, the volume vm1 that any host may use, and vm3, which nobody uses."""

    verifier = harness.World.verifier
    run = harness.World.run

    def start(self):
        super().start()
        self.made(self.a.patch(f"/api/v1/volumes/{self.volume.id}", {"any_initiator": True}))
        self.make(self.a, "vm3")
        self.whole()

    def make(self, node, name, **more):
        """Waits for the arbiter, where that has to let the node go on."""
        body = {"name": name, "size_bytes": 64 * MIB, "any_initiator": True, **more}
        reply = wait_for(f"{name} to be begun", lambda: (r := node.post("/api/v1/volumes", body)).status == 202 and r, 40)
        job = node.job(reply)
        check(job["state"] == "done", f"{name} is made: {job}")
        return Lun(node.volume(name)), job["message"]

    def delete(self, node, name):
        volume = node.volume(name)
        job = node.job(node.delete(f"/api/v1/volumes/{volume['id']}?confirm={name}"))
        check(job["state"] == "done", f"{name} is deleted: {job}")
        return job["message"]

    def grow(self, node, name, size):
        job = node.job(node.patch(f"/api/v1/volumes/{node.volume(name)['id']}", {"size_bytes": size}))
        check(job["state"] == "done", f"{name} has grown: {job}")
        return job["message"]

    def states(self, name, node=None):
        volume = (node or self.a).volume(name)
        return [r["state"] for r in volume["replicas"]] if volume else None

    def copies(self, node, volume_id):
        return sorted(p for p in (node.folder / "volumes").glob(f"{volume_id}*.data"))

    def wait_for_sync(self, *names):
        for name in names:
            wait_for(f"{name} to be in sync on both", lambda n=name: self.states(n) == ["in_sync", "in_sync"], 120)

    def check_same(self, *volumes):
        """Both copies of each, stopped, are the same bytes."""
        for node in (self.a, self.b):
            node.stop_lockstepd()
        for volume in volumes:
            (one,), (other,) = self.copies(self.a, volume.id), self.copies(self.b, volume.id)
            check_data(filecmp.cmp(one, other, shallow=False), f"both copies of {volume.name} are the same")


def changed_alone(s, here, away):
    """What is done with volumes on the node that is left, under writers; gives the writers and the new volume."""
    vm3 = Lun(here.volume("vm3"))
    first = Writer(s, s.volume, [here, away], span_mib=8)
    first.wait_writes(200)
    s.leave(away)
    wait_for("vm1 to be served alone", lambda: "solo" in s.states("vm1", here), 30)
    vm2, said = s.make(here, "vm2")
    check("on this node" in said, f"it says that the copy is not there yet: {said}")
    second = Writer(s, vm2, [here], span_mib=8)
    second.wait_writes(200)
    said = s.grow(here, "vm1", 96 * MIB)
    check("when it is back" in said, f"it says who grows later: {said}")
    check(here.volume("vm1")["size_bytes"] == 96 * MIB, "its size is the new one")
    said = s.delete(here, "vm3")
    check("when it is back" in said, f"it says who removes its copy later: {said}")
    check(not s.copies(here, vm3.id), "what this node had of it is gone")
    s.make(here, "vm4")
    s.delete(here, "vm4")
    check(here.volume("vm4") is None, "of what was made and deleted alone nothing stays")
    taken = here.post("/api/v1/volumes", {"name": "vm3", "size_bytes": 64 * MIB, "any_initiator": True})
    check(taken.status == 409, f"the name is in use until the other copy is gone: {taken}")
    first.wait_writes(200)
    return first, second, vm2, vm3


def taken_over(s, first, second, vm2, vm3):
    wait_for("vm2 to be known to both", lambda: s.b.volume("vm2") and s.a.volume("vm2"), 60)
    s.wait_for_sync("vm1", "vm2")
    for node in (s.a, s.b):
        wait_for("vm3 to be gone", lambda n=node: n.volume("vm3") is None and not s.copies(n, vm3.id), 60)
    s.whole()
    for writer in (first, second):
        writer.wait_writes(200)
        writer.stop()
    for node in (s.a, s.b):
        check(node.volume("vm1")["size_bytes"] == 96 * MIB, "both serve the new size")
    s.make(s.b, "vm3")
    s.wait_for_sync("vm1", "vm2", "vm3")
    s.check_same(s.volume, vm2)


def test_volumes_are_made_grown_and_deleted_on_side_a_alone_and_side_b_takes_it_over():
    with scene(Scene) as s:
        left = changed_alone(s, s.a, s.b)
        s.b.start()
        taken_over(s, *left)


def test_volumes_are_made_grown_and_deleted_on_side_b_alone_and_side_a_takes_it_over():
    with scene(Scene) as s:
        left = changed_alone(s, s.b, s.a)
        s.a.start()
        taken_over(s, *left)


def test_a_fresh_machine_takes_the_place_of_the_node_that_was_away_and_gets_all_volumes():
    with scene(Scene) as s:
        first, second, vm2, vm3 = changed_alone(s, s.a, s.b)
        old = s.b
        s.b = Node(s.build, s.folder / "node-c", "node-c", real=True)
        s.b.side = "b"
        s.b.start()
        invitation = s.a.post("/api/v1/nodes/b/replacement", {"confirm": "node-b"})
        check(invitation.status == 201, f"a machine is invited: {invitation}")
        job = s.b.job(s.b.post("/api/v1/pair/join", {"invitation": invitation.json["invitation"]}))
        check(job["state"] == "done", f"it joins: {job}")
        wait_for("the lost copy of vm1 to be told", lambda: any(
            r["side"] == "b" and r["lost"] for r in s.a.volume("vm1")["replicas"]), 60)
        replaced = s.a.post(f"/api/v1/volumes/{s.volume.id}/replicas/b/replace", {})
        check(s.a.job(replaced, 120)["state"] == "done", "its copy of vm1 is made anew")
        taken_over(s, first, second, vm2, vm3)
        shutil.rmtree(old.folder)


def test_a_stale_node_that_comes_back_alone_brings_nothing_back_and_deletes_nothing():
    with scene(Scene) as s:
        first, second, vm2, vm3 = changed_alone(s, s.a, s.b)
        first.stop()
        second.stop()
        s.leave(s.a)
        s.b.start()
        for _ in range(3):
            refused = s.b.delete(f"/api/v1/volumes/{s.volume.id}?confirm=vm1")
            check(refused.status == 503 and "can't be deleted by this node alone" in refused.json["detail"],
                  f"nothing is deleted by a node that lacks changes: {refused}")
        check(s.b.volume("vm3")["replicas"][1]["serving"] is False, "what was deleted is not served there")
        s.a.start()
        s.wait_for_sync("vm1", "vm2")
        wait_for("vm3 to be gone there", lambda: s.b.volume("vm3") is None and not s.copies(s.b, vm3.id), 60)
        s.check_same(s.volume, vm2)


def forced(s, node, other):
    """Nothing lets the node go on; an operator does."""
    refused = wait_for("the force to be asked for", lambda: (
        r := node.post("/api/v1/pair/configuration/force", {})).status == 409 and r, 30)
    check(f"{node.name} without {other.name}" in refused.json["detail"], f"it says what is risked: {refused}")
    done = node.post("/api/v1/pair/configuration/force", {"confirm": f"{node.name} without {other.name}"})
    check(done.status == 200, f"it is forced: {done}")


def test_both_are_forced_and_one_gives_its_configuration_up():
    with scene(Scene) as s:
        writer = Writer(s, s.volume, [s.a, s.b], span_mib=8)
        writer.wait_writes(100)
        s.leave(s.b)
        wait_for("vm1 to be served alone", lambda: "solo" in s.states("vm1"), 30)
        s.etcd.kill()
        forced(s, s.a, s.b)
        on_a, _ = s.make(s.a, "on-a")
        s.made(s.a.post("/api/v1/tokens", {"name": "of-a"}))
        s.a.stop_mgmtd(signal.SIGKILL)  # the data path goes on
        writer.wait_writes(100)

        s.b.start()
        forced(s, s.b, s.a)
        on_b, _ = s.make(s.b, "on-b")
        check(on_a.lun != on_b.lun, f"a session of on-b's hosts never finds on-a: {on_a.lun} {on_b.lun}")
        made = Writer(s, on_b, [s.b], span_mib=8)
        made.wait_writes(100)
        made.stop()
        second_on_b, _ = s.make(s.b, "on-b2")
        s.made(s.b.post("/api/v1/tokens", {"name": "of-b"}))

        s.a.start_mgmtd()
        for node in (s.a, s.b):
            wait_for("the two to have parted", lambda n=node: n.get(
                "/api/v1/pair/configuration").json["state"] == "parted", 30)
            wait_for("nothing to be changed", lambda n=node: n.post("/api/v1/tokens", {"name": "no"}).status == 503, 30)
        s.etcd.start()
        asked = s.b.post("/api/v1/pair/configuration/give-up", {})
        check(asked.status == 409, f"it is asked for: {asked}")
        (data,) = s.copies(s.b, on_b.id)
        for word in ("on-b", "of-b", str(data)):
            check(word in asked.json["detail"], f"{word} is named: {asked.json['detail']}")
        before = data.read_bytes()
        done = s.b.post("/api/v1/pair/configuration/give-up", {"confirm": "node-b"})
        check(done.status == 200, f"it is given up: {done}")
        s.wait_for_sync("vm1", "on-a")
        s.whole()
        check(data.read_bytes() == before, "the data of what was made on the line that ended is still there")
        check(s.b.get("/api/v1/pair/configuration").json["state"] == "one_line", "there is one configuration")
        names = {t["name"] for t in s.b.get("/api/v1/tokens").json["items"]}
        check("of-a" in names and "of-b" not in names, f"it is the one that was kept: {names}")
        check(list((s.b.folder / "volumes").glob("configuration.saved.given-up-*")), "the other one stays readable")
        next_one, _ = s.make(s.a, "on-both")
        check(next_one.lun not in (on_a.lun, on_b.lun, second_on_b.lun),
              f"nor does it find what is made next: {next_one.lun} {on_b.lun} {second_on_b.lun}")
        writer.wait_writes(100)
        writer.stop()
        s.check_same(s.volume)
