#!/usr/bin/env python3
"""Management end to end: real lockstep-mgmtd processes over HTTPS, with lockstepds that only pretend (tests that need
real volumes are elsewhere). Every reply of every test is checked against ui-api/openapi/lockstep.yaml; at the end, every
operation and described status must have been met.

    run.py --build BUILD [--group GROUP] [--jobs N] [-k PATTERN] [-v]

--group: only the cases that are attacks ("security"), or only the others ("e2e"). Who is refused is met in the one, all
else in the other. --jobs: so many cases at a time.
"""
import argparse
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases_addresses  # noqa: E402
import cases_alone  # noqa: E402
import cases_arbiter  # noqa: E402
import cases_contract  # noqa: E402
import cases_fence  # noqa: E402
import cases_leave  # noqa: E402
import cases_link  # noqa: E402
import cases_lost  # noqa: E402
import cases_node  # noqa: E402
import cases_pair  # noqa: E402
import cases_replicas  # noqa: E402
import cases_rotation  # noqa: E402
import cases_settings  # noqa: E402
import cases_snapshot  # noqa: E402
import cases_strangers  # noqa: E402
import cases_volumes  # noqa: E402
import cases_watching  # noqa: E402
import cases_witness  # noqa: E402
import contract  # noqa: E402
import nodes  # noqa: E402
import scratch  # noqa: E402
import workers  # noqa: E402

# Described, but not to be had from outside on demand.
NOT_ON_DEMAND = {
    ("createPair", "503"): "only a failing disk",
    ("replaceNode", "503"): "only a partner that goes away between two questions",
}

MODULES = (cases_addresses, cases_alone, cases_arbiter, cases_contract, cases_fence, cases_leave, cases_link, cases_lost, cases_node, cases_pair, cases_replicas,
           cases_rotation, cases_settings, cases_snapshot, cases_strangers, cases_volumes, cases_watching, cases_witness)
REFUSED = {"401", "403"}


def cases(suites):
    for suite in suites:
        yield from [suite] if isinstance(suite, unittest.TestCase) else cases(suite)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--group", choices=("e2e", "security"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-k", dest="patterns", action="append", default=[])
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    description = contract.Contract(HERE.parents[2] / "ui-api/openapi/lockstep.yaml")
    noted = []  # of the case that this process runs

    def record(method, path, body, reply):
        noted.extend(description.check_reply(method, path, reply))
        operation = description.find(method, path)
        if operation and reply.type == "application/json":
            schema = description.resolve(operation["responses"].get(str(reply.status), {}))
            noted.extend(description.undescribed(
                reply.json, schema.get("content", {}).get("application/json", {}).get("schema", {}),
                f"{operation['operationId']} {reply.status}"))
        if operation and body is not None and 200 <= reply.status < 300:
            noted.extend(description.check(body, description.request_schema(operation),
                                           f"{operation['operationId']} took a body that"))
    nodes.Node.recorder = staticmethod(record)
    scratch.BUILD = options.build.resolve()
    scratch.CONTRACT = description
    loader = unittest.TestLoader()
    if options.patterns:
        loader.testNamePatterns = [f"*{pattern}*" for pattern in options.patterns]
    chosen = [case for case in cases(map(loader.loadTestsFromModule, MODULES))
              if options.group in (None, "security" if scratch.is_attack(case) else "e2e")]

    def perform(index):
        noted.clear()
        result = unittest.TestResult()
        chosen[index].run(result)
        failures = [text for _, text in result.failures + result.errors]
        failures += ["is expected to fail, and does not"] * len(result.unexpectedSuccesses)
        skipped = [why for _, why in result.skipped]
        if skipped and os.environ.get("LOCKSTEP_NO_SKIPS"):
            failures += [f"would be skipped, and LOCKSTEP_NO_SKIPS is set: {why}" for why in skipped]
        return failures, skipped, list(noted), set(description.seen)

    failed = skipped = 0
    breaches = []
    for index, (failures, skips, breached, seen), output in workers.run(perform, len(chosen), options.jobs):
        breaches += breached
        description.seen |= seen
        if failures or skips or options.v:
            print(f"{output}{'FAILED' if failures else f'SKIPPED ({skips[0]})' if skips else 'ok'}  {chosen[index].id()}")
        for text in failures:
            print(text)
        failed += bool(failures)
        skipped += bool(skips and not failures)
    passed = len(chosen) - failed - skipped

    for breach in sorted(set(breaches)):
        print("contract:", breach)
    missing = []
    if not options.patterns:
        for _, _, operation in description.operations():
            for status in operation["responses"]:
                key = (operation["operationId"], status)
                of_group = options.group in (None, "security" if status in REFUSED else "e2e")
                if of_group and key not in description.seen and key not in NOT_ON_DEMAND:
                    missing.append(key)
        for operation, status in missing:
            print(f"contract: {operation} was never seen to answer {status}")
    for bad in (breaches, missing):
        failed, passed = (failed + 1, passed) if bad else (failed, passed + 1)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
