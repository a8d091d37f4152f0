"""What systemd does for lockstep-fence, and a device that powers a node off by killing its lockstepd."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading


class FenceSocket:
    """Of one node: a Unix socket; each connection starts a lockstep-fence with it as its standard input and output, as
    lockstep-fence.socket does (Accept=yes). The device is a script of the test's."""

    def __init__(self, helper, folder, options=None, limit=20, delay=0):
        self.helper, self.folder = helper, pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.path = self.folder / "fence.sock"
        self.settings = self.folder / "fence.toml"
        self.agent = self.folder / "agent"
        self.calls = self.folder / "calls"  # a line for each action
        self.options, self.limit, self.delay = options or {}, limit, delay
        self.children = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, open(self.folder / "journal", "ab") as journal:
                self.children.append(subprocess.Popen([self.helper, "--config", self.settings], stdin=connection,
                                                      stdout=connection, stderr=journal))

    def device(self, script):
        """`script` is Python: `action` is what is asked for; the partner's lockstepd is `victim()`."""
        self.agent.write_text(AGENT.format(python=sys.executable, calls=str(self.calls), script=script))
        self.agent.chmod(0o755)
        lines = [f'agent = "{self.agent}"', f"limit = {self.limit}", f"delay = {self.delay}", "[options]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.options.items()]
        self.settings.write_text("\n".join(lines) + "\n")
        self.settings.chmod(0o600)

    def asked(self, action):
        return self.calls.read_text().splitlines().count(action) if self.calls.exists() else 0

    def close(self):
        self.listener.close()
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()


AGENT = """#!{python}
import os, pathlib, signal, sys, time
given = dict(line.rstrip("\\n").split("=", 1) for line in sys.stdin)
action = given["action"]
with open("{calls}", "a") as calls:
    calls.write(action + "\\n")

def victim():
    path = pathlib.Path(given["pid_file"])
    return int(path.read_text()) if path.exists() and path.read_text() else 0

def runs(pid):
    try:
        return pid > 0 and pathlib.Path(f"/proc/{{pid}}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False

{script}
"""

# Powers the node off, and says truly whether it is.
HONEST = """
if action == "off":
    pid = victim()
    if runs(pid):
        os.kill(pid, signal.SIGKILL)
    while runs(pid):
        time.sleep(0.01)
    print("Success: Powered OFF")
    sys.exit(0)
print("Status: ON" if runs(victim()) else "Status: OFF")
sys.exit(0 if runs(victim()) else 2)
"""

# Its network is down, or the machine's power, and with it the device's.
DEAD = """
print("Failed: Unable to connect to 192.0.2.1, password", given["password"], file=sys.stderr)
sys.exit(1)
"""

LIAR = """
sys.exit(0)
"""

HANGS = """
if action == "status":
    sys.exit(0)
time.sleep(1000)
"""

# Of another machine, which is off.
WRONG = """
sys.exit(2 if action == "status" else 0)
"""
