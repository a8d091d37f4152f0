"""One write after the other past the page cache, and the longest time that one took: the pause that a guest notices."""
import mmap
import os
import threading
import time

from harness import check, wait_for


class Probe:
    def __init__(self, device):
        self.handle = os.open(device, os.O_WRONLY | os.O_DIRECT)
        self.writes, self.longest, self.error = 0, 0.0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(300)
        os.close(self.handle)

    def _work(self):
        buffer = mmap.mmap(-1, 4096)
        while not self.stopping.is_set() and not self.error:
            begun = time.monotonic()
            try:
                os.pwritev(self.handle, [buffer], self.writes % 1024 * 4096)
            except OSError as error:
                self.error = str(error)
            self.longest = max(self.longest, time.monotonic() - begun)
            self.writes += 1

    def wait_writes(self, more, seconds=120):
        begun = self.writes
        wait_for(f"{more} more writes", lambda: self.error or self.writes >= begun + more, seconds, 0.05)
        check(self.error is None, f"a write failed: {self.error}")
