"""The package on a server that systemd runs: installed, confined, killed, rebooted, upgraded and removed.

LOCKSTEP_VM_PACKAGE names a DEB to try instead of the build's."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import time

from harness import REPO, check, wait_for
from lab.pair import Network
from lab.server import Server, package, root

WHERE = "host"
UNITS = ("lockstepd", "lockstep-mgmtd")
ELSEWHERE = "/srv/disks/volumes"
# systemd refuses clone3 to whoever may not make namespaces: seccomp can't look into its arguments. glibc takes clone then.
CLONE3 = 435
EXPOSURE = 3.0


def install(s):
    """As docs/operator/getting-started.md says; nothing comes from a network."""
    return s.shell("DEBIAN_FRONTEND=noninteractive apt-get install -qy --reinstall /host/lockstep.deb 2>&1")


def lockstep(s, *command):
    return s.run("lockstep", *command)


def process(s, unit):
    return s.show(unit, "MainPID")


def active(s):
    return [unit for unit in UNITS if s.show(unit, "ActiveState") == "active"]


def enabled(s):
    return [unit for unit in UNITS if s.shell(f"systemctl is-enabled {unit}", may_fail=True)["output"].strip() == "enabled"]


def check_runs(s, when):
    check(active(s) == list(UNITS), f"{when}: only {active(s)} run: {journal(s)}")


def journal(s, *options, lines=20):
    units = [part for unit in UNITS for part in ("-u", unit)]
    return s.run("journalctl", "--no-pager", "-q", "-b", "-o", "cat", "-n", lines, *units, *options)


def set_option(s, name, value, file="mgmtd"):
    """Takes the # off an option of a shipped file, or changes it."""
    s.shell(f"sed -i -E 's|^#?({name}) = .*|\\1 = {value}|' /etc/lockstep/{file}.toml && "
            f"grep -Fqx '{name} = {value}' /etc/lockstep/{file}.toml")


def commands_of(document, heading):
    """The indented lines of a section."""
    section = (REPO / document).read_text().split(f"\n{heading}", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line.strip() for line in section.splitlines() if line.startswith("    "))


# ---- what an initiator sees ----

def tool(*command):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.returncode, done.stdout


def disk(s, *commands):
    """qemu-io's commands on the volume; whether all went well."""
    arguments = [part for command in commands for part in ("-c", command)]
    code, output = tool("qemu-io", "-f", "raw", *arguments, f"iscsi://{s.address}/iqn.2026-11.io.lockstep:pair1/0")
    return code == 0 and "failed" not in output


def holds(s, pattern):
    return disk(s, f"read -P {pattern} 1M 1M")


def check_serves(s, when, pattern=0x5A):
    """What was written is there; hosts come back by themselves, too, once the volume does."""
    wait_for(f"the volume to be served {when}", lambda: disk(s, "read 0 4k"), 60)
    check(holds(s, pattern), f"{when}: the volume does not hold what was written")


# ---- the steps ----

def installs_and_starts(s):
    install(s)
    check_runs(s, "after the installation")
    check(enabled(s) == list(UNITS), f"both start at boot: {enabled(s)}")
    health = s.shell("lockstep health", may_fail=True)
    check(health["code"] == 1 and "not in a pair yet" in health["output"], f"management answers at once: {health}")


def is_confined(s):
    for unit in UNITS:
        pid = process(s, unit)
        status = dict(line.split(":", 1) for line in s.run("cat", f"/proc/{pid}/status").splitlines())
        status = {key: value.split() for key, value in status.items()}
        user = s.run("id", "-u", "lockstep").strip()
        check(set(status["Uid"]) == {user}, f"{unit} runs as lockstep: {status['Uid']}")
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            check(int(status[name][0], 16) == 0, f"{unit} has no capability: {name} {status[name]}")
        check(status["NoNewPrivs"] == ["1"] and status["Seccomp"] == ["2"], f"{unit} is filtered")
        check(int(status["VmLck"][0]) > 0 and status["VmSwap"][0] == "0", f"{unit} is kept in memory: {status['VmLck']}")
        limits = s.run("cat", f"/proc/{pid}/limits")
        check(re.search(r"Max core file size +0 +0 ", limits), f"{unit} writes no core: {limits}")
        said = s.run("systemd-analyze", "security", "--no-pager", unit)
        exposure = float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)[1])
        check(exposure < EXPOSURE, f"{unit} is exposed at {exposure}")
        yield f"{unit} {exposure}, {int(status['VmLck'][0]) >> 10} MiB locked"
    check("may be swapped out" not in journal(s), f"no word of memory that may be swapped out: {journal(s)}")


def keeps_volumes_on_a_disk(s):
    """Mounted where they are kept anyway, as docs/operator/getting-started.md says."""
    s.shell("mkfs.ext4 -q /dev/vdb && echo '/dev/vdb /var/lib/lockstep/volumes ext4 defaults 0 2' >>/etc/fstab && "
            "systemctl daemon-reload && mount /var/lib/lockstep/volumes")
    s.shell("/usr/lib/lockstep/prepare-state && systemctl restart lockstepd lockstep-mgmtd")
    check_runs(s, "with a disk for the volumes")


def serves(s):
    set_option(s, "management_address", f'"{s.address}:8443"')
    set_option(s, "portals", f'["{s.address}:3260"]')
    set_option(s, "link_address", f'"{s.address}:3261"')
    s.run("systemctl", "restart", "lockstep-mgmtd")
    lockstep(s, "pair", "create", "pair1", "--preferred", "a")
    lockstep(s, "volume", "create", "vm1", "--size", "64MiB", "--any")
    check("vm1" in lockstep(s, "volume", "list"), "the volume is listed")
    _, found = tool("iscsi-ls", "-s", f"iscsi://{s.address}/")
    check("iqn.2026-11.io.lockstep:pair1" in found and "Lun:0" in found, f"iscsi-ls finds the volume: {found}")
    _, inquiry = tool("iscsi-inq", f"iscsi://{s.address}/iqn.2026-11.io.lockstep:pair1/0")
    check("LOCKSTEP" in inquiry, f"iscsi-inq: {inquiry}")
    check(disk(s, "write -P 0x5a 1M 1M", "flush") and holds(s, 0x5A), "the volume is written and read back")
    open_files = s.shell(f"readlink /proc/{process(s, 'lockstepd')}/fd/*")
    check("io_uring" in open_files, f"its disk is reached through io_uring: {open_files}")


def is_managed_at_one_address(s):
    """The command line on the node itself goes by mgmtd.toml."""
    set_option(s, "listen", f'"{s.address}:8443"')
    s.run("systemctl", "restart", "lockstep-mgmtd")
    check("vm1" in lockstep(s, "volume", "list"), "the command line finds management at that address")
    set_option(s, "listen", '"0.0.0.0:8443"')
    s.run("systemctl", "restart", "lockstep-mgmtd")


def is_started_again(s):
    before = [process(s, unit) for unit in UNITS]
    s.run("systemctl", "kill", "-s", "SIGKILL", *UNITS)
    wait_for("both to be started again", lambda: active(s) == list(UNITS) and not set(before) & {process(s, u) for u in UNITS}, 60)
    check_serves(s, "after SIGKILL")


def restarts(s):
    s.run("systemctl", "restart", *UNITS)
    check("vm1" in lockstep(s, "volume", "list"), "management answers as soon as systemctl does")
    check_serves(s, "after a restart")
    check([s.show(unit, "NRestarts") for unit in UNITS] == ["0", "0"], "one start was enough")


def leaves_no_core(s):
    """Even where cores go to a program, which their size limit does not hold back."""
    s.shell("printf '#!/bin/sh\\ncat >/var/tmp/core.$1\\n' >/run/keep-core && chmod +x /run/keep-core && "
            "echo '|/run/keep-core %e' >/proc/sys/kernel/core_pattern && mount -o remount,exec /run")
    s.shell("sh -c 'kill -SEGV $$'; true")
    wait_for("the core of another process", lambda: "core.sh" in s.run("ls", "/var/tmp"), 20)
    before = [process(s, unit) for unit in UNITS]
    s.run("systemctl", "kill", "-s", "SIGSEGV", *UNITS)
    wait_for("both to be started again", lambda: active(s) == list(UNITS) and not set(before) & {process(s, u) for u in UNITS}, 60)
    check("core.lockstep" not in s.run("ls", "/var/tmp"), "no core of either")
    check_serves(s, "after SIGSEGV")


def tells_of_a_wrong_file(s):
    s.run("cp", "/etc/lockstep/mgmtd.toml", "/root/right")
    s.shell("echo 'volume_foldr = \"/srv\"' >>/etc/lockstep/mgmtd.toml")
    restarted = s.shell("systemctl restart lockstep-mgmtd", may_fail=True)
    check(restarted["code"] != 0, "systemctl says that lockstep-mgmtd did not start")
    errors = journal(s, "-p", "err")
    check("volume_foldr" in errors, f"the journal's errors say why: {errors}")
    s.run("cp", "/root/right", "/etc/lockstep/mgmtd.toml")
    wait_for("lockstep-mgmtd to start with the file mended", lambda: active(s) == list(UNITS), 60)


def tells_levels_apart(s):
    """The journal's own levels, so that `journalctl -p warning` shows what an operator is to look at."""
    warnings = journal(s, "-p", "warning")
    check("Volume vm1 went from" in warnings, f"a warning is one: {warnings}")
    check("control socket" in journal(s, lines=500) and "control socket" not in journal(s, "-p", "warning", lines=500),
          "what is said at every start is none")


def moves_to_another_disk(s):
    """By the commands of docs/operator/volumes.md."""
    s.shell("mkfs.ext4 -q /dev/vdc && mkdir -p /srv/disks && "
            "echo '/dev/vdc /srv/disks ext4 defaults,nofail 0 2' >>/etc/fstab && systemctl daemon-reload && mount /srv/disks")
    commands = commands_of("docs/operator/volumes.md", "## Moving a node's volumes")
    check(ELSEWHERE in commands, f"the document moves them to {ELSEWHERE}: {commands}")
    s.shell(f"set -e\n{commands}")
    s.shell("umount /var/lib/lockstep/volumes && sed -i '\\|/var/lib/lockstep|d' /etc/fstab && systemctl daemon-reload")
    check_serves(s, "from another disk")
    lockstep(s, "volume", "create", "vm2", "--size", "32MiB", "--any")
    check(len(s.run("find", ELSEWHERE, "-name", "*.data").split()) == 2, f"both volumes are in {ELSEWHERE}")


def comes_back_after_a_boot(s):
    nothing_was_refused(s)
    took = s.reboot()
    wait_for("the boot to end", lambda: s.shell("systemctl is-system-running", may_fail=True)["output"].strip() != "starting", 300)
    check_runs(s, "after a boot")
    check_serves(s, "after a boot")
    first, second = (int(s.show(unit, "ActiveEnterTimestampMonotonic")) for unit in UNITS)
    check(first <= second, "lockstepd was started before lockstep-mgmtd")
    check("0 loaded units" in s.run("systemctl", "--failed", "--no-pager"), "no unit failed")
    yield f"the stop took {took:.0f} s"


def manages_without_its_disk(s):
    """A disk that is gone, or comes minutes late: the node's management says so, and nothing has to be started again."""
    s.run("systemctl", "stop", *UNITS)
    s.run("umount", "/srv/disks")
    s.run("systemctl", "start", *UNITS)
    wait_for("health to tell of the disk", lambda: "the files are missing there" in s.shell("lockstep health", may_fail=True)["output"], 60)
    pids = [process(s, unit) for unit in UNITS]
    s.run("mount", "/srv/disks")
    check_serves(s, "after its disk came late")
    check(disk(s, "write -P 0x3c 1M 1M", "flush"), "the disk that came late is written to")
    lockstep(s, "volume", "create", "vm3", "--size", "32MiB", "--any")
    check(pids == [process(s, unit) for unit in UNITS], "neither was started again")


def leaves_a_stopped_lockstepd_alone(s):
    """Whoever stopped it may have let the partner go on without it."""
    s.run("systemctl", "stop", "lockstepd")
    s.run("systemctl", "restart", "lockstep-mgmtd")
    check(active(s) == ["lockstep-mgmtd"], f"after a restart of lockstep-mgmtd: {active(s)}")
    before = process(s, "lockstep-mgmtd")
    s.run("systemctl", "kill", "-s", "KILL", "lockstep-mgmtd")
    wait_for("lockstep-mgmtd to be started again",
             lambda: process(s, "lockstep-mgmtd") != before and "lockstep-mgmtd" in active(s), 60)
    check(active(s) == ["lockstep-mgmtd"], f"after lockstep-mgmtd was killed: {active(s)}")
    s.run("systemctl", "start", "lockstepd")
    check_serves(s, "started again", 0x3C)


def is_upgraded(s):
    before = [process(s, unit) for unit in UNITS]
    install(s)
    check_runs(s, "after an upgrade")
    check(not set(before) & {process(s, unit) for unit in UNITS}, "the new programs run")
    check_serves(s, "after an upgrade", 0x3C)


def upgrade_respects_the_operator(s):
    s.run("systemctl", "disable", "--now", "lockstep-mgmtd")
    s.run("systemctl", "mask", "--now", "lockstepd")
    install(s)
    check(not active(s) and not enabled(s), f"what was disabled or masked stays so: {active(s)} {enabled(s)}")
    s.run("systemctl", "unmask", "lockstepd")
    s.run("systemctl", "enable", "--now", *UNITS)
    check_serves(s, "after an upgrade of a node out of service", 0x3C)


def upgrade_leaves_a_stopped_lockstepd_alone(s):
    s.run("systemctl", "stop", "lockstepd")
    before = process(s, "lockstep-mgmtd")
    install(s)
    check(active(s) == ["lockstep-mgmtd"] and process(s, "lockstep-mgmtd") != before,
          f"what ran is restarted, what was stopped stays so: {active(s)}")
    check(enabled(s) == list(UNITS), f"both start at boot all the same: {enabled(s)}")
    s.run("systemctl", "start", "lockstepd")
    check_serves(s, "after an upgrade beside a stopped lockstepd", 0x3C)


def upgrade_that_failed_once_starts_what_it_had_stopped(s):
    """From a version that ran as root, on a disk that is full, or went read-only."""
    s.shell("chown root /var/lib/lockstep && mount --bind /var/lib/lockstep /var/lib/lockstep && mount -o remount,bind,ro /var/lib/lockstep")
    failed = s.shell("DEBIAN_FRONTEND=noninteractive apt-get install -qy --reinstall /host/lockstep.deb 2>&1", may_fail=True)
    check(failed["code"] != 0 and not active(s), f"it stops both, and fails: {active(s)} {failed['output'][-500:]}")
    s.shell("umount /var/lib/lockstep && dpkg --configure -a")
    check_serves(s, "once the upgrade went on", 0x3C)


def is_removed(s):
    s.shell("install -m 600 /dev/null /etc/lockstep/fence.toml && systemctl enable --now lockstep-fence.socket")
    s.shell("apt-get remove -qy lockstep")
    check(s.show("lockstep-fence.socket", "ActiveState") == "inactive", "nobody listens for orders to the fence")
    check("/run/lockstep-fence.sock" not in s.run("ss", "-xl"), "nor does the kernel")
    check(s.shell("pgrep -l lockstep", may_fail=True)["code"] == 1, "no process is left")
    check([s.show(unit, "LoadState") for unit in UNITS] == ["not-found"] * 2, "no unit is left")
    check(s.run("find", ELSEWHERE, "-name", "*.data").count(".data") == 3, "the volumes are left")
    install(s)
    check_runs(s, "installed again")
    check(s.show("lockstep-fence.socket", "ActiveState") == "active", "orders to the fence are listened for again")
    s.run("systemctl", "disable", "--now", "lockstep-fence.socket")
    check(enabled(s) == list(UNITS), "installed again, both start at boot")
    check_serves(s, "installed again", 0x3C)


def is_purged(s):
    nothing_was_refused(s)
    purged = s.shell("apt-get purge -qy lockstep 2>&1")
    check("/etc/lockstep/fence.toml" in purged, f"it says that the fence's password is left: {purged}")
    s.shell("rm -r /etc/lockstep")
    check(s.shell("pgrep -l lockstep", may_fail=True)["code"] == 1, "no process is left")
    left = s.shell("find /etc /run /lib/systemd /usr/lib /var/lib/systemd -name '*lockstep*'").split()
    check(not left, f"nothing is left but data: {left}")
    check(s.run("find", ELSEWHERE, "-name", "*.data").count(".data") == 3, "the volumes are left")
    check("0 loaded units" in s.run("systemctl", "--failed", "--no-pager"), "no unit failed")


def nothing_was_refused(s):
    """Of what the daemons asked the kernel for in this boot. The journal has all that it tells, dmesg not more than some a second."""
    told = s.run("journalctl", "-q", "-b", "--no-pager", "-o", "cat", "_TRANSPORT=audit")
    refused = re.findall(r'^SECCOMP .* exe="/usr/sbin/(lockst\S+)" .*syscall=(\d+)', told, re.M)
    others = {call for call in refused if int(call[1]) != CLONE3}
    check(refused, "what is refused is told of")
    check(not others, f"system calls are refused: {others}")
    denied = s.shell("dmesg | grep -iE 'apparmor=.DENIED|avc: .denied|segfault|out of memory'", may_fail=True)["output"]
    check(not re.search("lockst", denied), f"the kernel denies: {denied}")


STEPS = (installs_and_starts, is_confined, keeps_volumes_on_a_disk, serves, is_managed_at_one_address, is_started_again,
         restarts, leaves_no_core, tells_of_a_wrong_file, tells_levels_apart, moves_to_another_disk, comes_back_after_a_boot, manages_without_its_disk, leaves_a_stopped_lockstepd_alone, is_upgraded,
         upgrade_respects_the_operator, upgrade_leaves_a_stopped_lockstepd_alone,
         upgrade_that_failed_once_starts_what_it_had_stopped, is_removed, is_purged)


def scenario(lab, work):
    given = os.environ.get("LOCKSTEP_VM_PACKAGE")
    deb = pathlib.Path(given) if given else package(lab.build, work / "package")
    notes = []
    with Network() as network, contextlib.closing(Server(lab.kernel, root(lab.kernel, lab.build), work, network)) as s:
        shutil.copy(deb, s.share / "lockstep.deb")
        begun = time.monotonic()
        s.power_on()
        print(f"\n  boots ({time.monotonic() - begun:.0f} s)", flush=True)
        for step in STEPS:
            begun = time.monotonic()
            told = list(step(s) or ())
            notes += told
            print(f"  {step.__name__.replace('_', ' ')} ({time.monotonic() - begun:.0f} s)", *told, flush=True)
    return "; ".join(notes)
