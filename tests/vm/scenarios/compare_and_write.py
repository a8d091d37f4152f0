"""COMPARE AND WRITE through one path is seen through the other, and a miscompare changes nothing."""
import pathlib

from harness import World, check
from initiator import Initiator, read_direct, run, write_direct

BLOCK = 512
MISCOMPARE = 14  # sg3_utils' exit status: sense key MISCOMPARE


def compare_and_write(disk, lba, expected, new):
    both = pathlib.Path("/tmp/compare-and-write")
    both.write_bytes(expected + new)
    return run("sg_compare_and_write", f"--in={both}", f"--lba={lba}", "--num=1", f"--xferlen={2 * BLOCK}", disk, may_fail=True)


def both_ways(w, i, device):
    through_a, through_b = i.path_of(w.a), i.path_of(w.b)
    old, first, second = (bytes([value]) * BLOCK for value in (0x11, 0x22, 0x33))
    write_direct(device, 64 * BLOCK, old)
    for disk, other, expected, new in ((through_a, through_b, old, first), (through_b, through_a, first, second)):
        done = compare_and_write(disk, 64, expected, new)
        check(done.returncode == 0, f"{disk}: {done.stdout}")
        check(read_direct(other, 64 * BLOCK, BLOCK) == new, f"what {disk} wrote is read through {other}")
        late = compare_and_write(other, 64, expected, old)
        check(late.returncode == MISCOMPARE, f"{other}: a miscompare is reported, not {late.returncode}: {late.stdout}")
        check(read_direct(disk, 64 * BLOCK, BLOCK) == new, "a miscompare writes nothing")


def scenario():
    with World() as w, Initiator(w) as i:
        w.mirror()
        both_ways(w, i, i.attach())
        return "both ways"
