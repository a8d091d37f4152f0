"""Seeds of the simulator, with one planted change in force, until one fails that does not fail without it."""
import os
import re

from tree import limited

CHUNK = 2_000
CPU_SECONDS = 300  # several times what a chunk takes; a seed that never ends is ended, and has failed
FAILED = re.compile(r"^FAILED seed (\d+) .*\n.*\n  (.*)$", re.M)


class Hunt:
    def __init__(self, program):
        self.program = program

    def first_failed(self, name, first, last, switches=""):
        """Seed and violation, or nothing; `name` may be empty, and the simulator's `switches` are on."""
        command = ["prlimit", f"--cpu={CPU_SECONDS}", str(self.program), "--seeds", f"{first}..{last}", "--jobs", "1",
                   "--first"] + [word for switch in switches.split() for word in ("--with", switch)]
        status, output = limited(command, self.program.parent, None, os.environ | {"LOCKSTEP_PLANTED": name})
        if failed := FAILED.search(output):
            return int(failed[1]), failed[2].strip()
        return (first, "the simulator died") if status else None

    def find(self, name, seeds, switches=""):
        """The first seed up to `seeds` that only the change breaks, and how it does."""
        at = 1
        while at <= seeds:
            last = min(at + CHUNK - 1, seeds)
            found = self.first_failed(name, at, last, switches)
            if found and not self.first_failed("", found[0], found[0], switches):
                return found
            at = (found[0] if found else last) + 1
        return None
