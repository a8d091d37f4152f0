"""IOPS and processor time of the kernel's initiator on Lockstep beside LIO, over TCP and iSER, alone and mirrored (DRBD, protocol C).

One machine has everything: both nodes, the peers, the client and the network (Soft-RoCE on a dummy interface). Its clock counts
instructions, so that a second is so many of them whatever the host does, and IOPS is what all of it together takes. Every
store is a null_blk device that keeps what it is given."""
import contextlib
import os
import pathlib

import rdma
from fio_cell import fio_cell
from harness import Volume, World, wait_for
from initiator import run
from lio import lio
from null_disks import null_disks
from single_path import iscsid, logged_in

SECONDS = 7200
PRINTS = True  # a table
MEMORY_MIB = 2048
DISK_MIB = 128
CELL_SECONDS = int(os.environ.get("LOCKSTEP_VM_CELL_SECONDS", "3"))
TABLE = os.environ.get("LOCKSTEP_VM_TABLE", "")  # a part of its title: only that
ROW = os.environ.get("LOCKSTEP_VM_ROW", "")  # a part of its name: only that
CELL = os.environ.get("LOCKSTEP_VM_CELL", "")  # a part of its name, "randwrite x1": only that
CELLS = [(how, depth) for how in ("randwrite", "randread") for depth in (1, 32) if CELL in f"{how} x{depth}"]


# ---- the peers ----

@contextlib.contextmanager
def drbd(first, second):
    """Both nodes of a DRBD pair in this machine; the device of the one that is primary."""
    run("modprobe", "drbd", "usermode_helper=/bin/true")
    tool = "/lib/drbd/drbdsetup-84"
    ends = [f"ipv4:{rdma.A}:7788", f"ipv4:{rdma.B}:7788"]
    for minor, disk in enumerate((first, second)):
        run("drbdmeta", "--force", str(minor), "v08", disk, "internal", "create-md")
        run(tool, "new-resource", f"r{minor}")
        run(tool, "new-minor", f"r{minor}", str(minor), "0")
        run(tool, "attach", str(minor), disk, disk, "internal")
    for minor in range(2):
        run(tool, "connect", f"r{minor}", ends[minor], ends[1 - minor], "--protocol=C", "--max-buffers=8000", "--max-epoch-size=8000")
    wait_for("DRBD to be connected", lambda: run(tool, "cstate", "0").strip() == "Connected", 60)
    run(tool, "new-current-uuid", "--clear-bitmap", "0")
    wait_for("DRBD's copies to be the same", lambda: run(tool, "dstate", "0").strip() == "UpToDate/UpToDate", 60)
    run(tool, "primary", "0")
    try:
        yield "/dev/drbd0"
    finally:
        for minor in range(2):
            run(tool, "down", f"r{minor}", may_fail=True)


@contextlib.contextmanager
def lockstep(disks, metadata, mirrored):
    """One node with an unmirrored volume on a disk, or a pair; where the client logs in."""
    with World(nodes=2 if mirrored else 1, witness=mirrored, addresses=(rdma.A, rdma.B)) as world:
        for node, disk in zip(world.nodes, disks):
            run("blkdiscard", "-z", disk)  # which others have written to
            node.data = lambda volume, disk=disk: disk
            node.volume_folder = metadata / node.side
            node.volume_folder.mkdir(exist_ok=True)
            node.options["buffer_mib"] = node.options["link_buffer_mib"] = 128
            node.options["busy_poll_us"] = int(os.environ.get("LOCKSTEP_VM_BUSY", "200"))
            node.options["lease_clock"] = "boottime"  # as on hardware: in a virtual machine reads wait for the partner's word
        for node in world.nodes:
            node.kill()
            node.start()
        if mirrored:
            world.mirror(size=DISK_MIB << 20)
        else:
            volume = world.add(Volume("vm1", 0, DISK_MIB << 20, mirrored=False))
            world.a.create(volume)
            world.a.apply_cleanly()
        yield world


def carried_by(world, transport):
    wait_for(f"the data to go by {transport}", lambda: all(n.status()["partner"]["path"] == transport for n in world.nodes), 120)


# ---- the client ----

def measured(device):
    """Of each cell."""
    return [fio_cell(device, how, "4k", depth, CELL_SECONDS) for how, depth in CELLS]


def row(name, portal, target, transport):
    if ROW not in name:
        return
    with logged_in(portal, target, transport) as device:
        yield name, measured(device)


# ---- the table ----

def alone(disks, metadata):
    for transport in ("tcp", "iser"):
        with lio(disks[0], f"{rdma.A}:3260", iser=transport == "iser") as (portal, target):
            yield from row(f"LIO, {transport}", portal, target, transport)
        with lockstep(disks[:1], metadata, mirrored=False) as world:
            yield from row(f"Lockstep, {transport}", world.a.portal, world.target, transport)


def mirrored(disks, metadata):
    with drbd(*disks[:2]) as device, lio(device, f"{rdma.A}:3260", iser=False) as (portal, target):
        yield from row("LIO on DRBD C, tcp", portal, target, "tcp")
    with lockstep(disks, metadata, mirrored=True) as world:
        carried_by(world, "rdma")
        yield from row("Lockstep, link by RDMA, tcp", world.a.portal, world.target, "tcp")
        run("rdma", "link", "delete", "rxe0")
        carried_by(world, "tcp")
        yield from row("Lockstep, link by TCP, tcp", world.a.portal, world.target, "tcp")


def show(title, rows):
    print(f"\n{title}")
    print(f"{'':30}" + "".join(f"{how + ' x' + str(depth):>26}" for how, depth in CELLS), flush=True)
    for name, cells in rows:
        print(f"{name:30}" + "".join(f"{iops:14.0f}/s {cost:7.1f} us" for iops, cost in cells), flush=True)


def scenario():
    with rdma.rxe(), null_disks(3, DISK_MIB + 8) as disks, iscsid():
        run("mkfs.ext4", "-q", "-F", disks[2])
        metadata = pathlib.Path("/tmp/metadata")
        metadata.mkdir()
        run("mount", disks[2], metadata)
        try:
            for title, rows in (("One node", alone), ("Mirrored", mirrored)):
                if TABLE not in title:
                    continue
                show(title, rows(disks[:2], metadata))
        finally:
            run("umount", metadata)
    return ""
