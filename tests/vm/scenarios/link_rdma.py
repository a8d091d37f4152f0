"""The partner link over RDMA (Soft-RoCE): its device goes and comes back under fio --verify, a node is killed; no host notices more."""
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile

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


class Fio:
    """Writes and verifies pass after pass until it is told to end, however fast the disk is."""

    def __init__(self, device, folder):
        self.end, self.log = folder / "end", folder / "fio.log"
        loop = 'until [ -e "$0" ]; do "$@" || exit; done'
        self.process = subprocess.Popen(["sh", "-c", loop, self.end, *verifying(device)], stdin=subprocess.DEVNULL,
                                        stdout=open(self.log, "wb"), stderr=subprocess.STDOUT, start_new_session=True)

    def check_runs(self):
        check(self.process.poll() is None, f"fio has ended: {self.told()}")

    def finish(self):
        self.end.touch()
        check(self.process.wait(SECONDS) == 0, f"fio: {self.told()}")

    def told(self):
        return self.log.read_text()[-1500:]


@contextlib.contextmanager
def fio_on(device):
    with tempfile.TemporaryDirectory() as folder:
        fio = Fio(device, pathlib.Path(folder))
        try:
            yield fio
        finally:
            if fio.process.poll() is None:
                os.killpg(fio.process.pid, signal.SIGKILL)
                fio.process.wait(60)


def check_counters():
    """A receive was always there, and nothing was given up."""
    counted = rdma.counters()
    print(counted, flush=True)
    for name in ("rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err", "retry_exceeded_err"):
        check(counted[name] == 0, f"{name} is {counted[name]}")
    return counted


def is_lost_and_returns(w, volume, fio):
    """RDMA alone: TCP's packets go by the same addresses."""
    check(LOSSES > 0, "without a loss nothing is tried")
    before = epochs(w, volume)
    for turn in range(LOSSES):
        run("rdma", "link", "delete", "rxe0")
        wait_carried(w, "tcp", 20)
        fio.check_runs()
        print(turn, w.a.status()["partner"]["why_not_rdma"], flush=True)
        run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "fabric0")
        wait_carried(w, "rdma", 150)
        fio.check_runs()
    check(epochs(w, volume) == before, f"the partner was never lost: {before}, {epochs(w, volume)}")


def scenario():
    with rdma.rxe(), World(link_tls=True, addresses=(rdma.A, rdma.B), lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror()
        wait_carried(w, "rdma", 60)
        device = i.attach()
        run(*verifying(device), seconds=SECONDS)
        counted = check_counters()
        with fio_on(device) as fio:
            is_lost_and_returns(w, volume, fio)
            check_counters()  # of the device that came back last
            fio.check_runs()
            w.a.kill()
            w.b.wait_state(volume, "solo", seconds=60)
            i.wait_for_return(w.a, volume)
            wait_carried(w, "rdma", 150)
            fio.finish()
        check(not kernel_complaints(), f"the kernel complains: {kernel_complaints()}")
        return f"{LOSSES} losses of the device; {counted['rcvd_pkts']} packets before that"
