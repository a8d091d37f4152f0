"""RDMA between real processes on a machine that has none: lockstepd with the fabric of tests/support/rdma_between, and a
host that comes over it."""
import signal
import subprocess
import time

from harness import MIB, Volume, World, check, wait_for

LOST = 3


class RdmaHost:
    """Writes blocks, reads each back and compares, until it has done `count` or its connection is lost."""

    def __init__(self, world, node, count=10**9):
        self.log = world.folder / f"host-{len(world.children)}.log"
        self.process = subprocess.Popen(
            [world.build / "tests/e2e/iser_host", "--portal", node.portal, "--target", world.target, "--count", str(count)],
            stdin=subprocess.DEVNULL, stdout=open(self.log, "wb"), stderr=subprocess.STDOUT, env=world.environment)
        world.children.append(self.process)

    @property
    def blocks(self):
        """As far as it has told, in hundreds."""
        return max((int(line.split()[1]) for line in self.log.read_text().splitlines() if line.startswith("blocks ")), default=0)

    def wait_more(self):
        before = self.blocks
        wait_for("the host to go on", lambda: self.blocks > before)

    def expect_end(self, code):
        ended = self.process.wait(20)
        check(ended == code, f"the host ended with {ended} instead of {code}: {self.log.read_text()}")
        check("wrong 0" in self.log.read_text(), self.log.read_text())


def memory_node(reactors=1):
    """One node with a volume in memory, that serves over RDMA."""
    world = World(nodes=1, witness=False, rdma=True)
    world.a.options["reactors"] = reactors
    world.add(Volume("memory", 0, 16 * MIB, mirrored=False, memory=True))
    return world


def stands_still(look, seconds=0.5):
    before = look()
    time.sleep(seconds)
    return look() == before


def figures_at_rest(node, used_by):
    """What does not move while data does: memory is registered once, no message misses its receive, no request fails."""
    rdma = node.status()["rdma"]
    return {"registrations": rdma["registrations"], "errors": rdma[used_by]["errors"], "starved": rdma[used_by]["starved"]}


def check_clean(before, after):
    check(after == before, f"{before} became {after}")
    check(after["registrations"]["made"] > 0 and after["registrations"]["refused"] == 0, after)
    check(after["starved"] == 0 and "no_receive" in after["errors"] and not any(after["errors"].values()), after)


def check_no_faults(w):
    check(not w.rdma_faults(), w.rdma_faults())


def test_portals_serve_over_rdma_too_also_after_a_kill():
    with memory_node() as w:
        for starts in (1, 2, 3):
            w.a.apply_cleanly()
            wait_for(f"the portal over RDMA after start {starts}", lambda starts=starts: w.a.log_text().count(
                f"Serving at {w.a.portal}, over TCP and RDMA.") == starts)
            if starts < 3:
                w.a.kill()
                w.a.start()
        check_no_faults(w)


def test_hosts_over_rdma_read_what_they_wrote():
    with memory_node(reactors=3) as w:
        w.a.apply_cleanly()
        before = figures_at_rest(w.a, "hosts")
        RdmaHost(w, w.a, 500).expect_end(0)
        check_clean(before, figures_at_rest(w.a, "hosts"))
        hosts = lambda: w.a.status()["rdma"]["hosts"]
        check(0 < hosts()["queues"]["most"] <= 256, hosts())
        wait_for("the host's queues to be gone", lambda: [hosts()["queues"][now] for now in ("connections", "work", "depth")] == [0] * 3)
        check("logged in" in w.a.log_text() and "over RDMA" in w.a.log_text(), w.a.log_tail())
        check(w.a.kill(signal.SIGTERM) == 0, "a clean stop ends with 0")
        check_no_faults(w)


def test_a_host_loses_a_node_that_is_killed_and_may_come_again():
    with memory_node() as w:
        for _ in range(2):
            w.a.apply_cleanly()
            host = RdmaHost(w, w.a)
            host.wait_more()
            w.a.kill()
            host.expect_end(LOST)
            w.a.start()
        check_no_faults(w)


def test_a_node_outlives_hosts_that_are_killed_in_the_midst():
    with memory_node() as w:
        w.a.apply_cleanly()
        for gone in (1, 2, 3):
            host = RdmaHost(w, w.a)
            host.wait_more()
            if gone == 2:
                host.process.send_signal(signal.SIGSTOP)
            host.process.kill()
            wait_for("the node to notice", lambda gone=gone: w.a.log_text().count(" is gone: ") >= gone)
        RdmaHost(w, w.a, 100).expect_end(0)
        check(w.a.kill(signal.SIGTERM) == 0, "a clean stop ends with 0")
        check_no_faults(w)


def test_silence_is_waited_for_and_a_cut_is_told():
    with memory_node() as w:
        w.a.apply_cleanly()
        host = RdmaHost(w, w.a)
        host.wait_more()
        with w.rdma_cable("silent"):
            wait_for("what is under way to arrive", lambda: stands_still(lambda: host.blocks))
            check(stands_still(lambda: host.blocks), "packets got through")
            check(host.process.poll() is None, "silence is told to nobody")
        host.wait_more()
        with w.rdma_cable("cut"):
            host.expect_end(LOST)
            RdmaHost(w, w.a, 100).expect_end(LOST)
        RdmaHost(w, w.a, 100).expect_end(0)
        check_no_faults(w)


def test_a_fabric_without_its_folder_is_told_and_tcp_serves():
    with World(nodes=1, witness=False, rdma=True) as w:
        w.a.kill()
        w.rdma_folder.rmdir()
        w.a.start()
        w.a.apply_cleanly()
        check("The test fabric needs a folder" in w.a.log_text(), w.a.log_tail())
        wait_for("the portal over TCP", lambda: f"Serving at {w.a.portal}.\n" in w.a.log_text())
