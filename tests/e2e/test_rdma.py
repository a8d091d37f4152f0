"""RDMA between real daemons on a machine that has none: lockstepd with the fabric of tests/support/rdma_between."""
from harness import MIB, Volume, World, Writer, check, wait_for


def test_portals_serve_over_rdma_too_also_after_a_kill():
    with World(nodes=1, witness=False, rdma=True) as w:
        w.add(Volume("memory", 0, 16 * MIB, mirrored=False, memory=True))
        for starts in (1, 2, 3):
            w.a.apply_cleanly()
            wait_for(f"the portal over RDMA after start {starts}", lambda starts=starts: w.a.log_text().count(
                f"Serving at {w.a.portal}, over TCP and RDMA.") == starts)
            if starts < 3:
                w.a.kill()
                w.a.start()
        check(not w.rdma_faults(), w.rdma_faults())


def test_a_pair_with_rdma_mirrors_and_survives_kills():
    with World(rdma=True) as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b])
        for victim in (w.b, w.a):
            writer.wait_writes(300)
            victim.kill()
            writer.wait_writes(300)
            victim.restart()
            for node in w.nodes:
                node.wait_state(volume, "in_sync")
        writer.stop()
        check(not w.rdma_faults(), w.rdma_faults())


def test_a_fabric_without_its_folder_is_told_and_tcp_serves():
    with World(nodes=1, witness=False, rdma=True) as w:
        w.a.kill()
        w.rdma_folder.rmdir()
        w.a.start()
        w.a.apply_cleanly()
        check("The test fabric needs a folder" in w.a.log_text(), w.a.log_tail())
        wait_for("the portal over TCP", lambda: f"Serving at {w.a.portal}.\n" in w.a.log_text())
