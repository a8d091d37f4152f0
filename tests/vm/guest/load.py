"""fio that writes files in random order and verifies each block, round after round, while something is done to nodes."""
import pathlib
import subprocess
import threading
import time

from harness import Failed, check

SIZE_MIB = 24


class VerifiedFiles:
    """Rounds of fio on two files in turn, so that a finished round's file stays for verify_again()."""

    def __init__(self, folder):
        self.folder, self.rounds, self.problem = pathlib.Path(folder), 0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        self.thread.join(300 if kind is None else 5)

    def _arguments(self, round_number, *more):
        # Each round has a seed of its own: a block that a later round failed to write is seen.
        return ["fio", "--name=verified", f"--filename={self.folder}/file-{round_number % 2}", f"--size={SIZE_MIB}m",
                "--rw=randwrite", "--bs=4k", "--bssplit=4k/60:16k/30:128k/10", "--direct=1", "--ioengine=libaio", "--iodepth=8", "--fsync=64",
                "--verify=crc32c", "--verify_fatal=1", "--verify_pattern=%o", f"--randseed={round_number + 1}", "--eta=never",
                "--minimal", *more]

    def _work(self):
        while not self.stopping.is_set() and not self.problem:
            done = subprocess.run(self._arguments(self.rounds), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0 or "verify:" in done.stdout:
                self.problem = f"fio in round {self.rounds + 1} ended with {done.returncode}: {done.stdout[-1500:]}"
            else:
                self.rounds += 1

    def _written(self):
        """Bytes that left for the disk so far: of every device below the file system."""
        for line in pathlib.Path("/proc/diskstats").read_text().splitlines():
            fields = line.split()
            if fields[2].startswith("dm-"):
                return int(fields[9])
        return 0

    def wait_more(self, what, sectors=4096, seconds=180):
        """Waits until 2 MiB more were written: the load goes on."""
        begun, deadline = self._written(), time.monotonic() + seconds
        while self._written() < begun + sectors:
            check(self.problem is None, f"{what}: {self.problem}")
            if time.monotonic() > deadline:
                raise Failed(f"{what}: fio wrote only {self._written() - begun} sectors in {seconds} s")
            time.sleep(0.1)

    def finish(self):
        """Ends after the round under way; gives the number of rounds."""
        self.stopping.set()
        self.thread.join(300)
        check(not self.thread.is_alive(), "fio does not end")
        check(self.problem is None, self.problem)
        check(self.rounds > 0, "no round of fio ended")
        return self.rounds

    def verify_again(self):
        """Reads back the files of the last rounds."""
        for round_number in range(max(0, self.rounds - 2), self.rounds):
            done = subprocess.run(self._arguments(round_number, "--verify_only"), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
            check(done.returncode == 0 and "verify:" not in done.stdout,
                  f"reading back round {round_number + 1}: fio ended with {done.returncode}: {done.stdout[-1500:]}")
