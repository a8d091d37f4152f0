#!/usr/bin/env python3
"""Refuses a line of health, or an event that warns, that docs/operator/what-to-do-when.md does not name, and a command in the operator's
pages that `lockstep` does not have, and a link between them that leads nowhere.

Lines of health are the sentences in the sources that judge a pair; what they advise is shown with them and need not be named. In the page's
tables "…" stands for any text. Commands and options are looked for in the sources of the command line: no build is needed.
"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
PAGE = root / "docs/operator/what-to-do-when.md"
CLI = root / "ui-api/cli"
JUDGES = ("mgmt/control/health.cpp", "mgmt/control/link_health.cpp", "mgmt/control/stale_database.cpp",
          "mgmt/control/volume_verdict.cpp", "mgmt/data_plane/node_space.cpp", "mgmt/data_plane/memory_bound.cpp", "engine/rdma/check/fabric_check.cpp",
          "engine/rdma/check/fabric_growth.cpp", *(f"replication/core/{name}.cpp" for name in (
              "witnessing", "fencing", "flap_damping", "going_alone", "membership", "membership_commands", "local_store", "partner")))
SENTENCE_WORDS = 3  # fewer are parts of one
STRING = r'"(?:[^"\\\n]|\\.)*"'
A_REASON = rf"(?:\bfail(?:_metadata)?\(|\b(?:reason_?|failure_) =)\s*({STRING})"  # of a replica, anywhere in the mirror


def without_comments(text):
    return re.sub(rf"({STRING})|//[^\n]*", lambda m: m[1] or "", text)


def end_of(text, at):
    """Where the bracket that opens at `at` is closed, or the statement that begins there ends."""
    depth = 0
    for m in re.compile(rf"{STRING}|[({{\[]|[)}}\]]|;").finditer(text, at):
        if m[0] in "({[":
            depth += 1
        elif m[0] in ")}]":
            depth -= 1
        if (m[0] in ")}]" and depth <= 0) or (m[0] == ";" and depth == 0):
            return m.end()
    return len(text)


def last_element(text, begin, end):
    """Where the last element of a braced list begins."""
    depth, last = 0, begin + 1
    for m in re.compile(rf"{STRING}|[({{\[]|[)}}\]]|,").finditer(text, begin + 1, end - 1):
        depth += (m[0] in "({[") - (m[0] in ")}]")
        if m[0] == "," and depth == 0:
            last = m.end()
    return last


def advice_in(text):
    """Spans of what a judge advises: the last element of a verdict or a problem, and what it names."""
    spans = [(last_element(text, m.start(), end_of(text, m.start())), end_of(text, m.start()))
             for m in re.finditer(r"\{\s*(?:[\w.()]+ \? )?(?:Severity|Verdict)::", text)]
    spans += [(m.start(), end_of(text, m.start())) for m in re.finditer(r"\.advice =", text)]
    names = set(re.findall(r"[a-zA-Z_]\w+", re.sub(STRING, "", " ".join(text[a:b] for a, b in spans))))
    for m in re.finditer(r"^std::string (\w+)\([^;{]*\{|^constexpr const char\* (\w+) =", text, re.M):
        if (m[1] or m[2]) in names:
            spans.append((m.start(), end_of(text, text.index("{", m.start())) if m[1] else end_of(text, m.start())))
    return spans


def lines_of(source):
    """Each text of some words that a judge may say, with {} for what it fills in."""
    text = without_comments((root / source).read_text())
    text = re.sub(r"mark<[^>]*>|#include[^\n]*", "", text)
    advice = advice_in(text)
    for m in re.finditer(rf"{STRING}(?:\s*{STRING})*", text):
        if any(a <= m.start() < b for a, b in advice):
            continue
        said = "".join(part[1:-1] for part in re.findall(STRING, m[0])).replace('\\"', '"')
        if " " in said and len(re.findall(r"[A-Za-z']{2,}", said)) >= SENTENCE_WORDS:
            yield said


def reasons():
    for path in sorted((root / "replication/core").glob("*.cpp")):
        yield from ((path.name, m[1][1:-1]) for m in re.finditer(A_REASON, without_comments(path.read_text())))


def alarming_events():
    """Kinds of events that are a warning or worse, and all of the fence."""
    said = "".join(p.read_text() for p in sorted((root / "mgmt").rglob("*.cpp")))
    kinds = set(re.findall(r'\.kind = "([\w.]+)",\s*\.severity = Severity::(?:warning|critical)', said))
    kinds |= set(re.findall(r'"([\w.]+)", Severity::(?:warning|critical)', said))
    kinds |= set(re.findall(r'"(fence\.(?!try)\w+)"', said))
    return kinds | set(re.findall(r'kind [!=]= "([\w.]+)"', re.search(r"Severity severity_of\(.*?^}", said, re.M | re.S)[0]))


def cells():
    """What the page says that health says: the first cell of each line of its tables, without its quotes."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| "):
            yield line.strip("| ").split(" | ")[0].replace("\\|", "|").replace("`", "")


def is_named(said, named):
    parts = [part.strip(" .,:;()") for part in re.split(r"\{[^}]*\}", said)]
    pattern = re.compile(".*".join(re.escape(part) for part in parts if re.search(r"[A-Za-z]{2}", part)))
    return any(pattern.search(cell) for cell in named)


def commands():
    """{words of a command: its source's text}; of a group, such as "pair", too."""
    parent, text = {}, {}
    for path in sorted((CLI / "commands").glob("*.cpp")) + [CLI / "run.cpp", CLI / "completion.cpp"]:
        source = path.read_text()
        for over, name in re.findall(r'(\w+)(?:\.|->)add_subcommand\(\s*"([\w-]+)"', source):
            parent[(over, name)] = source
        for name in re.findall(r'^    \{"([\w-]+)", "[\w]+", "', source, re.M):  # volume_action.cpp
            parent[("volume", name)] = source
    def words(over, name, seen=()):
        if over == "app":
            return [name]
        above = next(((o, n) for o, n in parent if n == over and (o, n) not in seen), None)
        return [*words(*above, (*seen, above)), name] if above else [name]
    for (over, name), source in parent.items():
        text[tuple(words(over, name))] = source
    return text


def options_in(source):
    return set(re.findall(r'"(--[a-z-]*)(?:,[\w-]+)?"', source))


def shared_options():
    """Options of all commands, beginnings of those that are made of two parts, and their ends."""
    made_of_two = "".join(p.read_text() for p in CLI.glob("*options.cpp"))
    return options_in((CLI / "run.cpp").read_text()), options_in(made_of_two), re.findall(r'prefix \+ "([\w-]+)"', made_of_two)


def quoted(text):
    """Each command line in backquotes or in a block, without its prompt."""
    blocks = re.findall(r"^(?: {4}|\t).*$|^```.*?^```", text, re.M | re.S)
    prose = re.sub(r"^(?: {4}|\t).*$|^```.*?^```", "", text, flags=re.M | re.S)
    joined = re.sub(r"\\\n\s*", " ", "\n".join(blocks))
    for span in re.findall(r"`([^`]+)`", prose + "\n" + joined):
        yield " ".join(span.split())
    for line in joined.splitlines():
        yield from (part.strip() for part in re.sub(r"^\s*(?:[\w-]+)?[#$] ", "", line).split(";"))


def problem_of(line, known, shared):
    words = line.split()[1:]
    command = ()
    while words and (*command, words[0]) in known:
        command = (*command, words.pop(0))
    above = {c[:-1] for c in known if len(c) == len(command) + 1}
    if words and command in above and re.match(r"[a-z]", words[0]):
        return f"there is no command `lockstep {' '.join((*command, words[0]))}`"
    everywhere, begins, ends = shared
    own = options_in(known.get(command, ""))
    good = everywhere | begins | own | {begin + end for begin in begins | own for end in ends}
    for option in re.findall(r"(?<!\S)\[?(--[a-z][\w-]*)", " ".join(words)):
        if option not in good:
            return f"`lockstep {' '.join(command)}` has no option {option}"
    return None


def anchors(page):
    """Of its headings, as the pages' readers make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def dead_links(page):
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", page.read_text()):
        there = page.parent / target if target else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            yield f"{page.relative_to(root)}: there is no {target}{'#' + anchor if anchor else ''}"


def main():
    named, bad = list(cells()), []
    for source in JUDGES:
        bad += [f"{PAGE.relative_to(root)}: no table names \"{said}\" ({source})"
                for said in lines_of(source) if not is_named(said, named)]
    bad += [f"{PAGE.relative_to(root)}: no table names \"{said}\" ({source})"
            for source, said in reasons() if not is_named(said, named)]
    bad += [f"{PAGE.relative_to(root)}: no table names the event {kind}"
            for kind in sorted(alarming_events()) if not any(re.search(rf"(?<![\w.]){re.escape(kind)}(?!\w)", cell) for cell in named)]
    known, shared = commands(), shared_options()
    for page in [*sorted((root / "docs/operator").glob("*.md")), root / "README.md"]:
        bad += dead_links(page)
        for line in quoted(page.read_text()):
            if not line.startswith("lockstep "):
                continue
            if problem := problem_of(line, known, shared):
                bad.append(f"{page.relative_to(root)}: {problem}: {line[:80]}")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
