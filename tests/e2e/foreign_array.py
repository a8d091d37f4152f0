"""Debian's tgt as somebody else's array: a target with logical units in files, on a free port, gone with its object."""
import os
import pathlib
import random
import shutil
import subprocess
import time

TARGET = "iqn.2005-10.org.example:array"


class ForeignArray:
    def __init__(self, folder, port):
        self.folder, self.port = pathlib.Path(folder), port
        self.control = str(random.randrange(10_000, 30_000))
        self.process = None
        self.setup = []  # replayed by every start()

    @staticmethod
    def missing():
        return next((p for p in ("tgtd", "tgtadm") if shutil.which(p, path=f"{os.environ['PATH']}:/usr/sbin") is None), None)

    def start(self):
        self.process = subprocess.Popen(
            ["/usr/sbin/tgtd", "-f", "-C", self.control, "--iscsi", f"portal=127.0.0.1:{self.port}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self.adm("--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET, check=False):
            assert time.monotonic() < deadline and self.process.poll() is None, "tgtd does not come up"
            time.sleep(0.1)
        self.adm("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")
        for command in self.setup:
            self.adm(*command)
        return self

    def adm(self, *arguments, check=True):
        done = subprocess.run(["/usr/sbin/tgtadm", "-C", self.control, "--lld", "iscsi", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert not check or done.returncode == 0, f"tgtadm {' '.join(arguments)}: {done.stdout}"
        return done.returncode == 0

    def unit(self, lun, path, block=512):
        self._do("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", str(lun), "-b", str(path),
                 "--blocksize", str(block))

    def credentials(self, user, secret):
        self._do("--op", "new", "--mode", "account", "--user", user, "--password", secret)
        self._do("--op", "bind", "--mode", "account", "--tid", "1", "--user", user)

    def _do(self, *command):
        self.setup.append(command)
        if self.process:
            self.adm(*command)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def url(self, lun, credentials=""):
        return f"iscsi://{credentials}127.0.0.1:{self.port}/{TARGET}/{lun}"
