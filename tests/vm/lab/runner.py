"""Finds scenarios, runs each in a machine of its own or on the host, and judges what it left."""
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

from lab import image, machine

REPO = image.REPO
# A scenario's limit counts by the guest's clock, which a busy host slows down; the machine ends after so many times that.
BUSY_HOST = 8
PROGRAMS = ("mgmt/main/lockstepd", "tests/e2e/verifier", "tests/vm/rdma_trial", "tests/unit/engine/unit_engine")
SCENARIOS, BENCHES = REPO / "tests/vm/scenarios", REPO / "tests/bench/vm"
sys.path[:0] = [str(REPO / "tests/e2e"), str(REPO / "tests/vm/guest"), str(SCENARIOS), str(BENCHES)]
import harness  # noqa: E402


class Scenario:
    """A file of tests/vm/scenarios or tests/bench/vm. It may say WHERE ("guest" or "host"), SECONDS, MEMORY_MIB, SCRATCH_MIB."""

    def __init__(self, path):
        self.name = path.stem
        self.module = importlib.import_module(self.name)
        self.about = (self.module.__doc__ or "").strip().splitlines()[0]
        self.where = getattr(self.module, "WHERE", "guest")
        self.seconds = getattr(self.module, "SECONDS", 600)
        self.memory = getattr(self.module, "MEMORY_MIB", 1024)
        self.scratch = getattr(self.module, "SCRATCH_MIB", 2048)


def scenarios(folder=SCENARIOS):
    return [Scenario(path) for path in sorted(folder.glob("*.py"))]


class Lab:
    """What all scenarios of one run share. Programs are stripped: a guest reads them over its share."""

    def __init__(self, build, logs):
        self.build, self.logs = build, logs
        # A share's files are served by name, and the folder goes away at the end.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-vm-"))
        self.kernel = image.Kernel()
        self.root = image.Root("guest", self.kernel, image.packages_of("guest") + image.libraries_of(
            *(build / program for program in PROGRAMS)), 2048)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self):
        self.kernel.make()
        self.root.make()
        self.programs = self.folder / "programs"
        for program in PROGRAMS:
            target = self.programs / program
            target.parent.mkdir(parents=True, exist_ok=True)
            image.run("strip", "strip", "-g", "-o", target, self.build / program)
        harness.settings.build = self.programs

    def run(self, scenario):
        """Gives (status, note); what is worth keeping of a failure is in the logs' folder."""
        work = self.folder / scenario.name
        work.mkdir()
        try:
            status, note = (self.run_in_guest if scenario.where == "guest" else self.run_on_host)(scenario, work)
            if status == "failed":
                self.keep(scenario, work)
            return status, note
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def run_in_guest(self, scenario, work):
        host = work / "host"
        host.mkdir()
        subprocess.run(["cp", "-rl", self.programs, host / "build"], check=True)
        environment = {key: value for key, value in os.environ.items() if key.startswith("LOCKSTEP_VM_")}
        (host / "job.json").write_text(json.dumps({"scenario": scenario.name, "environment": environment,
                                                  "seconds": scenario.seconds}))
        scratch = work / "scratch.img"
        with open(scratch, "wb") as f:
            f.truncate(scenario.scratch << 20)
        guest = machine.Machine(
            self.kernel, work / "console", scenario.memory,
            line="lab.root=/dev/vda lab.overlay=1 lab.share=1 lab.init=/lab/tests/vm/guest/init",
            extra=[*machine.disk(self.root.path, "root", readonly="on"), *machine.disk(scratch, "scratch"),
                   *machine.share(REPO, "lab", read_only=True), *machine.share(host, "host")])
        guest.start()
        try:
            in_time = guest.wait(scenario.seconds * BUSY_HOST)
        finally:
            guest.stop()
        if getattr(scenario.module, "PRINTS", False):
            print(guest.output())
        result = host / "result.json"
        if result.exists():
            answer = json.loads(result.read_text())
            return answer["status"], answer["note"]
        return "failed", ("the guest ended without a result" if in_time else f"no end within {scenario.seconds * BUSY_HOST} s")

    def run_on_host(self, scenario, work):
        os.environ["LOCKSTEP_E2E_FOLDER"] = str(work)
        try:
            return "passed", scenario.module.scenario(self, work) or ""
        except harness.Skipped as why:
            return "skipped", str(why)
        except harness.Failed as why:
            return "failed", str(why)
        except image.CannotBuild as why:
            return "failed", str(why)
        except Exception as error:
            traceback.print_exc(file=sys.stdout)
            return "failed", f"{type(error).__name__}: {error}"

    def keep(self, scenario, work):
        self.logs.mkdir(parents=True, exist_ok=True)
        kept = []
        for found in [*work.rglob("console*"), *work.rglob("*.log")]:
            name = f"{scenario.name}-{'-'.join(found.relative_to(work).parts)}"
            shutil.copy(found, self.logs / name)
            kept.append(self.logs / name)
        for path in kept:
            if path.name.endswith("console"):
                text = path.read_text(errors="replace").replace("\r", "").splitlines()
                print(f"--- the end of {path}", *text[-60:], sep="\n")
        print("kept: " + ", ".join(map(str, kept)))
