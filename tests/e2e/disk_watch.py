"""Notices when the disk of this machine, or all of it, stands still. Daemons give such a disk up, or wait for it, as they should; a test that
expected something else then says nothing of them."""
import collections
import mmap
import os
import tempfile
import threading
import time

LONG = 1.0  # seconds for one write of 4 KiB: a disk that works takes some milliseconds
EVERY = 0.25


class DiskWatch:
    """Writes now and then to where the tests keep their data."""

    def __init__(self):
        self.stalls = collections.deque()  # (when it was over, seconds)
        self.over = threading.Event()
        self.under_way = None
        self.file = tempfile.NamedTemporaryFile(prefix="lockstep-e2e-watch-", dir=os.environ.get("LOCKSTEP_E2E_FOLDER"))
        self.thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.file.close()

    def _work(self):
        page = mmap.mmap(-1, 4096)
        woke = time.monotonic()
        while not self.over.wait(EVERY):
            self.under_way = time.monotonic()
            self._note(woke + EVERY)  # this thread was to run then
            os.pwrite(self.file.fileno(), page, 0)
            os.fdatasync(self.file.fileno())
            begun, self.under_way = self.under_way, None
            self._note(begun)
            woke = time.monotonic()

    def _note(self, begun):
        now = time.monotonic()
        if now - begun >= LONG:
            self.stalls.append((now, now - begun))

    def longest_since(self, begun):
        """Seconds that the disk stood still at a stretch since then; 0 if it did not."""
        found = [seconds for when, seconds in self.stalls if when >= begun]
        still = self.under_way
        if still is not None and time.monotonic() - still >= LONG:
            found.append(time.monotonic() - still)
        return max(found, default=0)
