#!/usr/bin/env python3
"""One kind of flood against a pair, until SIGTERM; tells each half second what stands, as a line of JSON.

It takes a quarter of one processor at the most, and less priority than others (nice 5): a host and two nodes share the machine
with it, and what they would lose to it is not the nodes' doing.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import sys
import time
from types import SimpleNamespace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from flood import MIB, READ16, WRITE16, Flood, Session  # noqa: E402

SHARE = 0.25  # of one processor
over = False


class Kind:
    """Each does a little of its flood in step(), and says in told() what came of it."""

    def __init__(self, options):
        self.portals = options.portal
        self.managements = options.management
        self.target, self.lun = options.target, options.lun

    def stands(self):
        raise NotImplementedError

    def step(self):
        raise NotImplementedError

    def told(self):
        raise NotImplementedError


class Writes(Kind):
    """Hosts that announce writes and send no data, and hosts that read and take no answer, at both nodes."""

    SHAPES = ((WRITE16, 128, MIB), (WRITE16, 9, 32 * MIB), (READ16, 128, MIB), (WRITE16, 128, MIB))

    def __init__(self, options):
        super().__init__(options)
        self.wanted = [(portal, shape) for portal in self.portals for shape in self.SHAPES]
        self.floods = [None] * len(self.wanted)
        self.logins = 0

    def step(self):
        for i, (portal, (opcode, count, size)) in enumerate(self.wanted):
            if self.floods[i] and self.floods[i].is_alive():
                continue
            with contextlib.suppress(OSError):
                self.floods[i] = Flood(SimpleNamespace(target=self.target), SimpleNamespace(portal=portal), self.lun,
                                       f"flood-{i}", opcode, count, size)
                self.logins += 1
        time.sleep(0.1)

    def stands(self):
        return all(self.floods)

    def told(self):
        ended = sum(flood.ended for flood in self.floods if flood)
        return {"sessions": sum(bool(f) and f.is_alive() for f in self.floods), "logins": self.logins, "writes ended": ended}


class Management(Kind):
    """300 connections that say nothing, every other one after TLS's handshake, and 30 bodies that do not end, at both."""

    SILENT, BODIES = 300, 30

    def __init__(self, options):
        super().__init__(options)
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.crowd = {address: [] for address in self.managements}
        self.came = itertools.count()
        self.total = 0

    def come(self, address):
        number = self.total = next(self.came)
        host, port = address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), 5, (f"127.3.{number // 200 % 200}.{number % 200 + 1}", 0))
        try:
            if number % 2 or number % 11 == 0:
                connection = self.context.wrap_socket(connection)
            if number % 11 == 0:
                connection.sendall(b"POST /peer/v1/forward HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: 60000\r\n\r\n" + b"x" * 30000)
        except OSError:
            connection.close()
            raise
        return connection

    def step(self):
        for address, crowd in self.crowd.items():
            with contextlib.suppress(OSError):
                crowd.append(self.come(address))
            if len(crowd) > self.SILENT + self.BODIES:
                crowd.pop(0).close()
        time.sleep(0.005)

    def stands(self):
        return all(len(crowd) >= self.SILENT for crowd in self.crowd.values())

    def told(self):
        return {"connections": self.total, "held": sum(map(len, self.crowd.values()))}


class Resets(Kind):
    """A host that resets the target again and again, and one whose one name opens sessions without end."""

    def __init__(self, options):
        super().__init__(options)
        self.mine, self.tried, self.refused, self.resets = [], 0, 0, 0

    def step(self):
        portal = self.portals[self.tried % 2]
        with contextlib.suppress(OSError):
            resetting = Session(portal, self.target, "resetter")
            resetting.cold_reset()
            resetting.receive()
            resetting.close()
            self.resets += 1
        for _ in range(30):
            self.tried += 1
            try:
                self.mine.append(Session(self.portals[self.tried % 2], self.target, "greedy"))
            except OSError:
                self.refused += 1
        self.mine = [session for session in self.mine if not session.is_over() or session.close()]
        time.sleep(0.02)

    def stands(self):
        """The name has its 256 at each node, and is refused more."""
        return self.refused > 0 and len(self.mine) >= 512

    def told(self):
        return {"sessions": len(self.mine), "tried": self.tried, "refused": self.refused, "resets": self.resets}


class Logins(Kind):
    """1,000 logins at each node that are begun and not finished, and others that are refused all the time."""

    HALF_OPEN = 1000

    def __init__(self, options):
        super().__init__(options)
        self.half = {portal: [] for portal in self.portals}
        self.came, self.refused = 0, 0

    def begin(self, portal):
        self.came += 1
        host, port = portal.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), 5, (f"127.4.{self.came % 200}.{self.came % 50 + 1}", 0))
        header = struct.pack(">BBBBI6sHIHHII16x", 0x43, 0x81, 0, 0, 8000, b"\x80\0\0\0\0\1", 0, 0, 0, 0, 1, 0)
        connection.sendall((b"", header[:20], header)[self.came % 3])
        return connection

    def refuse(self, portal):
        with contextlib.suppress(OSError):
            Session(portal, "iqn.2026-11.test:no-such-target", f"stranger{self.came}").close()
        self.refused += 1

    def step(self):
        for portal, crowd in self.half.items():
            for _ in range(4):
                with contextlib.suppress(OSError):
                    crowd.append(self.begin(portal))
                if len(crowd) > self.HALF_OPEN:
                    crowd.pop(0).close()
            self.refuse(portal)
        time.sleep(0.01)

    def stands(self):
        return all(len(crowd) >= self.HALF_OPEN for crowd in self.half.values())

    def told(self):
        return {"half-open": self.came, "refused": self.refused}


KINDS = {"writes": Writes, "management": Management, "resets": Resets, "logins": Logins}


def end(*_):
    global over
    over = True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--portal", action="append", required=True)
    parser.add_argument("--management", action="append", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--lun", type=int, required=True)
    options = parser.parse_args()
    os.nice(5)
    signal.signal(signal.SIGTERM, end)
    flood = KINDS[options.kind](options)
    begun, told = time.monotonic(), 0.0
    while not over:
        flood.step()
        time.sleep(max(0.0, begun + time.process_time() / SHARE - time.monotonic()))
        if time.monotonic() > told + 0.5:
            told = time.monotonic()
            print(json.dumps({"stands": flood.stands(), **flood.told()}), flush=True)
    os._exit(0)  # what stands ends with the process


if __name__ == "__main__":
    main()
