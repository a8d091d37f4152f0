"""What a guest boots: Debian's kernel, an initrd, and a root file system; made once and kept in a cache.

A root file system is Debian's minimal one (debootstrap's, shared with packaging/test-packages) and the packages asked
for, as an ext4 image that guests only read. Its name in the cache holds a digest of what it was made from, so that a
change makes a new one; images of other digests are removed then."""
import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[3]
CACHE = pathlib.Path(os.environ.get("LOCKSTEP_TEST_CACHE", "/var/cache/lockstep-test"))
BASE = pathlib.Path(os.environ.get("LOCKSTEP_DEBOOTSTRAP_CACHE", CACHE / "bookworm.tar"))
MIRROR = os.environ.get("LOCKSTEP_DEBIAN_MIRROR", "http://deb.debian.org/debian")
RECIPE = 3  # counts changes of this file that change what it makes

# Kernel modules that no scenario needs; they are most of the package.
UNUSED_MODULES = ("sound", "drivers/gpu", "drivers/media", "drivers/staging", "drivers/net/wireless", "drivers/net/ethernet",
                  "drivers/usb", "drivers/hid", "drivers/iio", "drivers/input", "drivers/bluetooth", "drivers/isdn")
# What the initrd needs to find its root.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_rng", "ext4", "crc32c_generic", "overlay", "9p", "9pnet_virtio")


class CannotBuild(Exception):
    """A step of the image failed; says which and its last lines."""


def run(what, *command, seconds=900, **more):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds, errors="replace", **more)
    if done.returncode != 0:
        raise CannotBuild(f"{what}: {command[0]} ended with {done.returncode}: " + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout


def packages_of(group):
    """The packages of a group of packaging/dependencies.txt."""
    lines = (REPO / "packaging/dependencies.txt").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[:1] == [group]]


def libraries_of(*programs):
    """The Debian packages of the shared libraries that programs need."""
    found = set()
    for program in programs:
        for line in run("ldd", "ldd", program).splitlines():
            match = re.search(r"=> (/\S+)", line)
            if match:
                found.add(os.path.realpath(match[1]))
    # Debian 12 registers some files below /lib and some below /usr/lib; what is asked for in vain is reported on stderr.
    names = sorted(found | {path.removeprefix("/usr") for path in found if path.startswith("/usr/")})
    owners = subprocess.run(["dpkg-query", "-S", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            timeout=60).stdout
    return sorted({line.split(":")[0] for line in owners.splitlines()} - {"libc6", "libgcc-s1"})


class Kernel:
    """Debian's kernel, unpacked and not installed, and an initrd that mounts a root as its command line says."""

    def __init__(self):
        depends = run("apt-cache", "apt-cache", "depends", "linux-image-amd64")
        match = re.search(r"Depends: linux-image-(\S+)", depends)
        if not match:
            raise CannotBuild("apt knows no linux-image-amd64; run apt-get update")
        self.version = match[1]
        script = hashlib.sha256((REPO / "tests/vm/guest/initrd").read_bytes()).hexdigest()[:8]
        self.folder = CACHE / f"kernel-{self.version}-{RECIPE}-{script}"
        self.image, self.initrd, self.modules = self.folder / "vmlinux", self.folder / "initrd", self.folder / "root"

    def make(self):
        if self.initrd.exists():
            return
        remove_others("kernel-*", self.folder)
        with building() as work:
            root = work / "kernel/root"
            root.mkdir(parents=True)
            run("the kernel's package", "apt-get", "download", f"linux-image-{self.version}", cwd=work, seconds=600)
            package = next(work.glob("linux-image-*.deb"))
            run("unpacking the kernel", "dpkg-deb", "-x", package, root)
            folder = root / "lib/modules" / self.version
            for unused in UNUSED_MODULES:
                shutil.rmtree(folder / "kernel" / unused, ignore_errors=True)
            run("depmod", "depmod", "-b", root, self.version)
            (work / "kernel/vmlinux").write_bytes(unpacked((root / f"boot/vmlinuz-{self.version}").read_bytes()))
            shutil.rmtree(root / "boot")
            shutil.rmtree(root / "usr", ignore_errors=True)
            self.make_initrd(work, root)
            os.rename(work / "kernel", self.folder)

    def make_initrd(self, work, root):
        tree = work / "initrd"
        for folder in ("bin", "proc", "sys", "dev", "modules", "lower", "upper", "root"):
            (tree / folder).mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        wanted = []
        for module in BOOT_MODULES:
            listing = run("modprobe", "modprobe", "-d", root, "-S", self.version, "--show-depends", module)
            for path in re.findall(r"^insmod (\S+)", listing, re.M):
                if path not in wanted:
                    wanted.append(path)
        for path in wanted:
            shutil.copy(path, tree / "modules")
        (tree / "modules/order").write_text("".join(pathlib.Path(path).name + "\n" for path in wanted))
        shutil.copy(REPO / "tests/vm/guest/initrd", tree / "init")
        (tree / "init").chmod(0o755)
        run("the initrd", "sh", "-c", "find . | cpio -o -H newc --quiet | gzip -1 > ../kernel/initrd", cwd=tree)


def unpacked(kernel):
    """The ELF file inside a bzImage (Linux' Documentation/arch/x86/boot.rst): qemu starts it at its PVH entry, and the
    guest is spared the emulated unpacking, the longest part of its boot."""
    setup_sectors = kernel[0x1F1] or 4
    offset, length = struct.unpack_from("<II", kernel, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    elf = lzma.LZMADecompressor().decompress(kernel[start:start + length])
    if elf[:4] != b"\x7fELF":
        raise CannotBuild("the kernel's package holds no ELF kernel packed with XZ")
    return elf


class Root:
    """An ext4 image with Debian, the given packages, files of this repository ({path in the root: source}), and the
    kernel's modules beyond the initrd's."""

    def __init__(self, name, kernel, packages, mib, files=None, modules=True):
        self.kernel, self.packages, self.mib, self.files = kernel, sorted(packages), mib, files or {}
        self.modules = modules
        text = f"{RECIPE} {kernel.version} {mib} {' '.join(self.packages)}"
        text += "" if modules else " no modules"
        text += "".join(f" {path} {source.read_text()}" for path, source in sorted(self.files.items()))
        self.name, self.path = name, CACHE / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.img"

    def make(self):
        if self.path.exists():
            return
        with building() as work:
            if self.path.exists():
                return
            remove_others(f"{self.name}-*.img", self.path)
            tree = work / "root"
            tree.mkdir()
            unpack_base(work, tree)
            if self.packages:
                self.install(tree)
            if self.modules:
                shutil.copytree(self.kernel.modules / "lib/modules", tree / "lib/modules", symlinks=True)
            for folder in ("host", "lab", "scratch"):
                (tree / folder).mkdir()
            for path, source in self.files.items():
                shutil.copy(source, tree / path)
                (tree / path).chmod(0o755)
            image = work / "root.img"
            run("the root's image", "mke2fs", "-q", "-F", "-t", "ext4", "-E", "root_owner=0:0", "-L", "root", "-d", tree,
                image, f"{self.mib}M")
            os.rename(image, self.path)

    def install(self, tree):
        # No daemon starts while packages are set up.
        policy = tree / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
        mounts = (("-t", "proc", "proc", tree / "proc"), ("--bind", "/dev", tree / "dev"))
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
        # In a mount namespace of its own: whatever happens, no mount is left behind.
        script = "".join("mount " + " ".join(f"'{part}'" for part in mount) + " && " for mount in mounts) + (
            f"chroot '{tree}' sh -ec 'apt-get update -q; apt-get install -qy --no-install-recommends "
            f"{' '.join(self.packages)}; apt-get clean; rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/locale/*'")
        run(f"the packages of the image {self.name}", "unshare", "--mount", "sh", "-c", script, env=environment)
        policy.unlink()


def unpack_base(work, tree):
    if not BASE.exists():
        BASE.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "debootstrap", "--variant=minbase", "bookworm", work / "base", MIRROR)
        run("the base's archive", "tar", "-C", work / "base", "-cf", work / "base.tar", ".")
        os.rename(work / "base.tar", BASE)
        shutil.rmtree(work / "base")
    run("unpacking the base", "tar", "-C", tree, "-xf", BASE)


def remove_others(pattern, but):
    for path in CACHE.glob(pattern):
        if path != but:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


class building:
    """A folder inside the cache that goes away; one builder at a time."""

    def __enter__(self):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.lock = open(CACHE / "building.lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        for left in CACHE.glob("building-*"):  # of a builder that was killed
            shutil.rmtree(left)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="building-", dir=CACHE))
        return self.folder

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.close()
