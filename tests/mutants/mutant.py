"""The list of mutants: blocks of text, with an empty line between them.

  [id]
  file replication/core/applier.cpp
  rule The rule of the mirror that it breaks, one sentence.
  - what stands there: a whole line or a part of it; several lines, if calls change places
  + what stands there instead; nothing behind the sign: it is left out
  equivalent Why nothing can find it (only then).

Indentation does not count, and no line of the snippet begins or ends with a blank. `hole` instead of `equivalent`
names what the tests lack to find it; such a mutant has failed.
"""
import dataclasses
import pathlib
import re


class BadList(Exception):
    pass


@dataclasses.dataclass
class Mutant:
    id: str
    where: str
    file: str = ""
    rule: str = ""
    equivalent: str = ""
    hole: str = ""
    old: list = dataclasses.field(default_factory=list)
    new: list = dataclasses.field(default_factory=list)

    def pattern(self):
        return re.compile(r"\n\s*".join(re.escape(line) for line in self.old))

    def problem(self, root):
        """Why it can't be applied; empty: it can."""
        path = root / self.file
        if not self.file or not path.is_file():
            return f"no such file: {self.file}"
        if not self.rule or not self.old or self.old == self.new:
            return "it needs a rule, and an old line that is another one than the new"
        found = len(self.pattern().findall(path.read_text()))
        return "" if found == 1 else f"its old line stands in {self.file} {found} times, not once"

    def applied_to(self, text):
        return self.pattern().sub(lambda _: "\n".join(self.new), text, count=1)


def read_block(lines, where):
    name = re.fullmatch(r"\[([a-z0-9_]+)\]", lines[0])
    if not name:
        raise BadList(f"{where}: a mutant begins with its [id], not with: {lines[0]}")
    m = Mutant(name[1], where)
    for line in lines[1:]:
        key, _, value = line.partition(" ")
        if key in ("-", "+"):
            if value:
                (m.old if key == "-" else m.new).append(value)
        elif key in ("file", "rule", "equivalent", "hole") and value and not getattr(m, key):
            setattr(m, key, value)
        else:
            raise BadList(f"{where}: {m.id}: what is this: {line}")
    return m


def read_all(folder):
    mutants = []
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        number = 1
        for block in re.split(r"\n(?=\n)", path.read_text().rstrip("\n")):
            lines = [line for line in block.split("\n") if line and not line.startswith("#")]
            if lines:
                mutants.append(read_block(lines, f"{path.name}:{number}"))
            number += block.count("\n") + 1
    return mutants


def repeated(mutants):
    ids, edits = set(), set()
    wrong = []
    for m in mutants:
        edit = (m.file, *m.old, "", *m.new)
        if m.id in ids or edit in edits:
            wrong.append(f"{m.where}: {m.id}: it is in the list twice")
        ids.add(m.id)
        edits.add(edit)
    return wrong
