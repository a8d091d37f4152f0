"""RoCE v2 from a pcap file: the connections that were made meanwhile, and what each end asked of the other on them, whole.

A packet is what IBTA's specification (volume 1, chapter 9 and annex A17) says it is: Ethernet, IPv4, UDP port 4791, a base
transport header, extended headers by the opcode, data, four bytes of checksum."""
import dataclasses
import math
import struct

NUMBERS = 1 << 24  # of packets
SEND, WRITE, READ = "send", "write", "read"
# Opcodes of reliable connections: (what, whether it is the first packet, and the last one).
REQUESTS = {0x00: (SEND, True, False), 0x01: (SEND, False, False), 0x02: (SEND, False, True), 0x04: (SEND, True, True),
            0x16: (SEND, False, True), 0x17: (SEND, True, True),
            0x06: (WRITE, True, False), 0x07: (WRITE, False, False), 0x08: (WRITE, False, True), 0x0A: (WRITE, True, True),
            0x0C: (READ, True, True)}
WITH_INVALIDATE = (0x16, 0x17)
READ_RESPONSES = {0x0D: 4, 0x0E: 0, 0x0F: 4, 0x10: 4}  # bytes of their extended header
ACKNOWLEDGE, RECEIVER_NOT_READY = 0x11, 1  # its opcode, and the upper three bits of its syndrome
UNRELIABLE_SEND = 0x64
CM_QUEUE_PAIR, CM_CLASS, CM_REQUEST, CM_REPLY = 1, 0x07, 0x0010, 0x0013


@dataclasses.dataclass(frozen=True)
class Packet:
    source: str  # addresses, as bytes in hex
    target: str
    opcode: int
    pair: int  # the queue pair that it is for
    number: int
    rest: bytes  # behind the base transport header, without padding and checksum


@dataclasses.dataclass
class Operation:
    """What one end asked of the other: a Send, an RDMA Write or an RDMA Read, with its data."""
    by: str  # "initiator" or "target"
    what: str
    address: int = 0
    key: int = 0
    length: int = 0  # of an RDMA Read or Write, as asked for
    data: bytes = b""
    invalidated: int | None = None
    whole: bool = False


def packets(pcap):
    """Of the bytes of a file."""
    at = 24
    while at < len(pcap):
        length, = struct.unpack_from("<I", pcap, at + 8)
        frame, at = pcap[at + 16:at + 16 + length], at + 16 + length
        ip = frame[14:14 + int.from_bytes(frame[16:18], "big")]
        udp = ip[(ip[0] & 15) * 4:]
        opcode, flags, _, pair, number = struct.unpack_from(">BBHII", udp, 8)
        padding = flags >> 4 & 3
        yield Packet(ip[12:16].hex(), ip[16:20].hex(), opcode, pair % NUMBERS, number % NUMBERS, udp[20:len(udp) - 4 - padding])


class Way:
    """One end's requests, as the other end takes them: in the order of their numbers, each once."""

    def __init__(self, by, source, pair, number, mtu, operations):
        self.by, self.source, self.pair, self.number, self.mtu = by, source, pair, number, mtu
        self.operations = operations
        self.open = None  # a Send or a Write whose last packet has not come
        self.reads = []   # [operation, number of its next response]

    def request(self, packet):
        if packet.number != self.number:
            return  # it came before and is sent again, or what precedes it was lost and will be
        what, first, last = REQUESTS[packet.opcode]
        body = packet.rest
        if first:
            self.open = Operation(self.by, what)
            if what in (WRITE, READ):
                self.open.address, self.open.key, self.open.length = struct.unpack_from(">QII", body)
                body = body[16:]
        if packet.opcode in WITH_INVALIDATE:
            self.open.invalidated = int.from_bytes(body[:4], "big")
            body = body[4:]
        self.open.data += body
        if what == READ:
            self.reads.append([self.open, self.number])
        self.number = (self.number + (max(1, math.ceil(self.open.length / self.mtu)) if what == READ else 1)) % NUMBERS
        if last:
            self.open.whole = what != READ
            self.operations.append(self.open)

    def response(self, packet):
        for read in self.reads:
            if read[1] == packet.number and not read[0].whole:
                read[0].data += packet.rest[READ_RESPONSES[packet.opcode]:]
                read[0].whole = len(read[0].data) == read[0].length
                read[1] = (read[1] + 1) % NUMBERS
                return


class Connection:
    """Both ends' operations in the order in which the last packet of each was seen; a Read's place is that of its request."""

    def __init__(self, request):
        mad = request.rest[8:]
        body = mad[24:]
        self.ends, self.local_id = (request.source, request.target), body[0:4]
        self.service, self.request_data, self.reply_data = body[8:16].hex(), body[140:232], None
        self.mtu = 128 << (body[50] >> 4)
        self.pair, self.number = int.from_bytes(body[32:35], "big"), int.from_bytes(body[44:47], "big")
        self.operations, self.ways = [], ()
        self.not_ready = 0  # messages that found no receive

    def reply(self, packet):
        body = packet.rest[32:]
        if self.reply_data is None and body[4:8] == self.local_id and (packet.target, packet.source) == self.ends:
            self.reply_data = body[36:232]
            pair, number = int.from_bytes(body[12:15], "big"), int.from_bytes(body[20:23], "big")
            initiator, target = self.ends
            # Each says the number that the other is to begin with.
            self.ways = (Way("initiator", initiator, pair, number, self.mtu, self.operations),
                         Way("target", target, self.pair, self.number, self.mtu, self.operations))

    def packet(self, packet):
        for way, other in (self.ways, self.ways[::-1]) if self.ways else ():
            if (packet.source, packet.pair) == (way.source, way.pair):
                if packet.opcode in REQUESTS:
                    way.request(packet)
                elif packet.opcode in READ_RESPONSES:
                    other.response(packet)
                elif packet.opcode == ACKNOWLEDGE:
                    self.not_ready += packet.rest[0] >> 5 == RECEIVER_NOT_READY


def connections(pcap, service):
    """Those to one service, as the communication manager names it: the port space of TCP and the port."""
    found = []
    for packet in packets(pcap):
        if packet.opcode != UNRELIABLE_SEND:
            for connection in found:
                connection.packet(packet)
        elif packet.pair == CM_QUEUE_PAIR and packet.rest[9] == CM_CLASS:
            kind = int.from_bytes(packet.rest[24:26], "big")
            if kind == CM_REQUEST:
                made = Connection(packet)
                known = any((c.ends, c.local_id) == (made.ends, made.local_id) for c in found)
                if not known and made.service == service:
                    found.append(made)
            elif kind == CM_REPLY:
                for connection in found:
                    connection.reply(packet)
    return found
