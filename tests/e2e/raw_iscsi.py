"""iSCSI logins byte by byte, from either side: what a stranger with a socket can say."""
import contextlib
import hashlib
import socket
import struct

LOGIN_REQUEST, LOGIN_RESPONSE = 0x03, 0x23
TRANSIT, SECURITY, OPERATIONAL, FULL_FEATURE = 0x80, 0, 1, 3
OUT_OF_RESOURCES = 0x0302
ISID = bytes([0x80, 0, 0, 0, 0, 1])


def text_of(pairs):
    return b"".join(f"{key}={value}\0".encode() for key, value in pairs.items())


def pairs_of(text):
    return dict(part.decode().split("=", 1) for part in text.split(b"\0") if part)


def answer_to(challenge, identifier, secret, algorithm="5"):
    """CHAP_R of RFC 7143 12.1.3."""
    digest = {"5": hashlib.md5, "7": hashlib.sha256}[algorithm]
    return "0x" + digest(bytes([int(identifier)]) + secret.encode() + bytes.fromhex(challenge[2:])).hexdigest()


class Connection:
    """One end of a connection on which logins are spoken."""

    def __init__(self, connected):
        self.socket = connected
        self.socket.settimeout(10)
        self.status = None

    @classmethod
    def to(cls, address, source=None):
        host, port = address.rsplit(":", 1)
        return cls(socket.create_connection((host, int(port)), 10, (source, 0) if source else None))

    def close(self):
        self.socket.close()

    def is_closed(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the other end closed the connection")
            data += more
        return data

    def receive(self):
        """The header and the text of the next PDU."""
        header = self.exactly(48)
        size = int.from_bytes(header[5:8], "big")
        return header, self.exactly((size + 3) // 4 * 4)[:size]

    def send(self, header, text):
        self.socket.sendall(header + text + bytes(-len(text) % 4))

    # ---- as the initiator ----

    def request(self, pairs, stage=SECURITY, to=None, isid=ISID):
        """Sends a login request; gives what the target answers. `status` is the answer's."""
        text = text_of(pairs)
        flags = stage << 2 | (TRANSIT | to if to is not None else 0)
        self.send(struct.pack(">BBBBI6sHIHHII16x", 0x40 | LOGIN_REQUEST, flags, 0, 0, len(text), isid, 0, 0, 0, 0, 1, 0), text)
        header, answer = self.receive()
        self.flags, self.status = header[1], int.from_bytes(header[36:38], "big")
        return pairs_of(answer)

    # ---- as the target ----

    def hear(self):
        """The next login request's text; its header is kept for the answer."""
        self.asked, text = self.receive()
        return pairs_of(text)

    def reply(self, pairs, to=None, status=0):
        text = text_of(pairs)
        flags = self.asked[1] & 0x0C | (TRANSIT | to if to is not None else 0)
        header = struct.pack(">BBBBI", LOGIN_RESPONSE, flags, 0, 0, len(text)) + self.asked[8:20]
        self.send(header + struct.pack(">IIIIHHII", 0, 0, 1, 1, status, 0, 0, 0)[:28].ljust(28, b"\0"), text)


def begin(connection, initiator, target):
    """Up to the target's challenge; None when it is refused before."""
    names = {"InitiatorName": initiator, "AuthMethod": "CHAP,None"}
    names |= {"TargetName": target, "SessionType": "Normal"} if target else {"SessionType": "Discovery"}
    answer = connection.request(names)
    if connection.status or answer.get("AuthMethod") != "CHAP":
        return None
    return connection.request({"CHAP_A": "5"})


def log_in(address, initiator, target, user, secret, source=None):
    """The status of a whole login with CHAP."""
    with contextlib.closing(Connection.to(address, source)) as c:
        challenge = begin(c, initiator, target)
        if challenge and not c.status:
            c.request({"CHAP_N": user, "CHAP_R": answer_to(challenge["CHAP_C"], challenge["CHAP_I"], secret)},
                      to=OPERATIONAL)
        return c.status
