"""TLS on the link made by the kernel: small and large writes through both nodes, cut connections, a silent and a killed node,
and a partner whose kernel does not."""
import pathlib
import subprocess

from harness import World, check, wait_for
from initiator import Initiator, kernel_complaints, run
from iser import verifying
from link_rdma import fio_on
from replicas import same_data

SECONDS = 7200
COUNTERS = pathlib.Path("/proc/net/tls_stat")
BAD = ("TlsDecryptError", "TlsRxDeviceResync", "TlsDecryptRetry", "TlsRxNoPadViolation")


def counted():
    return {name: int(value) for name, value in map(str.split, COUNTERS.read_text().splitlines())}


def kernels(w):
    """Of each node, whether its kernel encrypts what it sends on its way out."""
    return [path["kernel_tls"] for node in w.nodes for path in node.status()["partner"]["paths"]]


def wait_kernels(w, *wanted):
    wait_for(f"the kernel to encrypt for {wanted}", lambda: kernels(w) == list(wanted) and all(
        node.status()["partner"]["connected"] for node in w.nodes), 60)
    for node in w.nodes:
        check(node.status()["partner"]["cipher"] == "TLS_AES_256_GCM_SHA384", node.status()["partner"])


def on_real_sockets():
    """The stream's own tests, which are the same where OpenSSL encrypts."""
    before = counted()["TlsTxSw"]
    told = run("/tmp/build/tests/unit/engine/unit_engine", "--gtest_filter=TlsOverTcpTest.*", seconds=SECONDS)
    print(told[-3000:], flush=True)
    check("PASSED" in told and "FAILED" not in told, "the tests on real sockets pass")
    made = counted()["TlsTxSw"] - before
    check(made == 2 * told.count("[       OK ]"), f"both ends of each connection had the kernel: {made}")


def cut_connections(w):
    """Each of the link's, both ways; the path comes back by itself."""
    before = counted()["TlsTxSw"]
    for node in w.nodes:
        address, port = node.link_address.rsplit(":", 1)
        run("ss", "-K", "dst", address, "dport", "=", f":{port}")
    wait_for("the paths to stand again", lambda: counted()["TlsTxSw"] >= before + 4, 30)


def goes_on(w, i, volume, device):
    with fio_on(device) as fio:
        for _ in range(4):
            cut_connections(w)
            wait_kernels(w, True, True)
            fio.check_runs()
        for victim in w.nodes:
            victim.freeze()
            w.other(victim).wait_state(volume, "solo", seconds=60)
            victim.thaw()
            for node in w.nodes:
                node.wait_state(volume, "in_sync", seconds=180)
            fio.check_runs()
        for victim in w.nodes:
            victim.kill()
            w.other(victim).wait_state(volume, "solo", seconds=60)
            i.wait_for_return(victim, volume)
            wait_kernels(w, True, True)
            fio.check_runs()
        fio.finish()


def beside_one_without(w, i, volume, device):
    w.b.options["link_kernel_tls"] = "off"
    w.b.kill()
    w.a.wait_state(volume, "solo", seconds=60)
    i.wait_for_return(w.b, volume)
    wait_kernels(w, True, False)
    run(*verifying(device, io_mib=24), seconds=SECONDS)


def without_the_module(w, i, volume, device):
    for node in w.nodes:
        node.kill()
    pathlib.Path("/etc/modprobe.d/no-tls.conf").write_text("install tls /bin/false\n")
    wait_for("the module to be let go of", lambda: run("rmmod", "tls", may_fail=True).returncode == 0, 60)
    del w.b.options["link_kernel_tls"]
    w.start_both()
    wait_kernels(w, False, False)
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=180)
    i.wait_paths(2, seconds=120)
    run(*verifying(device, io_mib=24), seconds=SECONDS)
    check(not COUNTERS.exists(), "the module is not there")


def scenario():
    run("modprobe", "-a", "tls", "aesni_intel")  # the second by udev, where a machine boots as a whole
    on_real_sockets()
    with World(link_tls=True, lease_ms=1500) as w, Initiator(w) as i:
        volume = w.mirror()
        wait_kernels(w, True, True)
        device = i.attach()
        run(*verifying(device), seconds=SECONDS)
        goes_on(w, i, volume, device)
        beside_one_without(w, i, volume, device)
        figures = counted()
        print(figures, flush=True)
        check(figures["TlsCurrTxSw"] > 0, figures)
        check(not any(figures.get(name, 0) for name in BAD), f"the kernel counts errors of TLS: {figures}")
        without_the_module(w, i, volume, device)
        check(not kernel_complaints(), f"the kernel complains: {kernel_complaints()}")
        i.release()
        same_data(w, volume)
        return f"{figures['TlsTxSw']} connections by the kernel"
