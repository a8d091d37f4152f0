"""./quickstart: a pair on this machine, to try out or to be shown around."""
import argparse
import pathlib
import re
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from pair import Pair, Trouble, wait_for  # noqa: E402
import tour  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def size(text):
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(iB)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not a size; write for example 10GiB")
    value = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2]]
    if value % 4096 or value < 1 << 20:
        raise argparse.ArgumentTypeError(f"{text}: a size is a multiple of 4 KiB and at least 1 MiB")
    return value


def stay(pair, volume_size):
    volume = pair.volume("first") or pair.create_volume("first", volume_size)
    wait_for("the volume to be in sync", lambda: pair.in_sync(volume["id"]), 60)
    a, b, lun, target = pair.a, pair.b, volume["lun"], volume["target_name"]
    print(f"""
A pair runs on this machine. Its volume "first" is on both nodes and is served by both:

  node A   iscsi://{a.portal}/{target}/{lun}
  node B   iscsi://{b.portal}/{target}/{lun}

  web page {a.url}/   (or {b.url}/)
  token    {a.token}

Try:
  iscsi-ls -s iscsi://{a.portal}
  qemu-io -f raw -c 'write -P 7 0 1M' iscsi://{a.portal}/{target}/{lun}
  qemu-io -f raw -c 'read -P 7 0 1M' iscsi://{b.portal}/{target}/{lun}
  {pair.build}/ui-api/cli/lockstep --server {a.url} --token-file {a.token_file} --ca {a.certificate} volume list
  kill -9 {a.lockstepd.pid}   (node A's data plane; it is started again after five seconds)

Data and logs are in {pair.folder}. Ctrl-C stops everything.""", flush=True)
    keep_running(pair)


def keep_running(pair):
    """What systemd does for an installed node: a daemon that ends is started again."""
    stopping = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.append(1))
    while not stopping:
        signal.sigtimedwait({signal.SIGUSR1}, 1)
        for what, process, start in [("the witness", pair.etcd, pair.run_witness)] + [
                daemon for node in pair.nodes
                for daemon in ((f"{node.name}: lockstepd", node.lockstepd, node.start_lockstepd),
                               (f"{node.name}: lockstep-mgmtd", node.mgmtd, node.start_mgmtd))]:
            if not stopping and process.poll() is not None:
                print(f"{what} ended (status {process.returncode}); starting it again in 5 s", flush=True)
                signal.sigtimedwait({signal.SIGUSR1}, 5)
                if not stopping:
                    start()
    print("Stopping…", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="quickstart", add_help=False)
    parser.add_argument("--tour", action="store_true")
    parser.add_argument("--rdma", action="store_true")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--size", type=size, default=1 << 30)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))

    made = None
    folder = options.data or ROOT / "data"
    if options.tour and not options.data:
        (ROOT / "build").mkdir(exist_ok=True)
        folder = made = pathlib.Path(tempfile.mkdtemp(prefix="tour-", dir=ROOT / "build"))
    pair = None
    try:
        pair = Pair(folder, options.build, options.rdma)
        pair.start()
        if options.tour:
            tour.run(pair)
            pair.check_rdma()
        else:
            stay(pair, options.size)
        status = 0
    except KeyboardInterrupt:
        print("Interrupted.")
        status = 130 if options.tour else 0
    except Trouble as trouble:
        print(f"\n{trouble}\nLogs are in {folder}.", file=sys.stderr)
        status = 1
    finally:
        if pair:
            pair.stop()
    if made and status == 0:
        shutil.rmtree(made)
    return status


if __name__ == "__main__":
    sys.exit(main())
