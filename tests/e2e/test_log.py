"""The log stands in nobody's way: standard error is a pipe that nobody reads."""
import fcntl
import os
import select
import socket
import struct
import subprocess
import time

from harness import MIB, Rpc, Volume, World, check, wait_for

GROUP = "security"

F_SETPIPE_SZ = 1031
REFUSALS = 200


def unread_pipe():
    """Holds some thirty lines of a log."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
    return reader, writer


def start_with_standard_error(node, writer):
    node.configure()
    node.process = subprocess.Popen([node.world.lockstepd, "--config", node.folder / "lockstepd.toml"],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
    node.rpc = wait_for("lockstepd to answer", node._connect, 20)


def login_that_is_refused(node, number):
    """To a target that is not there, from an address of its own. Gives the status class of the answer."""
    keys = (f"InitiatorName=iqn.2026-11.test:stranger{number}\0TargetName=iqn.2026-11.test:no-such-target\0"
            "SessionType=Normal\0AuthMethod=None\0").encode()
    header = struct.pack(">BBBB B3s 6sH I HH II 16x", 0x43, 0x81, 0, 0, 0, len(keys).to_bytes(3, "big"),
                         b"\x80\0\0\0\0\1", 0, 1, 0, 0, 1, 0)
    source = (f"127.78.{number // 250}.{number % 250 + 1}", 0)
    with socket.create_connection((node.address, node.iscsi), 10, source) as s:
        s.sendall(header + keys + b"\0" * (-len(keys) % 4))
        answer = s.recv(48, socket.MSG_WAITALL)
        return answer[36] if len(answer) == 48 else None


def is_full(writer):
    return not select.select([], [writer], [], 0)[1]


def test_refused_logins_with_an_unread_log_stop_nobodys_io():
    with World(nodes=1, witness=False) as w:
        reader, writer = unread_pipe()
        w.a.kill()
        start_with_standard_error(w.a, writer)
        volume = w.add(Volume("memory", 0, 16 * MIB, mirrored=False, memory=True))
        w.a.apply_cleanly()
        for number in range(REFUSALS):
            check(login_that_is_refused(w.a, number) == 2, f"login {number} was not refused")
            if number % 20 == 0:  # the node tells of so many a second
                time.sleep(0.3)
        wait_for("the log to be full: else the test shows nothing", lambda: is_full(writer))
        done = w.run("iscsi-readcapacity16", "-i", "iqn.2026-11.test:guest", w.url(w.a, volume), seconds=20)
        check(done.returncode == 0, done.stdout)
        check(Rpc(w.a.socket).call("node.status")["volumes"], "the control socket answers, too")
        w.a.process.terminate()
        check(w.a.process.wait(20) == 0, "it stops, though nobody reads that it does")
        os.close(reader)


def test_logins_that_are_refused_over_and_over_are_told_a_few_times_and_then_counted():
    with World(nodes=1, witness=False) as w:
        w.a.apply_cleanly([Volume("memory", 0, 16 * MIB, mirrored=False, memory=True)])
        listener = Rpc(w.a.socket)
        listener.call("events.subscribe")
        many = 30
        for _ in range(many - 1):
            login_that_is_refused(w.a, 1)
        time.sleep(1.1)  # a second is the span in which the target counts what it does not tell at all
        login_that_is_refused(w.a, 1)
        told = []
        while sum(told) < many:
            event = listener.next()["params"]
            check(event["kind"] == "session.refused", event)
            told.append(event.get("times", 1))
        check(sum(told) == many and len(told) < 12, f"told as {told}")
