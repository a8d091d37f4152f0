"""The witness as the package lockstep-witness makes it: its command, and etcd by the configuration that it writes."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from basics import REPO, check, free_port, wait_for

COMMAND = REPO / "packaging/witness/lockstep-witness"
sys.dont_write_bytecode = True
sys.path.insert(0, str(COMMAND.parent))
from lockstep_witness.etcd import Etcd, EtcdSaid, b64, span  # noqa: E402,F401
# Root's command would have etcd run as the package's user, whom only the package makes.
AS_ANYBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []


def two_free_ports():
    """The first of two that follow one another."""
    first = free_port()
    while (following := free_port()) != first + 1:
        first = following
    return first


class PackagedWitness:
    def __init__(self, folder):
        self.folder, self.port, self.process = folder, two_free_ports(), None
        self.config, self.data = folder / "etc", folder / "data"
        folder.mkdir(exist_ok=True)
        if AS_ANYBODY:
            shutil.chown(folder, "nobody", "nogroup")
            for above in folder.parents[:2]:
                above.chmod(above.stat().st_mode | 0o011) if above != pathlib.Path("/tmp") else None

    def spawn(self, *arguments):
        return subprocess.Popen([*AS_ANYBODY, COMMAND, "--config", self.config, "--data", self.data, *arguments], cwd="/",
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments):
        """(status, what it says)"""
        process = self.spawn(*arguments)
        said = process.communicate(timeout=120)[0]
        return process.returncode, said

    def done(self, *arguments):
        status, said = self.run(*arguments)
        check(status == 0, f"lockstep-witness {' '.join(arguments)}: {said}")
        return said

    def refused(self, words, *arguments):
        status, said = self.run(*arguments)
        check(status == 1 and words in said,
              f"lockstep-witness {' '.join(arguments)} is refused with \"{words}\": {status} {said}")

    @property
    def setup_arguments(self):
        return ["setup", "--address", "127.0.0.1", "--port", str(self.port), "--no-start"]

    def here(self, path):
        """What stands in the unit, in this witness's folders."""
        return path.replace("/etc/lockstep-witness", str(self.config)).replace("/var/lib/lockstep-witness", str(self.data))

    def unit_would_start_it(self):
        unit = (COMMAND.parent / "lockstep-witness.service").read_text()
        return all(pathlib.Path(self.here(path)).exists()
                   for path in re.findall("^(?:Condition|Assert)PathExists=(.*)$", unit, re.M))

    def start(self):
        """As its unit does."""
        check(self.unit_would_start_it(), "its unit starts it")
        self.start_anyhow()
        wait_for("the witness to answer", lambda: self.run("list")[0] == 0, 60)

    def start_anyhow(self):
        """As whoever does not ask what its unit would."""
        log = open(self.folder / "etcd.log", "ab")
        unit = (COMMAND.parent / "lockstep-witness.service").read_text()
        command = self.here(re.search("^ExecStart=(.*)$", unit, re.M).group(1))
        self.process = subprocess.Popen([*AS_ANYBODY, *shlex.split(command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def lose_data(self):
        """Its disk is a new one; what is in /etc is kept."""
        self.kill()
        shutil.rmtree(self.data / "etcd", ignore_errors=True)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pair_folder(self, name):
        return self.config / "pairs" / name

    def id_of(self, name):
        return (self.pair_folder(name) / "id").read_text().strip()

    def etcd_as_nobody(self):
        return Etcd(("127.0.0.1", self.port), "127.0.0.1", self.config / "ca.pem")

    def etcd_as(self, name):
        """etcd, spoken to as this pair's user."""
        etcd = Etcd(("127.0.0.1", self.port), "127.0.0.1", self.pair_folder(name) / "ca.pem")
        etcd.log_in(f"pair-{name}", (self.pair_folder(name) / "password").read_text().strip())
        return etcd


def command_in(said, *begin):
    """The words of the printed command that begins so, without the first: whoever runs it says where the command is."""
    for line in said.splitlines():
        words = shlex.split(line) if line.startswith("    ") else []
        if words[:len(begin)] == list(begin):
            return words[1:]
    check(False, f"it prints `{' '.join(begin)} ...`: {said}")
    return []
