"""qemu-img and qemu-io write, copy and compare through both nodes, one of them killed in between."""
import os

from harness import MIB, World, check
from replicas import same_data

WHERE = "host"
SIZE = 64 * MIB


def some_image(path):
    """Data, zeroes and holes."""
    with open(path, "wb") as f:
        f.truncate(SIZE)
        for offset in (0, 7 * MIB + 512, 40 * MIB, SIZE - MIB):
            f.seek(offset)
            f.write(os.urandom(MIB))
        f.seek(20 * MIB)
        f.write(bytes(2 * MIB))
    return path


def tool(w, *command):
    done = w.run(*command, seconds=300)
    check(done.returncode == 0 and "Pattern verification failed" not in done.stdout, f"{' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


def compare(w, one, other):
    tool(w, "qemu-img", "compare", "-f", "raw", "-F", "raw", one, other)


def scenario(lab, work):
    source = some_image(work / "source.img")
    with World() as w:
        volume = w.mirror(size=SIZE)
        a, b = w.url(w.a, volume), w.url(w.b, volume)
        tool(w, "qemu-img", "info", "-f", "raw", a)
        tool(w, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, a)
        compare(w, source, b)
        tool(w, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", b, work / "back.qcow2")
        tool(w, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", source, work / "back.qcow2")
        for through, other, pattern in ((a, b, 0x5A), (b, a, 0xA5)):
            tool(w, "qemu-io", "-f", "raw", "-c", f"write -P {pattern} 3M 1M", "-c", "write -z 4M 1M", "-c", "discard 5M 1M",
                 "-c", "flush", through)
            tool(w, "qemu-io", "-f", "raw", "-c", f"read -P {pattern} 3M 1M", "-c", "read -P 0 4M 2M", other)
        w.a.kill()
        w.b.wait_state(volume, "solo", seconds=60)
        tool(w, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, b)
        w.a.restart()
        for node in w.nodes:
            node.wait_state(volume, "in_sync", seconds=120)
        compare(w, source, a)
        same_data(w, volume)
        return "convert, compare, write, write zeroes, discard through both nodes and with one away"
