"""A disk that is full: writes to new space are refused on both nodes, nothing of them is written, all else goes on."""
import os
import struct

from harness import MIB, Rpc, World, check, check_data, wait_for
from scsi_client import BLOCK, GOOD, Initiator
from test_mirror import in_sync, same_data

KIB = 1 << 10
SIZE, SMALL, BALLAST = 128 * MIB, 40 * MIB, 16 * MIB
NEW = 100 * MIB  # nothing is written from here on before the disk is full


def blocks(size):
    return size // BLOCK


def write(by, at, fill, size=BLOCK):
    return by.send(struct.pack(">BBQIBB", 0x8A, 0, blocks(at), blocks(size), 0, 0), out=fill * size)


def is_full(answer):
    return answer.status == 2 and answer.key == 7 and answer.ascq == 0x2707


def refused(answer, what):
    check(is_full(answer), f"{what}: SPACE ALLOCATION FAILED WRITE PROTECT was expected, not {answer}")


def reads_as(by, at, fill):
    data = by.good(struct.pack(">BBQIBB", 0x88, 0, blocks(at), 1, 0, 0), read=BLOCK).data
    check_data(data == fill * BLOCK, f"{at} reads as {fill} through node {by.node.side}, not {data[:4]}")


def ballast_on(folder):
    path = folder / "ballast"
    with open(path, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, BALLAST)
    return path


def fill_up(by):
    """Writes from the volume's start until the disk is full to the last region; how far."""
    at = 0
    for step in (MIB, 64 * KIB):
        while not is_full(answer := write(by, at, b"x", step)):
            check(answer.status == GOOD and at < NEW, f"filling up at {at}: {answer}")
            at += step
    return at


def compare_and_write(by, at, old, new):
    return by.send(struct.pack(">BBQ3xBBB", 0x89, 0, blocks(at), 1, 0, 0), out=old * BLOCK + new * BLOCK)


def write_same(by, at, size, block):
    return by.send(struct.pack(">BBQIBB", 0x93, 0, blocks(at), blocks(size), 0, 0), out=block)


def unmap(by, at, size):
    parameters = struct.pack(">HH4xQI4x", 22, 16, blocks(at), blocks(size))
    by.good(struct.pack(">BB4xBHB", 0x42, 0, 0, len(parameters), 0), out=parameters)


def epochs(w, volume):
    return [node.volume_status(volume)["epoch"]["number"] for node in w.nodes]


def everything_is_refused_that_takes_space(by, other, end):
    refused(write(by, NEW, b"n"), "a write")
    refused(write(by, end - 4 * KIB, b"n", MIB), "a write of which only the beginning has its space")
    refused(compare_and_write(by, NEW, b"\0", b"n"), "COMPARE AND WRITE")
    refused(write_same(by, NEW, MIB, b"n" * BLOCK), "WRITE SAME")
    refused(write_same(by, NEW - MIB, 20 * MIB, bytes(BLOCK)), "WRITE SAME of zeros without UNMAP")
    for at, fill in ((NEW, b"\0"), (end - 4 * KIB, b"x"), (end, b"\0")):
        reads_as(by, at, fill)
        reads_as(other, at, fill)


def test_of_one_member_is_told_through_both_nodes_and_neither_leaves():
    with World() as w:
        w.a.volume_folder = w.small_file_system(SMALL)
        ballast = ballast_on(w.a.volume_folder)
        volume = w.mirror(size=SIZE)
        before = epochs(w, volume)
        listener = Rpc(w.a.socket)
        listener.call("events.subscribe")
        a, b = Initiator(w, w.a, volume, "a"), Initiator(w, w.b, volume, "b")
        end = fill_up(b)
        for by, other in ((a, b), (b, a)):
            everything_is_refused_that_takes_space(by, other, end)
        for by, other in ((a, b), (b, a)):
            check(write(by, end // 2, b"o", 256 * KIB).status == GOOD, "what has its space is overwritten")
            reads_as(other, end // 2, b"o")
            unmap(by, NEW + BLOCK, 64 * KIB)
        status = w.a.volume_status(volume)
        check(status["state"] == "in_sync" and "Free or add space" in status["reason"], f"node A says so: {status}")
        check(w.b.volume_status(volume)["reason"] == "", "node B has nothing to say")
        while (event := listener.next()["params"])["kind"] != "store.full":
            pass
        check(w.a.data(volume) in event["message"], f"the event names the file: {event}")
        check(epochs(w, volume) == before, f"nobody left: {epochs(w, volume)}")
        left_over = os.statvfs(w.a.volume_folder).f_bfree * os.statvfs(w.a.volume_folder).f_bsize

        ballast.unlink()
        for by, at in ((a, NEW), (b, NEW + MIB)):
            check(write(by, at, b"n", MIB).status == GOOD, "there is space again")
        while (event := listener.next()["params"])["kind"] != "store.has_space":
            pass
        wait_for("node A to say no more", lambda: w.a.volume_status(volume)["reason"] == "")
        in_sync(w, volume)
        check(epochs(w, volume) == before, f"nobody left: {epochs(w, volume)}")
        for node in w.nodes:
            node.kill()
        same_data(w, volume)
        return f"{end >> 20} MiB were written, {left_over >> 10} KiB were left"


def test_of_the_only_member_refuses_new_space_and_nothing_else():
    with World() as w:
        w.a.volume_folder = w.small_file_system(SMALL)
        ballast = ballast_on(w.a.volume_folder)
        volume = w.mirror(size=SIZE)
        w.b.kill()
        w.a.wait_state(volume, "solo")
        a = Initiator(w, w.a, volume, "a")
        end = fill_up(a)
        refused(write(a, NEW, b"n"), "a write")
        reads_as(a, NEW, b"\0")
        check(write(a, 0, b"o", MIB).status == GOOD, "what has its space is overwritten")
        w.b.restart()
        in_sync(w, volume, 60)
        refused(write(a, NEW, b"n"), "a write")
        ballast.unlink()
        check(write(a, NEW, b"n").status == GOOD, "there is space again")
        for node in w.nodes:
            node.kill()
        same_data(w, volume)
        return f"{end >> 20} MiB were written"


def test_of_a_target_ends_the_resync_with_a_reason_until_there_is_space():
    with World() as w:
        w.b.volume_folder = w.small_file_system(SMALL)
        ballast = ballast_on(w.b.volume_folder)
        volume = w.mirror(size=SIZE)
        w.b.kill()
        w.a.wait_state(volume, "solo")
        a = Initiator(w, w.a, volume, "a")
        for at in range(0, 32 * MIB, MIB):
            check(write(a, at, b"x", MIB).status == GOOD, "the only member has room")
        w.b.restart()
        failed = w.b.wait_state(volume, "failed")
        check("Free or add space" in failed["reason"], f"it says why: {failed}")
        b = Initiator(w, w.b, volume, "b")
        for by, other, at in ((a, b, NEW), (b, a, NEW + MIB)):
            check(write(by, at, b"n").status == GOOD, "a target that is full stops nobody")
            reads_as(other, at, b"n")
        check(w.a.wait_state(volume, "solo")["serving"], "node A serves alone")
        ballast.unlink()
        in_sync(w, volume, 60)
        for node in w.nodes:
            node.kill()
        same_data(w, volume)
