"""Tests side by side: each in the next free one of a few processes. Most of a test is waiting."""
import contextlib
import io
import multiprocessing
import queue


def work(perform, count, taken, done):
    while True:
        with taken.get_lock():
            index = taken.value
            taken.value += 1
        if index >= count:
            return
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            outcome = perform(index)
        done.put((index, outcome, output.getvalue()))


def run(perform, count, jobs):
    """Yields the index, what `perform(index)` gave in its process, and what it printed, of each as it comes."""
    context = multiprocessing.get_context("fork")
    taken, done = context.Value("i", 0), context.Queue()
    workers = [context.Process(target=work, args=(perform, count, taken, done)) for _ in range(min(jobs, count))]
    for worker in workers:
        worker.start()
    try:
        for left in range(count, 0, -1):
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
            raise RuntimeError(f"the processes that run the tests are gone, with {left} of them not done") from None
