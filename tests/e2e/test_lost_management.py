"""Lost management databases under real daemons: hosts notice nothing, and the pair becomes whole again."""
import filecmp
import shutil
import signal
import time

import harness
from etcd import Etcd
from harness import Failed, Writer, check, check_verifier, wait_for
from managed_pair import ManagedPair, scene
from nodes import PREFERRED, join
from cases_lost import replace
from scsi_client import Initiator

MIB = 1 << 20


class Lun:
    """A volume as the writer names it."""

    def __init__(self, volume):
        self.id, self.name, self.lun = volume["id"], volume["name"], volume["lun"]


class Scene(ManagedPair):
    """A pair with one volume that any host may use, and what harness.Writer asks of a world."""

    verifier = harness.World.verifier
    run = harness.World.run
    etcd = None

    def start(self, witness=False, **shape):
        if witness:
            self.etcd = Etcd(self.folder)
            self.etcd.start()
        self.a.side, self.b.side = "a", "b"
        self.make_pair(self.etcd.arbiter if witness else PREFERRED)
        self.target = self.a.get("/api/v1/pair").json["target_name"]
        job = self.a.job(self.a.post("/api/v1/volumes", {"name": "vm1", "size_bytes": 64 * MIB, "any_initiator": True, **shape}))
        check(job["state"] == "done", f"the volume is made: {job}")
        self.in_sync()
        self.volume = Lun(self.a.volume("vm1"))

    def make_pair(self, arbiter):
        super().start(arbiter=arbiter)

    def stop(self):
        super().stop()
        if self.etcd:
            self.etcd.kill()

    def lose_management(self, node):
        node.stop_mgmtd(signal.SIGKILL)
        shutil.rmtree(node.folder / "mgmt")
        node.start_mgmtd()

    def states(self, node):
        volume = node.volume("vm1")
        return {r["side"]: (r["state"], r["serving"]) for r in volume["replicas"]} if volume else {}

    def in_sync(self):
        volume_id = self.a.volume("vm1")["id"]
        for node in (self.a, self.b):
            wait_for(f"{node.name} to be in sync", lambda n=node: self.own(n, volume_id).get("state") == "in_sync", 60)
        for node in (self.a, self.b):
            wait_for("both replicas to be in sync", lambda n=node: set(self.states(n).values()) == {("in_sync", True)}, 60)
            wait_for("all to be well", lambda n=node: n.get("/api/v1/health").json["status"] == "ok", 60)

    def epoch(self, node):
        return node.volume("vm1")["replicas"][0]["epoch"]["id"]

    def check_session_lasted(self, node):
        log = (node.folder / "lockstepd.log").read_text()
        check(log.count(" logged in at ") == 1 and " is gone: " not in log, f"the host's session on {node.name} lasted")

    def check_whole(self, copy_of_b=None):
        self.in_sync()
        for node in (self.a, self.b):
            made = node.post("/api/v1/tokens", {"name": f"after-{node.name}"})
            check(made.status == 201, f"the configuration can be changed on {node.name}: {made}")
        self.check_same(copy_of_b)

    def check_same(self, copy_of_b=None):
        for node in (self.a, self.b):
            node.stop_lockstepd()
        name = f"{self.volume.id}.data"
        one, other = self.a.folder / "volumes" / name, self.b.folder / "volumes" / (copy_of_b or name)
        harness.check_data(filecmp.cmp(one, other, shallow=False), "the two copies are the same, byte by byte")


def whole_management_is_lost_while_hosts_write(side, witness):
    with scene(Scene, witness=witness) as s:
        lost, left = (s.b, s.a) if side == "b" else (s.a, s.b)
        writer = Writer(s, s.volume, [left], span_mib=8)
        writer.wait_writes(200)
        epoch = s.epoch(left)
        s.lose_management(lost)
        wait_for("the lost node to say what it serves", lambda: "serves a volume that the management does not know"
                 in lost.get("/api/v1/health").json["summary"])
        wait_for("the other node to say what to do", lambda: any(
            f"lockstep node replace {side}" in p["advice"] for p in left.get("/api/v1/health").json["problems"]))
        writer.wait_writes(200)
        replace(left, lost, side)
        writer.wait_writes(200)
        s.in_sync()
        check(s.epoch(left) == epoch, "the mirror never came apart")
        s.check_session_lasted(left)
        status = writer.stop()
        s.check_whole()
        return f"worst pause of the host {status['worst_gap_ms']} ms"


def test_side_bs_management_is_lost_and_set_up_anew_while_a_host_writes_through_a():
    return whole_management_is_lost_while_hosts_write("b", witness=False)


def test_side_as_management_is_lost_and_set_up_anew_while_a_host_writes_through_b():
    return whole_management_is_lost_while_hosts_write("a", witness=True)


class BackedUpBeforeTheJoin(Scene):
    def make_pair(self, arbiter):
        self.a.start()
        self.b.start()
        made = self.a.post("/api/v1/pair", {"name": "pair1", "arbiter": arbiter})
        check(made.status == 201, f"the pair is made: {made}")
        self.a.stop_mgmtd()
        shutil.copytree(self.a.folder / "mgmt", self.folder / "backup")
        self.a.start_mgmtd()
        join(self.a, self.b)


def test_a_database_from_before_the_join_takes_nothing_from_a_lockstepd_that_runs():
    with scene(BackedUpBeforeTheJoin) as s:
        writer = Writer(s, s.volume, [s.a], span_mib=8)
        writer.wait_writes(200)
        s.a.stop_mgmtd(signal.SIGKILL)
        shutil.rmtree(s.a.folder / "mgmt")
        shutil.copytree(s.folder / "backup", s.a.folder / "mgmt")
        s.a.start_mgmtd()
        wait_for("it to say so", lambda: any("lockstepd is told nothing" in p["message"]
                                             for p in s.a.get("/api/v1/health").json["problems"]))
        time.sleep(15)
        for node in (s.a, s.b):
            check(s.own(node, s.volume.id).get("state") == "in_sync", f"{node.name} serves as before")
        writer.wait_writes(200)
        s.lose_management(s.a)  # what health advises
        replace(s.b, s.a, "a")
        s.in_sync()
        s.check_session_lasted(s.a)
        writer.stop()
        s.check_whole()


@harness.group("security")
def test_a_link_that_breaks_after_the_place_was_taken_comes_back_with_the_new_secrets():
    with scene(Scene) as s:
        writer = Writer(s, s.volume, [s.a, s.b], span_mib=8)
        writer.wait_writes(100)
        s.lose_management(s.b)
        replace(s.a, s.b, "b")
        s.in_sync()
        s.b.stop_lockstepd(signal.SIGKILL)
        writer.wait_writes(100)
        s.b.start_lockstepd()
        writer.wait_writes(100)
        s.in_sync()
        writer.stop()
        s.check_whole()


def test_the_witness_lets_a_node_go_on_alone_right_after_its_partner_was_replaced():
    with scene(Scene, witness=True) as s:
        wait_for("the witness to be told", lambda: not any(r["failover_limited"] for r in s.a.volume("vm1")["replicas"]))
        s.lose_management(s.b)
        replace(s.a, s.b, "b")
        s.in_sync()
        s.b.stop_lockstepd(signal.SIGKILL)
        wait_for("node-a to go on alone", lambda: s.states(s.a).get("a") == ("solo", True), 15)
        s.b.start_lockstepd()
        s.check_whole()


def test_both_databases_are_lost_and_recovered_from_the_copies_while_a_host_writes():
    with scene(Scene) as s:
        writer = Writer(s, s.volume, [s.a], span_mib=8)
        writer.wait_writes(100)
        s.lose_management(s.b)
        s.lose_management(s.a)
        found = s.a.get("/api/v1/pair/recovery").json
        check(found["recoverable"] and [v["name"] for v in found["saved"]["volumes"]] == ["vm1"], f"found: {found}")
        made = s.a.post("/api/v1/pair/recovery", {"confirm": "pair1"})
        check(made.status == 201, f"recovered: {made}")
        replace(s.a, s.b, "b")
        writer.wait_writes(100)
        s.in_sync()
        s.check_session_lasted(s.a)
        writer.stop()
        s.check_whole()


def lose_all_but_the_replicas(s):
    """Both machines at once, as in a power cut, and what management kept on either."""
    for node in (s.a, s.b):
        node.stop_lockstepd(signal.SIGKILL)
    for node in (s.a, s.b):
        node.stop_mgmtd(signal.SIGKILL)
        shutil.rmtree(node.folder / "mgmt")
        (node.folder / "volumes/configuration.saved").unlink()
        node.start()
        wait_for(f"the lockstepd of {node.name}", lambda n=node: "lockstepd on this node does not answer"
                 not in n.get("/api/v1/pair/recovery").json["problem"])


def check_data(s, log, *nodes):
    for node in nodes:
        read = s.run(*s.verifier("--portal", node.portal, "--lun", s.volume.lun, "--verify", log), seconds=120)
        check_verifier(read.returncode, f"all that was written is there, through {node.name}: {read.stdout}")


def let_hosts_in(s, node):
    opened = node.patch(f"/api/v1/volumes/{s.volume.id}", {"any_initiator": True})
    check(opened.status == 200, f"hosts are let in: {opened}")
    s.volume = Lun(node.volume("vm1"))


MADE_ANEW = {"name": "pair1", "confirm": "pair1", "target_name": "iqn.2026-11.io.lockstep:pair1"}


@harness.group("security")
def test_both_databases_and_both_copies_are_lost_and_the_pair_is_made_anew_from_the_replicas():
    with scene(Scene, witness=True) as s:
        pair, before = s.a.get("/api/v1/pair").json, s.a.volume("vm1")
        wait_for("the witness to be told", lambda: not any(r["failover_limited"] for r in s.a.volume("vm1")["replicas"]))
        writer = Writer(s, s.volume, [s.a], span_mib=8)
        writer.wait_writes(300)
        writer.stop()
        lose_all_but_the_replicas(s)
        early = s.a.post("/api/v1/pair/recovery", MADE_ANEW)
        check(early.status == 409 and "may still rely" in early.json["detail"], f"a lease may still be in force: {early}")
        found = wait_for("every lease to be over", lambda: (f := s.a.get("/api/v1/pair/recovery").json)["recoverable"] and f, 90)
        check([(v["id"], v["name"]) for v in found["rebuild"]["volumes"]] == [(s.volume.id, "vm1")], f"found: {found}")
        check(s.a.get("/api/v1/pair").json["state"] == "none", "nothing is changed by looking")
        made = s.a.post("/api/v1/pair/recovery", MADE_ANEW)
        check(made.status == 201 and made.json["id"] == pair["id"] and made.json["target_name"] == s.target, f"made: {made}")
        wait_for("the replica to wait for its partner, which may have gone on", lambda: s.states(s.a).get("a") == ("waiting", False))
        check(made.json["arbiter"]["endpoints"] == pair["arbiter"]["endpoints"], f"the witness is the one that it was: {made}")
        check(" to solo" not in (s.a.folder / "lockstepd.log").read_text(), "it served nothing alone")
        join(s.a, s.b)
        s.in_sync()
        wait_for("the witness's record to be made good", lambda: not any(
            r["failover_limited"] for r in s.a.volume("vm1")["replicas"]), 60)
        after = s.b.volume("vm1")
        for field in ("id", "serial", "size_bytes", "block_format"):
            check(after[field] == before[field], f"{field} is as it was: {before}, {after}")
        check(after["access"] == [] and not after["any_initiator"], f"nobody is let in: {after}")
        try:
            Initiator(s, s.a, s.volume, "host")
        except Failed:
            pass
        else:
            raise Failed("a host that is not named is let in")
        let_hosts_in(s, s.a)
        check_data(s, writer.log, s.a, s.b)
        more = Writer(s, s.volume, [s.b, s.a], span_mib=8, resume=writer.log)
        more.wait_writes(200)
        s.b.stop_lockstepd(signal.SIGKILL)
        wait_for("node-a to go on alone", lambda: s.states(s.a).get("a") == ("solo", True), 15)
        more.wait_writes(200)
        s.b.start_lockstepd()
        s.in_sync()
        more.stop()
        s.check_whole()


def test_a_node_that_served_alone_does_so_at_once_when_the_pair_is_made_anew_and_brings_the_other_up_to_date():
    with scene(Scene) as s:
        s.a.stop_lockstepd()
        writer = Writer(s, s.volume, [s.b], span_mib=8)
        writer.wait_writes(300)
        writer.stop()
        lose_all_but_the_replicas(s)
        older = s.a.get("/api/v1/pair/recovery").json["rebuild"]["volumes"][0]["epoch"]
        newer = s.b.get("/api/v1/pair/recovery").json["rebuild"]["volumes"][0]["epoch"]
        check(newer["members"] == "b" and newer["number"] >= older["number"], f"which is newer can be seen: {older}, {newer}")
        made = s.b.post("/api/v1/pair/recovery", MADE_ANEW)
        check(made.status == 201 and made.json["local_side"] == "b", f"made: {made}")
        let_hosts_in(s, s.b)
        wait_for("side b to serve alone", lambda: s.states(s.b).get("b") == ("solo", True))
        check_data(s, writer.log, s.b)
        join(s.b, s.a)
        s.in_sync()
        check_data(s, writer.log, s.a, s.b)
        s.check_whole()


def test_an_encrypted_replica_whose_nodes_key_is_lost_too_is_taken_in_told_of_and_made_anew():
    with scene(Scene, encrypted=True) as s:
        s.a.stop_lockstepd()
        writer = Writer(s, s.volume, [s.b], span_mib=8)
        writer.wait_writes(200)
        writer.stop()
        lose_all_but_the_replicas(s)
        s.a.stop_lockstepd()
        (s.a.folder / "node.key").unlink()
        s.a.start_lockstepd()
        made = s.b.post("/api/v1/pair/recovery", MADE_ANEW)
        check(made.status == 201, f"made: {made}")
        let_hosts_in(s, s.b)
        join(s.b, s.a)
        wait_for("the missing key to be told of", lambda: any(
            "node.key" in p["message"] for p in s.a.get("/api/v1/health").json["problems"]))
        wait_for("the only whole copy to be served", lambda: s.states(s.b).get("b", (None, False))[1])
        job = s.b.job(s.b.post(f"/api/v1/volumes/{s.volume.id}/replicas/a/replace", {}), 90)
        check(job["state"] == "done", f"the copy is made anew, with a key of the node's new one: {job}")
        s.in_sync()
        check_data(s, writer.log, s.a, s.b)


def test_replica_files_that_are_missing_on_the_new_machine_are_told_and_hold_up_nothing_else():
    with scene(Scene) as s:
        s.b.stop()
        shutil.rmtree(s.b.folder / "mgmt")
        for file in (s.b.folder / "volumes").glob(f"{s.volume.id}.*"):
            file.unlink()
        s.b.start()
        replace(s.a, s.b, "b")
        problem = wait_for("the missing replica to be told of", lambda: next(
            (p for p in s.a.get("/api/v1/health").json["problems"]
             if p["volume_id"] == s.volume.id and "lockstep replica replace vm1 --node b" in p["advice"]), None))
        check("the files are missing there" in problem["message"], f"why: {problem}")
        made = s.b.post("/api/v1/tokens", {"name": "ops"})
        check(made.status == 201, f"the configuration can be changed: {made}")
        job = s.a.job(s.a.post(f"/api/v1/volumes/{s.volume.id}/replicas/b/replace", {}), 90)
        check(job["state"] == "done", f"and the copy is made anew: {job}")
        s.check_whole(copy_of_b=f"{s.volume.id}.2.data")


@harness.group("security")
def test_the_old_management_that_comes_back_is_refused_and_the_mirror_stays_whole():
    with scene(Scene) as s:
        writer = Writer(s, s.volume, [s.a, s.b], span_mib=8)
        s.b.stop_mgmtd()
        shutil.copytree(s.b.folder / "mgmt", s.b.folder / "kept")
        s.lose_management(s.b)
        replace(s.a, s.b, "b")
        s.in_sync()
        epoch = s.epoch(s.a)
        s.b.stop_mgmtd()
        shutil.rmtree(s.b.folder / "mgmt")
        shutil.move(s.b.folder / "kept", s.b.folder / "mgmt")
        s.b.start_mgmtd()
        wait_for("it to be refused", lambda: any(
            e["kind"] == "node.refused" and "node-b" in e["message"] for e in s.a.get("/api/v1/events?limit=500").json["items"]))
        wait_for("it to know", lambda: any("took the place of this one" in p["message"]
                                           for p in s.b.get("/api/v1/health").json["problems"]))
        writer.wait_writes(200)
        check(s.epoch(s.a) == epoch, "the mirror never came apart")
        writer.stop()
        s.check_same()
