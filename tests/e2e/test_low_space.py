"""A disk that is nearly full: initiators of a thin volume are warned through both nodes before anything is refused."""
import os
import struct

from harness import MIB, Rpc, World, check, wait_for
from scsi_client import BLOCK, GOOD, Initiator
from test_full_disk import write
from test_mirror import in_sync, same_data

SIZE, SMALL = 128 * MIB, 48 * MIB
THRESHOLD = SIZE // 10 // MIB  # in sets of 1 MiB
BELOW = (THRESHOLD - 2) * MIB
REACHED, MODE_CHANGED = 0x3807, 0x2A01
PAGE = struct.pack(">BBH12xBBHI", 0x5C, 0x02, 20, 0x80, 1, 0, THRESHOLD)


class Warned(Initiator):
    """Keeps all that it is told."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.heard = []
        self.news()
        self.heard.clear()

    def send(self, *arguments, **more):
        answer = super().send(*arguments, **more)
        self.heard += self.attentions
        return answer

    def news(self):
        self.good(bytes(6))
        return self.attentions

    def must_be_told(self, times):
        wait_for(f"node {self.node.side} to tell of the threshold", lambda: (self.news(), self.heard.count(REACHED) >= times)[1])
        check(self.heard.count(REACHED) == times, f"once each time: {self.heard}")

    def page(self):
        return self.good(struct.pack(">6B", 0x1A, 0x08, 0x1C, 0x02, 255, 0), read=255).data[4:]

    def enable(self, on):
        parameters = bytes(4) + PAGE[:16] + bytes([0x80 if on else 0]) + PAGE[17:]
        self.good(struct.pack(">6B", 0x15, 0x10, 0, 0, len(parameters), 0), out=parameters)

    def fill(self, folder):
        """Writes from the volume's start until less is left than the threshold; how far."""
        at = 0
        while left(folder) > BELOW:
            answer = write(self, at, b"x", MIB)
            check(answer.status == GOOD, f"filling up at {at}: {answer}")
            at += MIB
        return at

    def give_back(self, size):
        parameters = struct.pack(">HH4xQI4x", 22, 16, 0, size // BLOCK)
        self.good(struct.pack(">BB4xBHB", 0x42, 0, 0, len(parameters), 0), out=parameters)


def left(folder):
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize


def event(listener, *kinds):
    while (found := listener.next()["params"])["kind"] not in kinds:
        pass
    return found


def test_on_one_node_is_told_to_every_initiator_once_and_again_when_there_was_space_in_between():
    with World() as w:
        folder = w.a.volume_folder = w.small_file_system(SMALL)
        volume = w.mirror(size=SIZE)
        listener = Rpc(w.a.socket)
        listener.call("events.subscribe")
        a, b = Warned(w, w.a, volume, "a"), Warned(w, w.b, volume, "b")
        for by in (a, b):
            check(by.page() == PAGE, f"the page through node {by.node.side}: {by.page().hex()}")
        end = b.fill(folder)
        said = event(listener, "store.low_space", "store.full")
        check(said["kind"] == "store.low_space" and w.a.data(volume) in said["message"], f"before it is full: {said}")
        for by in (b, a):
            by.must_be_told(1)
            check(write(by, end, b"n", MIB).status == GOOD and not by.attentions, "writes go on")

        a.give_back(end)
        event(listener, "store.enough_space")
        a.enable(False)
        check(b.news() == [MODE_CHANGED], f"node B's page is changed, too: {b.attentions}")
        check(b.page()[16] == 0, "and disabled")
        a.fill(folder)
        event(listener, "store.low_space")
        found = w.a.status()["findings"]
        check(any("less than a tenth" in finding for finding in found), f"health is told of it: {found}")
        state = w.a.volume_status(volume)
        check(state["state"] == "in_sync" and state["reason"] == "", f"nothing is wrong: {state}")
        b.enable(True)
        for by in (a, b):
            by.must_be_told(2)  # not of what was reached while nobody asked for it

        b.give_back(end)
        event(listener, "store.enough_space")
        check(not a.news() and not b.news(), "space is no news to initiators")
        b.fill(folder)
        for by in (a, b):
            by.must_be_told(3)
        check("MiB are left" not in w.b.log_text(), "node B's disk is large")
        in_sync(w, volume)
        for node in w.nodes:
            node.kill()
        same_data(w, volume)
        return f"{end >> 20} MiB were written before"


def test_is_told_again_by_a_node_that_came_back_and_by_the_only_one():
    with World() as w:
        folder = w.b.volume_folder = w.small_file_system(SMALL)
        volume = w.mirror(size=SIZE)
        a = Warned(w, w.a, volume, "a")
        end = a.fill(folder)
        a.must_be_told(1)
        w.b.kill()
        w.a.wait_state(volume, "solo")
        a = Warned(w, w.a, volume, "a")  # sessions end with a lease
        w.b.restart()
        in_sync(w, volume, 60)
        a.must_be_told(1)
        w.a.kill()
        w.b.wait_state(volume, "solo")
        b = Warned(w, w.b, volume, "b")
        b.give_back(end)
        wait_for("node B to see the space", lambda: "enough space is left again" in w.b.log_text())
        b.fill(folder)
        b.must_be_told(1)


def test_a_volume_that_its_disk_can_never_hold_is_told_by_that_node():
    with World() as w:
        w.a.volume_folder = w.small_file_system(SMALL)
        w.mirror(size=SIZE)
        found = wait_for("node a to tell", lambda: [f for f in w.a.status()["findings"] if "can never be written" in f])
        check("vm1: it has 128 MiB" in found[0], f"which, and how large: {found}")
        check(not any("vm1" in finding for finding in w.b.status()["findings"]), "node b's disk is large enough")
