"""Encrypted volumes: nothing readable on the disks, whatever dies; CRYPTOGRAPHIC ERASE; a node without its key."""
import pathlib
import shutil
import struct

from harness import MIB, Failed, RpcError, Volume, World, Writer, check, check_verifier
from scsi_client import BLOCK, GOOD, Initiator
from test_grow import LARGE, room, wait_served, want

SECRET = b"payroll-of-2026!"
SANITIZE, CRYPTOGRAPHIC_ERASE = 0x48, 3


def files(node, volume):
    return pathlib.Path(node.data(volume)), pathlib.Path(node.metadata(volume))


class Host(Initiator):
    def write_secret(self, block):
        answer = self.send(struct.pack(">BBIBHB", 0x2A, 0, block, 0, 1, 0), out=SECRET * (BLOCK // len(SECRET)))
        check(answer.status == GOOD, f"block {block} is written through node {self.node.side}: {answer}")

    def has_secret(self, block):
        return self.read(block).data == SECRET * (BLOCK // len(SECRET))

    def erase(self):
        self.good(bytes([SANITIZE, CRYPTOGRAPHIC_ERASE, 0, 0, 0, 0, 0, 0, 0, 0]))


def in_sync(w, volume):
    for node in w.nodes:
        node.wait_state(volume, "in_sync", seconds=60)


def test_nothing_readable_is_on_either_disk_and_both_nodes_read_it():
    with World() as w:
        volume = w.mirror(encrypted=True)
        a, b = Host(w, w.a, volume, "a", isid=1), Host(w, w.b, volume, "b", isid=2)
        for block in range(0, 64, 2):
            (a if block % 4 else b).write_secret(block)
        check(all(host.has_secret(block) for host in (a, b) for block in range(0, 64, 2)), "both nodes read it back")
        check(a.read(1).data == bytes(BLOCK), "what was never written is zeros")
        kept = []
        for node in w.nodes:
            data, metadata = files(node, volume)
            kept.append(data.read_bytes()[:64 * BLOCK])
            for path in (data, metadata, node.folder / "node.key"):
                check(SECRET not in path.read_bytes(), f"{path} has what was written in it")
            check((node.folder / "node.key").stat().st_mode & 0o777 == 0o600, "nobody else reads the node's key")
        check(kept[0] != kept[1], "each copy has a key of its own")


def test_what_was_acknowledged_is_there_after_either_node_died_and_came_back():
    with World() as w:
        volume = w.mirror(encrypted=True)
        writer = Writer(w, volume, w.nodes)
        writer.wait_writes(500)
        w.a.kill()
        w.b.wait_state(volume, "solo")
        writer.wait_writes(500)
        w.a.restart()
        in_sync(w, volume)
        writer.wait_writes(500)
        w.b.kill()
        w.a.wait_state(volume, "solo")
        writer.wait_writes(500)
        w.b.restart()
        in_sync(w, volume)
        writer.stop()
        for node in w.nodes:
            read = w.run(*w.verifier("--portal", node.portal, "--lun", volume.lun, "--verify", writer.log), seconds=120)
            check_verifier(read.returncode, f"reading back through node {node.side}: {read.stdout}")


def test_a_cryptographic_erase_through_either_node_ends_what_was_there_on_both():
    for through in ("a", "b"):
        with World() as w:
            volume = w.mirror(encrypted=True)
            a, b = Host(w, w.a, volume, "a", isid=1), Host(w, w.b, volume, "b", isid=2)
            a.write_secret(8)
            copies = {}
            for node in w.nodes:
                data, metadata = files(node, volume)
                copies[node.side] = data.read_bytes()
                shutil.copy(metadata, metadata.with_suffix(".old"))
            (a if through == "a" else b).erase()
            for host in (a, b):
                check(host.read(8).data == bytes(BLOCK), f"node {host.node.side} reads zeros")
            for node in w.nodes:
                data, metadata = files(node, volume)
                old = metadata.with_suffix(".old").read_bytes()[240:240 + 88]  # the sealed key, engine/metadata/format.md
                check(any(old[16:]), "there was a key")
                check(old[16:] not in metadata.read_bytes(), f"node {node.side} has no trace of the old key")
                check(data.stat().st_blocks * 512 < MIB, f"node {node.side} has the space back")
            b.write_secret(9)
            w.kill_both_and_start_again()
            in_sync(w, volume)
            again = Host(w, w.a, volume, "a", isid=3)
            check(again.has_secret(9) and not again.has_secret(8), "the new key is kept, the old data is gone")
            # Even with the old blocks put back nothing can be read of them.
            for node in w.nodes:
                node.kill()
            for node in w.nodes:
                data, _ = files(node, volume)
                with open(data, "r+b") as f:
                    f.write(copies[node.side][:16 * BLOCK])
            w.start_both()
            in_sync(w, volume)
            for node in w.nodes:
                check(not Host(w, node, volume, "late", isid=4).has_secret(8), "the old key was not destroyed")


def test_it_grows_and_is_erased_and_keeps_its_key_through_both():
    with World() as w:
        volume = w.mirror(encrypted=True)
        Host(w, w.a, volume, "host").write_secret(8)
        for size in (LARGE, LARGE + 64 * MIB):
            room(w, volume, size)
            want(w, volume, size)
            wait_served(w, volume, size)
            host = Host(w, w.b, volume, "host", isid=2)
            check(host.has_secret(8), "what was there is there")
            host.erase()
            check(host.read(8).data == bytes(BLOCK), "until it is erased")
            for block in (8, size // BLOCK - 1):
                host.write_secret(block)
            w.kill_both_and_start_again()
            in_sync(w, volume)
            for node in w.nodes:
                again = Host(w, node, volume, "again", isid=3)
                check(again.has_secret(8) and again.has_secret(size // BLOCK - 1), f"node {node.side} reads all of it")


def test_volumes_that_are_not_encrypted_know_no_cryptographic_erase():
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("plain", 0, 16 * MIB, mirrored=False))
        w.a.create(volume)
        w.a.apply_cleanly()
        host = Host(w, w.a, volume, "host")
        host.write_secret(3)
        answer = host.send(bytes([SANITIZE, CRYPTOGRAPHIC_ERASE, 0, 0, 0, 0, 0, 0, 0, 0]))
        check((answer.key, answer.ascq) == (5, 0x2400), f"it is refused: {answer}")
        check(host.has_secret(3), "and nothing is lost")


def test_a_volume_of_one_node_keeps_its_new_key_over_a_restart():
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("single", 0, 16 * MIB, mirrored=False, encrypted=True))
        w.a.create(volume)
        w.a.apply_cleanly()
        host = Host(w, w.a, volume, "host")
        host.write_secret(3)
        for _ in range(3):
            host.erase()
            check(host.read(3).data == bytes(BLOCK), "zeros are left")
            host.write_secret(4)
        w.a.kill()
        w.a.restart()
        check(Host(w, w.a, volume, "again").has_secret(4), "what was written after the erase is there")
        check(SECRET not in files(w.a, volume)[0].read_bytes(), "and encrypted")


def test_a_node_without_its_key_says_so_and_the_partner_serves_on():
    with World() as w:
        volume = w.mirror(encrypted=True)
        Host(w, w.b, volume, "b", isid=2).write_secret(5)
        w.a.kill()
        w.b.wait_state(volume, "solo")
        key = w.a.folder / "node.key"
        kept = key.rename(key.with_suffix(".kept"))
        for content, said in ((None, "missing"), (b"nonsense", "has 8 bytes"), (bytes(64), "damaged")):
            if content is not None:
                key.write_bytes(content)
            w.a.start()
            problems = w.a.apply()["problems"]
            check([p["object"] for p in problems] == ["volume vm1"] and str(key) in problems[0]["message"]
                  and said in problems[0]["message"], f"the problem is named: {problems}")
            check(Host(w, w.b, volume, "b", isid=2).has_secret(5), "the partner serves")
            w.a.kill()
        w.b.kill()
        other = (w.b.folder / "node.key").read_bytes()
        key.write_bytes(other)
        w.a.start()
        problems = w.a.apply()["problems"]
        check("another" in problems[0]["message"] or "this node's is" in problems[0]["message"], f"{problems}")
        w.a.kill()
        kept.rename(key)
        w.start_both()
        in_sync(w, volume)
        check(Host(w, w.a, volume, "a", isid=1).has_secret(5), "with its key it is in again")


def test_a_copy_that_is_not_what_the_volume_is_meant_to_be_is_not_served():
    with World(nodes=1, witness=False) as w:
        volume = w.add(Volume("single", 0, 16 * MIB, mirrored=False, encrypted=True))
        w.a.create(volume)
        volume.encrypted = False
        problems = w.a.apply()["problems"]
        check("is encrypted" in problems[0]["message"], f"{problems}")
        plain = w.add(Volume("plain", 1, 16 * MIB, mirrored=False))
        w.a.create(plain)
        volume.encrypted = plain.encrypted = True
        problems = w.a.apply()["problems"]
        check(len(problems) == 1 and "is not encrypted" in problems[0]["message"], f"{problems}")
        try:
            w.a.create(plain)
        except RpcError as refused:
            check("made differently" in str(refused), str(refused))
        else:
            raise Failed("a replica made otherwise is taken for the same")
