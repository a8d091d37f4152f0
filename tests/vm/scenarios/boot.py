"""An installed guest boots from a volume through qemu's iscsi:// drive; each node is killed while it runs."""
import re
import time

from harness import MIB, REPO, World, check, wait_for
from lab import image, machine
from replicas import same_data

WHERE = "host"
SIZE_MIB = 512
TROUBLE = ("WRONG", "I/O error", "EXT4-fs error")


def rounds(guest):
    found = re.findall(r"^round (\d+)$", guest.output(), re.M)
    return int(found[-1]) if found else 0


def goes_on(guest, when, more=2, seconds=600):
    """The guest's rounds of write and read go on; gives the longest time between two looks at which none had ended."""
    begun, last, since, pause = rounds(guest), rounds(guest), time.monotonic(), 0.0

    def more_rounds():
        nonlocal last, since, pause
        output = guest.output()
        check(not any(word in output for word in TROUBLE), f"{when}: the guest reports {output.splitlines()[-5:]}")
        check(guest.running(), f"{when}: the guest ended")
        if rounds(guest) > last:
            pause, since, last = max(pause, time.monotonic() - since), time.monotonic(), rounds(guest)
        return last >= begun + more
    wait_for(f"the guest to go on {when}", more_rounds, seconds, 0.1)
    return pause


def installed(lab):
    """Debian on a disk of its own, as an installer leaves it but for a boot loader: qemu brings the kernel."""
    root = image.Root("installed", lab.kernel, [], SIZE_MIB, modules=False,
                      files={"sbin/installed": REPO / "tests/vm/guest/installed"})
    root.make()
    return root.path


def kills(w, volume, guest):
    goes_on(guest, "at first")
    w.b.kill()
    w.a.wait_state(volume, "solo", seconds=60)
    away = goes_on(guest, "with node b away")
    w.b.restart()
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=300)
    goes_on(guest, "with node b back")
    # qemu's initiator knows one portal: its I/O waits until that node is back.
    w.a.kill()
    w.b.wait_state(volume, "solo", seconds=60)
    w.a.restart()
    back = time.monotonic()
    goes_on(guest, "with node a, the drive's portal, back")
    again = time.monotonic() - back
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=300)
    return away, again


def scenario(lab, work):
    root = installed(lab)
    with World(lease_ms=1500) as w:
        volume = w.mirror(size=SIZE_MIB * MIB)
        done = w.run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", root, w.url(w.b, volume), seconds=900)
        check(done.returncode == 0, f"qemu-img convert: {done.stdout}")
        share = work / "share"
        share.mkdir()
        guest = machine.Machine(
            lab.kernel, work / "console", 512, line="lab.root=/dev/vda lab.share=1 lab.init=/sbin/installed",
            extra=[*machine.disk(w.url(w.a, volume), "root", cache="none"),
                   *machine.share(REPO, "lab", read_only=True), *machine.share(share, "host")])
        guest.start()
        try:
            check(guest.wait_line("round 1", 900), "the guest boots and writes")
            away, again = kills(w, volume, guest)
            (share / "stop").touch()
            check(guest.wait(300) and "the guest ended" in guest.output(), "the guest ends by itself")
            count = rounds(guest)
        finally:
            guest.stop()
        copy = work / "copy.img"
        done = w.run("qemu-img", "convert", "-f", "raw", "-O", "raw", w.url(w.b, volume), copy, seconds=900)
        check(done.returncode == 0, f"reading the disk back: {done.stdout}")
        fsck = w.run("e2fsck", "-fn", copy, seconds=300)
        check(fsck.returncode == 0, f"the guest's file system: {fsck.stdout}")
        same_data(w, volume)
        return (f"{count} rounds; longest round with the other node away {away:.1f} s; two rounds ended {again:.1f} s "
                "after the drive's own node was started again")
