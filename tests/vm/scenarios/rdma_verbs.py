"""The provider of RDMA by verbs on Soft-RoCE: data, windows, wrong keys, closing in every state, hot plug."""
import os
import pathlib
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


def trial(*words, under=()):
    done = subprocess.run([*under, "/tmp/build/tests/vm/rdma_trial", *words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    print(done.stdout, run("rdma", "resource"), sep="\n")
    if done.returncode != 0:
        print(run("dmesg", "-l", "warn,err"))
        raise Failed(f"rdma_trial ended with {done.returncode}: {' '.join(done.stdout.splitlines()[-3:])}")
    return done.stdout.count("ok  ")


def scenario():
    run("modprobe", "dummy", "numdummies=0")
    run("modprobe", "-a", "rdma_rxe", "rdma_ucm")
    pathlib.Path("/proc/sys/net/ipv6/conf/default/keep_addr_on_down").write_text("1")
    pathlib.Path("/proc/sys/net/ipv6/conf/all/keep_addr_on_down").write_text("1")
    name = interface(0)
    run("ip", "address", "add", "fd00::9/64", "dev", name, "nodad")
    run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", name)
    print(run("rdma", "link"), run("ibv_devices"))
    words = os.environ.get("LOCKSTEP_VM_RDMA", "").split()
    parts = trial(ADDRESS, "rxe0", name, *words)
    # The way in which a device is let go of after its removal depends on whether there is another.
    run("rdma", "link", "add", "rxe1", "type", "rxe", "netdev", interface(1))
    both = trial(ADDRESS, "rxe0", name, *(words or ("2000", "5")))
    trial(ADDRESS, under=("prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock"))
    return f"{parts} parts with one device, {both} with two, and memory that may not be pinned"
