"""The management API, by tests/e2e/rest/run.py: its own cases, and the check of every reply against the description."""
import pathlib
import subprocess
import sys

from harness import check, group, settings


def run(which, jobs):
    result = subprocess.run([sys.executable, pathlib.Path(__file__).parent / "rest/run.py", "--build", settings.build,
                             "--group", which, "--jobs", str(jobs)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    check(result.returncode == 0, result.stdout[-6000:])
    return result.stdout.splitlines()[-1]


def test_management_does_what_its_description_says():
    return run("e2e", jobs=4)


@group("security")
def test_management_lets_in_nobody_whom_it_does_not_know_and_is_held_up_by_nobody():
    return run("security", jobs=1)
