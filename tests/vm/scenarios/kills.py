"""ext4 on the multipath device stands 20 kills of alternating nodes under fio's verification.

LOCKSTEP_VM_KILLS is the number of kills (20)."""
import os
import pathlib
import subprocess
import time

from harness import MIB, World, check, wait_for
from initiator import Initiator, kernel_complaints, run
from load import VerifiedFiles
from replicas import same_data

SECONDS = 5400
KILLS = int(os.environ.get("LOCKSTEP_VM_KILLS", "20"))


def kill_in_turn(w, i, volume, load):
    for number in range(KILLS):
        victim = w.nodes[number % 2]
        survivor = w.other(victim)
        begun = time.monotonic()
        load.wait_more(f"before kill {number + 1}")
        victim.kill()
        survivor.wait_state(volume, "solo", seconds=60)
        load.wait_more(f"after kill {number + 1}, with node {victim.side} away")
        victim.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync", seconds=180)
        i.wait_paths(2, seconds=120)
        print(f"kill {number + 1} of {KILLS}: node {victim.side}, {time.monotonic() - begun:.1f} s", flush=True)


def scenario():
    with World(lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror(size=192 * MIB)
        device = i.attach()
        folder = pathlib.Path("/run/volume")
        folder.mkdir()
        run("mkfs.ext4", "-q", device)
        run("mount", "-o", "errors=remount-ro", device, folder)
        with VerifiedFiles(folder) as load:
            kill_in_turn(w, i, volume, load)
            rounds = load.finish()
        run("umount", folder)
        checked = run("e2fsck", "-fn", device, seconds=300)
        print(checked)
        # What the disk holds, not what the page cache remembers: the file system is mounted anew.
        run("mount", "-o", "errors=remount-ro", device, folder)  # fio opens for writing what it verifies
        load.verify_again()
        run("umount", folder)
        check(not kernel_complaints(), f"the kernel reports {kernel_complaints()}")
        i.release()
        same_data(w, volume)
        return f"{KILLS} kills, {rounds} rounds of fio verified, file system clean, replicas the same"
