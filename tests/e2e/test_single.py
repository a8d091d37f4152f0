"""One node by itself: volumes that are not mirrored, access, the control socket's promises about them."""
import pathlib
import signal
import socket
import sys

from harness import MIB, Failed, Rpc, RpcError, Volume, World, Writer, check, check_verifier, wait_for


def refused(call, *words):
    """`call` fails with a message that holds all the words."""
    try:
        call()
    except RpcError as error:
        for word in words:
            check(word in str(error), f"the message should say \"{word}\": {error}")
        return error
    raise Failed("this should have been refused")


def problem_of(result, obj):
    found = [p["message"] for p in result["problems"] if p["object"] == obj]
    check(found, f"a problem of \"{obj}\" should be reported: {result}")
    return found[0]


def test_memory_and_file_volumes_are_written_and_read_back():
    with World(nodes=1, witness=False) as w:
        memory = w.add(Volume("memory", 0, 64 * MIB, mirrored=False, memory=True))
        file = w.add(Volume("file", 1, 64 * MIB, mirrored=False))
        w.a.create(file)
        w.a.apply_cleanly()
        for volume in (memory, file):
            writer = Writer(w, volume, [w.a])
            writer.wait_writes(500)
            writer.stop()
            read = w.run(*w.verifier("--portal", w.a.portal, "--lun", volume.lun, "--verify", writer.log))
            check_verifier(read.returncode, read.stdout)
        io = w.a.volume_status(file)["io"]
        check(io["writes"] >= 500 and io["write_bytes"] >= 500 * 4096, f"the counters say {io}")


def test_several_reactors_serve_every_volume_from_every_session():
    with World(nodes=1, witness=False) as w:
        w.a.options["reactors"] = 3
        w.a.kill(signal.SIGTERM)
        w.a.start()
        volumes = [w.add(Volume(f"v{i}", i, 16 * MIB, mirrored=False, memory=i % 2 == 0)) for i in range(4)]
        for volume in volumes:
            if not volume.memory:
                w.a.create(volume)
        w.a.apply_cleanly()
        writers = [Writer(w, volume, [w.a], span_mib=8) for volume in volumes]
        for writer in writers:
            writer.wait_writes(300)
        for volume, writer in zip(volumes, writers):
            writer.stop()
            read = w.run(*w.verifier("--portal", w.a.portal, "--lun", volume.lun, "--verify", writer.log))
            check_verifier(read.returncode, read.stdout)
        check(w.a.kill(signal.SIGTERM) == 0, "a clean stop ends with 0")


def test_a_file_volume_keeps_its_data_over_a_kill():
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("file", 0, 64 * MIB, mirrored=False))
        w.a.create(volume)
        w.a.apply_cleanly()
        writer = Writer(w, volume, [w.a])
        writer.wait_writes(300)
        w.a.kill()
        w.a.restart()
        writer.wait_writes(300)
        writer.stop()
        read = w.run(*w.verifier("--portal", w.a.portal, "--lun", volume.lun, "--verify", writer.log))
        check_verifier(read.returncode, read.stdout)


def test_both_nodes_portals_and_nothing_else_are_named_by_discovery():
    with World(nodes=1, witness=False) as w:
        w.add(Volume("memory", 3, 16 * MIB, mirrored=False, memory=True))
        w.a.apply_cleanly()
        found = w.run("timeout", "10", "iscsi-ls", "-s", f"iscsi://{w.a.portal}/").stdout
        check(w.target in found and "Lun:3" in found, found)


def test_an_initiator_sees_only_what_its_access_list_gives_it():
    mine, others = "iqn.2026-11.test:mine", "iqn.2026-11.test:other"
    entry = {"initiator": mine, "chap_user": "mine", "chap_secret": "a-secret-of-mine", "mutual_user": None,
             "mutual_secret": None}
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("guarded", 0, 16 * MIB, mirrored=False, memory=True, access=[entry]))
        w.a.apply_cleanly()

        def read(initiator, user=None):
            return w.run("timeout", "10", "iscsi-readcapacity16", "-i", initiator, w.url(w.a, volume, user)).returncode == 0
        check(read(mine, "mine%a-secret-of-mine"), "the right name and secret are let in")
        check(not read(mine, "mine%a-wrong-secret!"), "a wrong secret is refused")
        check(not read(mine), "no secret is refused")
        check(not read(others, "mine%a-secret-of-mine"), "another name is refused, even with the secret")
        log = w.a.log_text()
        check("was refused" in log and "a-secret-of-mine" not in log and "a-wrong-secret!" not in log,
              "refusals are logged, secrets are not")
        volume.access = []
        w.a.apply_cleanly()
        check(read(others), "an empty list lets in everybody, without a restart")


def test_replicas_are_made_once_and_never_over_something_else():
    with World(nodes=1, witness=False) as w:
        volume = Volume("v", 0, 16 * MIB)
        w.a.create(volume)
        w.a.create(volume)  # again: it is there
        refused(lambda: w.a.create(Volume("v", 0, 16 * MIB)), "is there already")
        dear = pathlib.Path(w.a.folder / "dear.data")
        dear.write_bytes(b"dear to somebody")
        refused(lambda: w.a.create(Volume("dear", 0, 16 * MIB)), str(dear))
        check(dear.read_bytes() == b"dear to somebody", "the file is untouched")
        check(not (w.a.folder / "dear.meta").exists(), "nothing is left behind")


def test_a_replica_that_can_not_be_made_leaves_nothing_behind():
    with World(nodes=1, witness=False) as w:
        volume = Volume("v", 0, 16 * MIB)
        w.a.volume_folder = w.a.folder / "missing"
        refused(lambda: w.a.create(volume), str(w.a.folder / "missing"))
        w.a.volume_folder = w.a.folder
        (w.a.folder / "v.meta").write_bytes(b"in the way")
        refused(lambda: w.a.create(volume), "v.meta")
        check(not (w.a.folder / "v.data").exists(), "the data file is gone again")


def test_a_replica_is_deleted_only_when_detached_and_only_the_right_one():
    with World(nodes=1, witness=False) as w:
        volume, another = Volume("v", 0, 16 * MIB, mirrored=False), Volume("v", 0, 16 * MIB)
        w.a.create(volume)
        w.a.apply_cleanly([volume])
        place = {"data": w.a.data(volume), "metadata": w.a.metadata(volume)}
        refused(lambda: w.a.rpc.call("replica.delete", volume=volume.id, **place), "attached")
        w.a.apply_cleanly([])
        refused(lambda: w.a.rpc.call("replica.delete", volume=another.id, **place), volume.id)
        check(pathlib.Path(place["data"]).exists(), "the wrong volume's name deletes nothing")
        w.a.rpc.call("replica.delete", volume=volume.id, **place)
        check(not pathlib.Path(place["data"]).exists() and not pathlib.Path(place["metadata"]).exists(), "both are gone")
        w.a.rpc.call("replica.delete", volume=volume.id, **place)  # again: it is not there


def test_corrupt_metadata_is_refused_by_name_and_stops_nothing_else():
    with World(nodes=1, witness=False) as w:
        good, bad = Volume("good", 0, 16 * MIB), Volume("bad", 1, 16 * MIB)
        for volume in (good, bad):
            w.a.create(volume)
        metadata = pathlib.Path(w.a.metadata(bad))
        kept = metadata.read_bytes()
        metadata.write_bytes(b"\0" * len(kept))
        message = problem_of(w.a.apply([good, bad]), "volume bad")
        check("uperblock" in message or "metadata" in message, message)
        check(w.a.volume_status(good), "the other volume is served")
        metadata.write_bytes(kept)
        w.a.apply_cleanly([good, bad])


def test_foreign_missing_and_wrongly_sized_replicas_are_refused_by_name():
    with World(nodes=1, witness=False) as w:
        volume, another = Volume("v", 0, 16 * MIB), Volume("v", 0, 16 * MIB)
        check("missing" in problem_of(w.a.apply([volume]), "volume v"), "a missing replica is called so")
        w.a.create(volume)
        check(volume.id in problem_of(w.a.apply([another]), "volume v"), "the metadata's volume is named")
        with open(w.a.data(volume), "ab") as data:
            data.truncate(8 * MIB)
        check(str(16 * MIB) in problem_of(w.a.apply([volume]), "volume v"), "the right size is named")


def test_a_port_in_use_is_reported_by_name_and_taken_when_it_is_free():
    with World(nodes=1, witness=False) as w:
        with socket.socket() as occupant:
            occupant.bind((w.a.address, w.a.iscsi))
            occupant.listen()
            message = problem_of(w.a.apply([]), f"portal {w.a.portal}")
            check("in use" in message, message)
        w.a.apply_cleanly([])


def test_two_volumes_at_one_lun_are_reported_and_one_is_served():
    with World(nodes=1, witness=False) as w:
        volumes = [Volume(name, 5, 16 * MIB, mirrored=False, memory=True) for name in ("first", "second")]
        result = w.a.apply(volumes)
        check("LUN 5" in problem_of(result, "volume second"), result)
        found = w.run("timeout", "10", "iscsi-ls", "-s", f"iscsi://{w.a.portal}/").stdout
        check(found.count("Lun:5") == 1, found)


def test_volumes_come_and_go_while_initiators_are_logged_in():
    with World(nodes=1, witness=False) as w:
        stays = Volume("stays", 0, 16 * MIB, mirrored=False, memory=True)
        w.a.apply_cleanly([stays])
        writer = Writer(w, stays, [w.a], span_mib=8)
        for round_ in range(10):
            guest = Volume(f"guest{round_}", 1, 16 * MIB, mirrored=False, memory=True)
            w.a.apply_cleanly([stays, guest])
            w.a.apply_cleanly([stays])
        writer.wait_writes(100)
        status = writer.stop()
        check(status["path_failures"] == 0, f"the writer lost its path: {status}")


def test_bad_parameters_name_the_field_and_unknown_methods_the_known_ones():
    with World(nodes=1, witness=False) as w:
        state = w.a.desired([Volume("v", 0, 16 * MIB)])
        state["volumes"][0]["size"] = "big"
        error = refused(lambda: w.a.rpc.call("node.apply", **state), "params.volumes[0].size", "whole number")
        check(error.code == -32602 and error.field == "params.volumes[0].size", f"{error.code} {error.field}")
        error = refused(lambda: w.a.rpc.call("node.aply"), "node.apply")
        check(error.code == -32601, error.code)


def test_events_tell_of_sessions():
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("memory", 0, 16 * MIB, mirrored=False, memory=True))
        w.a.apply_cleanly()
        listener = Rpc(w.a.socket)
        listener.call("events.subscribe")
        w.run("iscsi-readcapacity16", "-i", "iqn.2026-11.test:guest", w.url(w.a, volume))
        kinds = []
        while "session.closed" not in kinds:
            event = listener.next()["params"]
            check("iqn.2026-11.test:guest" in event["message"] and event["time_ms"] > 0, event)
            kinds.append(event["kind"])
        check(kinds[0] == "session.opened", kinds)


def test_an_answer_that_no_host_tries_elsewhere_is_the_writers_end():
    """As multipath does: the next path could say nothing else, and the application has its error."""
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("vm1", 0, 16 * MIB, mirrored=False))
        w.a.create(volume)
        w.a.apply_cleanly()
        beyond = Writer(w, volume, [w.a], span_mib=32)
        wait_for("the writer to end", lambda: beyond.process.poll() is not None)
        check(beyond.process.returncode == 1 and "sense 5/2100" in beyond.output(), f"beyond the end: {beyond.output()}")
        excused = Writer(w, volume, [w.a], span_mib=32, may_fail=True)
        wait_for("more than one failure", lambda: excused.field("path_failures") > 1)
        excused.kill()


def test_a_full_disk_fails_writes_to_new_space_and_nothing_else():
    with World(nodes=1, witness=False) as w:
        w.a.volume_folder = w.small_file_system(24 * MIB)
        volume = w.add(Volume("thin", 0, 64 * MIB, mirrored=False))
        w.a.create(volume)
        w.a.apply_cleanly()
        writer = Writer(w, volume, [w.a], span_mib=60)
        writer.wait_writes(300)
        writer.stop()
        full = Writer(w, volume, [w.a], span_mib=60, depth=32, resume=writer.log, read_percent=0)
        wait_for("the disk to be full", lambda: full.poll().get("path_failures", 0) > 0, 60)
        full.kill()
        check("sense 7/2707" in full.poll()["last_sense"], f"SPACE ALLOCATION FAILED is what it was told: {full.poll()}")
        check(w.a.process.poll() is None, "the daemon goes on")
        check(w.run("iscsi-readcapacity16", w.url(w.a, volume)).returncode == 0, "the volume is still there")


# ---- the process ----


def started_badly(w, **options):
    w.a.options = options
    w.a.configure()
    ended = w.run(w.lockstepd, "--config", w.a.folder / "lockstepd.toml", seconds=20)
    check(ended.returncode == 1, f"it should have ended with 1: {ended.returncode} {ended.stdout}")
    return ended.stdout


def test_start_up_errors_say_what_to_do():
    with World(nodes=1, witness=False) as w:
        check("Another lockstepd is running" in started_badly(w), "a second instance is refused")
        w.a.kill(signal.SIGTERM)
        path = w.a.socket
        w.a.socket = w.folder / "nowhere" / "x.sock"
        check(f"Make the folder {w.folder}/nowhere" in started_badly(w), "a missing folder is named")
        w.a.socket = path
        check("line 3" in started_badly(w, reactors=0), "a bad value is found by its line")
        check("\"reactor\" is not an option" in started_badly(w, reactor=1), "an unknown option is named")
        missing = w.run(w.lockstepd, "--config", "/nonexistent.toml")
        check(missing.returncode == 1 and "/nonexistent.toml" in missing.stdout, missing.stdout)
        check(w.run(w.lockstepd, "--version").stdout.startswith("lockstepd "), "it knows its version")
        check("--config" in w.run(w.lockstepd, "--help").stdout, "it explains itself")


def test_a_machine_without_rdma_tells_so_where_it_is_asked_for_and_nowhere_else():
    with World(nodes=1, witness=False) as w:
        if pathlib.Path("/sys/class/infiniband").is_dir() and any(pathlib.Path("/sys/class/infiniband").iterdir()):
            return  # it has
        asked = (("auto", []), ("off", []), ("on", ["no_device"]))
        for wish, ids in asked:
            w.a.kill(signal.SIGTERM)
            w.a.options["rdma"] = wish
            w.a.start()
            w.a.apply_cleanly()
            if wish != "off":
                wait_for("it to have looked", lambda: w.a.status()["rdma"]["looks"] > 0)
            rdma = w.a.status()["rdma"]
            check([f["id"] for f in rdma["findings"]] == ids, f"with rdma = \"{wish}\": {rdma}")
            check(wish != "off" or rdma["looks"] == 0, rdma)
            check(w.a.status()["rdma"]["hosts"] is None, "nothing was moved by a device that there is not")


def test_a_second_one_is_refused_before_it_takes_memory():
    with World(nodes=1, witness=False) as w:
        w.a.options = {"buffer_mib": 1024}
        w.a.configure()
        # A small process starts it: what the starter has in memory counts as the started one's.
        starter = ("import os, sys; _, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0);"
                   "print(os.waitstatus_to_exitcode(status), usage.ru_maxrss >> 10)")
        told = w.run(sys.executable, "-c", starter, w.lockstepd, "--config", w.a.folder / "lockstepd.toml").stdout
        status, mebibytes = (int(number) for number in told.splitlines()[-1].split())
        check(status == 1 and "Another lockstepd is running" in told, f"a second instance is refused: {told}")
        check(mebibytes < 512, f"its pool was not there yet: {mebibytes} MiB")
        w.a.status()


def test_it_starts_again_over_the_socket_of_a_killed_one():
    with World(nodes=1, witness=False) as w:
        w.a.kill()
        check(w.a.socket.exists(), "a killed daemon leaves its socket")
        w.a.start()
        check(w.a.status()["side"] is None, "it starts empty")


def test_shutdown_by_request_and_by_signal_end_with_0():
    with World(nodes=1, witness=False) as w:
        w.add(Volume("memory", 0, 16 * MIB, mirrored=False, memory=True))
        w.a.apply_cleanly()
        w.a.rpc.call("node.shutdown")
        check(w.a.wait() == 0, "node.shutdown ends with 0")
        check(not w.a.socket.exists(), "the socket is gone")
        w.a.restart()
        writer = Writer(w, w.volumes[0], [w.a], span_mib=8)
        writer.wait_writes(50)
        check(w.a.kill(signal.SIGTERM) == 0, "SIGTERM ends with 0, with an initiator at work")
