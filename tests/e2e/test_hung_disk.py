"""A disk that hangs, for good as far as anybody knows: what a restart of its node's lockstepd is worth. Real daemons."""
import contextlib
import signal
import subprocess
import threading
import time

from harness import MIB, Failed, Rpc, Skipped, Volume, World, Writer, check, check_verifier, wait_for

BEGUN = "Waiting to be told what to serve."


@contextlib.contextmanager
def frozen(w, mount):
    done = w.run("fsfreeze", "--freeze", mount)
    if done.returncode != 0:
        raise Skipped(f"fsfreeze: {done.stdout.strip()}")
    try:
        yield
    finally:
        w.run("fsfreeze", "--unfreeze", mount)


def started_again(w):
    """As systemd does, until it stays."""
    begun = w.a.log_text().count(BEGUN)
    with contextlib.suppress(Failed, OSError):
        w.a.start()
    return w.a.log_text().count(BEGUN) > begun and w.a.process.poll() is None


def on_two_disks(w):
    """The folder of a disk, a volume that lies there, and one that lies elsewhere."""
    hung_folder = w.small_file_system(96 * MIB)
    hung, other = [w.add(Volume(name, lun, 16 * MIB, mirrored=False)) for lun, name in enumerate(("hung", "other"))]
    folder = w.a.volume_folder
    w.a.data = lambda v: str((hung_folder if v is hung else folder) / f"{v.name}.data")
    w.a.metadata = lambda v: str((hung_folder if v is hung else folder) / f"{v.name}.meta")
    return hung_folder, hung, other


class Asked:
    """A request over a connection of its own, whose answer comes when it comes."""

    def __init__(self, w, ask):
        self.answer, self.problem = None, None
        rpc, w.a.rpc = w.a.rpc, self
        ask()
        w.a.rpc = rpc
        self.connection = Rpc(w.a.socket)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def call(self, method, **parameters):
        self.method, self.parameters = method, parameters

    def run(self):
        try:
            self.answer = self.connection.call(self.method, **self.parameters)
        except Exception as error:  # told by whoever waits for the answer
            self.problem = error


def test_a_disk_that_hangs_as_a_replica_is_made_holds_up_nothing_else():
    with World(nodes=1, witness=False) as w:
        hung_folder, hung, other = on_two_disks(w)
        w.a.create(other)
        with frozen(w, hung_folder):
            made = Asked(w, lambda: w.a.create(hung))
            time.sleep(0.5)
            begun = time.monotonic()
            w.a.apply_cleanly([other])
            took = time.monotonic() - begun
            check(took < 15, f"the disk was waited for for {took:.1f} s")
            check(made.thread.is_alive(), "the file system was not frozen: this shows nothing")
            problems = w.a.apply()["problems"]
            check([p["object"] for p in problems] == ["volume hung"] and "has not answered" in problems[0]["message"],
                  f"the disk should be named: {problems}")
        made.thread.join(20)
        check(made.answer is not None, f"the replica should have been made: {made.problem}")
        w.a.apply_cleanly()


def test_a_restart_beside_a_disk_that_hangs_serves_what_is_on_other_disks():
    with World(nodes=1, witness=False) as w:
        hung_folder, hung, other = on_two_disks(w)
        for volume in (hung, other):
            w.a.create(volume)
        w.a.apply_cleanly()
        with frozen(w, hung_folder):
            stuck = Writer(w, hung, [w.a], span_mib=8)
            busy = Writer(w, other, [w.a], span_mib=8)
            busy.wait_writes(200)
            busy.stop()
            old = w.a.process
            old.send_signal(signal.SIGTERM)
            wait_for("lockstepd to be started beside the old one", lambda: started_again(w), 30)
            with contextlib.suppress(subprocess.TimeoutExpired):
                old.wait(0.1)
                raise Failed("nothing of the old process hung: this shows nothing")
            told = wait_for("the other volume to be attached", lambda: [
                p["object"] for p in w.a.apply()["problems"]] == ["volume hung"], 40)
            check(told, "the volume on the disk that hangs is refused")
            read = w.run(*w.verifier("--portal", w.a.portal, "--lun", other.lun, "--verify", busy.log))
            check_verifier(read.returncode, read.stdout)
            stuck.kill()
        old.wait(20)
        w.a.apply_cleanly()
