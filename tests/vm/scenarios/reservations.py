"""A persistent reservation made through one path is seen and enforced through the other, and outlives a node's kill."""
from harness import World, check
from initiator import Initiator, run

KEY_A, KEY_B = "0xa1", "0xb2"
WRITE_EXCLUSIVE = 1


def out(disk, *arguments):
    return run("sg_persist", "--out", *arguments, disk, may_fail=True)


def keys(disk):
    return run("sg_persist", "--in", "--read-keys", disk)


def reservation(disk):
    return run("sg_persist", "--in", "--read-reservation", disk)


def write(disk):
    """A write of one block through a path, past multipath."""
    return run("sg_dd", "if=/dev/zero", f"of={disk}", "oflag=sgio", "bs=512", "count=1", may_fail=True)


def conflicts(disk):
    """sg_dd has no exit status of its own for it."""
    done = write(disk)
    return done.returncode != 0 and "Reservation Conflict" in done.stdout


def through_both(a, b):
    for disk, key in ((a, KEY_A), (b, KEY_B)):
        done = out(disk, "--register", f"--param-sark={key}")
        check(done.returncode == 0, f"registering through {disk}: {done.stdout}")
    for disk in (a, b):
        check(all(key in keys(disk) for key in (KEY_A, KEY_B)), f"{disk} shows both registrations: {keys(disk)}")
    done = out(a, "--reserve", f"--param-rk={KEY_A}", f"--prout-type={WRITE_EXCLUSIVE}")
    check(done.returncode == 0, f"reserving through {a}: {done.stdout}")
    check(KEY_A in reservation(b) and "Write Exclusive" in reservation(b), f"seen through {b}: {reservation(b)}")
    check(write(a).returncode == 0, "the holder writes")
    check(conflicts(b), f"a write through the other path conflicts: {write(b).stdout}")


def holds_without_the_node(w, i, volume, a, b):
    w.a.kill()
    w.b.wait_state(volume, "solo", seconds=60)
    check(KEY_A in reservation(b), f"with node a away it still stands: {reservation(b)}")
    check(conflicts(b), "and is enforced")
    w.a.restart()
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=120)
    i.wait_paths(2, seconds=120)
    check(KEY_A in reservation(i.path_of(w.a)), f"the returned node knows it: {reservation(a)}")


def released(a, b):
    done = out(b, "--preempt", f"--param-rk={KEY_B}", f"--param-sark={KEY_A}", f"--prout-type={WRITE_EXCLUSIVE}")
    check(done.returncode == 0, f"preempting through {b}: {done.stdout}")
    told = run("sg_persist", "--in", "--read-keys", a, may_fail=True)
    check("Registrations preempted" in told.stdout, f"who was preempted is told so: {told.stdout}")
    check(KEY_B in reservation(a), f"the preemption is seen through {a}: {reservation(a)}")
    check(write(b).returncode == 0 and conflicts(a), "the new holder writes, the old one does not")
    check(out(b, "--clear", f"--param-rk={KEY_B}").returncode == 0, "clearing")
    check(write(a).returncode == 0, "without a reservation both write")


def scenario():
    with World() as w, Initiator(w) as i:
        volume = w.mirror()
        i.attach()
        a, b = i.path_of(w.a), i.path_of(w.b)
        told = run("sg_persist", "--in", "--read-keys", a, may_fail=True)
        check(told.returncode == 0, f"PERSISTENT RESERVE IN, READ KEYS: {told.stdout}")
        through_both(a, b)
        holds_without_the_node(w, i, volume, a, b)
        released(i.path_of(w.a), i.path_of(w.b))
        return "registered, reserved, enforced, preempted through both nodes"
