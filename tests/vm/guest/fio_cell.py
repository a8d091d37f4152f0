"""One cell of a table: what fio does in some seconds, and what the whole machine's processor takes for it."""
import json
import os
import pathlib
import subprocess
import time

from harness import Failed


def busy_seconds():
    """Of this machine's processor since it booted, that it did not idle."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def fio_cell(device, how, size, depth, seconds):
    """(operations a second, microseconds of processor for each)"""
    command = ["fio", "--name=bench", f"--filename={device}", "--direct=1", "--ioengine=libaio", f"--rw={how}", f"--bs={size}",
               f"--iodepth={depth}", "--size=100%", "--time_based", "--ramp_time=1", f"--runtime={seconds}",
               "--norandommap", "--randrepeat=1", "--output-format=json"]
    busy, begun = busy_seconds(), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1200)
    took, busy = time.monotonic() - begun, busy_seconds() - busy
    if done.returncode != 0:
        raise Failed(f"fio: {done.stdout[-1000:]}")
    iops = json.loads(done.stdout)["jobs"][0]["write" if "write" in how else "read"]["iops"]
    return iops, busy / took * 1e6 / iops
