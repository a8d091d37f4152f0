#!/usr/bin/env python3
"""Refuses an option of `lockstep` that lockstep(1) does not have, and a setting of lockstepd.toml or mgmtd.toml that lockstep.toml(5)
does not have. Both are looked for in the sources: no build is needed."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
OPTION = r'add_(?:option|flag)\w*\(\s*"(--[^"]*)"'
SETTINGS = {"mgmt/data_plane/configuration.cpp": r'reader\.\w+\("(\w+)"',
            "mgmt/control/mgmtd_config.cpp": r'\b(?:text|address|addresses|seconds)\(table, "(\w+)"'}


def said_in(page):
    """The page's text, without what only says how it looks."""
    return re.sub(r"\\f[A-Z]", "", (root / "packaging/man" / page).read_text()).replace("\\-", "-")


def main():
    wrong = []

    def look_for(names, source, page):
        text = said_in(page)
        for name in names:
            if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
                wrong.append(f"{source.relative_to(root)}: {name} is not in packaging/man/{page}")

    sources = {source: [name for names in re.findall(OPTION, source.read_text()) for name in names.split(",") if len(name) > 2]
               for source in sorted((root / "ui-api/cli").rglob("*.cpp"))}
    settings = {root / source: re.findall(pattern, (root / source).read_text()) for source, pattern in SETTINGS.items()}
    if not any(sources.values()) or not all(settings.values()):
        wrong.append("tests/tidy/manuals.py finds no option, or no setting, in the sources")
    for source, names in sources.items():
        look_for(names, source, "lockstep.1")
    for source, names in settings.items():
        look_for(names, source, "lockstep.toml.5")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
