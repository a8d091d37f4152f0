#!/usr/bin/env python3
"""Refuses source files that have grown past their subject: more than 700 lines for code, 900 for tests."""
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
names = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.py", "*.ts", "*.tsx"], cwd=root, capture_output=True,
                       text=True, check=True).stdout.split()
bad = []
for name in names:
    lines = len((root / name).read_text(errors="replace").splitlines())
    limit = 900 if name.startswith("tests/") else 700
    if lines > limit:
        bad.append(f"{name}: {lines} lines, {limit} at the most: split it by noun")
print("\n".join(bad))
sys.exit(1 if bad else 0)
