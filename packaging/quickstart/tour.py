"""./quickstart --tour: the product's promises, one step after the other, each seen to hold."""
import json
import signal
import subprocess
import threading
import time

from pair import Trouble, wait_for

SIZE = 1 << 30
PAUSE_LIMIT_MS = 2000


class Writer:
    """A verifying writer that goes on through whichever node answers."""

    def __init__(self, pair, volume, log, resume):
        self.log = log
        self.process = subprocess.Popen(
            [pair.build / "tests/e2e/verifier", "--portal", pair.a.portal, "--portal", pair.b.portal,
             "--target", volume["target_name"], "--lun", str(volume["lun"]), "--span-mib", "64", "--depth", "8",
             "--resume", resume, "--log", log],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.last = None
        self.lines = 0
        self.longest = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            status = json.loads(line)
            self.longest = max(self.longest, status["gap_ms"])
            self.last = status
            self.lines += 1

    def check(self):
        if self.process.poll() is not None:
            raise Trouble(f"The writer stopped: {self.process.stderr.read().strip()}")
        return self.last

    def goes_on(self, seconds=20):
        """Waits until a write that began after this call was acknowledged."""
        line = self.lines  # what stands there now may be older than what happened meanwhile
        wait_for("the writer's status", lambda: (self.check() or True) and self.lines > line, 10)
        before = self.last["writes"]
        wait_for("the writer to go on", lambda: self.check()["writes"] > before + 16, seconds)

    def pause(self):
        """The longest time without an answer since the last call, in milliseconds."""
        longest, self.longest = self.longest, 0
        return longest

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Trouble("The writer could not finish: an operation was never answered.") from None
        if self.process.returncode != 0:
            raise Trouble(f"The writer found wrong data: {self.process.stderr.read().strip()}")
        return self.last


def step(number, text):
    print(f"{number:2}. {text}", flush=True)


def note(text):
    print(f"      {text}", flush=True)


def verifier(pair, *arguments):
    done = subprocess.run([pair.build / "tests/e2e/verifier", *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise Trouble(f"The verifier failed: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def kill_and_return(pair, victim, survivor, volume, writer):
    writer.goes_on()
    writer.pause()
    began = time.monotonic()
    victim.kill_lockstepd()
    writer.goes_on()
    time.sleep(1)  # lets the survivor collect changes, so that there is something to bring over
    pause = writer.pause()
    note(f"killed {victim.name}'s daemon; the writer went on through {survivor.name} after a pause of {pause} ms")
    if pause >= PAUSE_LIMIT_MS:
        raise Trouble(f"The writer's pause was {pause} ms; the promise is less than {PAUSE_LIMIT_MS} ms.")

    wait_for(f"{survivor.name} to say that it serves alone",
             lambda: state(survivor, volume, survivor.side) in ("solo", "syncing_source"), 20)
    victim.start_lockstepd()
    began = time.monotonic()
    most, shown = 0, -1
    while not pair.in_sync(volume["id"], survivor):
        writer.check()
        for replica in survivor.get(f"/api/v1/volumes/{volume['id']}")["replicas"]:
            resync = replica["resync"]
            if resync["running"] and resync["bytes_total"]:
                most = max(most, resync["bytes_total"])
                percent = 100 * resync["bytes_done"] // resync["bytes_total"]
                if percent >= shown + 20:
                    shown = percent
                    note(f"resync: {percent} % of {resync['bytes_total'] / 2**20:.1f} MiB")
        if time.monotonic() > began + 120:
            raise Trouble(f"{victim.name} is not in sync again after 120 s.")
        time.sleep(0.02)
    seconds = time.monotonic() - began
    note(f"{victim.name} is back in sync: {most / 2**20:.1f} MiB of {volume['size_bytes'] / 2**20:.0f} MiB in {seconds:.1f} s,"
         f" longest pause of the writer meanwhile {writer.pause()} ms")
    if not 0 < most < volume["size_bytes"]:
        raise Trouble(f"The resync covered {most} bytes; it should be some, and not the whole volume.")


def state(node, volume, side):
    replicas = node.get(f"/api/v1/volumes/{volume['id']}")["replicas"]
    return next(r["state"] for r in replicas if r["side"] == side)


def rdma_lost_and_back(pair, writer):
    """Beside the numbered steps, which are the same without RDMA."""
    writer.pause()
    with pair.rdma_cut():
        pair.wait_carried("tcp")
        writer.goes_on()
    pair.wait_carried("rdma")
    writer.goes_on()
    note(f"RDMA was cut: TCP carried the link's data until RDMA was back; the writer waited {writer.pause():.0f} ms at most")


def kill_both(pair, volume, writer):
    writer.goes_on()
    writer.pause()
    began = time.monotonic()
    for node in pair.nodes:
        node.lockstepd.kill()
    for node in pair.nodes:
        node.lockstepd.wait()
    down = writer.check()["writes"]
    for node in pair.nodes:
        node.start_lockstepd()
    writer.goes_on(60)
    note(f"killed both daemons after {down} writes and started both; the writer goes on {time.monotonic() - began:.1f} s "
         f"later (pause {writer.pause()} ms)")
    wait_for("both nodes to be in sync", lambda: pair.in_sync(volume["id"]), 120)
    note(f"both in sync {time.monotonic() - began:.1f} s after the kill")


def compare_stores(pair, volume, log):
    files = [pair.data_file(node, volume["id"]) for node in pair.nodes]
    compared = 0
    with open(files[0], "rb") as a, open(files[1], "rb") as b:
        while True:
            left, right = a.read(1 << 20), b.read(1 << 20)
            if left != right:
                at = next(i for i in range(max(len(left), len(right))) if left[i:i + 1] != right[i:i + 1])
                raise Trouble(f"The two stores differ at byte {compared + at}.")
            if not left:
                break
            compared += len(left)
    if compared < volume["size_bytes"]:
        raise Trouble(f"The stores hold {compared} bytes; the volume has {volume['size_bytes']}.")
    checked = [verifier(pair, "--verify", log, "--check-file", file)["checked"] for file in files]
    note(f"{compared / 2**20:.0f} MiB compared, identical; {checked[0]} acknowledged blocks found on both")
    if checked[0] == 0:
        raise Trouble("The writer's log is empty: nothing was checked.")


def run(pair):
    began = time.monotonic()
    step(1, "a pair of nodes with a witness runs on this machine")
    note(f"node A {pair.a.address}, node B {pair.b.address}, witness {pair.witness}")

    step(2, "create a volume through REST")
    volume = pair.create_volume("tour", SIZE)
    wait_for("the volume to be in sync on both nodes", lambda: pair.in_sync(volume["id"], pair.b), 60)
    note(f"{volume['target_name']} LUN {volume['lun']}, {SIZE >> 20} MiB, in sync as node B tells")

    step(3, "write a pattern through node A, read it through node B")
    log = pair.folder / "pattern.log"
    common = ("--target", volume["target_name"], "--lun", volume["lun"])
    wrote = verifier(pair, "--portal", pair.a.portal, *common, "--span-mib", 64, "--seconds", 3, "--read-percent", 0, "--log", log)
    read = verifier(pair, "--portal", pair.b.portal, *common, "--verify", log)
    note(f"{wrote['writes']} blocks written through A, {read['verified']} different ones read and compared through B")
    if not wrote["writes"] or not read["verified"]:
        raise Trouble("Nothing was written or nothing was read.")

    step(4, "keep a verifying writer running")
    final_log = pair.folder / "writer.log"
    writer = Writer(pair, volume, final_log, log)
    try:
        writer.goes_on()
        note(f"through {writer.check()['portal']}")
        if pair.rdma:
            rdma_lost_and_back(pair, writer)
        for number, victim, survivor in ((5, pair.a, pair.b), (6, pair.b, pair.a)):
            step(number, f"kill -9 {victim.name}'s daemon, start it again")
            kill_and_return(pair, victim, survivor, volume, writer)
        step(7, "kill -9 both daemons at once, start both")
        kill_both(pair, volume, writer)
        final = writer.stop()
    finally:
        if writer.process.poll() is None:
            writer.process.kill()
    note(f"the writer is done: {final['writes']} writes and {final['reads']} reads, {final['wrong']} wrong, "
         f"{final['path_failures']} path changes")

    step(8, "stop the pair, compare both stores byte by byte")
    pair.stop()
    compare_stores(pair, volume, final_log)
    print(f"Every step was seen to hold ({time.monotonic() - began:.0f} s).", flush=True)
    print("8 passed, 0 failed")
