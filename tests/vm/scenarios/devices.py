"""Volumes on block devices: made at once on empty ones, there again after a kill, removed, and made anew."""
from harness import MIB, World, check
from initiator import Initiator, read_direct, run
from null_disks import null_disks

SIZE = 64 * MIB


def on_devices(w, disks):
    for node, disk in zip(w.nodes, disks):
        node.data = node.metadata = lambda volume, disk=disk: disk


def fill(device, letter):
    run("sh", "-c", f"head -c {MIB} /dev/zero | tr '\\0' {letter} | dd of={device} bs=1M oflag=direct conv=fsync")


def scenario():
    with null_disks(2, 72) as disks, World() as w:
        on_devices(w, disks)
        for letter in "ab":
            volume = w.mirror(size=SIZE)
            with Initiator(w) as i:
                device = i.attach()
                fill(device, letter)
                w.a.kill()
                w.b.wait_state(volume, "solo", seconds=60)
                i.wait_for_return(w.a, volume)
                check(read_direct(device, 0, MIB) == letter.encode() * MIB, "what was written is there")
            w.volumes.clear()
            for node in w.nodes:
                node.apply_cleanly()
                node.rpc.call("replica.delete", volume=volume.id, data=node.data(volume), metadata=node.metadata(volume),
                              size=SIZE)
                run("blkdiscard", "-z", node.data(volume))
        return "twice on the same two devices, through a killed node"
