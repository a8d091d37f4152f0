#!/usr/bin/env python3
"""Refuses a type that two files define under one name: the one-definition rule, which two executables hide.

A type has one meaning in one namespace. What has no linkage (a namespace without a name, a function) may be called as it
likes, and a class may define its own parts in another file. `names.py --self-test` shows that the check can fail.
"""
import collections
import pathlib
import re
import sys
import tempfile

LAYERS = ("engine", "iscsi_target", "replication", "mgmt", "ui-api")
# What a text has that is no code, so that what it says is not read.
NOT_CODE = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
# A namespace opens, a type is defined, some other block opens, a block closes.
TOKEN = re.compile(r"\bnamespace\s*(?P<space>[\w:]*)\s*\{"
                   r"|\b(?:class|struct|union|enum(?:\s+class)?)\s+(?P<type>\w+)\s*(?:final\s*)?(?::[^:;{}()][^;{}()]*)?\{"
                   r"|\{|\}")


def types_in(text):
    """The types with linkage that a file defines outside of any other."""
    blocks = []  # a namespace's name; None: what is in it has no linkage of its own
    for token in TOKEN.finditer(NOT_CODE.sub(" ", text)):
        if token[0] == "}":
            if blocks:
                blocks.pop()
            continue
        if token["type"] and None not in blocks:
            yield "::".join([*blocks, token["type"]])
        blocks.append(token["space"] or None if token[0].startswith("namespace") else None)


def problems(root):
    places = collections.defaultdict(set)
    for layer in LAYERS:
        for path in (root / layer).rglob("*.?pp"):
            if path.suffix in (".hpp", ".cpp") and "node_modules" not in path.parts:
                for name in types_in(path.read_text(errors="replace")):
                    places[name].add(path.relative_to(root).as_posix())
    for name, files in sorted(places.items()):
        if len(files) > 1:
            yield f"{name} is defined in {' and in '.join(sorted(files))}: give one another name, or another namespace"


def self_test():
    cases = {  # the second file's text; does it clash with `namespace a::b { struct Volume { int n = 0; }; }`?
        "namespace a::b {\nstruct Volume {};\n}": True,
        "namespace a::b {\nclass Volume final : public X {};\n}": True,
        "namespace a {\nnamespace b {\nenum class Volume : int { x };\n}\n}": True,
        "namespace a::b {\nvoid f() { g(); }\nstruct Volume {};\n}": True,
        "namespace a::c {\nstruct Volume {};\n}": False,
        "namespace a::b {\nstruct Volume;\nstruct Volume::Part {};\n}": False,
        "namespace a::b {\nnamespace {\nstruct Volume {};\n}\n}": False,
        "namespace a::b {\nstruct Other { struct Volume {}; };\n}": False,
        "namespace a::b {\nvoid f() { struct Volume {}; }\n}": False,
        "namespace a::b {\n// struct Volume {};\nconst char* t = \"struct Volume {\";\n}": False,
    }
    for text, clashes in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("one.hpp", "namespace a::b {\nstruct Volume { int n = 0; };\n}"), ("two.cpp", text)):
                path = pathlib.Path(folder) / "mgmt" / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(content + "\n")
            if bool(list(problems(pathlib.Path(folder)))) != clashes:
                print(f"the check is wrong about {text}")
                return False
    return True


if __name__ == "__main__":
    if not self_test():
        sys.exit(1)
    found = list(problems(pathlib.Path(__file__).resolve().parents[2]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
