"""Settings of a run, and how tests check, wait and find a port."""
import pathlib
import socket
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20


class Settings:
    """Of this run; `run` sets them."""
    build = REPO / "build/release"
    sanitized = False
    keep = False


settings = Settings()


class Skipped(Exception):
    """The machine lacks something that the test needs; says what."""


class Failed(AssertionError):
    """What a test expected and did not find."""


def group(name):
    """Of a test that belongs elsewhere than its module."""
    def mark(test):
        test.group = name
        return test
    return mark


def check(condition, message):
    if not condition:
        raise Failed(message)


def wait_for(what, condition, seconds=20.0, interval=0.02):
    """Waits until `condition()` is true and gives its value; says what was waited for when it never is."""
    if settings.sanitized:
        seconds *= 5
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(f"waited {seconds:g} s in vain for {what}; last seen: {value!r}")
        time.sleep(interval)


def free_port(address="127.0.0.1"):
    with socket.socket() as s:
        s.bind((address, 0))
        return s.getsockname()[1]
