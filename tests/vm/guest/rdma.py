"""Soft-RoCE inside the guest: an RDMA device on an interface that leads nowhere; its addresses reach one another."""
import contextlib
import pathlib

from initiator import run

A, B = "10.9.0.1", "10.9.0.2"


@contextlib.contextmanager
def rxe():
    """One device with the addresses of both nodes."""
    for module in ("dummy", "rdma_rxe", "rdma_ucm", "ib_iser"):
        run("modprobe", module)
    run("ip", "link", "add", "fabric0", "type", "dummy")
    run("ip", "link", "set", "fabric0", "mtu", "9000", "up")
    for address in (A, B):
        run("ip", "address", "add", f"{address}/24", "dev", "fabric0")
    run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "fabric0")
    try:
        yield "rxe0"
    finally:
        run("ip", "link", "delete", "fabric0", may_fail=True)


def counters(device="rxe0"):
    """Of its port: {name: number}."""
    folder = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
    return {file.name: int(file.read_text()) for file in folder.iterdir() if file.name != "lifespan"}
