"""The Linux kernel's initiator inside the guest with one session at a time, without multipath."""
import contextlib
import os
import pathlib
import subprocess

from harness import check, wait_for
from initiator import run
from null_disks import put


@contextlib.contextmanager
def iscsid():
    put("/etc/iscsi/initiatorname.iscsi", "InitiatorName=iqn.2026-11.io.lockstep.lab:bench\n")
    for module in ("iscsi_tcp", "ib_iser", "sd_mod"):
        run("modprobe", module)
    pathlib.Path("/run/lock/iscsi").mkdir(parents=True, exist_ok=True)
    with open("/tmp/iscsid.log", "ab") as log, subprocess.Popen(["iscsid", "-f"], stdout=log, stderr=log) as daemon:
        try:
            yield
        finally:
            daemon.kill()


@contextlib.contextmanager
def logged_in(portal, target, transport):
    """The block device of a session."""
    at = ("-m", "node", "-T", target, "-p", portal)
    wait_for("iscsid to answer", lambda: run("iscsiadm", *at, "-o", "new", may_fail=True).returncode == 0, 60)
    for name, value in (("iface.transport_name", transport), ("node.session.queue_depth", "64"), ("node.session.cmds_max", "128")):
        run("iscsiadm", *at, "-o", "update", "-n", name, "-v", value)
    run("iscsiadm", *at, "-l")
    try:
        link = pathlib.Path(f"/dev/disk/by-path/ip-{portal}-iscsi-{target}-lun-0")
        wait_for("the disk", link.exists, 60)
        check(f"{transport}:" in run("iscsiadm", "-m", "session"), f"the session goes over {transport}")
        yield os.path.realpath(link)
    finally:
        run("iscsiadm", *at, "-u")
        run("iscsiadm", *at, "-o", "delete", may_fail=True)
