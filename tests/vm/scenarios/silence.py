"""How long I/O pauses when a node falls silent with its connections open, as after a power cut, by the kernel's NOP-Out times.

No reset comes: the initiator notices by itself. So this is not the promise of two seconds, which is of the node that goes on."""
from harness import World, check
from initiator import Initiator, run
from probe import Probe

SECONDS = 3600
TIMES = {"as they are (5 s, 5 s)": None, "2 s, 2 s": 2, "1 s, 1 s": 1}
SLACK = 6  # seconds beyond both times: the lease, fast_io_fail_tmo, the path checker


def attach(w, i, seconds):
    i.discover(w.a.portal)
    for name in ("noop_out_interval", "noop_out_timeout") if seconds else ():
        run("iscsiadm", "-m", "node", "-T", w.target, "-o", "update", "-n", f"node.conn[0].timeo.{name}", "-v", seconds)
    i.login()
    return i.device()


def measure(w, i, volume, device, victim):
    with Probe(device) as probe:
        probe.wait_writes(100)
        probe.longest = 0.0
        victim.freeze()
        w.other(victim).wait_state(volume, "solo", seconds=60)
        probe.wait_writes(100)
        pause = probe.longest
    check(probe.error is None, f"a write failed: {probe.error}")
    victim.thaw()
    victim.kill()
    i.wait_for_return(victim, volume)
    return pause


def scenario():
    report = []
    with World(lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror()
        for name, seconds in TIMES.items():
            device = attach(w, i, seconds)
            pauses = [measure(w, i, volume, device, victim) for victim in w.nodes]
            check(max(pauses) < 2 * (seconds or 5) + SLACK, f"{name}: a write took {max(pauses):.1f} s")
            report.append(f"{name}: A {pauses[0]:.1f} s, B {pauses[1]:.1f} s")
            print(f"silence {report[-1]}", flush=True)
            i.release()
    return "; ".join(report)
