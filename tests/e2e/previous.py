#!/usr/bin/env python3
"""The daemons of the version before, recorded as a commit in the file previous_version.

  tests/e2e/previous.py     builds them if they are not there, and prints their build folder

They are built in build/previous/COMMIT from the repository's own history, with the objects that ccache has.
$LOCKSTEP_PREVIOUS_BUILD names a build folder to use instead.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

from basics import REPO, Failed

DAEMONS = ("mgmt/main/lockstepd", "mgmt/main/lockstep-mgmtd")


def commit():
    lines = (pathlib.Path(__file__).parent / "previous_version").read_text().splitlines()
    return next(line for line in lines if line and not line.startswith("#"))


def run(log, *command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        raise Failed(f"the version before is not built: {' '.join(map(str, command))} ended with {done.returncode}: {log.name}")


def unpack(folder, log):
    known = subprocess.run(["git", "-C", REPO, "cat-file", "-e", f"{commit()}^{{commit}}"], stderr=subprocess.DEVNULL)
    if known.returncode:
        raise Failed(f"the version before, {commit()}, is not in this repository's history: git fetch --unshallow")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    run(log, "git", "-C", REPO, "archive", "-o", archive, commit())
    run(log, "tar", "-C", folder, "-xf", archive)
    archive.unlink()


def build():
    """The folder of its build, with both daemons in it."""
    given = os.environ.get("LOCKSTEP_PREVIOUS_BUILD")
    if given:
        return pathlib.Path(given).resolve()
    folder = REPO / "build/previous" / commit()[:12]
    made = folder / "build/release"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock, open(folder.parent / "build.log", "a") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((made / daemon).exists() for daemon in DAEMONS):
            unpack(folder, log)
            # As in any other clone, so that ccache knows the objects.
            environment = {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
            run(log, "cmake", "--preset", "release", "-DBUILD_TESTING=OFF", cwd=folder, env=environment)
            run(log, "cmake", "--build", "--preset", "release", "--target", "lockstepd", "lockstep-mgmtd", cwd=folder, env=environment)
    return made


if __name__ == "__main__":
    try:
        print(build())
    except Failed as why:
        sys.exit(str(why))
