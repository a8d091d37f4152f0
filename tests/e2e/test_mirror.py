"""Two nodes and a witness: what the mirror promises, with real processes killed, frozen and cut off."""
import filecmp
import pathlib
import signal

from harness import MIB, Rpc, Volume, World, Writer, check, check_data, check_time, check_verifier, settings, wait_for

ALONE = True  # it measures time

PAUSE_MS = 2000  # the promise: a node's crash is a pause below 2 s on the other path


def verify(w, node, volume, log):
    read = w.run(*w.verifier("--portal", node.portal, "--lun", volume.lun, "--verify", log), seconds=120)
    check_verifier(read.returncode, f"reading back through node {node.side}: {read.stdout}")


def same_data(w, volume):
    """Both data files are the same, byte by byte; the nodes are stopped or idle."""
    check_data(filecmp.cmp(w.a.data(volume), w.b.data(volume), shallow=False), f"the two replicas of {volume.name} differ")


def pause_is_short(status):
    limit = PAUSE_MS * (5 if settings.sanitized else 1)
    check_time(status["worst_gap_ms"] < limit, f"the pause was {status['worst_gap_ms']} ms")
    return f"pause {status['worst_gap_ms']} ms"


def hosts_noticed_nothing(w, volume, writer, limit_ms):
    """Ends the writer, which saw a pause below the limit at the most; both copies are whole and the same."""
    status = writer.stop()
    check(status["path_failures"] == 0, f"no initiator sees an error: {status}")
    check(not status["last_sense"], f"no initiator is told of anything: {status}")
    for node in w.nodes:
        verify(w, node, volume, writer.log)
    same_data(w, volume)
    limit = limit_ms * (5 if settings.sanitized else 1)
    check_time(status["worst_gap_ms"] < limit, f"the pause was {status['worst_gap_ms']} ms: {status}")
    return f"pause {status['worst_gap_ms']} ms"


def in_sync(w, volume, seconds=40):
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=seconds)


def test_what_is_written_through_one_node_is_read_through_the_other():
    with World() as w:
        volume = w.mirror()
        before = None
        for through, back in ((w.a, w.b), (w.b, w.a), (w.a, w.b)):
            writer = Writer(w, volume, [through], resume=before)
            writer.wait_writes(300)
            writer.stop()
            verify(w, back, volume, writer.log)
            before = writer.log
        same_data(w, volume)


def test_both_nodes_serve_writers_at_once():
    with World() as w:
        first = w.mirror(name="first", lun=0)
        second = w.add(Volume("second", 1, 64 * MIB))
        for node in w.nodes:
            node.create(second)
        for node in w.nodes:
            node.apply_cleanly()
        in_sync(w, second)
        writers = [Writer(w, first, [w.a]), Writer(w, second, [w.b])]
        for writer in writers:
            writer.wait_writes(500)
        for writer in writers:
            writer.stop()
        verify(w, w.b, first, writers[0].log)
        verify(w, w.a, second, writers[1].log)
        for volume in (first, second):
            same_data(w, volume)


def survives_a_kill(victim_side, writes_through_victim_first):
    with World(lease_ms=1500) as w:  # the product's default
        volume = w.mirror()
        victim = w.a if victim_side == "a" else w.b
        survivor = w.other(victim)
        order = [victim, survivor] if writes_through_victim_first else [survivor, victim]
        writer = Writer(w, volume, order)
        writer.wait_writes(300)
        victim.kill()
        writer.wait_writes(300)
        survivor.wait_state(volume, "solo")
        victim.restart()
        in_sync(w, volume)
        writer.wait_writes(100)
        status = writer.stop()
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
        return pause_is_short(status)


def test_node_a_killed_while_written_through_it():
    return survives_a_kill("a", True)


def test_node_b_killed_while_written_through_it():
    return survives_a_kill("b", True)


def test_node_a_killed_while_written_through_b():
    return survives_a_kill("a", False)


def test_node_b_killed_while_written_through_a():
    return survives_a_kill("b", False)


def test_nodes_killed_in_turn_again_and_again():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b], depth=16)
        for victim in (w.a, w.b, w.a, w.b):
            writer.wait_writes(200)
            victim.kill()
            writer.wait_writes(200)
            victim.restart()
            in_sync(w, volume)
        status = writer.stop()
        verify(w, w.a, volume, writer.log)
        verify(w, w.b, volume, writer.log)
        same_data(w, volume)
        return pause_is_short(status)


def test_both_killed_come_back_together_with_every_acknowledged_write():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b], depth=16)
        writer.wait_writes(500)
        w.kill_both_and_start_again()
        in_sync(w, volume)
        writer.wait_writes(200)
        writer.stop()
        verify(w, w.a, volume, writer.log)
        verify(w, w.b, volume, writer.log)
        same_data(w, volume)


def test_a_clean_stop_leaves_by_agreement_and_hardly_pauses():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(200)
        check(w.a.kill(signal.SIGTERM) == 0, "a clean stop ends with 0")
        check(w.b.volume_status(volume)["state"] == "solo", "the partner goes on alone at once")
        writer.wait_writes(200)
        w.a.restart()
        in_sync(w, volume)
        status = writer.stop()
        same_data(w, volume)
        return pause_is_short(status)


def test_both_nodes_stopped_at_the_same_moment_end_in_time_and_come_back():
    with World() as w:
        volume = w.mirror()
        for node in w.nodes:
            node.process.send_signal(signal.SIGTERM)
        for node in w.nodes:
            check(node.wait(10) == 0, f"node {node.side} ends with 0")
        for node in w.nodes:
            node.start()
        for node in w.nodes:
            node.apply_cleanly()
        in_sync(w, volume)


def test_a_frozen_node_serves_nothing_stale_when_it_thaws():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.b, w.a])
        writer.wait_writes(200)
        w.a.freeze()
        w.b.wait_state(volume, "solo")
        writer.wait_writes(200)
        w.a.thaw()
        in_sync(w, volume, 60)
        writer.stop()
        verify(w, w.a, volume, writer.log)
        same_data(w, volume)


def test_the_witness_lost_is_told_and_hurts_nobody():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b])
        w.etcd.kill()
        for node in w.nodes:
            wait_for("the loss of the witness to be told", lambda: not node.status()["witness"]["reachable"])
        writer.wait_writes(200)
        w.etcd.start()
        for node in w.nodes:
            wait_for("the witness to be found", lambda: node.status()["witness"]["reachable"])
        writer.stop()


def test_witness_and_then_a_node_lost_suspends_until_one_of_them_returns():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.b, w.a])
        writer.wait_writes(100)
        w.etcd.kill()
        w.a.kill()
        status = w.b.wait_state(volume, "suspended")
        check(status["reason"] and not status["serving"], f"it says why: {status}")
        w.etcd.start()
        w.b.wait_state(volume, "solo")
        writer.wait_writes(100)
        writer.stop()
        verify(w, w.b, volume, writer.log)


def test_one_node_alone_does_not_start_from_a_record_that_names_both_until_the_witness_grants_it():
    with World() as w:
        volume = w.mirror()
        for node in w.nodes:
            node.kill()
        w.etcd.kill()
        w.b.start()
        w.b.apply_cleanly()
        status = w.b.wait_state(volume, "waiting", "starting")
        check(not status["serving"], f"it serves nothing on a guess: {status}")
        w.etcd.start()
        w.b.wait_state(volume, "solo")


def test_an_operator_can_force_what_nobody_grants():
    with World() as w:
        volume = w.mirror()
        for node in w.nodes:
            node.kill()
        w.etcd.kill()
        w.b.start()
        w.b.apply_cleanly()
        w.b.wait_state(volume, "waiting")
        w.b.rpc.call("volume.force_solo", volume=volume.id)
        w.b.wait_state(volume, "solo")


def test_metadata_corrupted_on_one_node_keeps_that_replica_out_by_name():
    with World() as w:
        volume = w.mirror()
        writer = Writer(w, volume, [w.a, w.b])
        writer.wait_writes(100)
        w.b.kill()
        metadata = pathlib.Path(w.b.metadata(volume))
        size = metadata.stat().st_size
        metadata.write_bytes(b"\xff" * size)
        w.b.start()
        result = w.b.apply()
        check(any(p["object"] == "volume vm1" for p in result["problems"]), f"it is named: {result}")
        writer.wait_writes(100)
        writer.stop()
        verify(w, w.a, volume, writer.log)


def test_a_full_disk_on_one_node_loses_nothing():
    with World() as w:
        w.b.volume_folder = w.small_file_system(24 * MIB)
        volume = w.mirror(size=64 * MIB)
        writer = Writer(w, volume, [w.a], span_mib=8)  # regions of 64 KiB: much less than there is
        writer.wait_writes(300)
        writer.stop()
        full = Writer(w, volume, [w.a], span_mib=60, depth=32, read_percent=0)
        wait_for("node b's disk to be full", lambda: full.poll().get("path_failures", 0) > 0, 60)
        full.kill()
        check("sense 7/2707" in full.poll()["last_sense"], f"SPACE ALLOCATION FAILED is what it was told: {full.poll()}")
        for node in w.nodes:
            check(node.volume_status(volume)["state"] == "in_sync", f"node {node.side} stays a member")
            node.kill()
        same_data(w, volume)


def test_events_tell_what_happens_to_a_volume():
    with World(lease_ms=500) as w:  # so that it goes on alone well within the second that passes untold
        volume = w.mirror()
        listener = Rpc(w.a.socket)
        listener.call("events.subscribe")
        w.b.kill()
        kinds, states = set(), []
        while "solo" not in states or "partner.lost" not in kinds:
            event = listener.next()["params"]
            kinds.add(event["kind"])
            if event["kind"] == "volume.state":
                check(event["volume"] == volume.id and event["message"], event)
                states.append(event["to"])
        w.b.restart()
        while "in_sync" not in states:
            event = listener.next()["params"]
            if event["kind"] == "volume.state":
                states.append(event["to"])
        check_time("suspended" not in states, f"no alarm for what passes within a second: {states}")
        check(states == ["solo", "syncing_source", "in_sync"], f"each is told once, in its turn: {states}")


def test_a_detached_volume_can_be_deleted_with_its_record_at_the_witness():
    with World() as w:
        volume = w.mirror()
        for node in w.nodes:
            node.apply_cleanly([])
        for node in w.nodes:
            node.rpc.call("replica.delete", volume=volume.id, data=node.data(volume), metadata=node.metadata(volume))
        left = w.run("env", "ETCDCTL_API=3", "etcdctl", "--endpoints", w.etcd.url, "get", "--prefix", "/lockstep",
                     "--keys-only").stdout
        check(volume.id not in left, f"the witness still knows it: {left}")
