"""The kernel's iSER initiator and libiscsi's use a mirrored volume over RDMA (Soft-RoCE), through a killed node, too."""
import subprocess

import rdma
from compare_and_write import both_ways
from harness import World, check
from initiator import Initiator, kernel_complaints, run
from reservations import released, through_both

SECONDS = 1800
MEMORY_MIB = 1536  # two daemons pin 370 MiB each, libiscsi 64


def verifying(device, io_mib=96):
    """Writes of many sizes at a depth, and what was written is read back."""
    return ["fio", "--name=verify", f"--filename={device}", "--direct=1", "--ioengine=libaio", "--rw=randrw",
            "--bsrange=4k-512k", "--blockalign=4k", "--iodepth=16", "--size=48m", f"--io_size={io_mib}m",
            "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"]


def every_kind_of_command(w, i, device):
    a, b = i.path_of(w.a), i.path_of(w.b)
    for tool in (("sg_inq",), ("sg_vpd", "-p", "di"), ("sg_vpd", "-p", "bl"), ("sg_readcap", "--16"), ("sg_luns",),
                 ("sg_modes", "-a"), ("sg_opcodes",), ("sg_rtpg",)):
        run(*tool, a)
    check(run("sg_dd", f"if={a}", "of=/dev/null", "bs=512", "skip=99999999", "count=1", "blk_sgio=1",
              may_fail=True).returncode != 0, "a read beyond the end fails")
    both_ways(w, i, device)
    through_both(a, b)
    released(a, b)
    run("blkdiscard", "-o", str(40 << 20), "-l", str(4 << 20), device)
    run("blkdiscard", "-z", "-o", str(32 << 20), "-l", str(4 << 20), device)


def with_libiscsi(w):
    for node in w.nodes:
        url = f"iser://{node.portal}/{w.target}/0"
        check("LOCKSTEP" in run("iscsi-inq", url), "INQUIRY by libiscsi")
        print(run("iscsi-readcapacity16", url))


def through_a_kill(w, i, volume, device):
    with subprocess.Popen(verifying(device, io_mib=192), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as fio:
        w.a.kill()
        w.b.wait_state(volume, "solo", seconds=60)
        i.wait_for_return(w.a, volume)
        told = fio.communicate(timeout=SECONDS)[0]
    check(fio.returncode == 0, f"fio: {told[-1500:]}")
    print(run("iscsiadm", "-m", "session"))


def scenario():
    with rdma.rxe(), World(addresses=(rdma.A, rdma.B), lease_ms=1500) as w, Initiator(w, transport="iser") as i:
        volume = w.mirror()
        for node in w.nodes:
            check("over TCP and RDMA" in node.log.read_text(), f"node {node.side} serves over RDMA: {node.log_tail()}")
        device = i.attach()
        shown = run("iscsiadm", "-m", "session")
        check(shown.count("iser:") == 2, f"both sessions go over iSER: {shown}")
        run(*verifying(device), seconds=SECONDS)
        every_kind_of_command(w, i, device)
        with_libiscsi(w)
        counted = rdma.counters()
        print(counted)
        for name in ("rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err", "retry_exceeded_err"):
            check(counted[name] == 0, f"{name} is {counted[name]}")
        through_a_kill(w, i, volume, device)
        check(not kernel_complaints(), f"the kernel complains: {kernel_complaints()}")
        return f"fio --verify over iSER through both nodes and a killed one; {counted['rcvd_pkts']} packets before that"
