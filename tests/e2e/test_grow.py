"""Volumes that grow in use: what initiators see, and nodes that are killed in the middle. Real daemons."""
import os
import random
import struct
import threading
import time

from harness import MIB, RpcError, World, Writer, check, check_data, wait_for
from scsi_client import BLOCK, REGISTER_AND_IGNORE, Initiator
from test_mirror import in_sync, verify
from test_shapes import make, pair, told, url

CAPACITY_CHANGED = 0x2A09
LARGE = 5 << 30  # more than one block of the dirty map: the unit's state has to move


def room(w, volume, size):
    for node in w.nodes:
        node.rpc.call("replica.grow", volume=volume.id, size=size)


def want(w, volume, size):
    volume.size = size
    for node in w.nodes:
        node.apply_cleanly()


def served(node, volume):
    status = node.volume_status(volume)
    return status["size"] if status else 0


def wait_served(w, volume, size, nodes=None):
    for node in nodes or w.nodes:
        wait_for(f"node {node.side} to serve {size} bytes", lambda n=node: served(n, volume) == size, 30)


def extents(file):
    """Where a sparse file holds anything."""
    at, size = 0, os.fstat(file).st_size
    while at < size:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(file, at, os.SEEK_HOLE)
        yield at, end
        at = end


def same_data(w, volume):
    """Both data files are the same, byte by byte, as long as the volume; what is a hole in both need not be read."""
    files = [os.open(node.data(volume), os.O_RDONLY) for node in w.nodes]
    try:
        check([os.fstat(f).st_size for f in files] == [volume.size] * 2, "both files are as long as the volume")
        for at, end in [extent for file in files for extent in extents(file)]:
            for offset in range(at, end, MIB):
                length = min(MIB, end - offset)
                one, other = (os.pread(file, length, offset) for file in files)
                check_data(one == other, f"the two replicas of {volume.name} differ between {offset} and {offset + length}")
    finally:
        for file in files:
            os.close(file)


def capacity(initiator):
    data = initiator.good(struct.pack(">BBQIBB", 0x9E, 0x10, 0, 32, 0, 0), read=32).data
    return (struct.unpack(">Q", data[:8])[0] + 1) * BLOCK


def touch_end(w, volume):
    """Its last block, written through one node and read through the other."""
    last = volume.size // BLOCK - 1
    for fill, writer, reader in ((b"1", w.a, w.b), (b"2", w.b, w.a)):
        check(Initiator(w, writer, volume, "end").write(last, fill).status == 0, f"a write through {writer.side}")
        check_data(Initiator(w, reader, volume, "end").read(last).data == fill * BLOCK, f"a read through {reader.side}")


def test_a_volume_grows_under_a_writer_and_every_nexus_hears_of_it():
    with World() as w:
        volume = w.mirror()
        initiators = [Initiator(w, node, volume, f"i{node.side}{n}", isid=n) for node in w.nodes for n in (1, 2)]
        initiators[0].must(REGISTER_AND_IGNORE, service_key=77, persist=True)
        for initiator in initiators:
            check(capacity(initiator) == 64 * MIB, "the capacity before")
        writer = Writer(w, volume, w.nodes)
        writer.wait_writes(300)
        room(w, volume, LARGE)
        for initiator in initiators:
            check(capacity(initiator) == 64 * MIB and not initiator.attentions, "room alone changes nothing that is seen")
        want(w, volume, LARGE)
        wait_served(w, volume, LARGE)
        for initiator in initiators:
            check(capacity(initiator) == LARGE, f"the capacity through {initiator.node.side}")
            check(initiator.attentions.count(CAPACITY_CHANGED) == 1, f"2A/09, once: {initiator.attentions}")
        touch_end(w, volume)
        writer.wait_writes(300)
        status = writer.stop()
        in_sync(w, volume)
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
        w.kill_both_and_start_again()
        in_sync(w, volume)
        wait_served(w, volume, LARGE)
        check(Initiator(w, w.b, volume, "ia1", isid=1).keys() == [77], "the registration moved with its metadata")
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
        return f"pause {status['worst_gap_ms']} ms"


def test_it_grows_again_and_again_and_nothing_makes_it_smaller():
    with World() as w:
        volume = w.mirror()
        for size in (65 * MIB, 66 * MIB, 3 << 30, LARGE, 80 << 30):
            want(w, volume, size)  # room is made on the way
            wait_served(w, volume, size)
            touch_end(w, volume)
        want(w, volume, 64 * MIB)
        check([served(n, volume) for n in w.nodes] == [80 << 30] * 2, "a smaller wish is without effect")
        in_sync(w, volume)


def killed_around_the_new_size(victim_side):
    rounds = []
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, w.nodes)
        victim = w.a if victim_side == "a" else w.b
        size = volume.size
        for delay in (0, 0.005, 0.02, random.uniform(0, 0.1)):
            size += 2 << 30
            writer.wait_writes(100)
            if delay:
                room(w, volume, size)
            volume.size = size
            states = [(node, node.desired(w.volumes)) for node in w.nodes]

            def tell(node, state):
                try:
                    node.rpc.call("node.apply", **state)
                except (ConnectionError, OSError):
                    check(node is victim, f"node {node.side} is gone")
            threads = [threading.Thread(target=tell, args=pair) for pair in states]
            for thread in threads:
                thread.start()
            time.sleep(delay)
            victim.kill()
            for thread in threads:
                thread.join()
            writer.wait_writes(100)
            w.other(victim).wait_state(volume, "solo")
            rounds.append(served(w.other(victim), volume) == size)
            victim.restart()
            in_sync(w, volume)
            wait_served(w, volume, size)
            touch_end(w, volume)
        writer.wait_writes(100)
        writer.stop()
        in_sync(w, volume)
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
    return f"grown when the survivor was alone: {sum(rounds)} of {len(rounds)}"


def test_node_a_killed_while_the_volume_grows():
    return killed_around_the_new_size("a")


def test_node_b_killed_while_the_volume_grows():
    return killed_around_the_new_size("b")


def test_a_node_that_was_away_makes_room_before_it_joins():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, w.nodes)
        writer.wait_writes(100)
        w.b.kill()
        w.a.wait_state(volume, "solo")
        volume.size = LARGE
        w.a.apply_cleanly()
        wait_served(w, volume, LARGE, [w.a])
        check(Initiator(w, w.a, volume, "alone").write(LARGE // BLOCK - 1, b"x").status == 0, "a write at the end")
        w.b.restart()
        in_sync(w, volume)
        wait_served(w, volume, LARGE)
        touch_end(w, volume)
        writer.wait_writes(100)
        writer.stop()
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)


def test_both_killed_while_it_grows_come_back_with_one_size():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, w.nodes)
        for step in range(3):
            writer.wait_writes(100)
            volume.size += 3 << 30
            for node in w.nodes if step else w.nodes[:1]:
                node.apply_cleanly()
            for node in w.nodes:
                node.kill()
            for node in w.nodes:
                node.start()
            for node in w.nodes:
                node.apply_cleanly()
            in_sync(w, volume)
            wait_served(w, volume, volume.size)
            touch_end(w, volume)
        writer.stop()
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)


def test_no_space_on_one_node_is_said_and_nothing_that_is_seen_changes():
    with World() as w:
        w.b.volume_folder = w.small_file_system(24 * MIB)
        volume = w.mirror()
        try:
            w.b.rpc.call("replica.grow", volume=volume.id, size=15 << 40)
            check(False, "15 TiB have metadata of 31 MiB, which do not fit")
        except RpcError as refused:
            check("free" in str(refused) or "space" in str(refused), f"it says why: {refused}")
        check([served(n, volume) for n in w.nodes] == [64 * MIB] * 2, "the size that is served is as it was")
        touch_end(w, volume)
        want(w, volume, 70 * MIB)
        wait_served(w, volume, 70 * MIB)
        touch_end(w, volume)


def test_the_api_makes_a_volume_larger_and_refuses_what_cannot_be():
    with pair() as (a, b):
        thin, full = make(a, "thin"), make(a, "full", thin=False)
        for volume, by in ((thin, a), (full, b)):
            path = f"/api/v1/volumes/{volume['id']}"
            job = by.job(by.patch(path, {"size_bytes": 32 * MIB}), 60)
            check(job["state"] == "done", f"it grows: {job}")
            for node in (a, b):
                check(node.get(path).json["size_bytes"] == 32 * MIB, "the size that the API tells")
                _, said = told("iscsi-readcapacity16", url(node, volume))
                check(f"Total size:{32 * MIB}" in said.replace(" ", "") or str(32 * MIB // 512 - 1) in said, said)
            check([r["state"] for r in a.get(path).json["replicas"]] == ["in_sync"] * 2, "in sync all the while")
        path = f"/api/v1/volumes/{full['id']}"
        for replica in a.get(path).json["replicas"]:
            check(replica["allocated_bytes"] >= 32 * MIB, f"all of it is allocated: {replica}")
        job = a.job(a.patch(path, {"size_bytes": 1 << 46}), 60)
        check(job["state"] == "failed" and "free" in job["error"]["detail"], f"it does not fit, and that is said: {job}")
        check(a.get(path).json["size_bytes"] == 32 * MIB, "its size is as it was")
        smaller = a.patch(path, {"size_bytes": 16 * MIB})
        check(smaller.status == 422 and "only grow" in smaller.raw.decode(), f"never smaller: {smaller}")
        b.stop_lockstepd()
        wait_for("its end to be seen", lambda: a.get("/api/v1/nodes").json["items"][1]["lockstepd"]["state"] != "running")
        away = a.patch(path, {"size_bytes": 64 * MIB})
        check(away.status in (409, 503) and "in sync" in away.raw.decode(), f"not with the partner away: {away}")
