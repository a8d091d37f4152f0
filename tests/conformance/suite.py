"""iscsi-test-cu, one test a process: what there is to run, how it is run, what its output means."""
import collections
import os
import re
import signal
import subprocess
import time

WANTED = """Inquiry Mandatory ReadCapacity10 ReadCapacity16 Read6 Read10 Read12 Read16 Write10 Write12 Write16 WriteSame10
 WriteSame16 Unmap TestUnitReady ReportSupportedOpcodes iSCSIcmdsn iSCSIdatasn iSCSISendTargets iSCSINop iSCSICHAP""".split()

Result = collections.namedtuple("Result", "name verdict reason seconds profile", defaults=[""])
COMES_AGAIN = 2  # seconds


class Failed(Exception):
    pass


def list_tests():
    """Families in the program's order, each with its tests."""
    listed = subprocess.run(["iscsi-test-cu", "-l"], capture_output=True, text=True, timeout=30)
    families = collections.OrderedDict()
    for line in listed.stdout.splitlines():
        parts = line.strip().split(".")
        if len(parts) == 3 and parts[0] == "ALL":
            families.setdefault(parts[1], []).append(parts[2])
    if not families:
        raise Failed("iscsi-test-cu -l lists no tests")
    return families


def judge(output, code, timed_out, seconds_allowed):
    """What a test's output means. Its own log stands between 'Test: X ...' and 'passed' or 'FAILED' at a line's start."""
    if timed_out:
        return "failed", f"not over within {seconds_allowed} s"
    counts = re.search(r"^\s+tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", output, re.M)
    if not counts or int(counts[2]) != 1:
        lines = [line for line in output.splitlines() if line.strip()]
        return "failed", f"did not run (exit code {code}): {lines[-1].strip() if lines else 'no output'}"
    body = re.split(r"^\s*Test: .*?\.\.\.", output, maxsplit=1, flags=re.M)[-1]
    body, verdict, rest = re.split(r"^(passed|FAILED)", body, maxsplit=1, flags=re.M)
    log = [line.strip() for line in body.splitlines() if line.strip()]
    if verdict == "FAILED" or int(counts[4]) != 0:
        wrong = [line for line in log if "[FAILED]" in line or "[FAILURE]" in line]
        asserts = re.findall(r"^\s+\d+\. (.*)", rest, re.M)
        return "failed", (wrong or asserts or ["no reason given"])[0]
    last = log[-1] if log else ""
    if "[SKIPPED]" in last or re.search(r"[Ss]kipping test", last):
        return "skipped", last.replace("[SKIPPED]", "").strip()
    return "passed", ""


def start_test(command, seconds):
    """Its output, code, and whether it was ended for want of time."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    timed_out = False
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0]
    return output.decode(errors="replace"), process.returncode, timed_out


def is_told_to_come_again(text):
    """While the reservation of a session that has just ended is being ended on both nodes, its first TEST UNIT READY is
    answered with BUSY; and where the test before reset the unit through one path, the first command of the other has a unit
    attention. A host comes again; this program takes it as the end before its test has begun."""
    told = "Login Failed. BUSY" in text or "UNIT_ATTENTION(0x06)" in text
    return told and not re.search(r"^\s*Test: ", text, re.M)


def run_test(family, test, urls, seconds, logs, profile=""):
    command = ["iscsi-test-cu", "--dataloss", "--allow-sanitize", "--Verbose-scsi", "--test", f"ALL.{family}.{test}", *urls]
    began = time.monotonic()
    text, code, timed_out = start_test(command, seconds)
    while is_told_to_come_again(text) and time.monotonic() - began < COMES_AGAIN:
        text, code, timed_out = start_test(command, seconds)
    verdict, reason = judge(text, code, timed_out, seconds)
    if verdict == "failed":
        (logs / f"{profile}.{family}.{test}.log").write_text(text)
    return Result(f"{family}.{test}", verdict, reason, time.monotonic() - began, profile)


def tool(name, family, command, expect):
    """One of libiscsi's other programs, for what Debian's iscsi-test-cu has no test of."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        good, reason = expect(done.returncode, done.stdout, done.stderr)
    except subprocess.TimeoutExpired:
        good, reason = False, "not over within 30 s"
    return Result(f"{family}.{name}", "passed" if good else "failed", "" if good else reason, time.monotonic() - began)


def own_tests(target):
    """SendTargets and CHAP by iscsi-ls and iscsi-inq."""
    def shows(code, out, err):
        return target.iqn in out and target.portal.split(":")[0] in out, f"exit code {code}: {(out + err).strip()[-200:]}"

    def refused(code, out, err):
        return "LOCKSTEP" not in out and "Login Failed" in out + err, f"let in, exit code {code}"

    def let_in(code, out, err):
        return "Vendor:LOCKSTEP" in out, f"exit code {code}: {(out + err).strip()[-200:]}"

    yield tool("ListsTheTarget", "Discovery", ["iscsi-ls", f"iscsi://{target.portal}"], shows)
    if target.chap_lun is not None:
        host, iqn, lun = target.portal, target.iqn, target.chap_lun
        initiator = ["-i", "iqn.2026-11.io.lockstep:chap-initiator"]
    elif target.chap_portal:
        host, iqn, lun, initiator = target.chap_portal, target.chap_iqn, 0, []
    else:
        return
    user, secret = target.chap
    for name, login, expect in (("RightSecret", f"{user}%{secret}@", let_in),
                                ("WrongSecret", f"{user}%{secret[:-1]}X@", refused),
                                ("WrongName", f"{user}2%{secret}@", refused),
                                ("NoSecret", "", refused)):
        yield tool(name, "CHAP", ["iscsi-inq", *initiator, f"iscsi://{login}{host}/{iqn}/{lun}"], expect)


def self_test():
    """The judge must be able to say each of its verdicts."""
    def said(body, word, bad, tail=""):
        return (f"Suite: S\n  Test: T ...\n    Test of T\n{body}\n{word}{tail}    Send PRIN\n"
                f"    [SKIPPED] PERSISTENT RESERVE IN is not implemented.\n\n               tests      1      1      {1 - bad}"
                f"      {bad}        0\n")
    cases = [(said("    [OK] GOOD", "passed", 0), "passed"),
             (said("    [SKIPPED] Not here.", "passed", 0), "skipped"),
             (said("    [SKIPPED] LUN too small. Skipping assert\n    [OK] GOOD", "passed", 0), "passed"),
             (said("    [FAILED] Wrong", "FAILED", 1, "\n    1. x.c:1  - CU_ASSERT\n"), "failed"),
             ("Failed to connect to SCSI device 0\n", "failed")]
    return all(judge(text, 0, False, 1)[0] == verdict for text, verdict in cases) and judge("", 0, True, 1)[0] == "failed"
