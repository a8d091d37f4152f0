"""How long heartbeats take: from Partner::send_beat() of a lockstepd that runs to its Partner::on_beat_answer().

No figure of the program's tells it: `round_trip_us` in node.status is the system's, of the connection. So the kernel notes
when the two functions are entered (uprobes, by the program's symbols). The program is not changed, and pays some microseconds
for each.
"""
import collections
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

FUNCTIONS = {"sent": "_ZN8lockstep11replication7Partner9send_beatEv",
             "answered": "_ZN8lockstep11replication7Partner14on_beat_answerE"}
LINE = re.compile(r"-(\d+)\s+\[\d+\]\s+\S+\s+(\d+\.\d+): (sent|answered):")


class Unavailable(Exception):
    """What this machine lacks."""


def offsets(program):
    """Of the functions, in the file."""
    symbols = subprocess.run(["nm", program], capture_output=True, text=True).stdout
    found = {name: re.search(rf"^([0-9a-f]+) \w {symbol}(?!\S*\.cold)", symbols, re.M) for name, symbol in FUNCTIONS.items()}
    if not all(found.values()):
        raise Unavailable(f"{program} has no symbols")
    segments = [[int(word, 16) for word in line.split()[1:6]]
                for line in subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout.splitlines()
                if line.split()[:1] == ["LOAD"]]
    at = {}
    for name, match in found.items():
        address = int(match.group(1), 16)
        at[name] = next(address - begin + offset for offset, begin, _, size, _ in segments if begin <= address < begin + size)
    return at


class Heartbeats:
    """The whole program is to run in a mount namespace of its own (`unshare -m`)."""

    def __init__(self, program):
        places = offsets(program)
        self.group = f"lockstep_bench_{os.getpid()}"
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-bench-trace-"))
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", self.root], capture_output=True).returncode != 0:
            raise Unavailable("the kernel's tracing can't be reached; be root")
        try:
            for name, offset in places.items():
                self._change(f"p:{self.group}/{name} {program}:{offset:#x}")
            self.instance = self.root / "instances" / self.group
            self.instance.mkdir()
            (self.instance / "trace_clock").write_text("mono")
        except OSError as e:
            raise Unavailable(f"the kernel has no uprobes: {e}") from None

    def _change(self, event):
        """Appended, what others watch stays; Python's own append seeks, which this file does not bear."""
        file = os.open(self.root / "uprobe_events", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, event.encode() + b"\n")
        finally:
            os.close(file)

    def _enable(self, on):
        (self.instance / "events" / self.group / "enable").write_text("1" if on else "0")

    @contextlib.contextmanager
    def watched(self, pids):
        """A dictionary that has, when the block has ended, each process's delays in ms, sorted."""
        delays = {}
        threads = {int(task): pid for pid in pids for task in os.listdir(f"/proc/{pid}/task")}
        (self.instance / "trace").write_text("")
        self._enable(True)
        try:
            yield delays
        finally:
            self._enable(False)
        under_way = collections.defaultdict(collections.deque)
        for thread, at, what in LINE.findall((self.instance / "trace").read_text()):
            pid = threads.get(int(thread))
            if what == "sent":
                under_way[pid].append(float(at))
            elif under_way[pid]:
                delays.setdefault(pid, []).append((float(at) - under_way[pid].popleft()) * 1000)
        for of_one in delays.values():
            of_one.sort()

    def close(self):
        self.instance.rmdir()
        for name in FUNCTIONS:
            self._change(f"-:{self.group}/{name}")
        subprocess.run(["umount", self.root], check=True)
        self.root.rmdir()


@contextlib.contextmanager
def nothing():
    yield {}
