"""A replica's metadata as engine/metadata/format.md tells it, for nodes whose lockstepd only pretends."""
import struct
import uuid

BLOCK = 4096
PREFERRED_ARBITER, WITNESS_ARBITER = 2, 1
MEMBERS = {"a": 1, "b": 2, "both": 3}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return ~crc & 0xFFFFFFFF


def block(magic, slot, ids, owner, payload):
    body = magic + struct.pack(">HHQQ", 1, BLOCK, slot, 1) + b"".join(i.bytes for i in ids) + bytes([owner])
    body = (body + bytes(15) + payload).ljust(BLOCK - 4, b"\0")
    return struct.pack(">I", crc32c(body)) + body


def superblock(size, block_size, name, serial):
    regions = -(-size // 65536)
    return struct.pack(">QIIQQHH4x64s32s", size, block_size, 65536, 4 * BLOCK, -(-regions // 32000), len(name), len(serial),
                       name.encode(), serial.encode())


def epoch(size, members, arbiter, address):
    who = MEMBERS[members]
    return (struct.pack(">Q16sQBBBBHH", 3, uuid.uuid4().bytes, size, who, 1 if who == 2 else 0, arbiter, 0, 0, len(address))
            + bytes(24 + 2048) + address.encode())


def write(folder, pair, volume, side="a", name="vm1", serial=None, size=1 << 30, block_size=512, members="both", copy=1,
          arbiter=PREFERRED_ARBITER, address=""):
    """Both files; the data is a hole."""
    folder.mkdir(parents=True, exist_ok=True)
    serial = serial or volume.replace("-", "")
    ids, owner = (uuid.UUID(pair), uuid.UUID(volume), uuid.uuid4()), "ab".index(side)
    payloads = ((b"LSTEPSUP", superblock(size, block_size, name, serial)), (b"LSTEPEPO", epoch(size, members, arbiter, address)))
    base = f"{volume}.{copy}" if copy > 1 else volume
    (folder / f"{base}.meta").write_bytes(b"".join(block(magic, slot, ids, owner, payload)
                                                   for magic, payload in payloads for slot in (0, 1)))
    with open(folder / f"{base}.data", "wb") as data:
        data.truncate(size)
    return folder / f"{base}.meta"
