"""Seeds of the simulator, with one planted change in force, until one fails that does not fail without it."""
import os
import re

from tree import TookTooLong, limited

CHUNK = 2_000
CHUNK_SECONDS = 300  # a minute, if the machine has nothing else to do
FAILED = re.compile(r"^FAILED seed (\d+) .*\n.*\n  (.*)$", re.M)


class Hunt:
    def __init__(self, program):
        self.program = program

    def first_failed(self, name, first, last):
        """Seed and violation, or nothing; `name` may be empty."""
        command = [str(self.program), "--seeds", f"{first}..{last}", "--jobs", "1", "--first"]
        try:
            status, output = limited(command, self.program.parent, CHUNK_SECONDS, os.environ | {"LOCKSTEP_PLANTED": name})
        except TookTooLong:
            return first, f"seeds {first}..{last} did not end"
        if failed := FAILED.search(output):
            return int(failed[1]), failed[2].strip()
        return (first, "the simulator died") if status else None

    def find(self, name, seeds):
        """The first seed up to `seeds` that only the change breaks, and how it does."""
        at = 1
        while at <= seeds:
            last = min(at + CHUNK - 1, seeds)
            found = self.first_failed(name, at, last)
            if found and not self.first_failed("", found[0], found[0]):
                return found
            at = (found[0] if found else last) + 1
        return None
