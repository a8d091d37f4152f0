"""Operations and processor time of a mirrored volume whose link has no TLS, TLS made by lockstepd, and TLS made by the kernel.

One machine has everything, as in beside_lio: its clock counts instructions, and both nodes, the client and the kernel's
part are in each figure. The difference between two rows is what TLS takes."""
import contextlib
import os
import pathlib

from fio_cell import fio_cell
from harness import World, check, wait_for
from initiator import run
from null_disks import null_disks
from single_path import iscsid, logged_in

SECONDS = 7200
PRINTS = True  # a table
MEMORY_MIB = 2048
DISK_MIB = 128
CELL_SECONDS = int(os.environ.get("LOCKSTEP_VM_CELL_SECONDS", "3"))
ROUNDS = int(os.environ.get("LOCKSTEP_VM_ROUNDS", "2"))
ROW = os.environ.get("LOCKSTEP_VM_ROW", "")  # a part of its name: only that
CELLS = (("randwrite", "4k", 1), ("randwrite", "4k", 32), ("write", "256k", 8), ("write", "1m", 4))
ROWS = (("no TLS", False, "auto"), ("TLS by lockstepd", True, "off"), ("TLS by the kernel", True, "auto"))


@contextlib.contextmanager
def pair(disks, metadata, tls, kernel_tls):
    with World(link_tls=tls) as world:
        for node, disk in zip(world.nodes, disks):
            run("blkdiscard", "-z", disk)  # which others have written to
            node.data = lambda volume, disk=disk: disk
            node.volume_folder = metadata / node.side
            node.volume_folder.mkdir(exist_ok=True)
            node.options.update(buffer_mib=128, link_buffer_mib=128, lease_clock="boottime", link_kernel_tls=kernel_tls)
        for node in world.nodes:
            node.kill()
            node.start()
        world.mirror(size=DISK_MIB << 20)
        yield world


def check_is(world, tls, kernel_tls):
    for node in world.nodes:
        partner = node.status()["partner"]
        check((partner["cipher"] is not None) == tls, partner)
        check(partner["paths"][0]["kernel_tls"] == (tls and kernel_tls == "auto"), partner)


def kernel_ciphers():
    """What the kernel takes for AES-GCM, the best one last."""
    told = [dict(line.split(":", 1) for line in block.splitlines() if ":" in line)
            for block in pathlib.Path("/proc/crypto").read_text().split("\n\n")]
    found = [{key.strip(): value.strip() for key, value in one.items()} for one in told]
    return [f"{one['driver']}, priority {one['priority']}" for one in sorted(found, key=lambda o: int(o.get("priority", 0)))
            if one.get("name") == "gcm(aes)"]


def show(world, name):
    print(f"{name:20}", end="", flush=True)
    with logged_in(world.a.portal, world.target, "tcp") as device:
        for cell in CELLS:
            iops, cost = fio_cell(device, *cell, CELL_SECONDS)
            print(f"{iops:13.0f}/s {cost:8.1f} us", end="", flush=True)
    print(flush=True)


def scenario():
    # udev loads the processor's AES where a machine boots as a whole; without it the kernel's cipher is plain C.
    run("modprobe", "-a", "tls", "aesni_intel")
    with null_disks(3, DISK_MIB + 8) as disks, iscsid():
        run("mkfs.ext4", "-q", "-F", disks[2])
        metadata = pathlib.Path("/tmp/metadata")
        metadata.mkdir()
        run("mount", disks[2], metadata)
        print(f"\n{'':20}" + "".join(f"{f'{how} {size} x{depth}':>27}" for how, size, depth in CELLS), flush=True)
        try:
            for _ in range(ROUNDS):
                for name, tls, kernel_tls in (row for row in ROWS if ROW in row[0]):
                    with pair(disks[:2], metadata, tls, kernel_tls) as world:
                        wait_for("the link to stand", lambda w=world: all(n.status()["partner"]["connected"] for n in w.nodes), 60)
                        check_is(world, tls, kernel_tls)
                        show(world, name)
            print("\n".join(kernel_ciphers()), flush=True)
        finally:
            run("umount", metadata)
    return ""
