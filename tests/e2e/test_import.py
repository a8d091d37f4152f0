"""Import: a logical unit of a foreign array becomes a mirrored volume. Real daemons on both sides."""
import os
import random
import signal

import harness
from foreign_array import ForeignArray
from harness import check, free_port, wait_for
from managed_pair import ManagedPair, scene

MIB = 1 << 20
SECRET = "not-for-any-log"


class Scene(ManagedPair):
    def __init__(self, folder):
        if ForeignArray.missing():
            raise harness.Skipped(f"{ForeignArray.missing()} is not installed")
        super().__init__(folder)
        self.array = ForeignArray(folder, free_port())

    def start(self):
        super().start()
        self.array.start()

    def stop(self):
        self.array.kill()
        super().stop()

    def source(self, lun, size, filled, block=512):
        """A unit of `size` bytes that is zeros but for `filled` [(offset, length)] of noise."""
        path = self.folder / f"source{lun}"
        noise = random.Random(lun)
        with open(path, "wb") as file:
            file.truncate(size)
            for offset, length in filled:
                file.seek(offset)
                left = min(length, size - offset)
                while left:
                    left -= file.write(noise.randbytes(min(left, MIB)))
        self.array.unit(lun, path, block)
        return path

    def begin(self, source, name="moved", node=None, **more):
        reply = (node or self.a).post("/api/v1/imports", {"source": source, "name": name, "any_initiator": True, **more})
        check(reply.status == 202, f"the import is accepted: {reply}")
        return reply

    def job(self, reply):
        return self.a.get(reply.headers["Location"]).json

    def wait_for_progress(self, reply, least):
        def far_enough():
            job = self.job(reply)
            assert job["state"] != "failed", job
            return job["progress"] >= least or job["state"] == "done"
        wait_for(f"{least} of the import", far_enough, 120)

    def check_copy(self, volume_id, source, name):
        """Both replicas hold the source's bytes, and zeros behind them up to the volume's size."""
        volume = self.a.get(f"/api/v1/volumes/{volume_id}").json
        size = os.path.getsize(source)
        check(volume["size_bytes"] == max((size + 4095) // 4096 * 4096, MIB), f"{name} has the source's size")
        for node in (self.a, self.b):
            data = node.folder / "volumes" / f"{volume_id}.data"
            with open(source, "rb") as one, open(data, "rb") as two:
                left = size
                while left:
                    n = min(left, 4 * MIB)
                    check(one.read(n) == two.read(n), f"{node.name}'s replica is the source's bytes")
                    left -= n
                check(not any(two.read()), f"{node.name}'s replica has zeros behind them")
        return volume

    def check_no_secret(self):
        for node in (self.a, self.b):
            for log in node.folder.glob("*.log"):
                check(SECRET not in log.read_text(errors="replace"), f"no credentials in {log}")
            for path in ("/api/v1/jobs", "/api/v1/events"):
                check(SECRET.encode() not in node.get(path).raw, f"no credentials in {path}")


def test_a_unit_becomes_a_mirrored_volume_byte_for_byte_and_its_zeros_take_no_space():
    with scene(Scene) as s:
        s.array.credentials("mover", SECRET)
        odd = s.source(1, 96 * MIB + 3 * 512, [(0, 5000), (7 * MIB + 512, 3 * MIB), (96 * MIB, 3 * 512)])
        large_blocks = s.source(2, 32 * MIB, [(MIB, MIB)], block=4096)
        reply = s.begin(s.array.url(1, f"mover%{SECRET}@"), "odd", node=s.b, read_only=True)
        job = s.a.job(reply, 120)
        check(job["state"] == "done" and job["progress"] == 1, f"the import ends well: {job}")
        volume = s.check_copy(job["volume_id"], odd, "odd")
        check(volume["read_only"] and not volume["importing"] and volume["block_format"] == "512e", f"as wished: {volume}")
        for replica in volume["replicas"]:
            check(replica["allocated_bytes"] < 8 * MIB, f"zeros take no space: {replica['allocated_bytes']}")
        job = s.a.job(s.begin(s.array.url(2, f"mover%{SECRET}@"), "large"), 120)
        check(job["state"] == "done", f"4 KiB blocks are imported, too: {job}")
        check(s.check_copy(job["volume_id"], large_blocks, "large")["block_format"] == "4kn", "as 4kn")
        # A volume of ours is as good a source as any; a copy of a copy is the same.
        target = volume["target_name"]
        job = s.a.job(s.begin(f"iscsi://{s.b.portal}/{target}/{volume['lun']}", "again"), 120)
        check(job["state"] == "done", f"a volume of ours is imported: {job}")
        with open(s.a.folder / "volumes" / f"{volume['id']}.data", "rb") as first, \
                open(s.b.folder / "volumes" / f"{job['volume_id']}.data", "rb") as second:
            check(first.read() == second.read(), "the copy of the copy is the same")
        s.check_no_secret()


def test_an_import_goes_on_after_the_manager_the_source_and_the_partner_were_killed():
    with scene(Scene) as s:
        # The partner is needed for all that the source's units hold; noise only, so that there is something to do.
        source = s.source(1, 640 * MIB, [(i * 32 * MIB, 24 * MIB) for i in range(20)])
        reply = s.begin(s.array.url(1))
        s.wait_for_progress(reply, 0.1)
        s.a.stop_mgmtd(signal.SIGKILL)
        s.a.start_mgmtd()
        s.wait_for_progress(reply, 0.3)
        s.array.kill()
        wait_for("the job to say what it waits for",
                 lambda: "source" in s.job(reply)["message"] or s.job(reply)["state"] == "done", 90)
        s.array.start()
        s.wait_for_progress(reply, 0.5)
        s.b.stop_lockstepd(signal.SIGKILL)
        s.b.start_lockstepd()
        s.wait_for_progress(reply, 0.7)
        s.a.stop_lockstepd(signal.SIGKILL)
        s.a.start_lockstepd()
        job = s.a.job(reply, 300)
        check(job["state"] == "done", f"the import ends well: {job}")
        volume_id = job["volume_id"]
        wait_for("both replicas in sync", lambda: [r["state"] for r in s.a.get(
            f"/api/v1/volumes/{volume_id}").json["replicas"]] == ["in_sync", "in_sync"], 120)
        s.check_copy(volume_id, source, "moved")


def test_what_can_not_be_imported_is_said_in_a_sentence_and_leaves_nothing_behind():
    with scene(Scene) as s:
        s.array.credentials("mover", SECRET)
        s.source(1, 8 * MIB, [])
        nobody = free_port()
        good = f"mover%{SECRET}@"
        for source, words in (
                (f"iscsi://127.0.0.1:{nobody}/iqn.2005-10.org.example:array/1", "can't be reached"),
                (s.array.url(1, f"mover%{SECRET}x@"), "CHAP user or secret is wrong"),
                (s.array.url(1), "refused the login"),
                (s.array.url(7, good), "no disk at LUN 7"),
                (s.array.url(1, good).replace(":array", ":other"), "no target")):
            job = s.a.job(s.begin(source), 90)
            check(job["state"] == "failed" and words in job["error"]["detail"], f"{source}: {job['error']}")
        check(s.a.get("/api/v1/volumes").json["items"] == [], "no volume is left")
        s.check_no_secret()


def test_a_cancelled_import_leaves_nothing_behind():
    with scene(Scene) as s:
        s.source(1, 512 * MIB, [(0, 512 * MIB)])
        reply = s.begin(s.array.url(1))
        s.wait_for_progress(reply, 0.05)
        check(s.b.post(reply.headers["Location"] + "/cancel").status == 202, "either node takes the word")
        job = s.a.job(reply, 90)
        check(job["state"] == "failed" and "cancelled" in job["error"]["detail"], f"it was cancelled: {job}")
        for node in (s.a, s.b):
            check(node.get("/api/v1/volumes").json["items"] == [], "no volume is left")
            left = [p.name for p in (node.folder / "volumes").iterdir()]
            check(left == ["configuration.saved"], f"no file of it is left: {left}")
        check(s.a.post(reply.headers["Location"] + "/cancel").status == 409, "it has ended already")
