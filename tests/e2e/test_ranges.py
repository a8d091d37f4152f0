"""Commands that name gigabytes: a few ordered operations of the mirror, each a range of each store. Real daemons."""
import os
import struct
import time

from harness import MIB, World, check, check_data, check_time, settings, wait_for
from scsi_client import BLOCK, Initiator

GIB = 1 << 30
PIECE = 4 * MIB
LIMIT_S = 1.0  # generous: seconds would mean a loop of blocks somewhere


def blocks(size):
    return size // BLOCK


def write(to, at, fill, size=PIECE):
    for offset in range(at, at + size, PIECE):
        to.good(struct.pack(">BBQIBB", 0x8A, 0, blocks(offset), blocks(PIECE), 0, 0), out=fill * PIECE)


def reads_as(by, at, fill):
    data = by.good(struct.pack(">BBQIBB", 0x88, 0, blocks(at), blocks(MIB), 0, 0), read=MIB).data
    check_data(data == fill * MIB, f"1 MiB at {at} reads as {fill} through node {by.node.side}")


def unmap(to, at, size):
    parameters = struct.pack(">HH4xQI4x", 22, 16, blocks(at), blocks(size))
    to.good(struct.pack(">BB4xBHB", 0x42, 0, 0, len(parameters), 0), out=parameters)


def write_same(to, at, size, unmaps=False, block=None):
    """Without a block: NDOB."""
    flags = (0x08 if unmaps else 0) | (0 if block else 0x01)
    to.good(struct.pack(">BBQIBB", 0x93, flags, blocks(at), blocks(size), 0, 0), out=block or b"")


def lba_status(by, at):
    """How many bytes from `at` on are of one kind, and whether they are deallocated."""
    data = by.good(struct.pack(">BBQIBB", 0x9E, 0x12, blocks(at), 24, 0, 0), read=24).data
    start, count, kind = struct.unpack(">QIB", data[8:21])
    check(start == blocks(at), f"the descriptor begins at the asked block: {start}")
    return count * BLOCK, kind == 1


def timed(what, run, figures):
    began = time.monotonic()
    run()
    took = time.monotonic() - began
    figures.append(f"{what} {took * 1000:.0f} ms")
    check_time(took < LIMIT_S * (10 if settings.sanitized else 1), f"{what} took {took:.3f} s")


def allocated(w, volume):
    return [os.stat(node.data(volume)).st_blocks * 512 for node in w.nodes]


def data_extents(path):
    """Where the file has something that is not zero, and what: as (offset, MiB of bytes)."""
    with open(path, "rb") as f:
        end, at = f.seek(0, os.SEEK_END), 0
        while at < end:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA) // MIB * MIB
            except OSError:  # no more data
                return
            data = os.pread(f.fileno(), MIB, at)
            if any(data):
                yield at, data
            at += MIB


def same_data(w, volume):
    check_data(list(data_extents(w.a.data(volume))) == list(data_extents(w.b.data(volume))), "the two replicas are the same")


def in_sync(w, volume):
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=60)


def test_gigabytes_are_given_back_or_zeroed_by_one_command_through_either_node():
    with World() as w:
        volume = w.mirror(size=16 * GIB)
        a, b = Initiator(w, w.a, volume, "a"), Initiator(w, w.b, volume, "b")
        kept, places = 13 * GIB, (GIB, 4 * GIB - PIECE, 5 * GIB, 9 * GIB)
        for at in (*places, kept):
            write(a, at, b"x", 16 * PIECE)
        before, figures = allocated(w, volume), []
        check(min(before) > 200 * MIB, f"the volume has space on both: {before}")
        timed("UNMAP of 4 GiB through A", lambda: unmap(a, 0, 4 * GIB), figures)
        timed("WRITE SAME (UNMAP, NDOB) of 4 GiB through B", lambda: write_same(b, 4 * GIB, 4 * GIB, unmaps=True), figures)
        timed("UNMAP of 4 GiB through B", lambda: unmap(b, 8 * GIB, 4 * GIB), figures)
        after = allocated(w, volume)
        check(max(after) < 150 * MIB, f"both nodes gave space back: {before} became {after}")
        timed("WRITE SAME of 4 GiB of zeros through A", lambda: write_same(a, 8 * GIB, 4 * GIB, block=bytes(BLOCK)), figures)
        timed("UNMAP of it", lambda: unmap(a, 8 * GIB, 4 * GIB), figures)
        for by in (a, b):
            for at in places:
                reads_as(by, at, b"\0")
            reads_as(by, kept, b"x")
            check(lba_status(by, 0) == (kept, True), f"one hole to what was kept: {lba_status(by, 0)}")
            length, hole = lba_status(by, kept)
            check(length == 16 * PIECE and not hole, f"what was kept is mapped: {length}, {hole}")
        same_data(w, volume)
        in_sync(w, volume)
        return ", ".join(figures)


def test_a_block_repeated_over_a_range_is_one_operation_and_the_same_on_both():
    with World() as w:
        volume = w.mirror(size=GIB)
        a, b = Initiator(w, w.a, volume, "a"), Initiator(w, w.b, volume, "b")
        write_same(a, 0, 200 * MIB, block=b"p" * BLOCK)
        write_same(b, 100 * MIB, 200 * MIB, block=b"q" * BLOCK)
        for by in (a, b):
            for at, fill in ((0, b"p"), (99 * MIB, b"p"), (100 * MIB, b"q"), (299 * MIB, b"q"), (300 * MIB, b"\0")):
                reads_as(by, at, fill)
        same_data(w, volume)


def test_what_was_given_back_while_a_node_was_away_is_a_hole_there_after_the_resync():
    with World() as w:
        volume = w.mirror(size=3 * GIB)
        a = Initiator(w, w.a, volume, "a")
        for at in (0, GIB // 2, GIB, 2 * GIB):
            write(a, at, b"x", 16 * PIECE)
        w.b.kill()
        w.a.wait_state(volume, "solo")
        a.connect()  # its session was closed with the lease
        unmap(a, 0, 3 * GIB // 2)
        write(a, GIB, b"y")
        w.b.restart()
        in_sync(w, volume)
        a.close()
        same_data(w, volume)
        held = allocated(w, volume)
        check(max(held) < 90 * MIB, f"the hole is kept on both: {held}")
        b = Initiator(w, w.b, volume, "b")
        for at, fill in ((0, b"\0"), (GIB // 2, b"\0"), (GIB, b"y"), (GIB + PIECE, b"\0"), (2 * GIB, b"x")):
            reads_as(b, at, fill)
        wait_for("node B to call it a hole", lambda: lba_status(b, 0) == (GIB, True))
