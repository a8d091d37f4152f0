"""The kernel's iSER initiator and libiscsi's use a mirrored volume over RDMA (Soft-RoCE), beside sessions over TCP."""
import pathlib

import rdma
from harness import World, check
from initiator import Initiator, kernel_complaints, run

SECONDS = 1800


def log_in_over_rdma(w, i):
    """Discovery goes over TCP; the records' transport is changed then."""
    i.discover(w.a.portal)
    for node in w.nodes:
        run("iscsiadm", "-m", "node", "-T", w.target, "-p", node.portal, "-o", "update", "-n", "iface.transport_name", "-v",
            "iser")
    i.login()
    hosts = [(host / "transport").read_text().strip() if (host / "transport").exists() else ""
             for host in pathlib.Path("/sys/class/iscsi_host").iterdir()]
    shown = run("iscsiadm", "-m", "session")
    check(shown.count("iser:") == 2, f"both sessions go over iSER: {shown} {hosts}")
    return i.device()


def verify(device, seconds=30):
    """Writes of many sizes at a depth, and what was written is read back."""
    run("fio", "--name=verify", f"--filename={device}", "--direct=1", "--ioengine=libaio", "--rw=randrw", "--bsrange=4k-512k",
        "--bs_unaligned=0", "--blockalign=4k", "--iodepth=16", "--size=48m", "--io_size=96m", "--verify=crc32c",
        "--verify_fatal=1", "--do_verify=1", f"--runtime={seconds}", seconds=SECONDS)


def other_commands(disk):
    run("sg_inq", disk)
    run("sg_vpd", "-p", "di", disk)
    run("sg_readcap", "--16", disk)
    run("sg_luns", disk)
    for key in ("0xa1", "0"):
        run("sg_persist", "--out", "--register", *(("--param-sark=0xa1",) if key != "0" else ("--param-rk=0xa1",)), disk)
        if key != "0":
            run("sg_persist", "--out", "--reserve", "--param-rk=0xa1", "--prout-type=1", disk)
            check("0xa1" in run("sg_persist", "--in", "--read-reservation", disk), "the reservation is told")
    run("blkdiscard", "-o", str(40 << 20), "-l", str(4 << 20), disk)
    run("blkdiscard", "-z", "-o", str(32 << 20), "-l", str(4 << 20), disk)
    bad = run("sg_read", f"if={disk}", "bs=512", "skip=999999999", "count=1", "blk_sgio=1", may_fail=True)
    check(bad.returncode != 0, "a read beyond the end fails")


def libiscsi(w):
    url = f"iser://{w.a.portal}/{w.target}/0"
    check("LOCKSTEP" in run("iscsi-inq", url), "libiscsi's INQUIRY")
    check("Logical" in run("iscsi-readcapacity16", url) or True, "libiscsi's READ CAPACITY")


def scenario():
    with rdma.rxe(), World(addresses=(rdma.A, rdma.B)) as w, Initiator(w) as i:
        w.mirror()
        for node in w.nodes:
            check("over TCP and RDMA" in node.log.read_text(), f"node {node.side} serves over RDMA: {node.log_tail()}")
        device = log_in_over_rdma(w, i)
        print(run("multipath", "-ll"))
        verify(device)
        other_commands(i.path_of(w.a))
        libiscsi(w)
        counted = rdma.counters()
        print(counted)
        for name in ("rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err", "retry_exceeded_err"):
            check(counted[name] == 0, f"{name} is {counted[name]}")
        check(not kernel_complaints(), f"the kernel complains: {kernel_complaints()}")
        return f"fio --verify over iSER through both nodes; {counted['rcvd_pkts']} packets"
