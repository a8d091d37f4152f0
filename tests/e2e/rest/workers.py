"""Cases side by side: each in the next free one of a few processes. Most of a case is waiting."""
import contextlib
import io
import multiprocessing
import queue
import unittest


class Outcome:
    """Of one case, on its way from the process that ran it."""

    def __init__(self, index, failures, output, notes):
        self.index, self.failures, self.output, self.notes = index, failures, output, notes


def work(cases, taken, done, take_notes):
    while True:
        with taken.get_lock():
            index = taken.value
            taken.value += 1
        if index >= len(cases):
            return
        result, output = unittest.TestResult(), io.StringIO()
        with contextlib.redirect_stdout(output):
            cases[index].run(result)
        failures = [text for _, text in result.failures + result.errors]
        failures += ["is expected to fail, and does not"] * len(result.unexpectedSuccesses)
        done.put(Outcome(index, failures, output.getvalue(), take_notes()))


def run(cases, jobs, take_notes):
    """Yields the outcome of each case as it comes. What `take_notes()` gives in the process of a case comes with it."""
    context = multiprocessing.get_context("fork")
    taken, done = context.Value("i", 0), context.Queue()
    workers = [context.Process(target=work, args=(cases, taken, done, take_notes)) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    try:
        for left in range(len(cases), 0, -1):
            yield next_of(done, workers, left)
    finally:
        for worker in workers:
            worker.terminate()


def next_of(done, workers, left):
    while True:
        try:
            return done.get(timeout=5)
        except queue.Empty:
            if any(worker.is_alive() for worker in workers):
                continue
            raise RuntimeError(f"the processes that run the cases are gone, with {left} of them not done") from None
