"""The iSER sessions of a trace (RFC 7145, RFC 7143): PDUs, what belongs to each request, and whether it is as golden bytes say.

Golden bytes are hex in lower case. A run of one capital letter is a field, whose value differs from session to session; it is
checked by what it has to do with others:

  T     task tag: the answer has the request's
  C     CmdSN: counts what is sent, but for immediate PDUs, and is within the window
  E     ExpStatSN: none that was not sent, nor less than before
  S     StatSN: counts the answers
  P, M  ExpCmdSN, MaxCmdSN: the request was taken, and none that was not sent; the window never shrinks, and is 1 after a login
  I, H  ISID: the answer has the request's; the session's handle, which is not 0
  L     a length of data: as many bytes come
  W, X  key and address to read from: the target reads there, as many bytes as golden, and nowhere else
  R, A  the same to write to
"""
import dataclasses
import itertools

from harness import Failed, check
from lab.roce_trace import READ, SEND, WRITE

HEADER, BHS = 28, 48
NO_TAG = 0xFFFFFFFF
IMMEDIATE, LOGIN_ANSWER = 0x40, 0x23


class Pdu:
    """One Send's message: iSER's header, iSCSI's, and data."""

    def __init__(self, message):
        check(len(message) >= HEADER + BHS, f"a message has {len(message)} bytes")
        self.headers, self.bhs = message[:HEADER + BHS], message[HEADER:HEADER + BHS]
        length, ahs = int.from_bytes(self.bhs[5:8], "big"), self.bhs[4] * 4
        self.data, self.padding = message[HEADER + BHS + ahs:][:length], message[HEADER + BHS + ahs + length:]
        check(len(self.data) == length, f"a message has {len(self.data)} bytes of data, its header says {length}")
        check(self.padding in (b"", bytes(-length % 4)), f"behind {length} bytes of data stands {self.padding.hex()}")

    def word(self, at):
        return int.from_bytes(self.bhs[at:at + 4], "big")


@dataclasses.dataclass
class Exchange:
    """A request, what the target did to the initiator's memory for it, and the answer."""
    request: Pdu
    moved: list = dataclasses.field(default_factory=list)
    answer: Pdu | None = None
    invalidated: int | None = None

    def has(self, operation):
        """Whether it is for this one's memory."""
        at = 4 if operation.what == READ else 16
        key, address = (int.from_bytes(self.request.headers[i:j], "big") for i, j in ((at, at + 4), (at + 4, at + 12)))
        return self.answer is None and key == operation.key and 0 <= operation.address - address < self.request.word(20)


class Numbers:
    """Of a session; each PDU is checked as it goes by."""

    def __init__(self):
        self.command = self.status = self.window = None
        self.expected = 0

    def request(self, pdu):
        number, expected = pdu.word(24), pdu.word(28)
        check(self.command in (None, number), f"CmdSN {number} comes where {self.command} is next: {pdu.bhs.hex()}")
        immediate = pdu.bhs[0] & IMMEDIATE
        check(immediate or self.window is None or number <= self.window,
              f"CmdSN {number} is beyond MaxCmdSN {self.window}")
        self.command = number + (0 if immediate else 1)
        check(self.status is None or self.expected <= expected <= self.status,
              f"ExpStatSN {expected}; {self.status} is next")
        self.expected = expected

    def answer(self, pdu, request):
        number, taken, window = pdu.word(24), pdu.word(28), pdu.word(32)
        if pdu.word(16) != NO_TAG:
            check(self.status in (None, number), f"StatSN {number} comes where {self.status} is next: {pdu.bhs.hex()}")
            self.status = number + 1
        least = request.word(24) + (0 if request.bhs[0] & IMMEDIATE else 1) if request else 0
        check(least <= taken <= self.command, f"ExpCmdSN {taken} is not within {least} to {self.command}")
        check(window >= max(self.window or 0, taken - 1), f"MaxCmdSN {window} after {self.window}, with ExpCmdSN {taken}")
        check(pdu.bhs[0] != LOGIN_ANSWER or window == taken,
              f"a login's answer lets {window - taken + 1} commands come, not one")
        self.window = window


def exchanges(connection):
    """Of one connection's operations, in the order of their requests."""
    numbers, found = Numbers(), []
    for operation in connection.operations:
        if operation.what == SEND:
            pdu = Pdu(operation.data)
            if operation.by == "initiator":
                numbers.request(pdu)
                found.append(Exchange(pdu))
                continue
            open_ones = [e for e in found if e.answer is None and e.request.word(16) == pdu.word(16)]
            check(open_ones or pdu.word(16) == NO_TAG, f"nothing asked for {pdu.headers.hex()}")
            check(len(pdu.padding) == -len(pdu.data) % 4, f"the target's {len(pdu.data)} bytes of data are not padded")
            numbers.answer(pdu, open_ones[0].request if open_ones else None)
            if open_ones:
                open_ones[0].answer, open_ones[0].invalidated = pdu, operation.invalidated
        else:
            owner = next((e for e in found if e.has(operation)), None)
            check(operation.by == "target" and owner is not None and operation.whole,
                  f"RDMA {operation.what} of {operation.length} bytes with key {operation.key:x} at {operation.address:x}: "
                  "nobody asks for it, or not all of it has come")
            owner.moved.append(operation)
    return found


def fields(golden, seen, what):
    """The values of a golden text's fields in bytes that are as it says."""
    golden, text, found = golden.replace(" ", ""), seen.hex(), {}
    same = len(golden) == len(text) and all(g == t or g.isupper() for g, t in zip(golden, text))
    if same:
        for name, run in itertools.groupby(zip(golden, text), key=lambda pair: pair[0]):
            if name.isupper():
                value = int("".join(t for _, t in run), 16)
                same = same and found.setdefault(name, value) == value
    if not same:
        raise Failed(f"{what}\n  is     {grouped(text)}\n  golden {grouped(golden)}")
    return found


def grouped(text):
    return " ".join(text[at:at + 8] for at in range(0, len(text), 8))


def moved(exchange, what, key, address, length):
    """The bytes that the target read or wrote, without a gap and nothing beside them, before its answer."""
    at, data = address, b""
    for operation in exchange.moved:
        check((operation.what, operation.key, operation.address, len(operation.data)) == (what, key, at, operation.length),
              f"RDMA {operation.what} with key {operation.key:x} at {operation.address:x}, where {what} with {key:x} at "
              f"{at:x} is next")
        at, data = at + operation.length, data + operation.data
    check(len(data) == length, f"{len(data)} bytes were moved by RDMA {what}, not {length}")
    return data


def is_of(kind, exchange):
    """Whether it is this kind's request: by its opcode, and a command by its CDB."""
    golden = kind.request.replace(" ", "")[2 * HEADER:]
    return golden[:2] == exchange.request.bhs[:1].hex() and (golden[:2] != "01" or golden[64:] == exchange.request.bhs[32:].hex())


def text_of(data, names):
    """Keys and values as golden texts have them, with names in the places of what they stand for."""
    text = data.decode().replace("\0", " ").strip()
    for name, value in names.items():
        text = text.replace(value, "{" + name + "}")
    return text


def compare(kind, exchange, names):
    """Raises Failed where an exchange is not as its kind's golden bytes; gives the data that went by it, either way."""
    request = fields(kind.request, exchange.request.headers, f"{kind.name}: the request")
    check(exchange.answer is not None, f"{kind.name}: there is no answer")
    answer = fields(kind.answer, exchange.answer.headers, f"{kind.name}: the answer")
    for name in ("T", "I"):
        check(request.get(name) == answer.get(name),
              f"{kind.name}: {name} is {request.get(name)}, then {answer.get(name)}")
    check(answer.get("H") != 0, f"{kind.name}: the session has no handle")
    if kind.text:
        for golden, pdu in ((kind.text, exchange.request), (kind.answer_text, exchange.answer)):
            text = text_of(pdu.data, names)
            check(text == golden, f"{kind.name}:\n  is     {text}\n  golden {golden}")
    else:
        fields(kind.answer_data, exchange.answer.data, f"{kind.name}: the answer's data")
    check(exchange.invalidated == request.get(kind.invalidated), f"{kind.name}: key {exchange.invalidated} was invalidated")
    if "W" in request:
        return exchange.request.data + moved(exchange, READ, request["W"], request["X"], kind.moved)
    if "R" in request:
        return moved(exchange, WRITE, request["R"], request["A"], kind.moved)
    check(not exchange.moved, f"{kind.name}: {exchange.moved} without memory")
    return exchange.request.data
