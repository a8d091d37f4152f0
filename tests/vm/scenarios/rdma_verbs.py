"""The provider of RDMA by verbs on Soft-RoCE: data, windows, wrong keys, closing in every state, hot plug."""
import os
import subprocess

from harness import Failed
from initiator import run

SECONDS = 900
ADDRESS = "10.9.0.1"


def interface(number):
    name = f"dummy{number}"
    run("ip", "link", "add", name, "type", "dummy")
    run("ip", "link", "set", name, "mtu", "9000", "up")
    run("ip", "address", "add", f"10.9.{number}.1/24", "dev", name)
    return name


def scenario():
    run("modprobe", "dummy", "numdummies=0")
    run("modprobe", "-a", "rdma_rxe", "rdma_ucm")
    name = interface(0)
    run("ip", "address", "add", "fd00::9/64", "dev", name, "nodad")
    run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", name)
    print(run("rdma", "link"), run("ibv_devices"))
    notes = []
    # The way in which a device is let go of after its removal depends on whether there is another.
    for alone in (True, False):
        if not alone:
            run("rdma", "link", "add", "rxe1", "type", "rxe", "netdev", interface(1))
        words = os.environ.get("LOCKSTEP_VM_RDMA", "" if alone else "2000 5").split()
        trial = subprocess.run(["/tmp/build/tests/vm/rdma_trial", ADDRESS, "rxe0", name, *words], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        print(trial.stdout, run("rdma", "resource"), sep="\n")
        if trial.returncode != 0:
            print(run("dmesg", "-l", "warn,err"))
            raise Failed(f"rdma_trial ended with {trial.returncode}: {' '.join(trial.stdout.splitlines()[-3:])}")
        notes.append(f"{trial.stdout.count('ok  ')} parts {'with one device' if alone else 'with two'}")
    return ", ".join(notes)
