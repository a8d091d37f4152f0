"""I/O waits while both nodes are away and goes on without an error when they return."""
import pathlib
import time

from harness import MIB, World, check
from initiator import Initiator, kernel_complaints, run
from load import VerifiedFiles

SECONDS = 1800


def scenario():
    with World(lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror(size=192 * MIB)
        device = i.attach()
        folder = pathlib.Path("/run/volume")
        folder.mkdir()
        run("mkfs.ext4", "-q", device)
        run("mount", "-o", "errors=remount-ro", device, folder)
        with VerifiedFiles(folder) as load:
            load.wait_more("before both nodes are killed")
            for node in w.nodes:
                node.kill()
            i.wait_paths(0, seconds=120)
            time.sleep(20)  # the time away that is asked for; not a wait for a state
            for node in w.nodes:
                node.start()
            for node in w.nodes:
                node.apply_cleanly()
            for node in w.nodes:
                node.wait_state(volume, "in_sync", seconds=180)
            i.wait_paths(2, seconds=180)
            load.wait_more("after both nodes returned")
            rounds = load.finish()
        run("umount", folder)
        run("e2fsck", "-fn", device, seconds=300)
        check(not kernel_complaints(), f"the kernel reports {kernel_complaints()}")
        return f"{rounds} rounds of fio verified, file system clean"
