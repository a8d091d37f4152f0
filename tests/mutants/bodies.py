"""Mutants in one copy of the sources: a function that some change has a body for each, in force under the name of it.

  void f() {                     void f() {
    a();                           if (planted::is("forgets_b")) {
    b();              becomes        a();
  }                                } else {
                                     a();
                                     b();
                                   }
                                 }
"""
import functools
import os
import re

from mutant import applied

# What a mutant does not use any more is no error.
HEADER = '''#include "tests/planted/planted.hpp"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
'''
NOT_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""", re.S)
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b[^()]*$")
# What stands before the body of a function; an initializer of a constructor may be in braces.
FUNCTION = re.compile(r"(?:\)|\b(?:const|noexcept|override|final|mutable)|->[^()]*|\)\s*:.*\})\s*$", re.S)


def without_text(source):
    """The same with blanks for comments and literals."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)


def closing(code, at):
    """Where the brace that opens here is closed."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(code, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return len(code)


@functools.cache
def bodies(source):
    """What stands between the braces of every function, first and last character."""
    code = without_text(source)
    found = []
    at = begin = 0
    while sign := re.compile(r"[{};]").search(code, at):
        at = sign.end()
        head = code[begin:sign.start()]
        if sign[0] == "{" and not SCOPE.search(head):
            end = closing(code, sign.start())
            at = end + 1
            if not FUNCTION.search(head):
                continue  # an initializer
            found.append((sign.end(), end))
        begin = at
    return found


def changed_body(source, edits):
    """The body that the edits change, and what it becomes; nothing if they change anything else."""
    mutated = applied(edits, source)
    begin = len(os.path.commonprefix([source, mutated]))
    rest = min(len(source), len(mutated)) - begin
    end = len(os.path.commonprefix([source[::-1][:rest], mutated[::-1][:rest]]))
    for first, last in bodies(source):
        if first <= begin and len(source) - end <= last:
            return (first, last), mutated[first:last + len(mutated) - len(source)]
    return None


def planted(source, mutants):
    """The source with all these mutants: pairs of a name and its edits."""
    changed = {}
    for name, edits in mutants:
        span, body = changed_body(source, edits)
        changed.setdefault(span, []).append(f'if (planted::is("{name}")) {{{body}\n}} else ')
    for (first, last), others in sorted(changed.items(), reverse=True):
        source = f"{source[:first]}\n{''.join(others)}{{{source[first:last]}\n}}\n{source[last:]}"
    return HEADER + source


def owner(text, line):
    """Whose body a line of planted text is in."""
    lines = text.split("\n")
    for above in reversed(lines[:line]):
        if found := re.search(r'if \(planted::is\("(\w+)"\)\) \{', above):
            return found[1]
        if above in ("} else {", "}"):
            return None
    return None
