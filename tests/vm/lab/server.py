"""A server as an operator has it: Debian with systemd as its first process, on a disk that it keeps over its boots."""
import time

from harness import Failed, check, wait_for
from lab import image, machine
from lab.remote import Remote

PROGRAMS = ("mgmt/main/lockstepd", "mgmt/main/lockstep-mgmtd", "ui-api/cli/lockstep")
BOOT_SECONDS = 600  # most of it is for a busy host
MEMORY_MIB, OTHER_MIB = 1024, 256
# What seccomp refuses with an error is logged, too: by itself only what it kills for is.
KERNEL_LINE = "lab.root=/dev/vda lab.share=1 lab.init=/lab/tests/vm/guest/server SYSTEMD_LOG_SECCOMP=1 panic=0"


def package(build, folder):
    """The DEB of a build folder."""
    image.run("the package", "cpack", "-G", "DEB", "-B", folder, cwd=build, seconds=600)
    return next(folder.glob("*.deb"))


def root(kernel, build):
    """Debian with systemd and what the package depends on, so that it can be installed without a network."""
    made = image.Root("server", kernel, image.packages_of("server") + image.libraries_of(
        *(build / program for program in PROGRAMS)), 2048)
    made.make()
    return made.path


class Server(Remote):
    """Beside its own it has two disks that hold nothing, /dev/vdb and /dev/vdc."""

    name = "the server"

    def __init__(self, kernel, root_image, work, network):
        self.kernel, self.work, self.network = kernel, work, network
        self.address = network.addresses["a"]
        self.share, self.disk = work / "share", work / "root.qcow2"
        self.others = [work / "other-1.img", work / "other-2.img"]
        self.share.mkdir()
        image.run("the server's disk", "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", root_image, self.disk)
        for other in self.others:
            with open(other, "wb") as f:
                f.truncate(OTHER_MIB << 20)
        self.machine, self.boots = None, 0

    def power_on(self):
        self.boots += 1
        self.machine = machine.Machine(
            self.kernel, self.work / f"console-{self.boots}", MEMORY_MIB, own_clock=False,
            line=f"{KERNEL_LINE} server.address={self.address}",
            extra=[*machine.disk(self.disk, "root", format="qcow2"), *machine.disk(self.others[0], "vdb"),
                   *machine.disk(self.others[1], "vdc"),
                   "-netdev", f"tap,id=net0,ifname={self.network.taps['a']},script=no,downscript=no",
                   "-device", "virtio-net-pci,netdev=net0",
                   *machine.share(image.REPO, "lab", read_only=True), *machine.share(self.share, "host")])
        self.machine.start()
        wait_for("the server to boot", self.answers, BOOT_SECONDS, 0.5)

    def answers(self):
        check(self.machine.running(), f"the server ended: {self.machine.output()[-1500:]}")
        return self.reached()

    def reboot(self):
        """By systemd, with all that it stops; gives how long the stop took."""
        begun = time.monotonic()
        self.run("systemctl", "reboot", "--no-block")
        check(self.machine.wait(BOOT_SECONDS), f"the server goes down: {self.machine.output()[-1500:]}")
        took = time.monotonic() - begun
        self.power_on()
        return took

    def close(self):
        if self.machine and self.machine.running():
            self.machine.kill()

    # ---- what it is asked ----

    def shell(self, script, may_fail=False):
        answer = self.ask({"run": ["bash", "-c", script], "seconds": 300}, seconds=320)
        if answer["code"] != 0 and not may_fail:
            raise Failed(f"{self.name}: {script} ended with {answer['code']}: {answer['output'].strip()[-1500:]}")
        return answer if may_fail else answer["output"]

    def show(self, unit, name):
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()
