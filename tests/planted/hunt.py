"""Seeds of the simulator, with one planted change in force, until one fails that does not fail without it."""
import os
import re

from tree import limited

CHUNK = 2_000
CPU_SECONDS = 300  # several times what a chunk takes; a seed that never ends is ended, and has failed
FAILED = re.compile(r"^FAILED seed (\d+) .*\n.*\n  (.*)$", re.M)


def is_broken(breaks, violation):
    """One of what `breaks` names; that the program died counts only where it says so."""
    return any(part in violation for part in breaks.split(" or ") if part == "died" or "died" not in violation)


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

    def find(self, name, seeds, switches, breaks):
        """The first seed up to `seeds` that only the change breaks, as it should, and how; and the first that it breaks in another
        way, which shows nothing of the promise that it stands for."""
        at, other = 1, None
        while at <= seeds:
            last = min(at + CHUNK - 1, seeds)
            found = self.first_failed(name, at, last, switches)
            if found and not is_broken(breaks, found[1]):
                other = other or found
            elif found and not self.first_failed("", found[0], found[0], switches):
                return found, other
            at = (found[0] if found else last) + 1
        return None, other
