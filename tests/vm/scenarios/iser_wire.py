"""Two machines: logins over iSER and each kind of command, as they go by on the wire, are compared with golden bytes.

The portal is one machine's, the kernel's initiator and libiscsi's tools run on the other, which captures what its interface
carries by RoCE v2. What is provoked is what lab/iser_golden.py has. LOCKSTEP_VM_TRACE=FILE keeps the trace (a pcap file)."""
import dataclasses
import os
import pathlib
import shlex
import signal
import struct

from harness import MIB, Failed, Volume, check, wait_for
from lab import iser_golden as golden
from lab import iser_trace, roce_trace
from lab.pair import LINKS, VOLUME_MIB, PairOfMachines

WHERE = "host"
SECONDS = 1800
KEEP = os.environ.get("LOCKSTEP_VM_TRACE", "")
PORT, SERVICE = 3260, "0000000001060cbc"  # the port space of TCP, and the port
IP_HEADER = 36  # of the communication manager's, in front of what iSER says
INITIATOR, DISK = "iqn.1993-08.org.debian:01:a", "/dev/sda"
PAYLOAD = b"".join(struct.pack(">Q", 0x1000000000000000 + n) for n in range(8192))
# What is sent with some commands, in the place of this.
SENT = {"COMPARE AND WRITE": bytes(512) + PAYLOAD[:512],
        "PERSISTENT RESERVE OUT: REGISTER": struct.pack(">QQ8x", 0, 0xA1),
        "UNMAP": struct.pack(">HH4xQI4x", 22, 16, 0x200, 8)}
PING_ANSWERED = b"\x10" + bytes(27) + b"\x20\x80"  # the beginning of a NOP-In


# ---- what is recorded ----

class Client:
    """The machine of the initiators."""

    def __init__(self, pair, node, portal):
        self.pair, self.node, self.portal, self.target = pair, node, portal, pair.target

    def shell(self, script):
        return self.node.run("sh", "-c", script)

    def prepare(self):
        self.shell("hostname initiator; modprobe -a ib_iser iscsi_tcp sd_mod sg; mkdir -p /run/lock/iscsi; "
                   f"echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi")
        self.node.ask({"start": ["iscsid", "-f"], "log": "/host/iscsid.log"})
        wait_for("iscsid to listen", lambda: "ISCSIADM" in self.shell("cat /proc/net/unix"), 60)

    def capture(self):
        command = ["python3", "/lab/tests/vm/guest/capture.py", "eth1", "/host/trace.pcap"]
        self.captures = self.node.ask({"start": command, "log": "/host/capture.log"})["pid"]
        wait_for("the capture to begin", lambda: "captures" in self.shell("cat /host/capture.log"), 60)

    def captured(self):
        return (self.pair.share / "trace.pcap").read_bytes()

    def end_capture(self):
        self.node.ask({"signal": self.captures, "number": int(signal.SIGTERM)})
        wait_for("the capture to end", lambda: self.node.ask({"ended": self.captures})["code"] is not None, 60)
        told = self.shell("cat /host/capture.log")
        check(" 0 dropped" in told, f"the capture is not whole: {told}")

    def iscsiadm(self, *arguments):
        return self.shell(f"iscsiadm -m node -T {self.target} -p {self.portal} {shlex.join(arguments)}")

    def log_in(self, **settings):
        for name, value in settings.items():
            self.iscsiadm("-o", "update", "-n", name, "-v", value)
        self.iscsiadm("-l")
        wait_for("the disk", lambda: self.shell(f"test -b {DISK} && echo there; true"), 60)

    def log_out(self):
        self.iscsiadm("-u")

    def provoke_all(self, kinds):
        for kind in kinds:
            if kind.by == "sg_raw":
                self.provoke(kind)

    def provoke(self, kind):
        """By sg_raw, with the command and the length of the golden bytes."""
        cdb = kind.cdb[:6 if kind.cdb[0] < 0x20 else 10 if kind.cdb[0] < 0x80 else 16]
        way = {"": "", "in": f"-r {kind.length} -o /dev/null", "out": f"-s {kind.length} -i '/host/{file_of(kind)}'"}[kind.way]
        self.shell(f"sg_raw {way} {DISK} {cdb.hex(' ')}; true")


def file_of(kind):
    return kind.name if kind.name in SENT else "payload"


def record(pair):
    portal = f"{LINKS['a']}:{PORT}"
    pair.paired = False  # a's volume is its own: nothing else is on the wire
    volume = pair.add(Volume("vm1", 0, VOLUME_MIB * MIB, mirrored=False))
    pair.a.create(volume)
    pair.a.apply_cleanly(target={"name": pair.target, "portals": [portal], "discovery_auth": None})
    for name, data in {"payload": PAYLOAD, **SENT}.items():
        (pair.share / name).write_bytes(data)
    client = Client(pair, pair.b, portal)
    client.prepare()
    client.capture()
    client.shell(f"iscsiadm -m discovery -t sendtargets -p {portal} -I iser")
    client.log_in(**{"node.conn[0].timeo.noop_out_interval": "2"})
    client.provoke_all(golden.LINUX)
    wait_for("the initiator to ask whether the target is there", lambda: PING_ANSWERED in client.captured(), 60)
    client.shell(f"sg_reset --device {DISK}")
    client.log_out()
    client.log_in(**{"node.session.iscsi.ImmediateData": "No"})
    client.provoke_all(golden.NOTHING_IMMEDIATE)
    client.log_out()
    for tool in ("iscsi-inq", "iscsi-readcapacity16"):
        client.shell(f"{tool} iser://{portal}/{pair.target}/0")
    client.end_capture()
    return client.captured(), portal


# ---- what is compared ----

def data_of(kind):
    """What goes by a command, where that is known."""
    if kind.name in SENT:
        return SENT[kind.name]
    if kind.name == "PERSISTENT RESERVE IN: READ KEYS":
        return struct.pack(">IIQ", 1, 8, 0xA1)
    return PAYLOAD[:kind.length] if kind.name.startswith(("WRITE (10),", "READ (10),")) else None


def notices(kind, exchange, names):
    """Any other golden byte is one too many: the comparison sees each nibble that is no field."""
    for part in ("request", "answer", "answer_data"):
        text = getattr(kind, part)
        for at, nibble in enumerate(text):
            if nibble == " " or nibble.isupper():
                continue
            changed = text[:at] + ("1" if nibble == "0" else "0") + text[at + 1:]
            try:
                iser_trace.compare(dataclasses.replace(kind, **{part: changed}), exchange, names)
            except Failed:
                continue
            raise Failed(f"{kind.name}: with nibble {at} of {part} changed nothing is noticed")


def compared(session, connection, names):
    """How many kinds a session has shown, each as its golden bytes say, in their order."""
    private = connection.request_data[IP_HEADER:IP_HEADER + 4].hex(), connection.reply_data[:4].hex()
    check(private == (session.private_data, session.private_data), f"{session.name}: private data {private}")
    check(connection.not_ready == 0, f"{session.name}: {connection.not_ready} messages found no receive")
    left = iter(iser_trace.exchanges(connection))
    for kind in session.kinds:
        exchange = next((each for each in left if iser_trace.is_of(kind, each)), None)
        check(exchange is not None, f"{session.name}: the trace has no {kind.name}")
        data = iser_trace.compare(kind, exchange, names)
        check(data_of(kind) in (None, data), f"{session.name}: {kind.name} moved other data: {data[:64].hex()}...")
        notices(kind, exchange, names)
    return len(session.kinds)


def judge(pcap, names):
    found = roce_trace.connections(pcap, SERVICE)
    check(len(found) == len(golden.SESSIONS), f"{len(found)} connections, not {len(golden.SESSIONS)}")
    return sum(compared(session, connection, names | {"initiator": INITIATOR})
               for session, connection in zip(golden.SESSIONS, found))


def scenario(lab, work):
    with PairOfMachines(lab, work, seed=1, rdma=True) as pair:
        pcap, portal = record(pair)
        if KEEP:
            pathlib.Path(KEEP).write_bytes(pcap)
        kinds = judge(pcap, {"target": pair.target, "portal": portal})
        return f"{kinds} requests and answers of {len(golden.SESSIONS)} sessions are as the golden bytes say"
