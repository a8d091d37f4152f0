"""The partner link over RDMA (Soft-RoCE): its device goes and comes back under fio --verify, a node is killed; no host notices more."""
import os
import subprocess

import rdma
from harness import World, check, wait_for
from initiator import Initiator, kernel_complaints, run
from iser import verifying

SECONDS = 7200
LOSSES = int(os.environ.get("LOCKSTEP_VM_LOSSES", "4"))


def carrier(node):
    return node.status()["partner"]["path"]


def wait_carried(w, transport, seconds):
    try:
        wait_for(f"both nodes' data to go by {transport}", lambda: all(carrier(node) == transport for node in w.nodes), seconds)
    except Exception:
        for node in w.nodes:
            print(node.side, node.status()["partner"])
        raise


def epochs(w, volume):
    return [node.volume_status(volume)["epoch"]["number"] for node in w.nodes]


def is_lost_and_returns(w, volume):
    """RDMA alone: TCP's packets go by the same addresses."""
    before = epochs(w, volume)
    for turn in range(LOSSES):
        run("rdma", "link", "delete", "rxe0")
        wait_carried(w, "tcp", 20)
        print(turn, w.a.status()["partner"]["why_not_rdma"], flush=True)
        run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "fabric0")
        wait_carried(w, "rdma", 150)
    check(epochs(w, volume) == before, f"the partner was never lost: {before}, {epochs(w, volume)}")


def scenario():
    with rdma.rxe(), World(addresses=(rdma.A, rdma.B), lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror()
        wait_carried(w, "rdma", 60)
        device = i.attach()
        run(*verifying(device), seconds=SECONDS)
        counted = rdma.counters()
        print(counted)
        for name in ("rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err", "retry_exceeded_err"):
            check(counted[name] == 0, f"{name} is {counted[name]}")
        with subprocess.Popen(verifying(device, io_mib=400), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as fio:
            is_lost_and_returns(w, volume)
            w.a.kill()
            w.b.wait_state(volume, "solo", seconds=60)
            i.wait_for_return(w.a, volume)
            wait_carried(w, "rdma", 150)
            told = fio.communicate(timeout=SECONDS)[0]
        check(fio.returncode == 0, f"fio: {told[-1500:]}")
        check(not kernel_complaints(), f"the kernel complains: {kernel_complaints()}")
        return f"{LOSSES} losses of the device; {counted['rcvd_pkts']} packets before that"
