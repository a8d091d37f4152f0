"""A host that asks for all the memory a node has and does nothing with it, PDU by PDU."""
import select
import socket
import struct
import threading

MIB = 1 << 20
READ16, WRITE16 = 0x88, 0x8A
LOGIN, COMMAND, NOP_OUT = 0x43, 0x01, 0x40
NOP_IN, RESPONSE = 0x20, 0x21


def pdu(opcode, flags, lun=0, tag=0, rest=b"", data=b""):
    head = struct.pack(">BBHI", opcode, flags, 0, len(data)) + struct.pack(">BB6x", 0, lun) + struct.pack(">I", tag)
    return (head + rest).ljust(48, b"\0") + data + b"\0" * (-len(data) % 4)


class Flood(threading.Thread):
    """`count` commands of `size` bytes each, none of whose data is ever moved; another for each that the node ends."""

    def __init__(self, world, node, lun, name, opcode, count, size):
        super().__init__(daemon=True)
        self.lun, self.opcode, self.size = lun, opcode, size
        self.next, self.ended, self.over = 1, 0, False
        address, port = node.portal.rsplit(":", 1)
        self.socket = socket.create_connection((address, int(port)), 10)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.log_in(f"iqn.2026-11.io.example:{name}", world.target)
        for _ in range(count):
            self.ask()
        self.start()

    def log_in(self, name, target):
        keys = {"InitiatorName": name, "TargetName": target, "SessionType": "Normal", "AuthMethod": "None"}
        self.negotiate(0x81, keys)  # the security stage, then the operational one, then full feature phase
        self.negotiate(0x87, {"InitialR2T": "Yes", "ImmediateData": "No", "HeaderDigest": "None", "DataDigest": "None"})

    def negotiate(self, flags, keys):
        text = "".join(f"{key}={value}\0" for key, value in keys.items()).encode()
        head = struct.pack(">BBBBI", LOGIN, flags, 0, 0, len(text)) + b"\x80" + self.isid + struct.pack(">HI", 0, 0)
        head += struct.pack(">HHII", 0, 0, 1, 0)
        self.socket.sendall(head.ljust(48, b"\0") + text + b"\0" * (-len(text) % 4))
        answer, _ = self.receive()
        if answer[36:38] != b"\0\0":
            raise ConnectionError(f"the login was refused: {answer[36:38].hex()}")

    isid = property(lambda self: struct.pack(">BI", 0, id(self) & 0xFFFFFFFF))

    def ask(self):
        flags = 0xA0 if self.opcode == WRITE16 else 0xC0
        cdb = struct.pack(">BBQIH", self.opcode, 0, 0, self.size // 512, 0)
        self.socket.sendall(pdu(COMMAND, flags, self.lun, self.next, struct.pack(">III", self.size, self.next, 0) + cdb))
        self.next += 1

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

    def run(self):
        try:
            while not self.over:
                # Data-In is never taken: it stands in the way of everything behind it.
                if self.opcode == READ16 or not select.select([self.socket], [], [], 0.1)[0]:
                    threading.Event().wait(0.1)
                    continue
                head, _ = self.receive()
                if head[0] & 0x3F == RESPONSE:
                    self.ended += 1
                    self.ask()
                elif head[0] & 0x3F == NOP_IN and head[20:24] != b"\xff" * 4:
                    self.socket.sendall(pdu(NOP_OUT, 0x80, 0, 0xFFFFFFFF, head[20:24] + struct.pack(">I", self.next)))
        except OSError:
            pass

    def stop(self):
        self.over = True
        self.join()
        self.socket.close()
