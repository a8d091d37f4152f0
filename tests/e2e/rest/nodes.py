"""Real lockstep-mgmtd processes on loopback, each with a lockstepd (the fake one, or the real one), and a client."""
import http.client
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from basics import free_port, wait_for  # noqa: E402


class Reply:
    def __init__(self, response, body):
        self.status, self.headers, self.raw = response.status, response.headers, body
        self.type = (response.headers.get("Content-Type") or "").split(";")[0]

    @property
    def json(self):
        return json.loads(self.raw)

    def __repr__(self):
        return f"<{self.status} {self.type} {self.raw[:400]!r}>"


class Node:
    """One node: a folder, its two daemons, and a client that uses its first token."""

    recorder = None  # called with (method, path, body sent, Reply): the contract test listens to everything

    def __init__(self, build, folder, name, real=False):
        self.build, self.folder, self.name, self.real = pathlib.Path(build), pathlib.Path(folder), name, real
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.listen = None  # where lockstep-mgmtd listens by its file, if not there
        self.portal, self.link = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.socket = self.folder / "lockstepd.sock"
        self.script_file = pathlib.Path(str(self.socket) + ".script")
        self.subscribed = pathlib.Path(str(self.socket) + ".subscribed")  # is there once management speaks to the fake lockstepd
        self.mgmtd = self.lockstepd = None
        self.reactors = 1
        self.extra = self.lockstepd_extra = ""  # more lines of their configuration files
        self.ca = None  # the certificate that it shows, where it was given one; False: any is taken

    def write_configuration(self):
        self.replace("mgmtd.toml",
                     f'listen = "{self.listen or self.address}"\ndata_folder = "{self.folder}/mgmt"\n'
                     f'volume_folder = "{self.folder}/volumes"\nrpc_socket = "{self.socket}"\n'
                     f'node_name = "{self.name}"\nportals = ["{self.portal}"]\nlink_address = "{self.link}"\n{self.extra}')
        self.replace("lockstepd.toml", f'rpc_socket = "{self.socket}"\nstate_folder = "{self.folder}"\nreactors = {self.reactors}\n'
                                       f'buffer_mib = 64\n{self.lockstepd_extra}')

    def replace(self, name, text):
        """At once: the daemon that was started last may be reading it."""
        beside = self.folder / f"{name}.new"
        beside.write_text(text)
        beside.replace(self.folder / name)

    def spawn(self, name, arguments):
        log = open(self.folder / f"{name}.log", "ab")
        return subprocess.Popen([str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_lockstepd(self):
        self.write_configuration()
        if self.real:
            arguments = [self.build / "mgmt/main/lockstepd", "--config", self.folder / "lockstepd.toml"]
        else:
            arguments = [sys.executable, HERE / "fake_lockstepd.py", self.socket]
        self.lockstepd = self.spawn("lockstepd", arguments)

    def start_mgmtd(self):
        self.write_configuration()
        self.mgmtd = self.spawn("lockstep-mgmtd",
                                [self.build / "mgmt/main/lockstep-mgmtd", "--config", self.folder / "mgmtd.toml"])
        wait_for(f"{self.name} to answer", self.answers)

    def start(self):
        self.start_lockstepd()
        self.start_mgmtd()
        return self

    def answers(self):
        if self.mgmtd.poll() is not None:
            raise AssertionError(f"{self.name} ended: {self.log()[-2000:]}")
        try:
            return self.get("/api/v1/pair", token=False, quiet=True).status == 401
        except (OSError, http.client.HTTPException):
            return False

    def applied(self):
        """What the fake lockstepd was last told; nothing when it was told nothing yet."""
        path = pathlib.Path(str(self.socket) + ".applied")
        return json.loads(path.read_text()) if path.exists() else None

    def wanted_volume(self, volume_id):
        """As the fake lockstepd was last told of it."""
        applied = self.applied()
        return next(v for v in applied["volumes"] if v["id"] == volume_id)

    def wait_until_spoken_to(self):
        wait_for("management to speak to lockstepd", self.subscribed.exists)

    def told(self):
        """The fake lockstepd has the newest configuration."""
        applied = self.applied()
        return applied is not None and applied["revision"] == self.get("/api/v1/pair").json["revision"]

    def replica(self, volume_id):
        """What the fake lockstepd was told when it made its replica."""
        return json.loads(pathlib.Path(str(self.socket) + ".replicas").read_text())[volume_id]

    def log(self):
        return (self.folder / "lockstep-mgmtd.log").read_text(errors="replace")

    @staticmethod
    def end(process, how=signal.SIGTERM):
        if process and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def stop_mgmtd(self, how=signal.SIGTERM):
        self.end(self.mgmtd, how)

    def stop_lockstepd(self, how=signal.SIGTERM):
        self.end(self.lockstepd, how)

    def stop(self):
        self.stop_mgmtd()
        self.stop_lockstepd()

    def script(self, **what):
        """What the fake lockstepd is to say from now on."""
        beside = self.script_file.with_suffix(".new")
        beside.write_text(json.dumps(what))
        os.replace(beside, self.script_file)

    @property
    def token(self):
        return (self.folder / "mgmt/admin.token").read_text().strip()

    def connect(self, timeout=60):
        context = ssl.create_default_context(cafile=self.ca or self.folder / "mgmt/tls.crt")
        context.check_hostname = False
        if self.ca is False:
            context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)

    def request(self, method, path, body=None, token=True, headers=None, raw=None, quiet=False):
        sent = dict(headers or {})
        if token:
            sent.setdefault("Authorization", f"Bearer {self.token if token is True else token}")
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            reply = Reply(response, response.read())
        finally:
            connection.close()
        if Node.recorder and not quiet:
            Node.recorder(method, path, body, reply)
        return reply

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    def patch(self, path, body=None, **more):
        return self.request("PATCH", path, body, **more)

    def job(self, reply, seconds=60):
        """Waits for the end of the job that a request was answered with."""
        assert reply.status == 202, reply
        path = reply.headers["Location"]
        assert path == f"/api/v1/jobs/{reply.json['id']}"

        def ended():
            job = self.get(path).json
            return job if job.get("state") in ("done", "failed") else None
        return wait_for(f"the job {reply.json['kind']}", ended, seconds)

    def volume(self, name):
        for volume in self.get("/api/v1/volumes").json["items"]:
            if volume["name"] == name:
                return volume
        return None


PREFERRED = {"kind": "preferred", "preferred_side": "a"}


def make_pair(a, b, name="pair1", arbiter=None):
    made = a.post("/api/v1/pair", {"name": name, "arbiter": arbiter or PREFERRED})
    assert made.status == 201, made
    join(a, b)


def join(a, b, **node):
    invitation = a.post("/api/v1/pair/invitations")
    assert invitation.status == 201, invitation
    body = {"invitation": invitation.json["invitation"]}
    if node:
        body["node"] = node
    job = b.job(b.post("/api/v1/pair/join", body))
    assert job["state"] == "done", job
    for node in (a, b):
        wait_for("both nodes to see each other", lambda n=node: all(
            x["reachable"] and x["lockstepd"]["state"] == "running" for x in n.get("/api/v1/nodes").json["items"]))
