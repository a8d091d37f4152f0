"""What becomes of a test that is carried out: when it is carried out again, and when what it found stands."""
import collections
import contextlib
import io
import os
import time
import traceback

from basics import Failed, Skipped, TooSlow, Wrong

TIMES = 5  # that a test is carried out alone, at the most, while it is too slow
IN_TIME = 2  # that it has to be in time, once it was too slow
MAY_SKIP = not os.environ.get("LOCKSTEP_NO_SKIPS")

Outcome = collections.namedtuple("Outcome", "result text begun tries")  # passed, failed, wrong, slow or skipped


def carried_out(test, alone, again=False):
    """What became of it. One that is too slow beside others comes later, `alone`; `again`: it came to no good end before."""
    begun, tries, in_time, late = time.monotonic(), 0, 0, int(again)
    while True:
        tries += 1
        try:
            note = test()
            in_time += 1
            result, text = "passed", f"ok ({time.monotonic() - begun:.1f} s){f'  {note}' if note else ''}"
            if not late or in_time == IN_TIME:
                break
            print(f"and once more, since once is luck: {text}")
        except TooSlow as why:
            late += 1
            result, text = "slow", f"once more, later: {why}"
            if not alone:
                break
            print(f"once more: {why}")
        except Exception as why:
            result, text = of_exception(why, time.monotonic() - begun)
            break
        if alone and tries - in_time > TIMES - IN_TIME:
            result, text = "failed", f"FAILED ({time.monotonic() - begun:.1f} s), too slow {tries - in_time} times of {tries}: {text}"
            break
    return Outcome(result, text, begun, tries)


def of_exception(why, seconds):
    match why:
        case Skipped() if MAY_SKIP:
            return "skipped", f"SKIPPED: {why}"
        case Skipped():
            return "failed", f"FAILED: would be skipped, and LOCKSTEP_NO_SKIPS is set: {why}"
        case Wrong():
            return "wrong", f"FAILED ({seconds:.1f} s), data or memory: {why}"
        case Failed():
            return "failed", f"FAILED ({seconds:.1f} s): {why}"
    return "failed", f"FAILED ({seconds:.1f} s)\n{''.join(traceback.format_exception(why))}"


def beside_a_stall(outcome, stall):
    """Of a test during which the machine's disk stood still, for `stall` seconds: it expected what such a disk does not do. What
    it found in data stands all the same."""
    if outcome.result != "failed" or not stall:
        return outcome
    text = f"once more, later: the machine or its disk stood still for {stall:.1f} s meanwhile; {outcome.text}"
    return outcome._replace(result="slow", text=text)


def self_test():
    """It must be able to say each of its verdicts."""
    def raising(*what):
        left = list(what)

        def test():
            if error := left.pop(0):
                raise error
        return test

    slow, lost = TooSlow("slow"), Wrong("lost")
    with contextlib.redirect_stdout(io.StringIO()):
        verdicts = [carried_out(raising(*what), alone, again).result for what, alone, again in (
            ((None,), False, False), ((slow,), False, False), ((lost,), True, False), ((Failed("no"),), True, False),
            ((None,), True, False), ((slow, None, None), True, False), ((slow, None, slow, slow, slow), True, False),
            ((None, None), True, True), ((None, slow, slow, slow, slow), True, True), ((slow, lost), True, False))]
    return verdicts == ["passed", "slow", "wrong", "failed", "passed", "passed", "failed", "passed", "failed", "wrong"] and [
        beside_a_stall(Outcome(result, "", 0, 1), 1.0).result for result in ("passed", "failed", "wrong", "skipped")] == [
            "passed", "slow", "wrong", "skipped"]
