"""QEMU's own initiator, which has one path and no patience with NOT READY: what its node answers while roles change."""
import subprocess
import time

from harness import World, check, check_time

ALONE = True  # it measures time

BLOCK = 4096
SPAN = 1000  # blocks


class QemuIo:
    """qemu-io on one node's portal, writing block after block with a pattern that says which."""

    def __init__(self, world, node, volume):
        self.process = subprocess.Popen(["stdbuf", "-oL", "qemu-io", "-f", "raw", world.url(node, volume)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        world.children.append(self.process)
        self.written = 0
        self.longest = 0.0  # seconds that one write took

    def say(self, command, good):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            line = line.removeprefix("qemu-io> ").strip()
            if line.startswith(good):
                return
            check("failed" not in line and "rror" not in line, f"after {self.written} writes, {command}: {line}")
        check(False, f"qemu-io ended with {self.process.wait()}")

    def place(self, number):
        return f"-P {number % 251 + 1} {number % SPAN * BLOCK} {BLOCK}"

    def write(self, count=1):
        for _ in range(count):
            begun = time.monotonic()
            self.say(f"write {self.place(self.written)}", "wrote")
            self.longest = max(self.longest, time.monotonic() - begun)
            self.written += 1

    def write_until(self, condition, seconds=40):
        deadline = time.monotonic() + seconds
        while not condition():
            check(time.monotonic() < deadline, "what was waited for under writes did not come")
            self.write()

    def verify(self):
        for number in range(max(0, self.written - SPAN), self.written):
            self.say(f"read {self.place(number)}", "read")
        self.process.stdin.close()
        check(self.process.wait(20) == 0, "qemu-io ends badly")


def states(world, volume, *wanted):
    return lambda: all(n.volume_status(volume)["state"] in wanted for n in world.nodes)


def partner_dies_and_returns(through_sequencer):
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        sequencer = next(n for n in w.nodes if n.side == w.a.volume_status(volume)["epoch"]["sequencer"])
        node = sequencer if through_sequencer else w.other(sequencer)
        partner = w.other(node)
        qemu = QemuIo(w, node, volume)
        qemu.write(50)
        for _ in range(3):
            # Its library does not connect twice within three seconds.
            begun = time.monotonic()
            qemu.write_until(lambda: time.monotonic() > begun + 3.5)
            qemu.longest = 0.0
            partner.kill()
            qemu.write_until(lambda: node.volume_status(volume)["state"] == "solo")
            qemu.write(20)
            partner.restart()
            qemu.write_until(states(w, volume, "in_sync"))
            qemu.write(20)
            check_time(qemu.longest < 2.0, f"a write took {qemu.longest:.2f} s")
        qemu.verify()
        return f"longest write {qemu.longest * 1000:.0f} ms"


def test_the_sequencers_partner_dies_and_returns():
    return partner_dies_and_returns(True)


def test_the_sequencer_dies_and_returns():
    return partner_dies_and_returns(False)


def test_its_own_node_dies_and_returns():
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        for node in w.nodes:
            qemu = QemuIo(w, node, volume)
            qemu.write(50)
            node.kill()
            node.restart()
            qemu.write_until(states(w, volume, "in_sync"))
            qemu.write(20)
            qemu.verify()


def test_both_nodes_die_and_return():
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        qemu = QemuIo(w, w.a, volume)
        qemu.write(50)
        for node in w.nodes:
            node.kill()
        for node in w.nodes:
            node.restart()
        qemu.write_until(states(w, volume, "in_sync"))
        qemu.verify()


def test_its_node_and_then_the_other_are_stopped_for_maintenance_and_return():
    with World(lease_ms=1500) as w:
        volume = w.mirror()
        qemu = QemuIo(w, w.a, volume)
        qemu.write(50)
        for node in (w.b, w.a):
            node.kill(15)
            if node is w.b:
                qemu.write_until(lambda: w.a.volume_status(volume)["state"] == "solo")
            node.restart()
            qemu.write_until(states(w, volume, "in_sync"))
        qemu.verify()
