"""A host that asks for all there is and does nothing with it does not stand in the way of the others."""
import struct
import time

from flood import MIB, READ16, WRITE16, Flood
from harness import Volume, World, check, check_time, settings
from scsi_client import BLOCK, GOOD, Initiator

GROUP = "security"
ALONE = True  # it measures time

KIB = 1 << 10


class Steady:
    """Reads and writes of several sizes, one after the other; how long each took, in seconds."""

    def __init__(self, initiator):
        self.initiator = initiator

    def one(self, size, writes):
        cdb = struct.pack(">BBQIH", WRITE16 if writes else READ16, 0, 0, size // BLOCK, 0)
        begun = time.monotonic()
        answer = self.initiator.once(cdb, out=b"s" * size if writes else b"", read=0 if writes else size)
        took = time.monotonic() - begun
        check(answer.status == GOOD, f"{size} bytes {'written' if writes else 'read'}: {answer}")
        return took

    def during(self, seconds):
        times = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            times += [self.one(size, writes) for size in (4 * KIB, 64 * KIB, MIB) for writes in (True, False)]
        return sorted(times)


def p99(times):
    return times[len(times) * 99 // 100]


def test_a_host_goes_on_beside_others_that_take_all_the_memory_there_is():
    w = World(nodes=1, witness=False)
    w.a.options["buffer_mib"] = 256  # as it comes
    with w:
        volume = w.add(Volume("v", 0, 128 * MIB, mirrored=False, memory=True))
        w.a.apply_cleanly()
        initiator = Initiator(w, w.a, volume, "steady")
        initiator.write()
        steady = Steady(initiator)
        calm = steady.during(4)
        floods = [Flood(w, w.a, 0, "announces", WRITE16, 128, MIB), Flood(w, w.a, 0, "announces-much", WRITE16, 9, 32 * MIB),
                  Flood(w, w.a, 0, "takes-nothing", READ16, 128, MIB), Flood(w, w.a, 0, "announces-more", WRITE16, 128, MIB)]
        flooded = steady.during(6)
        for flood in floods:
            flood.stop()
        initiator.close()
        allowed = 5 if settings.sanitized else 1
        check_time(p99(flooded) < allowed * max(5 * p99(calm), 0.005),
                   f"p99 {p99(flooded) * 1000:.1f} ms, {p99(calm) * 1000:.1f} ms without")
        check_time(flooded[-1] < allowed * max(0.1, 2 * calm[-1]),
                   f"a pause of {flooded[-1] * 1000:.0f} ms, {calm[-1] * 1000:.0f} ms without")
        return (f"p99 {p99(flooded) * 1000:.1f} ms (calm {p99(calm) * 1000:.1f}), longest {flooded[-1] * 1000:.0f} ms "
                f"(calm {calm[-1] * 1000:.0f})")
