#!/usr/bin/env python3
"""Refuses a promise of docs/developer/security.md without a test: each line of a table whose last column is called "test" names at
least one, and each that is named exists.

A name stands in backquotes behind what it is a test of: unit, simulation, e2e, REST, load (a flood), packages, vm (a step
of a scenario), or seeds (a fault that the simulation draws). "…" and "*" stand for any text. Several names share the word before them.
"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = root / "docs/developer/security.md"
CPP_TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", re.M)


def sources(folder, pattern="*.cpp"):
    return [path.read_text() for path in sorted((root / folder).rglob(pattern))]


def cpp_tests(folder):
    return {f"{suite}.{name}" for text in sources(folder) for suite, name in CPP_TEST.findall(text)}


def python_tests(path):
    """Of a file of cases: test names, and Class.test names."""
    names, suite = set(), None
    for line in path.read_text().splitlines():
        if found := re.match(r"class (\w+)", line):
            suite = found[1]
        elif found := re.match(r"    def (test_\w+)", line):
            names |= {found[1], f"{suite}.{found[1]}", suite}
    return names


def e2e_tests(group):
    """As tests/e2e/run lists them."""
    listed = subprocess.run([root / "tests/e2e/run", "--list", "--group", group], capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def floods():
    return set(re.findall(r'^KINDS = \{(.*)\}', (root / "tests/load/attackers.py").read_text(), re.M)[0].split('"')[1::2])


def known():
    rest = set().union(*(python_tests(path) for path in (root / "tests/e2e/rest").glob("cases_*.py")))
    return {"unit": cpp_tests("tests/unit"), "simulation": cpp_tests("tests/simulation"), "e2e": e2e_tests("security"),
            "REST": rest, "load": floods(),
            "packages": set(re.findall(r"^(\w+)\(\)", "".join(
                p.read_text() for p in sorted((root / "packaging").glob("test-*"))), re.M)),
            "vm": set(re.findall(r"^def (\w+)", "\n".join(sources("tests/vm/scenarios", "*.py")), re.M)),
            "seeds": set(re.findall(r"\w+", " ".join(sources("tests/simulation"))))}


def lines_of_tables(text):
    """(number, cells) of each line of a table whose last column is called "test"."""
    wanted = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            wanted = False
        elif cells[-1] == "test":
            wanted = True
        elif wanted and not set(line) <= set("|- "):
            yield number, cells


def named(cell, kinds):
    """(kind, name) of each test that a cell names."""
    kind = None
    for word, name in re.findall(r"(\w+)|`([^`]+)`", re.sub(r"\([^)]*\)", "", cell)):
        if word in kinds:
            kind = word
        elif name:
            yield kind, name


def exists(name, names):
    pattern = re.compile(".*".join(map(re.escape, re.split(r"…|\*", name))))
    return any(pattern.fullmatch(one) for one in names)


def main():
    tests, bad = known(), []
    for number, cells in lines_of_tables(DOCUMENT.read_text()):
        names = list(named(cells[-1], tests))
        if not names:
            bad.append(f"{number}: no test is named for \"{cells[-2]}\"")
        for kind, name in names:
            if kind is None:
                bad.append(f"{number}: what kind of test {name} is, is not said")
            elif not exists(name, tests[kind]):
                where = " of the group security" if kind == "e2e" else ""
                bad.append(f"{number}: there is no {kind} test {name}{where}")
    print("\n".join(f"{DOCUMENT.relative_to(root)}:{line}" for line in bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
