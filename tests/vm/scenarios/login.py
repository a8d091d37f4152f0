"""Open-iscsi logs into both nodes from one discovery; dm-multipath shows one disk with two active paths."""
from harness import World, check
from initiator import Initiator, run


def logs_in(w, i):
    volume = w.mirror()
    found = i.discover(w.a.portal)
    check(found == sorted(f"{n.portal} {w.target}" for n in w.nodes), f"one discovery reports both nodes: {found}")
    check(i.discover(w.b.portal) == found, "the other node reports the same")
    i.login()
    device = i.device()
    check(i.logged_in() == sorted(n.portal for n in w.nodes), f"a session with each node: {i.logged_in()}")
    shown = run("multipath", "-ll")
    print(shown)
    check("LOCKSTEP" in shown and "1 alua" in shown, f"the drop-in is in force: {shown}")
    check(len(i.maps()) == 1, "both paths have one WWID")
    check(len(i.map()["path_groups"]) == 1, "both paths are in one group: they have one priority")
    check(all(p["pri"] == 50 for p in i.paths()), f"active/optimized has priority 50 with prio alua: {i.paths()}")
    config = run("multipathd", "show", "paths", "format", "%d %p %t %S")
    print(config)
    ids = {run("/lib/udev/scsi_id", "-g", "-u", "-d", i.path_of(node)).strip() for node in w.nodes}
    check(len(ids) == 1, f"one WWID: {ids}")
    return f"{device.name} is {ids.pop()} ({volume.size >> 20} MiB) on two paths"


def scenario():
    with World() as w, Initiator(w) as i:
        return logs_in(w, i)
