"""Settings of a run, and how tests check, wait and find a port."""
import errno
import os
import pathlib
import random
import socket
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
PORTS, LANE = range(10000, 32000), 200


class Settings:
    """Of this run; `run` sets them."""
    build = REPO / "build/release"
    sanitized = False
    keep = False
    shards = 1


settings = Settings()


class Skipped(Exception):
    """The machine lacks something that the test needs; says what."""


class Failed(AssertionError):
    """What a test expected and did not find."""


class TooSlow(Failed):
    """A promise in time was not kept. A busy machine has pauses of its own, which do not come each time: `run` carries the
    test out again, up to five times."""


class Wrong(Failed):
    """Data that is not what was acknowledged, copies that differ, memory that was misused: no pause of a machine excuses it, and
    the test is not carried out again."""


def group(name):
    """Of a test that belongs elsewhere than its module."""
    def mark(test):
        test.group = name
        return test
    return mark


def check(condition, message):
    if not condition:
        raise Failed(message)


def check_time(condition, message):
    if not condition:
        raise TooSlow(message)


def check_data(condition, message):
    if not condition:
        raise Wrong(message)


def wait_for(what, condition, seconds=20.0, interval=None):
    """Waits until `condition()` is true and gives its value; says what was waited for when it never is. Looks every 20 ms in
    the first second and ten times a second then, unless told otherwise: whoever waits leaves the machine to who is waited for."""
    if settings.sanitized:
        seconds *= 5
    begun = time.monotonic()
    deadline = begun + seconds
    while True:
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > deadline:
            raise Failed(f"waited {seconds:g} s in vain for {what}; last seen: {value!r}")
        time.sleep(interval or (0.02 if now < begun + 1 else 0.1))


_ports = {}  # of each process: its lane, where it looked last, and the socket that keeps the lane


def _lane_of_ones_own():
    """No other process is given a port of it, as one is free until a daemon listens there. In the end a lane that is shared."""
    keeper = socket.socket(socket.AF_UNIX)
    for begin in random.SystemRandom().sample(range(PORTS.start, PORTS.stop, LANE), len(PORTS) // LANE):
        try:
            keeper.bind(f"\0lockstep-test-ports-{begin}")
            break
        except OSError:
            continue
    return range(begin, begin + LANE), begin, keeper


def free_port(address="127.0.0.1"):
    """Below those that the kernel gives to outgoing connections."""
    lane, port, keeper = _ports.get(os.getpid()) or _lane_of_ones_own()
    while True:
        port = port + settings.shards if port + settings.shards in lane else lane.start  # the link has more ports above its own
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemons do
            try:
                s.bind((address, port))
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                continue
        _ports[os.getpid()] = lane, port, keeper
        return port


def free_ports(count, address="127.0.0.1"):
    """The first of so many, one above the other."""
    while True:
        ports = [free_port(address) for _ in range(count)]
        if ports[-1] - ports[0] == count - 1:
            return ports[0]
