#!/usr/bin/env python3
"""A disk with a volatile write cache, served over NBD: what was not flushed may be lost, or torn, when the power goes.

  disk.py IMAGE SOCKET SEED

No cache mode of qemu loses anything when qemu is killed: the host's page cache has it. Here a write is in this process'
memory until the guest flushes. Commands come on standard input, one a line, and each is answered by a line:
  cut       the power went: of each write since the last flush nothing, all, or some of its sectors reach the image
  hold      the disk hangs: it answers nothing any more
  release   it goes on with what waits
"""
import collections
import os
import random
import socket
import struct
import sys
import threading
import time

SECTOR = 512
FLUSH_SECONDS = 0.003
OPTION, EXPORT_NAME, ABORT, GO = 0x49484156454F5054, 1, 2, 7
ACK, INFO, UNSUPPORTED = 1, 3, 0x80000001
HAS_FLAGS, SEND_FLUSH = 1, 4
READ, WRITE, DISCONNECT, FLUSH = range(4)
REQUEST, ANSWER = 0x25609513, 0x67446698


class Disk:
    """The image, and what was written since the last flush: whole writes in their order, and by sector for reads."""

    def __init__(self, path, seed):
        self.file = os.open(path, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        self.random = random.Random(seed)
        self.writes, self.sectors = [], {}

    def read(self, offset, length):
        data = bytearray(os.pread(self.file, length, offset))
        if self.sectors:
            for at in range(0, length, SECTOR):
                newer = self.sectors.get(offset + at)
                if newer is not None:
                    data[at:at + SECTOR] = newer
        return data

    def write(self, offset, data):
        self.writes.append((offset, data))
        for at in range(0, len(data), SECTOR):
            self.sectors[offset + at] = data[at:at + SECTOR]

    def flush(self):
        for offset, data in self.writes:
            os.pwrite(self.file, data, offset)
        self.writes, self.sectors = [], {}

    def cut(self):
        """Gives how many writes stood in the cache, and how many of them were lost or torn."""
        kept = self.random.choice((0.0, 0.3, 0.7, 1.0))
        counts = collections.Counter()
        for offset, data in self.writes:
            fate = self.random.choices(("lost", "torn", "kept"), (1 - kept, 0.2, kept))[0]
            counts[fate] += 1
            for at in range(0, len(data), SECTOR):
                if fate == "kept" or (fate == "torn" and self.random.random() < 0.5):
                    os.pwrite(self.file, data[at:at + SECTOR], offset + at)
        in_cache = len(self.writes)
        self.writes, self.sectors = [], {}
        return in_cache, counts["lost"] + counts["torn"]


class Server:
    """One guest at a time. Requests are carried out in the order in which they come."""

    def __init__(self, disk, path):
        self.disk, self.lock = disk, threading.Lock()
        self.going = threading.Event()
        self.going.set()
        self.cuts = self.accepted_after = 0
        self.connection = None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()

    def serve(self):
        while True:
            self.connection, _ = self.listener.accept()
            self.accepted_after = self.cuts
            try:
                self.negotiate()
                while self.request():
                    pass
            except (ConnectionError, OSError):
                pass
            self.connection.close()

    def take(self, length):
        data = bytearray()
        while len(data) < length:
            piece = self.connection.recv(length - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return bytes(data)

    def negotiate(self):
        flags = HAS_FLAGS | SEND_FLUSH
        self.connection.sendall(struct.pack(">QQH", 0x4E42444D41474943, OPTION, 3))  # fixed newstyle, no zeroes
        self.take(4)
        while True:
            _, option, length = struct.unpack(">QII", self.take(16))
            self.take(length)
            if option == EXPORT_NAME:
                self.connection.sendall(struct.pack(">QH", self.disk.size, flags))
                return
            if option == GO:
                self.reply(option, INFO, struct.pack(">HQH", 0, self.disk.size, flags))
                self.reply(option, ACK)
                return
            if option == ABORT:
                raise ConnectionError
            self.reply(option, UNSUPPORTED)

    def reply(self, option, kind, data=b""):
        self.connection.sendall(struct.pack(">QIII", 0x3E889045565A9, option, kind, len(data)) + data)

    def request(self):
        magic, _, kind, handle, offset, length = struct.unpack(">IHHQQI", self.take(28))
        if magic != REQUEST or kind == DISCONNECT:
            return False
        data = self.take(length) if kind == WRITE else b""
        self.going.wait()
        if kind == FLUSH:
            time.sleep(FLUSH_SECONDS)  # as a disk takes; what is to be flushed can still be lost
        error, answer = 0, b""
        with self.lock:
            if self.cuts != self.accepted_after:  # the power went before it was carried out
                return False
            if kind == READ:
                answer = self.disk.read(offset, length)
            elif kind == WRITE:
                self.disk.write(offset, data)
            elif kind == FLUSH:
                self.disk.flush()
            else:
                error = 22
        self.connection.sendall(struct.pack(">IIQ", ANSWER, error, handle) + answer)
        return True

    def cut(self):
        """The guest is gone by now: what it still had sent is as lost as what it had not."""
        with self.lock:
            if self.connection:
                try:
                    self.connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.cuts += 1
            answer = self.disk.cut()
        self.going.set()
        return answer


def main():
    image, path, seed = sys.argv[1:]
    server = Server(Disk(image, seed), path)
    threading.Thread(target=server.serve, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        answer = "done"
        if line.strip() == "cut":
            answer = "{} {}".format(*server.cut())
        elif line.strip() == "hold":
            server.going.clear()
        elif line.strip() == "release":
            server.going.set()
        print(answer, flush=True)


if __name__ == "__main__":
    main()
