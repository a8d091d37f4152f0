"""A pair is brought from the version before to this one, node by node, while hosts write: real daemons of both, real etcd."""
import signal
import subprocess

import previous
from basics import free_port
from etcd import Etcd
from harness import check, check_verifier, wait_for
from managed_pair import scene
from test_replace import Scene

MIB = 1 << 20


class Upgraded(Scene):
    """A pair of the version before, with a witness and a volume under a verifying writer."""

    etcd = None

    def start(self):
        self.before = previous.build()
        self.a.side, self.b.side = "a", "b"
        for node in (self.a, self.b):
            node.build = self.before
        self.etcd = Etcd(self.folder)
        self.etcd.start()
        super().start(arbiter=self.etcd.arbiter)
        self.make_volume()
        self.hosts_writer = self.writer()
        self.hosts_writer.wait_writes(300)

    def stop(self):
        super().stop()
        if self.etcd:
            self.etcd.kill()

    def other(self, node):
        return self.b if node is self.a else self.a

    def state(self, node):
        """Of the volume on that node, as the node itself has it."""
        return next(r["state"] for r in self.volume(node)["replicas"] if r["side"] == node.side)

    def whole(self):
        for node in (self.a, self.b):
            wait_for(f"both copies to be in sync, and node {node.name} to say so",
                     lambda n=node: [r["state"] for r in self.volume(n)["replicas"]] == ["in_sync"] * 2, 90)
            wait_for(f"{node.name} to see both nodes", lambda n=node: all(
                x["reachable"] and x["lockstepd"]["state"] == "running" for x in n.get("/api/v1/nodes").json["items"]), 60)
        wait_for("one revision on both", lambda: len({n.get("/api/v1/pair").json["revision"] for n in (self.a, self.b)}) == 1)
        wait_for("the witness to know of both", lambda: not any(
            r.get("failover_limited") for n in (self.a, self.b) for r in self.volume(n)["replicas"]))

    def runs(self, node, build):
        """Its daemons are stopped as systemd stops them and started from that build; the other node serves meanwhile."""
        node.stop_mgmtd()
        node.stop_lockstepd()
        wait_for("the other to serve alone", lambda: self.state(self.other(node)) == "solo", 60)
        self.hosts_writer.wait_writes(100)
        node.build = build
        node.start()
        self.whole()

    def goes_back(self, node):
        """Whether the version before can be installed over this one. Management refuses what a newer one has written, and names the
        way out; this version then finds all as it was."""
        try:
            self.runs(node, self.before)
            return True
        except AssertionError:
            check(node.mgmtd.poll() not in (None, 0), "management of the version before has ended")
            said = node.log()[-2000:]
            check("newer" in said and "install that one again" in said and "Nothing was changed" in said, f"it says what to do: {said}")
        check(self.hosts_writer.process.poll() is None, "hosts go on through the other node")
        node.stop_lockstepd()
        node.build = self.build
        node.start()
        self.whole()
        return False

    def dies(self, node):
        """Comes back from a power cut as the version that it was, and is brought up to date by the other."""
        node.stop_mgmtd(signal.SIGKILL)
        node.stop_lockstepd(signal.SIGKILL)
        wait_for("the other to serve alone", lambda: self.state(self.other(node)) == "solo", 60)
        self.hosts_writer.wait_writes(200)
        node.start()
        self.whole()

    def manage(self, node, stage):
        """What an operator does, through that node; the other has it at the end."""
        other = self.other(node)
        host, name = f"iqn.2026-11.io.example:{stage}-{node.name}", f"{stage}-{node.name}"
        reply = node.post("/api/v1/initiators", {"iqn": host})
        check(reply.status == 201, f"a host is let in: {reply}")
        job = node.job(node.post("/api/v1/volumes", {"name": name, "size_bytes": 32 * MIB, "access": [host]}))
        check(job["state"] == "done", f"a volume is made: {job}")
        path = f"/api/v1/volumes/{job['volume_id']}"
        job = node.job(node.patch(path, {"size_bytes": 64 * MIB}))
        check(job["state"] == "done", f"it grows: {job}")
        wait_for("the other to have all of it", lambda: (v := other.volume(name)) and v["size_bytes"] == 64 * MIB and v["access"] == [host])
        check(node.post("/api/v1/tokens", {"name": name}).status == 201, "a token is made")
        return path

    def add_path(self, node):
        return node.post("/api/v1/pair/link/paths", {side: f"127.0.0.1:{free_port()}" for side in "ab"})

    def remove(self, node, path):
        name = node.get(path).json["name"]
        job = node.job(node.delete(f"{path}?confirm={name}"))
        check(job["state"] == "done", f"it is deleted: {job}")

    def ends_well(self):
        status = self.hosts_writer.stop()
        self.whole()
        self.check_both_hold_the_same(self.files(self.b)[0], self.hosts_writer.log)
        return f"pause {status['worst_gap_ms']} ms"


def test_both_nodes_are_upgraded_one_after_the_other_while_hosts_write():
    with scene(Upgraded) as s:
        now, made = s.build, [s.manage(s.a, "first"), s.manage(s.b, "first")]
        s.runs(s.a, now)
        refused = s.add_path(s.a)
        check(refused.status == 409 and "older version" in refused.json["detail"], f"the link has one path until both know more: {refused}")
        made += [s.manage(s.a, "mixed"), s.manage(s.b, "mixed")]
        s.remove(s.a, made.pop(0))
        s.remove(s.b, made.pop(0))
        s.runs(s.b, now)
        added = s.add_path(s.b)
        check(added.status == 201, f"it has another one then: {added}")
        wait_for("both to use it", lambda: [[end["state"] for end in path["nodes"]] for path in s.a.get("/api/v1/pair/link").json["paths"]]
                 == [["proven"] * 2] * 2, 90)
        made += [s.manage(s.a, "last"), s.manage(s.b, "last")]
        for path in made:
            s.remove(s.b, path)
        return s.ends_well()


def test_in_a_mixed_pair_either_node_dies_and_is_brought_up_to_date_by_the_other():
    with scene(Upgraded) as s:
        s.runs(s.b, s.build)
        s.dies(s.a)
        s.dies(s.b)
        s.manage(s.a, "after")
        s.manage(s.b, "after")
        return s.ends_well()


def test_a_node_that_was_upgraded_goes_back_to_the_version_before_or_is_told_that_it_cannot():
    with scene(Upgraded) as s:
        s.runs(s.a, s.build)
        s.manage(s.a, "upgraded")
        went_back = s.goes_back(s.a)
        s.manage(s.a, "back")
        s.manage(s.b, "back")
        return f"{s.ends_well()}, {'it went back' if went_back else 'it was refused'}"


def test_what_one_version_writes_through_either_node_the_other_reads():
    with scene(Upgraded) as s:
        for node in (s.a, s.b):
            s.runs(node, s.build)
            for through in (s.a, s.b):
                check(s.hosts_writer.process.poll() is None, "the writer goes on")
                job = through.job(through.post("/api/v1/volumes", {"name": f"{through.name}-by-{node.name}", "size_bytes": 64 * MIB,
                                                                   "any_initiator": True}))
                check(job["state"] == "done", f"the volume is made: {job}")
                lun = through.get(f"/api/v1/volumes/{job['volume_id']}").json["lun"]
                written_and_read(s, through, lun)
        return s.ends_well()


def written_and_read(s, through, lun):
    """First through that node, whether it orders the writes or hands them to the other, then through the other."""
    wait_for("it to be served by both", lambda: all(
        [r["state"] for r in n.volume(v["name"])["replicas"]] == ["in_sync"] * 2
        for n in (s.a, s.b) for v in n.get("/api/v1/volumes").json["items"]), 60)
    log = s.folder / f"lun-{lun}.log"
    for writer, reader in ((through, s.other(through)), (s.other(through), through)):
        arguments = ["--target", s.target, "--lun", str(lun), "--span-mib", "16"]
        resume = ["--resume", str(log)] if log.exists() else []
        mine = log.with_suffix(f".{writer.name}")
        child = subprocess.run([s.build / "tests/e2e/verifier", "--portal", writer.portal, *arguments, "--log", mine, *resume,
                                "--seconds", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        check(child.returncode == 0, f"written through {writer.name}: {child.stdout[-800:]}")
        read = subprocess.run([s.build / "tests/e2e/verifier", "--portal", reader.portal, *arguments, "--verify", mine],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        check_verifier(read.returncode, f"read through {reader.name}: {read.stdout[-800:]}")
        log = mine
