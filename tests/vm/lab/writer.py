"""A host that writes through both nodes at once, keeps a record of what was acknowledged, and knows what a read must find.

libiscsi talks; nothing is shared with the product. Each path has a session of its own with commands in flight. A path that
breaks, or answers nothing for SILENCE seconds, NOP-Outs included, is let go of, and what was on it is sent again through
the other. A block has at most one operation at a time. The record (acknowledged.log) has a line for each write that was
submitted ("s BLOCK GENERATION") and acknowledged ("a BLOCK GENERATION"), written before either counts."""
import ctypes
import os
import random
import select
import struct
import threading
import time
import zlib

import scsi_client
from harness import Failed, check, wait_for

BLOCK, SECTOR = 4096, 512
SILENCE, PATIENCE, CONNECT = 3.0, 30.0, 1.5  # seconds: a silent path, one command, a login
GOOD, CHECK_CONDITION, BUSY, TASK_SET_FULL, CANCELLED = 0, 2, 8, 0x28, 0x0F000000
DEPTH, READ_PERCENT, HOT_BLOCKS = 4, 20, 64
STAMP = struct.Struct(">8sQQI")
MAGIC = b"LockLab2"
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def stamped(block, generation):
    """Each sector says what it is: a power cut may tear between two."""
    sectors = []
    for number in range(BLOCK // SECTOR):
        body = STAMP.pack(MAGIC, block, generation, number) + random.randbytes(SECTOR - STAMP.size - 4)
        sectors.append(body + struct.pack(">I", zlib.crc32(body)))
    return b"".join(sectors)


def generations_of(data, block):
    """Of each sector of a block: 0 for zeroes. What is torn within a sector, or another block's, is told."""
    found = []
    for number, at in enumerate(range(0, BLOCK, SECTOR)):
        sector = data[at:at + SECTOR]
        if not any(sector):
            found.append(0)
            continue
        magic, its_block, generation, its_number = STAMP.unpack_from(sector)
        if magic != MAGIC or struct.pack(">I", zlib.crc32(sector[:-4])) != sector[-4:]:
            raise Failed(f"sector {number} of block {block} holds no whole sector of the writer's: {sector[:32].hex()}...")
        check((its_block, its_number) == (block, number),
              f"sector {number} of block {block} holds sector {its_number} of block {its_block}, generation {generation}")
        found.append(generation)
    return tuple(found)


class Library:
    """libiscsi's asynchronous calls."""

    def __init__(self):
        self.lib = scsi_client.library()
        pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32
        for name in ("iscsi_write16_task", "iscsi_read16_task"):
            getattr(self.lib, name).restype = pointer
        tail = [size, number, number, number, number, number, number, CALLBACK, pointer]
        self.lib.iscsi_write16_task.argtypes = [pointer, number, ctypes.c_uint64, ctypes.c_char_p, *tail]
        self.lib.iscsi_read16_task.argtypes = [pointer, number, ctypes.c_uint64, *tail]
        self.lib.iscsi_full_connect_async.argtypes = [pointer, ctypes.c_char_p, number, CALLBACK, pointer]
        self.lib.iscsi_nop_out_async.argtypes = [pointer, CALLBACK, pointer, number, pointer]
        self.lib.scsi_free_scsi_task.argtypes = [pointer]


class Operation:
    def __init__(self, block, generation, data):
        self.block, self.generation, self.data = block, generation, data
        self.begun = time.monotonic()


class Path:
    """One session with one node, or the attempt to get one."""

    def __init__(self, writer, node):
        self.writer, self.node, self.lib = writer, node, writer.library.lib
        self.context, self.ready = None, False
        self.flying = {}
        self.began = self.heard = self.asked = 0.0
        self.sent = {}
        self.connected = CALLBACK(self._connected)
        self.completed = CALLBACK(self._completed)
        self.nop_answered = CALLBACK(self._nop_answered)
        self.broken = None
        self.keys = 0

    def connect(self):
        self.began = time.monotonic()
        self.context = ctypes.c_void_p(self.lib.iscsi_create_context(self.writer.name.encode()))
        self.lib.iscsi_set_targetname(self.context, self.writer.world.target.encode())
        self.lib.iscsi_set_session_type(self.context, 2)
        self.lib.iscsi_set_header_digest(self.context, 1)
        self.lib.iscsi_set_noautoreconnect(self.context, 1)
        self.broken = None
        if self.lib.iscsi_full_connect_async(self.context, self.node.portal.encode(), self.writer.volume.lun,
                                             self.connected, None) != 0:
            self.broken = "no connection"

    def drop(self):
        """What was under way comes back to the writer, to go another way."""
        context, self.context, self.ready = self.context, None, False
        if context:
            self.writer.broken_paths += 1
            self.lib.iscsi_destroy_context(context)
        for operation in self.flying.values():
            self.writer.waiting.append(operation)
        self.flying, self.sent = {}, {}

    def keep(self, now):
        """Connects, asks whether the node is there, lets go of a path that is silent."""
        if self.context is None:
            if now - self.began > 0.1:
                self.connect()
            return
        oldest = min(self.sent.values(), default=now)
        if (self.broken or (not self.ready and now - self.began > CONNECT) or now - oldest > PATIENCE
                or (self.ready and now - self.heard > SILENCE)):
            self.drop()
        elif self.ready and now - self.asked > 1.0:
            self.asked = now
            if self.lib.iscsi_nop_out_async(self.context, self.nop_answered, None, 0, None) != 0:
                self.broken = "no NOP-Out"

    def submit(self, operation):
        self.keys += 1
        lba, lun = operation.block * (BLOCK // SECTOR), self.writer.volume.lun
        if operation.data:
            task = self.lib.iscsi_write16_task(self.context, lun, lba, operation.data, BLOCK, SECTOR, 0, 0, 0, 0, 0,
                                               self.completed, self.keys)
        else:
            task = self.lib.iscsi_read16_task(self.context, lun, lba, BLOCK, SECTOR, 0, 0, 0, 0, 0, self.completed, self.keys)
        if not task:
            self.broken = "no task"
            self.writer.waiting.append(operation)
            return
        self.flying[self.keys] = operation
        self.sent[self.keys] = time.monotonic()

    def service(self, events):
        if self.context and self.lib.iscsi_service(self.context, events) != 0:
            self.broken = "service"

    def _connected(self, _, status, __, ___):
        self.ready, self.heard = status == GOOD, time.monotonic()
        if not self.ready:
            self.broken = "login"

    def _nop_answered(self, _, status, __, ___):
        if status == GOOD:
            self.heard = time.monotonic()

    def _completed(self, _, status, task, key):
        if self.context is None:
            return  # it is being let go of; drop() has what was under way
        operation = self.flying.pop(key, None)
        self.sent.pop(key, None)
        try:
            if operation:
                self._judge(operation, status, task)
        except Exception as error:
            self.writer.problem = self.writer.problem or str(error)
        if task:
            self.lib.scsi_free_scsi_task(task)

    def _judge(self, operation, status, task):
        if status != CANCELLED:
            self.heard = time.monotonic()
        if status == GOOD:
            done = ctypes.cast(task, ctypes.POINTER(scsi_client.Task)).contents
            data = b"" if operation.data else ctypes.string_at(done.datain.data, done.datain.size)
            self.writer.done(operation, data, self.node)
            return
        self.writer.waiting.append(operation)
        key = 0
        if status == CHECK_CONDITION:
            key = ctypes.cast(task, ctypes.POINTER(scsi_client.Task)).contents.sense.key
        self.writer.unit_attentions += key == scsi_client.UNIT_ATTENTION
        if status not in (BUSY, TASK_SET_FULL) and key != scsi_client.UNIT_ATTENTION:
            self.broken = f"status {status:X}h, sense key {key:X}h"


class Writer:
    def __init__(self, world, volume, folder, seed):
        self.world, self.volume, self.library = world, volume, Library()
        self.name = "iqn.2026-11.io.lockstep.lab:writer"
        self.random = random.Random(seed)
        self.blocks = volume.size // BLOCK
        self.newest = [0] * self.blocks  # generations that were sent
        self.holds = [(0,) * (BLOCK // SECTOR)] * self.blocks  # what was acknowledged, or found since, sector by sector
        self.given_up = {}  # what was sent last of a block, and never again, before its next read or write
        self.busy, self.waiting = set(), []
        self.paths = [Path(self, node) for node in world.nodes]
        self.record = os.open(folder / "acknowledged.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.writes = self.reads = 0
        self.broken_paths = self.unit_attentions = 0
        self.acknowledged = []  # when, of the writes since forget_times()
        self.longest = 0.0  # the longest write since then
        self.problem = None
        self.going = self.forgetting = self.ending = False
        self.thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        self.thread.join(30)
        os.close(self.record)

    # ---- what the test says and asks ----

    def go(self):
        self.going = True

    def pause(self, seconds=120):
        """No new operation; returns when all that were begun are acknowledged."""
        self.going = False
        wait_for("the writer's last operations to be acknowledged", self.quiet, seconds)
        self.check()

    def quiet(self):
        return self.problem or not self.busy

    def give_up(self):
        """As a host that lost its power, too: what is under way is never sent again."""
        self.going, self.forgetting = False, True
        wait_for("the writer to give up", lambda: not self.forgetting, 20)
        self.check()

    def check(self):
        check(self.problem is None and self.thread.is_alive(), f"the writer: {self.problem}")

    def wait_writes(self, more, seconds=60):
        begun = self.writes
        wait_for(f"{more} more acknowledged writes", lambda: self.problem or self.writes >= begun + more, seconds)
        self.check()

    def wait_older_than(self, moment, seconds=60):
        """Until what was begun before that moment is acknowledged."""
        def none_left():
            under_way = [o for path in self.paths for o in list(path.flying.values())] + list(self.waiting)
            return self.problem or all(operation.begun > moment for operation in under_way)
        wait_for("what was under way to be acknowledged", none_left, seconds)
        self.check()

    def forget_times(self):
        self.acknowledged, self.longest = self.acknowledged[-1:], 0.0

    def gap(self, since, until=None):
        """The longest time without an acknowledgement that ended after `since`; one that lasts counts."""
        times = [t for t in list(self.acknowledged) if until is None or t <= until] + [until or time.monotonic()]
        return max((later - sooner for sooner, later in zip(times, times[1:]) if later >= since), default=0.0)

    def read_back(self, node, piece=64):
        """Reads every block through one node, while nothing is under way."""
        check(not self.busy, "nothing is under way")
        initiator = scsi_client.Initiator(self.world, node, self.volume, f"reader-{node.side}", isid=7)
        for first in range(0, self.blocks, piece):
            sectors = BLOCK // SECTOR
            cdb = struct.pack(">BBQIBB", 0x88, 0, first * sectors, piece * sectors, 0, 0)
            data = initiator.good(cdb, read=piece * BLOCK).data
            for number in range(piece):
                self.found(first + number, data[number * BLOCK:(number + 1) * BLOCK], node)
        initiator.close()

    # ---- the thread ----

    def _guarded(self):
        try:
            while not self.ending and not self.problem:
                self._turn()
        except Exception as error:
            self.problem = self.problem or f"{type(error).__name__}: {error}"
        for path in self.paths:
            path.drop()

    def _turn(self):
        now = time.monotonic()
        if self.forgetting:
            for path in self.paths:
                path.drop()  # all that was begun waits then
            self.given_up.update({operation.block: operation.generation for operation in self.waiting if operation.data})
            self.waiting, self.busy = [], set()
            self.forgetting = False
        poll, by_handle = select.poll(), {}
        for path in self.paths:
            path.keep(now)
            if path.ready and not path.broken:
                self._fill(path)
            if path.context and (handle := path.lib.iscsi_get_fd(path.context)) >= 0:
                by_handle[handle] = path
                poll.register(handle, path.lib.iscsi_which_events(path.context))
        for handle, events in poll.poll(10) if by_handle else time.sleep(0.01) or []:
            by_handle[handle].service(events)

    def _fill(self, path):
        while len(path.flying) < DEPTH and not path.broken:
            if self.waiting:
                path.submit(self.waiting.pop())
            elif self.going and not self.forgetting:
                path.submit(self._choose())
            else:
                return

    def _choose(self):
        while True:
            block = self.random.randrange(HOT_BLOCKS if self.random.random() < 0.3 else self.blocks)
            if block not in self.busy:
                break
        self.busy.add(block)
        if self.random.randrange(100) < READ_PERCENT:
            return Operation(block, 0, None)
        self.newest[block] += 1
        os.write(self.record, b"s %d %d\n" % (block, self.newest[block]))
        return Operation(block, self.newest[block], stamped(block, self.newest[block]))

    def done(self, operation, data, node):
        block = operation.block
        if operation.data:
            os.write(self.record, b"a %d %d\n" % (block, operation.generation))
            self.holds[block] = (operation.generation,) * (BLOCK // SECTOR)
            self.given_up.pop(block, None)
            now = time.monotonic()
            self.acknowledged.append(now)
            self.longest = max(self.longest, now - operation.begun)
            self.writes += 1
        else:
            self.found(block, data, node)
            self.reads += 1
        self.busy.discard(block)

    def found(self, block, data, node):
        """What a read found is what every later one must find. Nothing larger than a sector is written as one: of what was
        sent and never acknowledged there may be some sectors."""
        check(len(data) == BLOCK, f"a read of block {block} through node {node.side} gave {len(data)} bytes")
        generations, held, sent = generations_of(data, block), self.holds[block], self.given_up.get(block)
        allowed = all(found in (was, sent or was) for found, was in zip(generations, held))
        check(allowed, f"block {block} read through node {node.side} holds generations {generations}; acknowledged, or read "
                       f"before, were {held}" + (f", and {sent} was sent" if sent else ""))
        self.holds[block] = generations
        self.given_up.pop(block, None)
