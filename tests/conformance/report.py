"""What a run says in the end: a line a family, every test that failed or never ran, and why."""
import collections

VERDICTS = ("passed", "failed", "excepted", "skipped")


def merge(results):
    """One verdict a test, over the profiles: failed where one failed, skipped only where all skipped."""
    by_name = collections.OrderedDict()
    for result in results:
        by_name.setdefault(result.name, []).append(result)
    merged = []
    for rows in by_name.values():
        for verdict in ("failed", "passed", "excepted", "skipped"):
            same = [r for r in rows if r.verdict == verdict]
            if same:
                profiles = ", ".join(r.profile for r in same if r.profile)
                seconds = sum(r.seconds for r in rows)
                merged.append(same[0]._replace(seconds=seconds, profile=profiles))
                break
    return merged


def without_skips(merged, may_never_run):
    """What was skipped in all profiles shows nothing, least of all where a command is called unknown by a slip: failed, unless it
    is named as one that may."""
    return [r._replace(verdict="failed", reason=f"ran in no profile: {r.reason}")
            if r.verdict == "skipped" and r.name not in may_never_run else r for r in merged]


def self_test(result):
    """It must see what never ran; `result` makes one of a name, a verdict and a reason."""
    rows = [result("A.Ran", "skipped", "not here"), result("A.Ran", "passed", ""), result("A.Never", "skipped", "no such command"),
            result("A.Excused", "skipped", "no such device"), result("A.Bad", "skipped", "not here"), result("A.Bad", "failed", "no")]
    verdicts = {r.name: r.verdict for r in without_skips(merge(rows), {"A.Excused"})}
    return verdicts == {"A.Ran": "passed", "A.Never": "failed", "A.Excused": "skipped", "A.Bad": "failed"}


def print_profiles(results):
    profiles = collections.OrderedDict()
    for result in results:
        profiles.setdefault(result.profile or "none", collections.Counter())[result.verdict] += 1
    print(f"\n{'profile':<24}" + "".join(f"{v:>9}" for v in VERDICTS))
    for profile, count in profiles.items():
        print(f"{profile:<24}" + "".join(f"{count[v]:>9}" for v in VERDICTS))


def print_table(results, order):
    families = collections.OrderedDict((f, []) for f in order)
    for result in results:
        families.setdefault(result.name.split(".")[0], []).append(result)
    print(f"\n{'family':<24}" + "".join(f"{v:>9}" for v in VERDICTS) + f"{'seconds':>9}")
    for family, rows in ((f, rows) for f, rows in families.items() if rows):
        count = collections.Counter(r.verdict for r in rows)
        print(f"{family:<24}" + "".join(f"{count[v]:>9}" for v in VERDICTS) + f"{sum(r.seconds for r in rows):>9.1f}")
    for verdict in ("skipped", "excepted", "failed"):
        rows = [r for r in results if r.verdict == verdict]
        if rows:
            print(f"\n{verdict}:")
        for r in rows:
            where = f" [{r.profile}]" if verdict == "failed" and r.profile else ""
            print(f"  {r.name:<40} {r.reason}{where}")
