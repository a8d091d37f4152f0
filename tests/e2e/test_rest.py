"""The management API, by tests/e2e/rest/run.py: its own cases, and the check of every reply against the description."""
import pathlib
import subprocess
import sys

import harness


def test_management_does_what_its_description_says():
    result = subprocess.run([sys.executable, pathlib.Path(__file__).parent / "rest/run.py", "--build", harness.settings.build],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    if result.returncode != 0:
        raise AssertionError(result.stdout[-6000:])
    return result.stdout.splitlines()[-1]
