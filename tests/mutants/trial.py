"""What finds a mutant: the unit tests concerned, then the scripted histories, then seeds of the simulator."""
import dataclasses
import os
import pathlib
import re
import sys
import time

import bodies
import tree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "planted"))
import hunt  # noqa: E402

CPU_SECONDS = 120  # several times what any of the tests takes; one that never ends has failed

SCRIPTED = ("simulation_mirror_tests", "tests/simulation/simulation_mirror_tests", "*")
METADATA_TESTS = ("EpochRecord*:Metadata*:Grow*:Known*:DirtyMap*:Unreadable*:*Slots*:State*:Visible*:Seeds/DirtyMap*:"
                  "Slots/*")
REPLICATION = ("unit_replication", "tests/unit/replication/unit_replication", "*")
REAL_PATHS = ("unit_replication_link", "tests/unit/replication_link/unit_replication_link",
              "*SeveralRealPaths*:*OfTwoVersions*:*OverRdma*")
UNIT = {
    "replication/core": [REPLICATION],
    "replication/link": [REPLICATION, REAL_PATHS],
    "engine/iser": [REAL_PATHS],
    "engine/metadata": [("unit_engine", "tests/unit/engine/unit_engine", METADATA_TESTS)],
    "engine/scsi": [("unit_iscsi_target", "tests/unit/iscsi_target/unit_iscsi_target", "*")],
}
PROGRAMS = list(dict.fromkeys([SCRIPTED, *(program for programs in UNIT.values() for program in programs)]))
SWITCHES = {"replication/link": "several_paths", "engine/iser": "several_paths"}  # of the simulator, without which a seed may not come to such code


@dataclasses.dataclass
class Verdict:
    word: str
    text: str
    good: bool


class MutantTree(tree.Tree):
    """A copy of the sources with all mutants that compile."""

    def __init__(self, repo, scratch, jobs, mutants):
        super().__init__(repo, scratch, jobs)
        self.mutants = {m.id: m for m in mutants}
        self.broken = {}  # those that don't compile, and why

    def content(self, name):
        content = super().content(name)
        here = [(m.id, m.edits) for m in self.mutants.values() if name in m.files() and m.id not in self.broken]
        return bodies.planted(content.decode(), here).encode() if here else content

    def blame(self, errors):
        """Whoever the errors are of does not compile; false: they are of nobody."""
        before = len(self.broken)
        files = {file for m in self.mutants.values() for file in m.files()}
        for error in errors:
            place = re.search(r"([\w/]+\.[ch]pp):(\d+):", error)
            file = place and next((f for f in files if place[1].endswith(f)), None)
            name = file and bodies.owner((self.root / file).read_text(), int(place[2]))
            if name:
                self.broken.setdefault(name, error)
        return len(self.broken) > before

    def make_all(self):
        """Empty: it went well."""
        self.copy()
        if problem := self.configure():
            return problem
        while errors := self.make(["simulation", *(target for target, _, _ in PROGRAMS)]):
            if not self.blame(errors.splitlines()):
                return errors
            self.copy()
        return ""


def of_folder(table, m, default):
    """What the table says of the folder that the mutant lies in."""
    return next((entry for folder, entry in table.items() if m.files()[0].startswith(folder)), default)


class Trial:
    def __init__(self, copy, seeds):
        self.copy = copy
        self.seeds = seeds
        self.hunter = hunt.Hunt(copy.build / "tests/simulation/simulation")

    def run_tests(self, name, program, tests):
        path = self.copy.build / program
        command = ["prlimit", f"--cpu={CPU_SECONDS}", str(path), f"--gtest_filter={tests}", "--gtest_brief=1",
                   "--gtest_fail_fast"]
        try:
            status, output = tree.limited(command, path.parent, 10 * CPU_SECONDS, os.environ | {"LOCKSTEP_PLANTED": name})
        except tree.TookTooLong:
            return "found by time"
        if status == 0:
            return ""
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", output, re.M)
        return failed[1] if failed else f"died ({(output.strip().splitlines() or ['?'])[-1][:90]})"

    def prepare(self):
        """Why there is nothing to measure with; empty: all tests pass as long as no mutant is in force."""
        if problem := self.copy.make_all():
            return problem
        for target, program, tests in PROGRAMS:
            if found := self.run_tests("", program, tests):
                return f"{target}: {found}"
        return ""

    def judge(self, m):
        begun = time.monotonic()
        word, text = self.look(m)
        text += f" ({time.monotonic() - begun:.0f} s)"
        if word == "survived" and m.equivalent:
            return Verdict("equivalent", m.equivalent, True)
        if word not in ("survived", "error") and m.equivalent:
            return Verdict("wrong", f"called equivalent, and found by {word}: {text}", False)
        if word == "survived" and m.hole:
            text += f" hole: {m.hole}"
        return Verdict(word, text, word not in ("survived", "error"))

    def look(self, m):
        if m.id in self.copy.broken:
            return "error", f"it does not compile: {self.copy.broken[m.id]}"
        for _, program, tests in of_folder(UNIT, m, []):
            if found := self.run_tests(m.id, program, tests):
                return "unit", found
        if found := self.run_tests(m.id, SCRIPTED[1], SCRIPTED[2]):
            return "scripted", found
        seeds = int(m.seeds or self.seeds)
        if found := self.hunter.find(m.id, seeds, of_folder(SWITCHES, m, "")):
            return "seeds", f"seed {found[0]}: {found[1][:100]}"
        return "survived", f"{seeds} seeds"
