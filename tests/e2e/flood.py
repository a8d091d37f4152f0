"""Hosts that ask for all that a node has and do nothing with it, PDU by PDU."""
import itertools
import select
import socket
import struct
import threading

MIB = 1 << 20
READ16, WRITE16 = 0x88, 0x8A
LOGIN, COMMAND, NOP_OUT, TASK_MANAGEMENT = 0x43, 0x01, 0x40, 0x42
NOP_IN, RESPONSE = 0x20, 0x21
TARGET_COLD_RESET = 7
NO_TAG = 0xFFFFFFFF


def pdu(opcode, flags, lun=0, tag=0, rest=b"", data=b""):
    head = struct.pack(">BBHI", opcode, flags, 0, len(data)) + struct.pack(">BB6x", 0, lun) + struct.pack(">I", tag)
    return (head + rest).ljust(48, b"\0") + data + b"\0" * (-len(data) % 4)


class Session:
    """Logged in from a port of its own; sends what it is told to, and takes what it is asked for."""

    ports = itertools.count(1)

    def __init__(self, portal, target, name, receive_buffer=None):
        self.isid = b"\x80\0" + struct.pack(">I", next(self.ports))
        self.sent = 1
        address, port = portal.rsplit(":", 1)
        self.socket = socket.create_connection((address, int(port)), 10)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        keys = {"InitiatorName": f"iqn.2026-11.io.example:{name}", "TargetName": target, "SessionType": "Normal",
                "AuthMethod": "None"}
        try:
            self.negotiate(0x81, keys)  # the security stage, then the operational one, then full feature phase
            self.negotiate(0x87, {"InitialR2T": "Yes", "ImmediateData": "No", "HeaderDigest": "None", "DataDigest": "None"})
        except OSError:
            self.close()
            raise

    def negotiate(self, flags, keys):
        text = "".join(f"{key}={value}\0" for key, value in keys.items()).encode()
        head = struct.pack(">BBBBI", LOGIN, flags, 0, 0, len(text)) + self.isid + struct.pack(">HI", 0, 0)
        head += struct.pack(">HHII", 0, 0, 1, 0)
        self.socket.sendall(head.ljust(48, b"\0") + text + b"\0" * (-len(text) % 4))
        answer, _ = self.receive()
        if answer[36:38] != b"\0\0":
            raise ConnectionError(f"the login was refused: {answer[36:38].hex()}")

    def command(self, lun, opcode, size):
        flags = 0xA0 if opcode == WRITE16 else 0xC0
        cdb = struct.pack(">BBQIH", opcode, 0, 0, size // 512, 0)
        self.socket.sendall(pdu(COMMAND, flags, lun, self.sent, struct.pack(">III", size, self.sent, 0) + cdb))
        self.sent += 1

    def cold_reset(self):
        self.socket.sendall(pdu(TASK_MANAGEMENT, 0x80 | TARGET_COLD_RESET, 0, NO_TAG - 1,
                                struct.pack(">III", NO_TAG, self.sent, 0)))

    def pong(self, ping):
        if ping[20:24] != struct.pack(">I", NO_TAG):
            self.socket.sendall(pdu(NOP_OUT, 0x80, 0, NO_TAG, ping[20:24] + struct.pack(">I", self.sent)))

    def receive(self):
        head = self.take(48)
        length = int.from_bytes(head[5:8], "big")
        return head, self.take(length + -length % 4)[:length]

    def take(self, size):
        got = b""
        while len(got) < size:
            more = self.socket.recv(size - len(got))
            if not more:
                raise ConnectionError("the node has closed the connection")
            got += more
        return got

    def is_over(self):
        """The node has closed it, read or not."""
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return bool(poll.poll(0))

    def close(self):
        self.socket.close()


class Flood(threading.Thread):
    """`count` commands of `size` bytes each, none of whose data is ever moved; another for each that the node ends."""

    def __init__(self, world, node, lun, name, opcode, count, size):
        super().__init__(daemon=True)
        self.lun, self.opcode, self.size = lun, opcode, size
        self.ended, self.over = 0, False
        self.session = Session(node.portal, world.target, name, receive_buffer=4096)
        for _ in range(count):
            self.ask()
        self.start()

    def ask(self):
        self.session.command(self.lun, self.opcode, self.size)

    def run(self):
        try:
            while not self.over and not self.session.is_over():
                # Data-In is never taken: it stands in the way of everything behind it.
                if self.opcode == READ16 or not select.select([self.session.socket], [], [], 0.1)[0]:
                    threading.Event().wait(0.1)
                    continue
                head, _ = self.session.receive()
                if head[0] & 0x3F == RESPONSE:
                    self.ended += 1
                    self.ask()
                elif head[0] & 0x3F == NOP_IN:
                    self.session.pong(head)
        except OSError:
            pass

    def stop(self):
        self.over = True
        self.join()
        self.session.close()
