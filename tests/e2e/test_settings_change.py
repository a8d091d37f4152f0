"""What was set when a pair was made is changed while hosts write: the lease, the limits of resync, the fence, names.
Real daemons, the command, and the verifying writer."""
import signal
import time

from fence import HONEST, FenceSocket
from harness import Rpc, check, wait_for
from managed_pair import scene
from test_arbiter_change import Arbitrated, arbitrated
from test_replace import MIB, SIZE, Scene, in_scene, lose_files

ALONE = True  # it measures time


def lease(node):
    told = Rpc(node.socket).call("node.status")["lease"]
    return told["ms"]


def lease_of(s):
    shown = s.a.get("/api/v1/pair").json["settings"]
    return shown["lease_ms"], shown["other_lease_ms"]


def set_lease(s, text):
    status, said = s.command("pair", "set", "--lease", text)
    check(status == 0, f"the lease is changed: {said}")
    return said


def pause_of_a_death(s, writer):
    """Seconds from the death of node b to node a's going on alone."""
    begun = time.monotonic()
    s.node_dies(s.b)
    wait_for("node a to go on alone", lambda: s.state("a") == "solo", 40)
    took = time.monotonic() - begun
    writer.wait_writes(100)
    s.comes_back(s.b)
    return took


@arbitrated
def test_another_lease_is_held_by_both_and_waited_for_when_a_node_dies(s):
    writer = s.writer()
    writer.wait_writes(200)
    said = set_lease(s, "5s")
    check("The lease is 5000 ms now." in said and lease_of(s) == (5000, None), f"it is longer: {said}")
    check([lease(n) for n in (s.a, s.b)] == [5000] * 2, "both hold it")
    longer = pause_of_a_death(s, writer)
    check(longer >= 5, f"whoever goes on waits for the longer one: {longer:.1f} s")
    set_lease(s, "800ms")
    check([lease(n) for n in (s.a, s.b)] == [800] * 2 and lease_of(s) == (800, None), "and for the shorter one")
    shorter = pause_of_a_death(s, writer)
    check(shorter < longer, f"it waits less: {shorter:.1f} s, {longer:.1f} s")
    writer.wait_writes(200)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b)[0], writer.log)
    return f"{longer:.1f} s by 5 s, {shorter:.1f} s by 0.8 s"


@arbitrated
def test_a_lease_is_changed_to_the_end_whatever_is_killed_on_the_way_and_nobody_notices(s):
    writer = s.writer()
    writer.wait_writes(100)
    for wanted, kill in ((4000, "managements"), (1000, "a's lockstepd"), (4000, "b's lockstepd"), (1500, "managements")):
        reply = s.a.patch("/api/v1/pair/lease", {"lease_ms": wanted})
        check(reply.status == 202, f"it is accepted: {reply}")
        path = reply.headers["Location"]
        wait_for("both to count, or the end, if that is missed",
                 lambda: lease_of(s)[1] is not None or s.a.get(path).json["state"] == "done", interval=0.001)
        if kill == "managements":
            for node in (s.a, s.b):
                node.stop_mgmtd(signal.SIGKILL)
            for node in (s.b, s.a):
                node.start_mgmtd()
        else:
            node = s.a if kill.startswith("a") else s.b
            node.stop_lockstepd(signal.SIGKILL)
            node.start_lockstepd()
        job = s.a.job(reply, 120)
        check(job["state"] == "done", f"it goes on ({kill} killed): {job}")
        check(lease_of(s) == (wanted, None) and [lease(n) for n in (s.a, s.b)] == [wanted] * 2, f"both hold it: {kill}")
        s.wait_for_states("in_sync", "in_sync")
        writer.wait_writes(100)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b)[0], writer.log)


@in_scene
def test_bounds_of_the_lease_are_refused_with_their_reasons_and_a_node_that_is_away_is_waited_for(s):
    s.make_volume()
    for text, why in (("100ms", "hosts are cut off though nothing is broken"), ("30s", "most give a disk up after 30 s")):
        status, said = s.command("pair", "set", "--lease", text)
        check(status != 0 and why in said, f"it says why: {said}")
    s.b.stop_lockstepd(signal.SIGKILL)
    status, said = s.command("pair", "set", "--lease", "3s")
    check(status != 0 and "on both nodes or not at all" in said, f"it takes both: {said}")
    check(lease_of(s) == (1500, None), "nothing was changed")


def resync_of(s):
    said = (s.own(node, s.id).get("resync") for node in (s.a, s.b))
    return next((resync for resync in said if resync and resync["running"]), None)


def rate_over(s, seconds):
    """Bytes a second that a resync that is under way makes; nothing: it has ended."""
    first, begun = resync_of(s), time.monotonic()
    time.sleep(seconds)
    last, took = resync_of(s), time.monotonic() - begun
    return (last["bytes_done"] - first["bytes_done"]) / took if first and last else None


def limits(s, floor, ceiling):
    status, said = s.command("pair", "set", "--resync-floor", floor, "--resync-ceiling", ceiling)
    check(status == 0 and "Resync" in said, f"the limits are changed: {said}")


def whole_resync(s):
    """A new copy of the whole volume, in the place of one that is lost."""
    lose_files(s, s.b)
    wait_for("node a to go on alone", lambda: s.replica("a")["state"] == "solo")
    reply = s.begin()
    wait_for("the new copy to be made equal", lambda: resync_of(s) and resync_of(s)["bytes_total"] > 0, 60)
    return reply


@in_scene
def test_a_resync_beside_a_busy_host_stays_under_the_ceiling_ends_by_the_floor_and_takes_others_at_once(s):
    s.make_volume(thin=False)
    limits(s, "4MiB", "12MiB")
    writer = s.writer()
    writer.wait_writes(300)
    reply = whole_resync(s)
    rates = [rate_over(s, 4) for _ in range(2)]
    check(all(r is not None and r <= 12.8 * MIB for r in rates), f"no faster than the ceiling: {rates}")
    check(min(rates) >= 3.2 * MIB, f"and no slower than the floor: {rates}")
    limits(s, "4MiB", "4MiB")
    time.sleep(1)
    slower = rate_over(s, 4)
    check(3 * MIB <= slower <= 4.6 * MIB, f"the floor is the ceiling now: {slower / MIB:.1f} MiB/s")
    limits(s, "60MiB", "0")
    job = s.a.job(reply, 120)
    check(job["state"] == "done", f"it ends: {job}")
    s.wait_for_states("in_sync", "in_sync")
    writer.wait_writes(100)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b, 2)[0], writer.log)
    return f"{max(rates) / MIB:.1f} MiB/s by 12, {slower / MIB:.1f} by 4"


@in_scene
def test_limits_of_resync_that_contradict_one_another_are_refused(s):
    for floor, ceiling, why in (("20MiB", "10MiB", "at least the floor"), ("0", "1KiB", "longer than 12 days")):
        status, said = s.command("pair", "set", "--resync-floor", floor, "--resync-ceiling", ceiling)
        check(status != 0 and why in said, f"it says why: {said}")


class FencedPair(Arbitrated):
    """Beside etcd, each node has a device that powers the other one off by killing its daemons."""

    def start(self):
        self.fences = {}
        for node, other in ((self.a, self.b), (self.b, self.a)):
            fence = FenceSocket(self.build / "mgmt/main/lockstep-fence", self.folder / f"fence-{node.name}",
                                {"pid_file": str(self.folder / f"pid-{other.name}")})
            fence.device(HONEST)
            node.lockstepd_extra = f'fence_socket = "{fence.path}"\n'
            self.fences[node] = fence
        super().start()
        self.tell_pids()

    def stop(self):
        super().stop()
        for fence in self.fences.values():
            fence.close()

    def tell_pids(self):
        for node in (self.a, self.b):
            (self.folder / f"pid-{node.name}").write_text(str(node.lockstepd.pid))


def test_a_fence_decides_in_the_place_of_a_side_or_a_witness_and_a_witness_in_its_place_while_hosts_write():
    with scene(FencedPair) as s:
        writer = s.writer()
        writer.wait_writes(200)
        said = s.set("--fence")
        check("The arbiter is the fence now." in said and s.named() == ["fence"] * 2, f"it decides: {said}")
        check(all(f.asked("off") == 0 and f.asked("status") > 0 for f in s.fences.values()), "nobody was powered off")
        s.a.lockstepd.send_signal(signal.SIGSTOP)  # its machine answers nobody, and could go on at any moment
        wait_for("node b to go on alone", lambda: s.state("b") == "solo", 60)
        check(s.a.lockstepd.wait(10) == -signal.SIGKILL, "node a was powered off")
        writer.wait_writes(200)
        s.a.start_lockstepd()
        s.tell_pids()
        s.wait_for_states("in_sync", "in_sync")
        said = s.set("--witness", s.etcd.url)
        check(s.named() == ["witness"] * 2 and s.holds(), f"a witness decides: {said}")
        asked = s.fences[s.a].asked("off"), s.fences[s.b].asked("off")
        s.node_dies(s.b)
        s.goes_on_alone("a")
        check((s.fences[s.a].asked("off"), s.fences[s.b].asked("off")) == asked, "and the fence no more")
        writer.wait_writes(200)
        s.comes_back(s.b)
        s.tell_pids()
        writer.wait_writes(100)
        writer.stop()
        s.check_both_hold_the_same(s.files(s.b)[0], writer.log)


def test_a_fence_that_does_not_answer_on_one_node_is_refused_with_what_it_said():
    with scene(FencedPair) as s:
        s.fences[s.b].device("print('no route to the device'); sys.exit(1)")
        status, said = s.command("pair", "arbiter", "set", "--fence")
        check(status != 0 and "node-b:" in said and "no route to the device" in said, f"it says whose and why: {said}")
        check(s.named() == ["preferred_a"] * 2, "nothing was changed")


@in_scene
def test_nodes_are_renamed_while_hosts_write_and_both_have_names_of_their_own(s):
    s.make_volume()
    writer = s.writer()
    writer.wait_writes(100)
    status, said = s.command("node", "rename", "b", "rack8-b")
    check(status == 0 and "rack8-b" in said, f"it is renamed: {said}")
    for node in (s.a, s.b):
        wait_for("both to know it", lambda: [n["name"] for n in node.get("/api/v1/nodes").json["items"]] == ["node-a", "rack8-b"])
    status, said = s.command("node", "rename", "rack8-b", "node-a")
    check(status != 0 and "The other node is called node-a, too" in said, f"it is refused: {said}")
    status, said = s.command("event", "list")
    check("The node node-b, side b, is called rack8-b now." in said, f"an event tells: {said}")
    s.b.stop_mgmtd()
    wait_for("the health to show it by its name", lambda: "rack8-b" in s.command("health")[1])
    s.b.start_mgmtd()
    writer.wait_writes(100)
    writer.stop()
    s.check_both_hold_the_same(s.files(s.b)[0], writer.log)
