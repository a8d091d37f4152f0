"""How long I/O pauses when a node dies, with the shipped drop-in (and with others, if asked for).

LOCKSTEP_VM_PAUSE=all measures settings beside the shipped ones. The shipped ones keep the promise: below two seconds."""
import os
import pathlib
import re

from harness import MIB, World, check
from initiator import DROP_IN, Initiator, run
from probe import Probe

SECONDS = 3600
PROMISE = 2.0  # seconds
VARIANTS = {
    "shipped": {},
    "fast_io_fail_tmo 5": {"fast_io_fail_tmo": "5"},
    "fast_io_fail_tmo 15": {"fast_io_fail_tmo": "15"},
    "multibus": {"path_grouping_policy": "multibus"},
    "multibus, round-robin": {"path_grouping_policy": "multibus", "path_selector": '"round-robin 0"'},
    "one path at a time": {"path_grouping_policy": "failover"},
}


def with_values(values):
    text = DROP_IN.read_text()
    for key, value in values.items():
        text, count = re.subn(rf"^(\s*{key}\s+).*$", rf"\g<1>{value}", text, flags=re.M)
        check(count == 1, f"the drop-in has one line {key}")
    return text


def recovery_times():
    return {int((session / "recovery_tmo").read_text()) for session in pathlib.Path("/sys/class/iscsi_session").glob("session*")}


def measure(w, i, volume, device):
    """Kills each node once while writes go on; gives the longest write of each."""
    pauses = []
    for victim in w.nodes:
        with Probe(device) as probe:
            probe.wait_writes(100)
            probe.longest = 0.0
            victim.kill()
            w.other(victim).wait_state(volume, "solo", seconds=60)
            probe.wait_writes(100)
            pauses.append(probe.longest)
        check(probe.error is None, f"a write failed: {probe.error}")
        i.wait_for_return(victim, volume)
    return pauses


def scenario():
    wanted = VARIANTS if os.environ.get("LOCKSTEP_VM_PAUSE") == "all" else {"shipped": {}}
    report = []
    with World(lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror()
        device = i.attach()
        for name, values in wanted.items():
            pathlib.Path("/etc/multipath/conf.d/lockstep.conf").write_text(with_values(values))
            run("multipathd", "reconfigure")
            i.wait_paths(2)
            pauses = measure(w, i, volume, device)
            check(name != "shipped" or max(pauses) < PROMISE, f"a write took {max(pauses):.1f} s")
            report.append(f"{name}: A killed {pauses[0]:.1f} s, B killed {pauses[1]:.1f} s")
            print(f"pause {report[-1]} (recovery_tmo {recovery_times()})", flush=True)
    return "; ".join(report)
