"""The latency of one writer, 4 KiB at depth 1, while something happens to another volume of the same pair."""
import contextlib
import os
import pathlib
import statistics
import subprocess
import time

from pair_of_many import MIB, Pair, outcome

FLOOD = 64  # its depth
HUNG = 20  # volumes on a disk that hangs
SLOW = 4000  # writes a second of both nodes together
BEFORE_IT_IS_GIVEN_UP = 2.5  # seconds: less than a store may hold what it was given
AFTER = 5


def probe(pair, seconds):
    return outcome(pair.client(pair.volumes[0], 1, seconds))


def beside(flooded_pair, volume, pair, seconds):
    """The writer's latencies, and the flood's own operations a second."""
    flood = flooded_pair.client(volume, FLOOD, seconds + 0.6)
    time.sleep(0.3)
    found = probe(pair, seconds)
    return found | {"flood": outcome(flood)["iops"]}


def fill(pair):
    for volume in pair.volumes:
        process = pair.client(volume, 32, 0, more=["--fill"])
        _, said = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(said)


@contextlib.contextmanager
def hung(mount):
    """Whatever is written there stands still, as it does in the kernel's queue of a disk that does not answer."""
    subprocess.run(["fsfreeze", "--freeze", mount], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", mount], check=True)


def beside_hung(pair, volumes, mount):
    """While nobody has given the disk up yet, and while its volumes go on without it. None: the writer was thrown out."""
    others = [pair.client(volume, FLOOD, 60) for volume in volumes]
    time.sleep(0.5)
    with hung(mount):
        time.sleep(0.2)  # what it had taken already is over
        still = outcome(pair.client(pair.volumes[0], 1, BEFORE_IT_IS_GIVEN_UP), or_nothing=True)
        for other in others:
            other.kill()
            other.communicate()
        given_up = outcome(pair.client(pair.volumes[0], 1, AFTER), or_nothing=True)
    return still, given_up


class Cases:
    """Of one table: rounds of each, in turn, so that the machine's drift meets all of them alike."""

    def __init__(self):
        self.found = {}

    def add(self, name, result, base):
        self.found.setdefault(name, (base, []))[1].append(result)

    def of(self, name, what, pick=statistics.median):
        return pick(r[what] for r in self.found[name][1])

    def show(self):
        print("| beside | p50 µs | p99 µs | longest ms | p50, ratio | p99, ratio | the flood's IOPS |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, (base, results) in self.found.items():
            if None in results:
                print(f"| {name} | its session was ended, or it got no answer | | | | | |")
                continue
            p50, p99 = self.of(name, "p50_us"), self.of(name, "p99_us")
            flood = f"{self.of(name, 'flood'):,.0f}" if "flood" in results[0] else ""
            longest = self.of(name, "max_us", max) / 1000
            print(f"| {name} | {p50:,.0f} | {p99:,.0f} | {longest:.1f} | {p50 / self.of(base, 'p50_us'):.2f} | "
                  f"{p99 / self.of(base, 'p99_us'):.2f} | {flood} |")


class SlowDisk:
    """Lets the pair's processes write no more than so often a second to the disk that a folder is on."""

    def __init__(self, pair, mount):
        device = mount.stat().st_dev
        device = f"{os.major(device)}:{os.minor(device)}"
        one, two = pathlib.Path("/sys/fs/cgroup/blkio"), pathlib.Path("/sys/fs/cgroup")
        self.group = (one if one.is_dir() else two) / f"lockstep-bench-{mount.parent.name}-{mount.name}"
        self.group.mkdir()
        if one.is_dir():
            (self.group / "blkio.throttle.write_iops_device").write_text(f"{device} {SLOW}")
        else:
            (self.group / "io.max").write_text(f"{device} wiops={SLOW}")
        for pid in pair.pids.values():
            (self.group / "cgroup.procs").write_text(str(pid))
        pair.cleanups.append(self.group.rmdir)


def slow_volume(pair):
    """On both nodes on one disk that is the bottleneck, not the CPU."""
    mount = pair.small_file_system(128 * MIB)
    volume = pair.more(1, name="slow")[0]
    pair.places.update({(volume.name, side): mount for side in "ab"})
    pair.create([volume])
    return volume, mount


def floods(options, cases):
    seconds = options.seconds
    with Pair(options) as pair, Pair(options) as other, Pair(options, reactors=2) as sharded:
        for p in (pair, other, sharded):
            p.create(p.more(2))
        slow, mount = slow_volume(pair)
        for p in (pair, other, sharded):
            p.tell()
            p.in_sync()
            fill(p)
        SlowDisk(pair, mount)
        for _ in range(options.rounds):
            cases.add("nothing", probe(pair, seconds), "nothing")
            cases.add("a flood", beside(pair, pair.volumes[1], pair, seconds), "nothing")
            cases.add("the same flood of another pair on the same cores", beside(other, other.volumes[1], pair, seconds),
                      "nothing")
            cases.add(f"a flood of a volume whose disk takes {SLOW:,} writes a second", beside(pair, slow, pair, seconds),
                      "nothing")
            cases.add("nothing, two shards", probe(sharded, seconds), "nothing, two shards")
            cases.add("a flood in the other shard", beside(sharded, sharded.volumes[1], sharded, seconds),
                      "nothing, two shards")


def hangs(options, cases, side, count):
    """A disk of one node's with so many volumes, all under load, and the writer's volume elsewhere."""
    with Pair(options) as pair:
        pair.create(pair.more(1))
        mount = pair.small_file_system((64 + 17 * count) * MIB)
        volumes = pair.more(count, name="hung")
        pair.places.update({(volume.name, side): mount for volume in volumes})
        pair.create(volumes)
        pair.tell()
        pair.in_sync()
        fill(pair)
        here, of_how_many = "nothing, before disks hang", f"{count} volumes" if count > 1 else "one volume"
        cases.add(here, outcome(pair.client(pair.volumes[0], 1, BEFORE_IT_IS_GIVEN_UP)), here)
        still, given_up = beside_hung(pair, volumes, mount)
        cases.add(f"a disk of {side.upper()}'s with {of_how_many} hangs", still, here)
        cases.add(f"… {side.upper()}'s with {of_how_many} is given up", given_up, here)


def run(options):
    cases = Cases()
    floods(options, cases)
    for count in (1, HUNG):
        for side in "ab":
            hangs(options, cases, side, count)
    print(f"\nA writer of 4 KiB at depth 1 through A, {options.rounds} rounds of {options.seconds:g} s, medians; floods are one "
          f"client at depth {FLOOD}.")
    cases.show()
