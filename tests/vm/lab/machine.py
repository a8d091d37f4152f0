"""A virtual machine: Debian's kernel under qemu's software emulation. Its console goes to a file.

A guest that is alone has a clock that counts instructions (2 ns each), not the host's seconds: on a busy host it is slow,
but its time limits, leases and pauses mean the same as on an idle one. While the guest idles its clock runs with the
host's. Machines that talk to each other share the host's clock instead."""
import ctypes
import functools
import mmap
import pathlib
import signal
import subprocess
import time

# Without tsc=reliable the kernel may fall back to HPET, ten times slower to read. Its check of the timer, which wants ten
# ticks within a moment, fails without reason on a busy host.
KERNEL_LINE = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off tsc=reliable no_timer_check"


@functools.cache
def clock_khz():
    """How fast this processor's time stamp counter counts: a machine that shares it is told so. By itself it would find out
    while it boots, and on a busy host be wrong by a multiple; then no lease in it lasts as long as it should."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("0f31" "48c1e220" "4809d0" "c3"))  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def now():
        """Nanoseconds and count of one moment: the closest of many pairs."""
        readings = [(time.monotonic_ns(), counter(), time.monotonic_ns()) for _ in range(100)]
        return min(((after - before, before, count) for before, count, after in readings))[1:]
    (begun, first), _, (ended, last) = now(), time.sleep(0.2), now()
    return (last - first) * 1_000_000 // (ended - begun)


class Machine:
    """One qemu. `extra` are further qemu arguments; `line` is appended to the kernel's command line."""

    def __init__(self, kernel, console, memory_mib=1024, line="", extra=(), own_clock=True):
        clock = ["-icount", "shift=1,sleep=on", "-rtc", "clock=vm"] if own_clock else []
        line = line if own_clock else f"tsc_early_khz={clock_khz()} {line}"
        self.console = pathlib.Path(console)
        self.command = [
            "qemu-system-x86_64", "-M", "q35", "-accel", "tcg", *clock, "-cpu", "max", "-m", f"{memory_mib}",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{self.console}", "-device", "virtio-rng-pci",
            "-kernel", str(kernel.image), "-initrd", str(kernel.initrd), "-append", f"{KERNEL_LINE} {line}", *map(str, extra)]
        self.process = None

    def start(self):
        log = open(self.console.with_suffix(".qemu"), "wb")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def wait(self, seconds):
        """True if the machine ended by itself in time."""
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.running():
            self.process.send_signal(signal.SIGTERM)
            if not self.wait(5):
                self.kill()

    def output(self):
        """What the guest printed, and what qemu complained of."""
        texts = [path.read_text(errors="replace").replace("\r", "") for path in
                 (self.console, self.console.with_suffix(".qemu")) if path.exists()]
        return "".join(texts)

    def wait_line(self, text, seconds):
        """Waits until the console holds a text; gives False when it never comes or the machine ends before."""
        deadline = time.monotonic() + seconds
        while text not in self.output():
            if time.monotonic() > deadline or not self.running():
                return text in self.output()
            time.sleep(0.2)
        return True


def disk(path, name, **options):
    """A virtio disk; the guest sees disks in the order of the arguments."""
    settings = {"if": "none", "id": name, "format": "raw", "cache": "unsafe", "file": path, **options}
    drive = ",".join(f"{key}={value}" for key, value in settings.items())
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name}"]


def share(path, tag, read_only=False):
    more = ",readonly=on" if read_only else ""
    return ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{more}"]
