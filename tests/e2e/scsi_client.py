"""An initiator that sends any SCSI command and says what came back: libiscsi through ctypes."""
import ctypes
import ctypes.util
import struct

from harness import Failed, Skipped, check, wait_for

GOOD, CHECK_CONDITION, CONFLICT = 0, 2, 0x18
REGISTER, RESERVE, RELEASE, CLEAR, PREEMPT, PREEMPT_AND_ABORT, REGISTER_AND_IGNORE = range(7)
WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS = 1, 3
UNIT_ATTENTION = 6
BLOCK = 512


class Sense(ctypes.Structure):
    _fields_ = [("error_type", ctypes.c_ubyte), ("key", ctypes.c_int), ("ascq", ctypes.c_int),
                ("bits", ctypes.c_ubyte), ("bit_pointer", ctypes.c_ubyte), ("field_pointer", ctypes.c_uint16)]


class Data(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int), ("data", ctypes.POINTER(ctypes.c_ubyte))]


class Task(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("cdb_size", ctypes.c_int), ("xfer_dir", ctypes.c_int),
                ("expxferlen", ctypes.c_int), ("cdb", ctypes.c_ubyte * 16), ("residual_status", ctypes.c_int),
                ("residual", ctypes.c_size_t), ("sense", Sense), ("datain", Data)]


class Out(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_char_p)]


def library():
    try:
        lib = ctypes.CDLL("libiscsi.so.7")
    except OSError as why:
        raise Skipped(f"libiscsi: {why}") from None
    for name in ("iscsi_create_context", "scsi_create_task", "iscsi_scsi_command_sync"):
        getattr(lib, name).restype = ctypes.c_void_p
    lib.iscsi_get_error.restype = ctypes.c_char_p
    return lib


class Answer:
    def __init__(self, status, key, ascq, data):
        self.status, self.key, self.ascq, self.data = status, key, ascq, data

    def __repr__(self):
        return f"status {self.status:02X}h, sense {self.key:X}/{self.ascq:04X}"


class Initiator:
    """One session to one node. Its name and ISID are its own, so that a session made anew is the same nexus."""

    def __init__(self, world, node, volume, name, isid=1, secret=None):
        self.world, self.node, self.volume, self.isid, self.secret = world, node, volume, isid, secret
        self.name = f"iqn.2026-11.io.example:{name}"
        self.lib = library()
        self.context = None
        self.connect()

    def connect(self):
        self.close()
        context = ctypes.c_void_p(self.lib.iscsi_create_context(self.name.encode()))
        self.lib.iscsi_set_targetname(context, self.world.target.encode())
        self.lib.iscsi_set_session_type(context, 2)
        self.lib.iscsi_set_isid_random(context, self.isid, 0)
        self.lib.iscsi_set_noautoreconnect(context, 1)
        self.lib.iscsi_set_timeout(context, 30)
        if self.secret:
            self.lib.iscsi_set_initiator_username_pwd(context, self.name.encode(), self.secret.encode())
        if self.lib.iscsi_connect_sync(context, self.node.portal.encode()) or self.lib.iscsi_login_sync(context):
            why = self.lib.iscsi_get_error(context).decode()
            self.lib.iscsi_destroy_context(context)
            raise Failed(f"{self.name} can't log in at node {self.node.side}: {why}")
        self.context = context

    def close(self):
        if self.context:
            self.lib.iscsi_destroy_context(self.context)
        self.context = None

    def once(self, cdb, out=b"", read=0):
        task = self.lib.scsi_create_task(len(cdb), bytes(cdb), 2 if out else 1 if read else 0, len(out) or read)
        data = Out(len(out), out)
        pointer = self.lib.iscsi_scsi_command_sync(self.context, self.volume.lun, ctypes.c_void_p(task),
                                                   ctypes.byref(data) if out else None)
        if not pointer:
            raise ConnectionError(self.lib.iscsi_get_error(self.context).decode())
        done = ctypes.cast(pointer, ctypes.POINTER(Task)).contents
        size = done.datain.size if read else 0
        answer = Answer(done.status, done.sense.key, done.sense.ascq, bytes(done.datain.data[:size]))
        self.lib.scsi_free_scsi_task(ctypes.c_void_p(pointer))
        return answer

    def send(self, cdb, out=b"", read=0):
        """The answer after unit attentions, and those; asks again while the node is busy or between two states."""
        attentions = []

        def answered():
            answer = self.once(cdb, out, read)
            if answer.status == CHECK_CONDITION and answer.key == UNIT_ATTENTION:
                attentions.append(answer.ascq)
                return None
            between = answer.status == CHECK_CONDITION and answer.key in (2, 0xB)
            return None if between or answer.status == 8 else answer
        answer = wait_for(f"an answer to {cdb[0]:02X}h from node {self.node.side}", answered, 30)
        self.attentions = attentions
        return answer

    def good(self, *arguments, **more):
        answer = self.send(*arguments, **more)
        check(answer.status == GOOD, f"{arguments[0][0]:02X}h through node {self.node.side}: {answer}")
        return answer

    def write(self, block=0, fill=b"w"):
        return self.send(struct.pack(">BBIBHB", 0x2A, 0, block, 0, 1, 0), out=fill * BLOCK)

    def read(self, block=0):
        return self.send(struct.pack(">BBIBHB", 0x28, 0, block, 0, 1, 0), read=BLOCK)

    def reserve_out(self, action, key=0, service_key=0, kind=0, persist=False):
        parameters = struct.pack(">QQ4xBxxx", key, service_key, 1 if persist else 0)
        return self.send(struct.pack(">BBBHIB", 0x5F, action, kind, 0, len(parameters), 0), out=parameters)

    def must(self, action, **more):
        answer = self.reserve_out(action, **more)
        check(answer.status == GOOD, f"PERSISTENT RESERVE OUT {action} through node {self.node.side}: {answer}")

    def keys(self):
        data = self.good(struct.pack(">BBxxxxxHB", 0x5E, 0, 512, 0), read=512).data
        length = struct.unpack(">I", data[4:8])[0]
        return sorted(struct.unpack(f">{length // 8}Q", data[8:8 + length]))

    def reservation(self):
        """The holder's key and the type, or nothing."""
        data = self.good(struct.pack(">BBxxxxxHB", 0x5E, 1, 24, 0), read=24).data
        if struct.unpack(">I", data[4:8])[0] == 0:
            return None
        return struct.unpack(">Q", data[8:16])[0], data[21] & 15
