"""The arbiter `fence`: real daemons, the real lockstep-fence, and a device that powers a node off by killing its lockstepd."""
import os
import signal

from fence import DEAD, HANGS, HONEST, LIAR, WRONG, FenceSocket
from harness import World, Writer, check, wait_for
from test_mirror import in_sync, same_data, verify

SECRET = "geheim-0815"


class FencedWorld(World):
    def __init__(self, device, **more):
        super().__init__(witness=False, lease_ms=1000)
        self.fences = {}
        for node in self.nodes:
            other = self.other(node)
            fence = FenceSocket(self.build / "mgmt/main/lockstep-fence", node.folder / "fence",
                                {"pid_file": str(other.folder / "pid"), "password": SECRET}, **more)
            fence.device(device)
            node.options["fence_socket"] = str(fence.path)
            self.fences[node] = fence
            self.cleanups.append(fence.close)

    def arbiter(self):
        return {"kind": "fence"}

    def tell_pids(self):
        """The devices learn who runs on the machines that they power."""
        for node in self.nodes:
            (node.folder / "pid").write_text(str(node.process.pid))

    def cut(self):
        """The link alone is lost: each node is told of another port of its partner's."""
        for node in self.nodes:
            desired = node.desired(self.volumes)
            address, _, _ = desired["partner"]["link"]["connect"].rpartition(":")
            desired["partner"]["link"]["connect"] = f"{address}:9"
            node.cut = desired
        for node in self.nodes:
            node.rpc.call("node.apply", **node.cut)

    def wait_orders_ended(self):
        wait_for("no order to be under way", lambda: all(
            child.poll() is not None for fence in self.fences.values() for child in fence.children), 40)

    def wait_ready(self):
        for node in self.nodes:
            wait_for("the device to answer", lambda: node.status()["witness"] == {
                "kind": "fence", "reachable": True, "changing": False})


def start(w):
    w.tell_pids()
    volume = w.mirror()
    w.wait_ready()
    return volume


def stays_out(w, node, volume, words):
    wait_for(f"node {node.side} to say that \"{words}\"",
             lambda: words in node.volume_status(volume)["reason"], 30)
    check(not node.volume_status(volume)["serving"], "it serves though nobody is powered off")


def test_who_has_powered_the_other_off_goes_on_under_a_writer():
    with FencedWorld(HONEST) as w:
        volume = start(w)
        writer = Writer(w, volume, w.nodes)
        writer.wait_writes(300)
        w.a.freeze()  # its machine answers nobody, and could go on at any moment
        w.b.wait_state(volume, "solo")
        check(w.a.process.wait(10) == -signal.SIGKILL, "node a was not powered off")
        check(w.fences[w.b].asked("off") == 1, "it is powered off once")
        writer.wait_writes(300)
        w.a.wait()
        w.a.restart()
        w.tell_pids()
        in_sync(w, volume)
        writer.wait_writes(100)
        status = writer.stop()
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
        return f"pause {status['worst_gap_ms']} ms"


def test_both_cut_off_power_one_another_off_and_at_most_one_survives():
    with FencedWorld(HONEST) as w:
        volume = start(w)
        writer = Writer(w, volume, w.nodes)
        writer.wait_writes(300)
        w.cut()

        def is_alone(node):
            try:
                return node.volume_status(volume)["state"] == "solo"
            except OSError:  # it was powered off just now
                return False

        def decided():
            dead = [n for n in w.nodes if n.process.poll() is not None]
            alone = [n for n in w.nodes if n not in dead and is_alone(n)]
            check(len(alone) < 2, "both went on")
            return len(dead) == 2 or (dead and alone)
        wait_for("one to survive, or none", decided, 40)
        w.wait_orders_ended()  # that of a dead node may be under way still
        dead = [n for n in w.nodes if n.process.poll() is not None]
        for node in dead:
            check(node.process.returncode == -signal.SIGKILL, f"node {node.side} ended by itself")
            node.wait()
            node.start()
        w.tell_pids()
        for node in w.nodes:
            node.apply_cleanly()
        in_sync(w, volume)
        writer.wait_writes(100)
        writer.stop()
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
        return f"{len(dead)} powered off"


def test_with_a_delay_on_one_side_the_other_survives():
    with FencedWorld(HONEST) as w:
        w.fences[w.b].delay = 15
        w.fences[w.b].device(HONEST)
        volume = start(w)
        w.cut()
        w.a.wait_state(volume, "solo")
        check(w.b.process.wait(10) == -signal.SIGKILL, "node b was not powered off")
        wait_for("its order to be called off", lambda: all(c.poll() is not None for c in w.fences[w.b].children))
        check(w.fences[w.b].asked("off") == 0, "its own order went out")


def test_that_fails_lets_nobody_go_on_and_its_secret_stays_secret():
    for device, words in ((DEAD, "Unable to connect to 192.0.2.1, password ***"), (LIAR, "status still is on"),
                          (HANGS, "did not end within its limit")):
        with FencedWorld(device, limit=3) as w:
            w.tell_pids()
            volume = w.mirror()
            w.a.kill()
            stays_out(w, w.b, volume, words)
            log = w.b.log_text()
            check(words in log, "the log does not say why")
            check(SECRET not in log and SECRET not in str(w.b.status()), "the device's password is shown")
            w.a.restart()
            in_sync(w, volume)
            same_data(w, volume)


def test_a_device_that_does_not_answer_is_told_before_it_is_needed():
    with FencedWorld(DEAD) as w:
        w.tell_pids()
        for node in w.nodes:
            node.apply_cleanly()
        wait_for("the finding", lambda: any("could not be powered off" in f for f in w.a.status()["findings"]))
        tried = w.a.rpc.call("fence.try")
        check(not tried["answers"] and "(status) exited with 1" in tried["problem"], tried)
        w.fences[w.a].device(HONEST)
        check(w.a.rpc.call("fence.try") == {"answers": True, "off": False, "problem": ""}, "it answers")
        w.fences[w.a].settings.chmod(0o644)
        check("chmod 600" in w.a.rpc.call("fence.try")["problem"], "a file that all may read was taken")
        w.fences[w.a].close()
        os.unlink(w.fences[w.a].path)
        check("lockstep-fence.socket" in w.a.rpc.call("fence.try")["problem"], "nothing is said of the unit")


def test_a_device_that_says_a_connected_partner_is_off_is_told():
    with FencedWorld(DEAD) as w:
        w.tell_pids()
        for node in w.nodes:
            node.apply_cleanly()
        wait_for("the nodes to be connected", lambda: w.a.status()["partner"]["connected"])
        w.fences[w.a].device(WRONG)
        wait_for("the finding", lambda: any("it names another machine" in f for f in w.a.status()["findings"]), 30)
        check(w.a.status()["witness"]["reachable"] is False, "it counts as a device that can be relied on")
        w.fences[w.a].device(HONEST)
        wait_for("the finding to go", lambda: not w.a.status()["findings"], 30)


def test_a_node_that_is_started_anew_powers_nobody_off():
    with FencedWorld(HONEST) as w:
        volume = start(w)
        for node in w.nodes:
            node.kill()
        w.a.restart()
        stays_out(w, w.a, volume, "not in sync")
        check(w.fences[w.a].asked("off") == 0, "it powered its partner off")
        w.b.restart()
        in_sync(w, volume)
        same_data(w, volume)


def test_a_partner_that_is_back_is_not_powered_off_any_more():
    with FencedWorld(HONEST) as w:
        for node in w.nodes:
            w.fences[node].delay = 30
            w.fences[node].device(HONEST)
        volume = start(w)
        w.a.freeze()
        w.b.wait_state(volume, "suspended")
        wait_for("the order to be given", lambda: "it is being powered off" in w.b.log_text())
        w.a.thaw()
        in_sync(w, volume)
        w.wait_orders_ended()
        check(sum(f.asked("off") for f in w.fences.values()) == 0, "it went out")
        check(all(node.process.poll() is None for node in w.nodes), "somebody was powered off")
