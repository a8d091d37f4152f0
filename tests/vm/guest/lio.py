"""LIO, the Linux kernel's target, inside the guest."""
import contextlib
import os
import pathlib

from harness import wait_for
from initiator import run
from null_disks import CONFIG, put

TARGET = "iqn.2003-01.org.linux-iscsi:peer"


def is_free(disk):
    try:
        os.close(os.open(disk, os.O_RDONLY | os.O_EXCL))
        return True
    except OSError:
        return False


@contextlib.contextmanager
def lio(disk, portal, iser):
    """LIO with one disk at a portal, for any initiator."""
    for module in ("target_core_mod", "target_core_iblock", "iscsi_target_mod", *(("ib_isert",) if iser else ())):
        run("modprobe", module)
    pathlib.Path("/etc/target").mkdir(exist_ok=True)
    store = CONFIG / "target/core/iblock_0/bench"
    store.mkdir(parents=True)
    put(store / "control", f"udev_path={disk}")
    put(store / "enable", "1")
    group = CONFIG / f"target/iscsi/{TARGET}/tpgt_1"
    group.mkdir(parents=True)
    for name, value in (("authentication", 0), ("demo_mode_write_protect", 0), ("generate_node_acls", 1), ("cache_dynamic_acls", 1)):
        put(group / "attrib" / name, str(value))
    lun = group / "lun/lun_0"
    lun.mkdir()
    (lun / "disk").symlink_to(store)
    listener = group / "np" / portal
    listener.mkdir()
    if iser:
        put(listener / "iser", "1")
    put(group / "enable", "1")
    try:
        yield portal, TARGET
    finally:
        put(group / "enable", "0")
        listener.rmdir()
        (lun / "disk").unlink()
        lun.rmdir()
        group.rmdir()
        group.parent.rmdir()
        store.rmdir()
        wait_for("LIO to let go of the disk", lambda: is_free(disk), 60)
        run("udevadm", "settle")  # which looks at it then, and locks it meanwhile
