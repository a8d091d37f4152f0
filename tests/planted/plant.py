"""All planted changes in one copy of the sources, each of them in force under its own name only."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mutants"))
import mutant  # noqa: E402
import tree  # noqa: E402

NAMES = re.compile(r'planted::is\("(.*?)"\)')
HEADER = '#include "tests/planted/planted.hpp"\n'


def names_in(m):
    return set(NAMES.findall("\n".join(line for edit in m.edits for line in edit.new)))


def problems(changes, root):
    """Why they can't all be applied to one copy; empty: they can."""
    wrong = [f"{m.where}: {m.id}: {problem}" for m in changes if (problem := m.problem(root))]
    wrong += mutant.repeated(changes)
    known = {m.id for m in changes}
    wrong += [f"{m.where}: {m.id}: it does not say what it breaks" for m in changes if not m.breaks]
    for m in changes:
        wrong += [f"{m.where}: {m.id}: nothing is planted under the name {name}" for name in names_in(m) - known]
        if m.id not in names_in(m):
            wrong.append(f"{m.where}: {m.id}: no edit of it asks for its name")
    return wrong or list(mutant.clashes([edit for m in changes for edit in m.edits], root))


class PlantedTree(tree.Tree):
    def __init__(self, repo, scratch, jobs, changes):
        super().__init__(repo, scratch, jobs)
        self.edits = {}
        for edit in (edit for m in changes for edit in m.edits):
            self.edits.setdefault(edit.file, []).append(edit)

    def content(self, name):
        content = super().content(name)
        if name not in self.edits:
            return content
        return (HEADER + mutant.applied(self.edits[name], content.decode())).encode()
