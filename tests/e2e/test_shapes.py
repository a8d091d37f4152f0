"""Volumes of every shape, as initiators see them, made and changed through the API. Real daemons."""
import contextlib
import re
import shutil
import subprocess

import harness
from harness import check, wait_for
from managed_pair import ManagedPair, scene
from nodes import PREFERRED, join

MIB = 1 << 20


class Scene(ManagedPair):
    def start(self, joined=True):
        for tool in ("iscsi-readcapacity16", "iscsi-inq", "qemu-io"):
            if shutil.which(tool) is None:
                raise harness.Skipped(f"{tool} is not installed")
        if joined:
            return super().start()
        self.a.start()
        self.b.start()
        self.a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})


@contextlib.contextmanager
def pair(joined=True):
    with scene(Scene, joined=joined) as s:
        yield s.a, s.b


def make(node, name, **shape):
    job = node.job(node.post("/api/v1/volumes", {"name": name, "size_bytes": 16 * MIB, "any_initiator": True, **shape}), 90)
    check(job["state"] == "done", f"{name} is made: {job}")
    return node.volume(name)


def url(node, volume):
    return f"iscsi://{node.portal}/{volume['target_name']}/{volume['lun']}"


def told(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.returncode, done.stdout


def writes(node, volume):
    code, said = told("qemu-io", "-f", "raw", "-c", "write -P 7 8192 4096", url(node, volume))
    return code == 0 and "wrote 4096" in said


def test_initiators_see_the_blocks_the_medium_and_the_space_that_were_asked_for():
    with pair() as (a, b):
        for name, logical, exponent in (("512e", 512, 3), ("512n", 512, 0), ("4kn", 4096, 0)):
            volume = make(a, f"v{name}", block_format=name)
            for node in (a, b):
                _, said = told("iscsi-readcapacity16", url(node, volume))
                length = re.search(r"LENGTH IN BYTES:(\d+)", said)
                per_physical = re.search(r"PER PHYSICAL BLOCK EXPONENT:(\d+)", said)
                check(length and int(length[1]) == logical, f"{name} has blocks of {logical} at {node.name}: {said}")
                check(per_physical and int(per_physical[1]) == exponent, f"{name}'s physical block: {said}")
        removable, full = make(a, "removable", removable=True), make(b, "full", thin=False)
        for volume, word in ((removable, "1"), (full, "0")):
            _, said = told("iscsi-inq", url(a, volume))
            check(any("emovable" in line and line.strip().endswith(word) for line in said.splitlines()), said)
        wait_for("all of it to be allocated", lambda: all(
            r["allocated_bytes"] >= 16 * MIB for r in b.volume("full")["replicas"]))
        job = a.job(a.post("/api/v1/volumes", {"name": "huge", "size_bytes": 1 << 46, "thin": False}), 90)
        check(job["state"] == "failed" and "free" in job["error"]["detail"], f"it does not fit, and that is said: {job}")
        for node in (a, b):
            check(node.volume("huge") is None, "no volume is left")
            replicas = [p for p in (node.folder / "volumes").iterdir() if p.name != "configuration.saved"]
            check(len(replicas) == 10, f"no file is left: {replicas}")


def test_read_only_write_cache_and_name_change_in_use_on_both_nodes():
    with pair() as (a, b):
        volume = make(a, "vm1", read_only=True)
        path = f"/api/v1/volumes/{volume['id']}"
        check(not writes(a, volume) and not writes(b, volume), "a read-only volume takes no writes")
        for wish in ({"read_only": False, "write_cache": True}, {"write_cache": False}, {"name": "mail"}):
            reply = b.patch(path, wish)
            check(reply.status == 200, f"changed: {reply}")
            for node in (a, b):
                wait_for(f"{node.name} to take writes", lambda n=node: writes(n, volume), 20)
        check(a.patch(path, {"read_only": True}).status == 200, "changed back")
        for node in (a, b):
            wait_for(f"{node.name} to refuse writes", lambda n=node: not writes(n, volume), 20)
        states = [r["state"] for r in a.get(path).json["replicas"]]
        check(states == ["in_sync", "in_sync"], f"nothing of this disturbed the mirror: {states}")
        for node in (a, b):
            log = (node.folder / "lockstepd.log").read_text()
            check(log.count(": attached (") == 1 and "Volume mail" not in log, f"nor was it attached anew: {log[-2000:]}")


def test_an_encrypted_volume_is_unreadable_on_the_disk_of_each_node_also_of_one_that_joins_later():
    def reads(node, volume):
        code, said = told("qemu-io", "-f", "raw", "-c", "read -P 7 8192 4096", url(node, volume))
        return code == 0 and "read 4096" in said and "failed" not in said

    def on_disk(node, volume):
        with open(node.folder / "volumes" / f"{volume['id']}.data", "rb") as data:
            data.seek(8192)
            return data.read(4096)

    def in_sync(node, volume):
        return [r["state"] for r in node.volume(volume["name"])["replicas"]] == ["in_sync", "in_sync"]

    with pair(joined=False) as (a, b):
        wait_for("lockstepd to run", lambda: a.get("/api/v1/nodes").json["items"][0]["lockstepd"]["state"] == "running")
        early, plain = make(a, "early", encrypted=True), make(a, "plain")
        for volume in (early, plain):
            check(writes(a, volume), f"{volume['name']} takes writes")
        join(a, b)
        late = make(b, "late", encrypted=True)
        check(writes(b, late), "late takes writes")
        for volume in (early, plain, late):
            wait_for(f"{volume['name']} to be in sync", lambda v=volume: in_sync(b, v), 60)
        for node in (a, b):
            check(on_disk(node, plain) == b"\7" * 4096, "where it is not encrypted, it is there to be read")
            for volume in (early, late):
                check(b"\7\7\7\7" not in on_disk(node, volume), f"{volume['name']} can be read on {node.name}'s disk")
                check(on_disk(node, volume) != bytes(4096), f"{volume['name']} is on {node.name}'s disk")
                check(reads(node, volume), f"{volume['name']} is read through {node.name}")
        check(on_disk(a, late) != on_disk(b, late), "each copy has a key of its own")
        for node in (a, b):  # management and lockstepd agree after a restart, too
            node.stop()
        for node in (a, b):
            node.start()
        wait_for("it to be in service again", lambda: in_sync(a, early) and in_sync(a, late), 60)
        check(reads(b, early) and reads(a, late), "what was written is there after a restart")
