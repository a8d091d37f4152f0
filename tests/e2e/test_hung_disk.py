"""A disk that hangs, for good as far as anybody knows: what a restart of its node's lockstepd is worth. Real daemons."""
import contextlib
import signal
import subprocess

from harness import MIB, Failed, Skipped, Volume, World, Writer, check, wait_for

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


def test_a_restart_beside_a_disk_that_hangs_serves_what_is_on_other_disks():
    with World(nodes=1, witness=False) as w:
        hung_folder = w.small_file_system(96 * MIB)
        hung, other = [w.add(Volume(name, lun, 16 * MIB, mirrored=False)) for lun, name in enumerate(("hung", "other"))]
        folder = w.a.volume_folder
        w.a.data = lambda v: str((hung_folder if v is hung else folder) / f"{v.name}.data")
        w.a.metadata = lambda v: str((hung_folder if v is hung else folder) / f"{v.name}.meta")
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
            check(read.returncode == 0, read.stdout)
            stuck.kill()
        old.wait(20)
        w.a.apply_cleanly()
