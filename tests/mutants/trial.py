"""What finds a mutant: the unit tests concerned, then the scripted histories, then seeds of the simulator."""
import dataclasses
import hashlib
import json
import re
import time

from mutant import applied
from tree import TookTooLong, limited

# Kinds of trouble in which the mirror as it is does not keep its promises belong behind --without: they find anything.
WORLDS = ["--draw-all"]
CHUNK = 500  # seeds that are run before it is asked whether one of them failed

SCRIPTED = ("simulation_mirror_tests", "tests/simulation/simulation_mirror_tests", "*")
METADATA_TESTS = ("EpochRecord*:Metadata*:Grow*:Known*:DirtyMap*:Unreadable*:*Slots*:State*:Visible*:Seeds/DirtyMap*:"
                  "Slots/*")
UNIT = {
    "replication/core": [("unit_replication", "tests/unit/replication/unit_replication", "*")],
    "engine/metadata": [("unit_engine", "tests/unit/engine/unit_engine", METADATA_TESTS)],
    "engine/scsi": [("unit_iscsi_target", "tests/unit/iscsi_target/unit_iscsi_target", "*")],
}


@dataclasses.dataclass
class Verdict:
    word: str
    text: str
    good: bool


class Trial:
    def __init__(self, tree, seeds, jobs):
        self.tree = tree
        self.seeds = seeds
        self.jobs = jobs
        self.known = set()  # seeds that fail without any mutant

    # ---- the three finders; each gives what it found, or nothing

    def run_tests(self, program, tests, seconds):
        path = self.tree.build / program
        try:
            status, output = limited([str(path), f"--gtest_filter={tests}", "--gtest_brief=1", "--gtest_fail_fast"],
                                     path.parent, seconds)
        except TookTooLong:
            return "found by time"
        if status == 0:
            return ""
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", output, re.M)
        if failed:
            return failed[1]
        return f"died ({(output.strip().splitlines() or ['?'])[-1][:90]})"

    def run_chunk(self, first, last):
        path = self.tree.build / "tests/simulation/simulation"
        command = [str(path), "--seeds", f"{first}..{last}", "--jobs", str(self.jobs), *WORLDS]
        status, output = limited(command, path.parent, 90)
        failed = [(int(seed), why.strip())
                  for seed, why in re.findall(r"^FAILED seed (\d+) .*\n.*\n  (.*)$", output, re.M)]
        if status != 0 and not failed:
            failed = [(first, "the simulator died")]
        return sorted(failed)

    def run_seeds(self):
        for first in range(1, self.seeds + 1, CHUNK):
            last = min(first + CHUNK - 1, self.seeds)
            try:
                failed = self.run_chunk(first, last)
            except TookTooLong:
                return f"seeds {first}..{last}: found by time"
            for seed, why in failed:
                if seed not in self.known:
                    return f"seed {seed}: {why[:100]}"
        return ""

    # ---- the sources as they are

    def digest(self):
        sums = hashlib.sha256(json.dumps([WORLDS, CHUNK]).encode())
        for name in sorted(self.tree.sources()):
            if name.endswith((".cpp", ".hpp")):
                sums.update(name.encode() + b"\0" + (self.tree.repo / name).read_bytes())
        return sums.hexdigest()

    def prepare(self):
        self.tree.copy()
        if problem := self.tree.configure():
            return problem
        programs = [SCRIPTED, *(t for tests in UNIT.values() for t in tests)]
        if problem := self.tree.make(["simulation", *(target for target, _, _ in programs)]):
            return problem
        for target, program, tests in programs:
            if found := self.run_tests(program, tests, 300):
                return f"{target}: {found}"
        return self.learn_known()

    def learn_known(self):
        kept = self.tree.scratch / "known.json"
        digest = self.digest()
        known = json.loads(kept.read_text()) if kept.is_file() else {}
        if known.get("digest") != digest:
            known = {"digest": digest, "upto": 0, "seeds": []}
        for first in range(known["upto"] + 1, self.seeds + 1, CHUNK):
            last = min(first + CHUNK - 1, self.seeds)
            try:
                known["seeds"] += [seed for seed, _ in self.run_chunk(first, last)]
            except TookTooLong:
                return f"seeds {first}..{last} took too long"
            known["upto"] = last
        kept.write_text(json.dumps(known))
        self.known = set(known["seeds"])
        if self.known:
            print(f"{len(self.known)} seeds of {known['upto']} fail without any mutant and don't count")
        return ""

    # ---- one mutant

    def judge(self, m):
        # The tree's and not the repository's, which may be worked on meanwhile.
        originals = {file: (self.tree.root / file).read_text() for file in m.files()}
        begun = time.monotonic()
        try:
            for file, before in originals.items():
                (self.tree.root / file).write_text(applied([e for e in m.edits if e.file == file], before))
            word, text = self.look(m)
        finally:
            for file, before in originals.items():
                (self.tree.root / file).write_text(before)
        text += f" ({time.monotonic() - begun:.0f} s)"
        if word == "survived" and m.equivalent:
            return Verdict("equivalent", m.equivalent, True)
        if word not in ("survived", "error") and m.equivalent:
            return Verdict("wrong", f"called equivalent, and found by {word}: {text}", False)
        if word == "survived" and m.hole:
            text += f" hole: {m.hole}"
        return Verdict(word, text, word not in ("survived", "error"))

    def look(self, m):
        unit = [test for folder, tests in UNIT.items() if any(f.startswith(folder) for f in m.files()) for test in tests]
        try:
            if problem := self.tree.make([*(target for target, _, _ in unit), SCRIPTED[0], "simulation"]):
                return "error", f"it does not compile: {problem}"
        except TookTooLong:
            return "error", "it takes an hour to compile"
        for _, program, tests in unit:
            if found := self.run_tests(program, tests, 120):
                return "unit", found
        if found := self.run_tests(SCRIPTED[1], SCRIPTED[2], 120):
            return "scripted", found
        if found := self.run_seeds():
            return "seeds", found
        return "survived", f"{self.seeds} seeds, as before"
