"""Disks in the guest's memory: null_blk devices that keep what they are given."""
import contextlib
import pathlib

from initiator import run

CONFIG = pathlib.Path("/sys/kernel/config")


def put(path, text):
    pathlib.Path(path).write_text(text)


@contextlib.contextmanager
def null_disks(count, mib, delay_ms=0):
    """The device nodes of so many, which take so long for each command."""
    run("modprobe", "null_blk", "nr_devices=0")
    if not (CONFIG / "nullb").exists():
        run("mount", "-t", "configfs", "configfs", CONFIG)
    folders = [CONFIG / f"nullb/disk{n}" for n in range(count)]
    for folder in folders:
        folder.mkdir()
        answers = (("irqmode", 2), ("completion_nsec", delay_ms * 1_000_000)) if delay_ms else (("irqmode", 0),)
        for name, value in (("size", mib), ("memory_backed", 1), ("blocksize", 512), *answers, ("power", 1)):
            put(folder / name, str(value))
    try:
        yield [f"/dev/{folder.name}" for folder in folders]
    finally:
        for folder in folders:
            put(folder / "power", "0")
            folder.rmdir()
