"""blkdiscard and sg_unmap give space back: on both nodes' disks."""
from harness import MIB, World, check, wait_for
from initiator import Initiator, read_direct, run
from replicas import used

SIZE, WRITTEN = 128 * MIB, 64 * MIB


def filled(w, volume, device):
    run("dd", "if=/dev/urandom", f"of={device}", "bs=1M", f"count={WRITTEN // MIB}", "oflag=direct", "conv=fsync", seconds=600)
    sizes = [used(node, volume) for node in w.nodes]
    check(all(size >= WRITTEN for size in sizes), f"both nodes hold what was written: {sizes}")
    return sizes


def wait_used_at_most(w, volume, most, what):
    wait_for(f"both nodes to use at most {most >> 20} MiB after {what}",
             lambda: all(used(node, volume) <= most for node in w.nodes), 60)
    return [used(node, volume) >> 20 for node in w.nodes]


def scenario():
    with World() as w, Initiator(w) as i:
        volume = w.mirror(size=SIZE)
        device = i.attach()
        before = filled(w, volume, device)
        # A quarter through the multipath device, a quarter through each path by itself.
        quarter = WRITTEN // 4
        run("blkdiscard", "-o", 0, "-l", quarter, device)
        after_discard = wait_used_at_most(w, volume, max(before) - quarter + MIB, "blkdiscard of a part")
        for number, node in enumerate(w.nodes, 1):
            run("sg_unmap", f"--lba={number * quarter // 512}", f"--num={quarter // 512}", i.path_of(node))
        after_unmap = wait_used_at_most(w, volume, max(before) - 3 * quarter + MIB, "sg_unmap through each path")
        check(read_direct(device, 0, 3 * quarter) == bytes(3 * quarter), "what was given back reads as zeroes")
        check(any(read_direct(device, 3 * quarter, MIB)), "the rest is untouched")
        run("blkdiscard", device)
        after_all = wait_used_at_most(w, volume, 2 * MIB, "blkdiscard of the whole disk")
        return (f"MiB used on A and B: {[size >> 20 for size in before]} written, {after_discard} after blkdiscard, "
                f"{after_unmap} after sg_unmap, {after_all} after blkdiscard of all")
