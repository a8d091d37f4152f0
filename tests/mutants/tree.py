"""A copy of the sources with a build of its own, some files of which are changed."""
import os
import re
import signal
import subprocess

MEMORY = 10 << 30  # bytes of address space: some simulated disks are large, and mostly empty
running = set()  # process groups


class TookTooLong(Exception):
    pass


def end_all():
    for group in list(running):
        end_group(group)


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def limited(command, cwd, seconds, env=None, memory=MEMORY):
    """Runs it with all its children; gives status and output."""
    if memory:
        command = ["prlimit", f"--as={memory}", "--core=0", *command]
    with subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
        running.add(process.pid)
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            raise TookTooLong from None
        finally:
            end_group(process.pid)
            running.discard(process.pid)


class Tree:
    def __init__(self, repo, scratch, jobs):
        self.repo = repo
        self.root = scratch / "tree"
        self.build = self.root / "build/release"
        self.scratch = scratch
        self.jobs = jobs
        # As ./check has it: objects are found again from another clone of the same sources.
        self.env = os.environ | {"CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": "5G"}

    def sources(self):
        names = subprocess.run(["git", "ls-files", "-z"], cwd=self.repo, capture_output=True, text=True, check=True)
        return [n for n in names.stdout.split("\0") if n and (self.repo / n).is_file()]

    def copy(self):
        """What is the same already keeps its time, so that little is built again."""
        wanted = set(self.sources())
        for name in wanted:
            self.restore(name)
        for path in self.root.rglob("*"):
            name = path.relative_to(self.root).as_posix()
            if not name.startswith("build/") and path.is_file() and name not in wanted:
                path.unlink()

    def content(self, name):
        return (self.repo / name).read_bytes()

    def restore(self, name):
        source, target = self.repo / name, self.root / name
        content = self.content(name)
        if target.is_file() and target.read_bytes() == content:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)

    def configure(self):
        """Empty: it went well."""
        status, output = limited(["cmake", "--preset", "release"], self.root, 300, self.env, None)
        return "" if status == 0 else output[-2000:]

    def make(self, targets):
        """Empty: it went well; else all errors."""
        command = ["cmake", "--build", str(self.build), "-j", str(self.jobs), "--target", *targets, "--", "-k", "0"]
        status, output = limited(command, self.root, 3600, self.env, None)
        if status == 0:
            return ""
        lines = [line for line in output.splitlines() if re.search(r"error:|undefined", line)]
        return "\n".join(lines) or output[-500:]
