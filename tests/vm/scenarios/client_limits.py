"""What Debian 12's initiators can and can't do over iSER, with LIO and with Lockstep (docs/operator/rdma.md says so)."""
import pathlib
import re

import rdma
from harness import Volume, World, check, wait_for
from initiator import run
from lio import lio
from null_disks import null_disks
from single_path import iscsid, logged_in

SECONDS = 1800
DISK_MIB = 64
DELAY_MS = 50  # of LIO's disk: no answer comes before the next command
WINDOW = 64   # commands that both let an initiator send at once
# What is seen with (LIO, Lockstep). None: either, by chance.
EXPECTED = {
    "ib_iser: discovery over iSER, and a login with what it found": (True, True),
    "ib_iser: KiB of a command at most": (512, 512),
    "libiscsi: INQUIRY and READ CAPACITY": (True, True),
    "libiscsi: half a window of reads at once": (True, True),
    # It sends commands beyond MaxCmdSN, too; those that come before an answer has made room for them are dropped.
    "libiscsi: two windows of reads at once": (False, None),
    "libiscsi: a write over TCP": (True, True),
    "libiscsi: a write over iSER, with no data at once": (True, True),
    # The data that its header announces is not in the message.
    "libiscsi: a write over iSER as usual": (False, False),
    # LIO is at its set-up when it breaks off.
    "iscsi-test-cu: a test of READ (10)": (False, True),
    "iscsi-test-cu: a test of WRITE (10)": (False, False),
}


def tried(*command, seconds=20):
    """Whether a program ends well in time, and what it says: libiscsi may crash, or go on for ever."""
    done = run("timeout", "-k", "1", str(seconds), *command, seconds=seconds + 60, may_fail=True)
    print(f"{' '.join(map(str, command))}: {done.returncode}, ...{done.stdout.strip()[-200:]}", flush=True)
    return done.returncode == 0, done.stdout


def discovers(portal, target):
    """By iscsiadm's interface iser: discovery is by RDMA, and so is the login with the record that it leaves."""
    before = rdma.counters()["rcvd_pkts"]
    found = run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", portal, "-I", "iser", may_fail=True)
    if found.returncode != 0 or f"{portal},1 {target}" not in found.stdout or rdma.counters()["rcvd_pkts"] == before:
        return False
    run("iscsiadm", "-m", "node", "-T", target, "-p", portal, "-l")
    try:
        return "iser: [" in run("iscsiadm", "-m", "session")
    finally:
        run("iscsiadm", "-m", "node", "-T", target, "-u")
        run("iscsiadm", "-m", "node", "-o", "delete")


def longest_command(portal, target):
    with logged_in(portal, target, "iser") as device:
        return int(pathlib.Path(f"/sys/block/{pathlib.Path(device).name}/queue/max_hw_sectors_kb").read_text())


def reads(url, at_once):
    ended, told = tried("iscsi-perf", "-t", "1", "-m", str(at_once), url)
    return ended and "finished." in told


def writes(transport, immediate, portal, target):
    """libiscsi 1.19 takes memory for iSER to be zeroed, as it is in programs that have just begun: here malloc does it."""
    program = "/lab/tests/vm/guest/libiscsi_write.py"
    settings = ("PYTHONPATH=/lab/tests/e2e", "MALLOC_PERTURB_=255")
    ended, told = tried("env", *settings, "python3", program, transport, immediate, portal, target)
    return ended and told.strip() == "status 0"


def passes(url, test):
    wait_for("a login to be taken", lambda: tried("iscsi-inq", url)[0], 120, 5)
    _, told = tried("iscsi-test-cu", "-d", "--test", f"SCSI.{test}.Simple", url)
    return re.search(r"tests +1 +1 +1 +0 ", told) is not None


def seen(portal, target):
    """Last what breaks off: LIO takes one login after the other, and waits 15 s for one that was left."""
    url = f"iser://{portal}/{target}/0"
    yield discovers(portal, target)
    yield longest_command(portal, target)
    yield tried("iscsi-inq", url)[0] and tried("iscsi-readcapacity16", url)[0]
    yield reads(url, WINDOW // 2)
    yield reads(url, WINDOW * 2)
    yield writes("tcp", "1", portal, target)
    yield writes("iser", "0", portal, target)
    yield writes("iser", "1", portal, target)
    yield passes(url, "Read10")
    yield passes(url, "Write10")


def scenario():
    with rdma.rxe(), null_disks(1, DISK_MIB, DELAY_MS) as disks, iscsid():
        with lio(disks[0], f"{rdma.A}:3260", iser=True) as (portal, target):
            at_lio = list(seen(portal, target))
        with World(nodes=1, witness=False, addresses=(rdma.A, rdma.B)) as world:
            world.a.create(world.add(Volume("vm1", 0, DISK_MIB << 20, mirrored=False)))
            world.a.apply_cleanly()
            at_ours = list(seen(world.a.portal, world.target))
    found = dict(zip(EXPECTED, zip(at_lio, at_ours), strict=True))
    other = {what: both for what, both in found.items()
             if any(wanted not in (None, seen) for seen, wanted in zip(both, EXPECTED[what], strict=True))}
    check(not other, f"otherwise than expected, with (LIO, Lockstep): {other}")
    return f"{len(found)} of them, with LIO and with Lockstep"
