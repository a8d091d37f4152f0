"""The list of mutants: blocks of text, with an empty line between them.

  [id]
  rule The rule of the mirror that it breaks, one sentence.
  file replication/core/applier.cpp
  - what stands there: a whole line or a part of it; several lines, if calls change places
  + what stands there instead; nothing behind the sign: it is left out
  seeds 20000
  breaks promise 3 or promise 5
  equivalent Why nothing can find it (only then).

A `file` line begins an edit; a block has one or several, also of the same file, that don't touch each other. Indentation
does not count, and no line of the snippet begins or ends with a blank. `seeds` is how many may be needed to find it,
where that is more than usual; `with NAME ...` has the simulator's switches of these names on in each of them (planted
changes only), and `breaks` is a part of the sentence by which the simulator has to find it, or several with `or` between (planted
changes, each of which has it): the promise that it stands for. `hole` instead of `equivalent` names what the tests lack to find it; such a mutant has failed.
"""
import dataclasses
import pathlib
import re


class BadList(Exception):
    pass


@dataclasses.dataclass
class Edit:
    file: str
    old: list = dataclasses.field(default_factory=list)
    new: list = dataclasses.field(default_factory=list)

    def places(self, text):
        return [match.span() for match in re.finditer(r"\n\s*".join(re.escape(line) for line in self.old), text)]

    def problem(self, root):
        """Why it can't be applied; empty: it can."""
        path = root / self.file
        if not path.is_file():
            return f"no such file: {self.file}"
        if not self.old or self.old == self.new:
            return "it needs an old line that is another one than the new"
        found = len(self.places(path.read_text()))
        return "" if found == 1 else f"its old line stands in {self.file} {found} times, not once: {self.old[0]}"


@dataclasses.dataclass
class Mutant:
    id: str
    where: str
    edits: list = dataclasses.field(default_factory=list)
    rule: str = ""
    equivalent: str = ""
    hole: str = ""
    seeds: str = ""
    switch: str = ""
    breaks: str = ""

    def files(self):
        return list(dict.fromkeys(edit.file for edit in self.edits))

    def problem(self, root):
        if not self.rule or not self.edits:
            return "it needs a rule and a file"
        if wrong := next(filter(None, (edit.problem(root) for edit in self.edits)), ""):
            return wrong
        return next(clashes(self.edits, root), "")


def applied(edits, text):
    """The text of a file with all these edits of it, none of which touches another."""
    for (begin, end), edit in sorted(((edit.places(text)[0], edit) for edit in edits), key=lambda e: e[0], reverse=True):
        text = text[:begin] + "\n".join(edit.new) + text[end:]
    return text


def clashes(edits, root):
    """What several edits change; each of them fits."""
    for file in {edit.file for edit in edits}:
        text = (root / file).read_text()
        places = sorted((edit.places(text)[0], edit.old[0]) for edit in edits if edit.file == file)
        for (one, line), (other, _) in zip(places, places[1:]):
            if other[0] < one[1]:
                yield f"two edits of {file} touch each other: {line}"


def read_block(lines, where):
    name = re.fullmatch(r"\[([a-z0-9_]+)\]", lines[0])
    if not name:
        raise BadList(f"{where}: a mutant begins with its [id], not with: {lines[0]}")
    m = Mutant(name[1], where)
    for line in lines[1:]:
        key, _, value = line.partition(" ")
        if key == "file" and value:
            m.edits.append(Edit(value))
        elif key in ("-", "+") and m.edits:
            if value:
                (m.edits[-1].old if key == "-" else m.edits[-1].new).append(value)
        elif key in ("rule", "equivalent", "hole", "seeds", "breaks") and value and not getattr(m, key):
            setattr(m, key, value)
        elif key == "with" and value and not m.switch:
            m.switch = value
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
        edit = tuple((e.file, *e.old, "", *e.new) for e in m.edits)
        if m.id in ids or edit in edits:
            wrong.append(f"{m.where}: {m.id}: it is in the list twice")
        ids.add(m.id)
        edits.add(edit)
    return wrong
