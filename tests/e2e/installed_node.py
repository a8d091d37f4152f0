"""A node with all of it where the package puts it, without the package: /etc/lockstep, /var/lib/lockstep, the user, both daemons.

Each has a mount namespace of its own, so that two are on one machine and the machine itself is not changed. In the place of systemd's
there is a `systemctl` that stops and starts the real daemons as the units do, and notes what it was told. It needs root.
"""
import contextlib
import json
import os
import shutil
import subprocess

from basics import REPO, Skipped, free_port, wait_for

MADE = r"""
set -e
for place in etc usr var/lib; do
  mkdir -p "$folder/upper/$place" "$folder/work/$place"
  mount -t overlay overlay -o "lowerdir=/$place,upperdir=$folder/upper/$place,workdir=$folder/work/$place" "/$place"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /etc/lockstep /var/lib/lockstep /usr/lib/lockstep /usr/sbin "$folder/state"
chmod 0711 "$folder"
mount --bind "$folder/state" /var/lib/lockstep
install -m 0755 "$repo/packaging/prepare-state" /usr/lib/lockstep/prepare-state
install -m 0644 "$repo/packaging/config/mgmtd.toml" "$repo/packaging/config/lockstepd.toml" /etc/lockstep/
for program in lockstepd lockstep-mgmtd; do install -m 0755 "$build/mgmt/main/$program" /usr/sbin/; done
rm -f /usr/bin/systemctl /bin/systemctl
install -m 0755 "$folder/systemctl" /usr/bin/systemctl
/usr/lib/lockstep/prepare-state
touch "$folder/made"
exec sleep infinity
"""

# "refuse" in the node's folder: so many starts of management fail, as systemd says it.
SYSTEMCTL = r"""#!/bin/bash
folder=FOLDER
echo "$*" >>"$folder/systemctl.log"
verb=$1; shift
[ "$verb" = daemon-reload ] && exit 0
stop() {
  local pid; pid=$(cat "$folder/$1.pid" 2>/dev/null) || return 0
  kill -TERM "$pid" 2>/dev/null
  timeout 40 tail --pid="$pid" -f /dev/null
  rm -f "$folder/$1.pid"
}
start() {
  local configuration=mgmtd.toml
  [ "$1" = lockstepd ] && configuration=lockstepd.toml
  if [ "$1" = lockstep-mgmtd ] && [ "$(cat "$folder/refuse" 2>/dev/null || echo 0)" -gt 0 ]; then
    echo $(($(cat "$folder/refuse") - 1)) >"$folder/refuse"
    echo "Job for $1.service failed because the control process exited with error code." >&2
    return 1
  fi
  setpriv --reuid=lockstep --regid=lockstep --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
    "/usr/sbin/$1" --config "/etc/lockstep/$configuration" </dev/null >>"$folder/$1.log" 2>&1 &
  echo $! >"$folder/$1.pid"
}
status=0
for unit; do
  unit=${unit%.service}
  case "$verb" in
    stop) stop "$unit" ;;
    restart) stop "$unit"; start "$unit" || status=1 ;;
    start) kill -0 "$(cat "$folder/$unit.pid" 2>/dev/null)" 2>/dev/null || start "$unit" || status=1 ;;
    *) exit 2 ;;
  esac
done
exit $status
"""


class InstalledNode:
    def __init__(self, build, folder, name):
        if os.geteuid() != 0:
            raise Skipped("it is not run as root")
        self.build, self.folder, self.name = build, folder, name
        self.portal, self.link, self.management = (f"127.0.0.1:{free_port()}" for _ in range(3))
        folder.mkdir()
        systemctl = folder / "systemctl"
        systemctl.write_text(SYSTEMCTL.replace("FOLDER", str(folder)))
        environment = {**os.environ, "folder": str(folder), "build": str(build), "repo": str(REPO)}
        self.log = open(folder / "made.log", "wb")
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", MADE], env=environment,
                                       stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_for("the node to be laid out", self.is_laid_out)

    def is_laid_out(self):
        if self.holder.poll() is not None:
            raise AssertionError((self.folder / "made.log").read_text())
        return (self.folder / "made").exists()

    def inside(self, *words, typed=None, **more):
        """(status, standard output, standard error) of a program on this node."""
        done = subprocess.run(["nsenter", "--target", str(self.holder.pid), "--mount", "--", *map(str, words)], input=typed,
                              stdin=None if typed is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=180, check=False, **more)
        return done.returncode, done.stdout, done.stderr

    def command(self, *arguments, typed=None):
        return self.inside(self.build / "ui-api/cli/lockstep", *arguments, typed=typed)

    def setup(self, *arguments, typed=None, **other):
        """With this node's addresses, but for what is said otherwise."""
        own = {"node_name": self.name, "portal": self.portal, "link_address": self.link, "management_address": self.management, **other}
        options = [word for key, value in own.items() if value for word in ("--" + key.replace("_", "-"), value)]
        return self.command("setup", *options, *arguments, typed=typed)

    def systemctl(self, *arguments):
        return self.inside("systemctl", *arguments)

    def get(self, *arguments):
        """What the command answers in JSON."""
        status, out, err = self.command("--json", *arguments)
        if status != 0:
            raise AssertionError(f"{arguments}: {err}")
        return json.loads(out)

    @property
    def etc(self):
        return self.folder / "upper/etc/lockstep"

    @property
    def configuration(self):
        return self.etc / "mgmtd.toml"

    def told_systemctl(self):
        log = self.folder / "systemctl.log"
        return log.read_text().splitlines() if log.exists() else []

    def stop(self):
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self.systemctl("stop", "lockstep-mgmtd", "lockstepd")
        self.holder.kill()
        self.holder.wait()
        self.log.close()
        shutil.rmtree(self.folder / "work", ignore_errors=True)

    def show(self):
        for name in ("made", "lockstep-mgmtd", "lockstepd", "systemctl"):
            log = self.folder / f"{name}.log"
            print(f"\n--- {self.name}, {name}\n{log.read_text(errors='replace')[-3000:] if log.exists() else ''}")
