"""A real etcd for a pair's witness."""
import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess

from basics import check, free_port, wait_for


class Etcd:
    """A witness of one member. Secure: over TLS, and only the user "lockstep" reaches the pairs' keys."""

    USER, PASSWORD = "lockstep", "a secret of etcd"

    def __init__(self, folder, address="127.0.0.1", secure=False):
        self.folder, self.address, self.secure = folder, address, secure
        self.client, self.peer = free_port(address), free_port(address)
        self.health = free_port(address) if secure else self.client  # plain, for tests and etcdctl
        self.process = None
        self.line = None  # a SlowLine, by which the nodes reach it

    @property
    def endpoint(self):
        return self.line.url("https" if self.secure else "http") if self.line else self.url

    @property
    def url(self):
        return f"{'https' if self.secure else 'http'}://{self.address}:{self.client}"

    @property
    def arbiter(self):
        """As lockstepd and the API are told of it."""
        arbiter = {"kind": "witness", "endpoints": [self.endpoint]}
        if self.secure:
            arbiter |= {"ca": (self.folder / "ca.pem").read_text(), "user": self.USER, "password": self.PASSWORD}
        return arbiter

    @staticmethod
    def openssl(*arguments):
        made = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        check(made.returncode == 0, f"openssl: {made.stderr}")

    NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

    def make_ca(self, name="ca"):
        self.openssl("req", "-x509", *self.NEW_KEY, "-days", "2", "-subj", "/CN=A test's CA", "-keyout",
                     self.folder / f"{name}.key", "-out", self.folder / f"{name}.pem")

    def make_certificate(self, expired=False, host=None, ca="ca"):
        """etcd's, which the CA signs."""
        made, settings = self.folder / "made", self.folder / "ca.cnf"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        (made / "index").touch()
        settings.write_text(f"[ca]\ndefault_ca = it\n[it]\ndatabase = {made}/index\nnew_certs_dir = {made}\n"
                            "rand_serial = yes\ndefault_md = sha256\npolicy = any\nx509_extensions = server\n"
                            "[any]\ncommonName = supplied\n"
                            f"[server]\nbasicConstraints = critical,CA:FALSE\nsubjectAltName = IP:{host or self.address}\n")
        self.openssl("req", "-new", *self.NEW_KEY, "-subj", "/CN=etcd", "-keyout", self.folder / "etcd.key", "-out",
                     made / "request")
        self.openssl("ca", "-batch", "-notext", "-config", settings, "-cert", self.folder / f"{ca}.pem", "-keyfile",
                     self.folder / f"{ca}.key", "-startdate", "20200101000000Z", "-enddate",
                     "20200102000000Z" if expired else "20490101000000Z", "-in", made / "request", "-out",
                     self.folder / "etcd.pem")

    def ctl(self, *command, given=None):
        """etcdctl's output, by the user root where there are users."""
        who = ["--user", "root:root"] if self.secure and self.has_users else []
        done = subprocess.run(["etcdctl", "--endpoints", f"http://{self.address}:{self.health}", *who, *command],
                              env={**os.environ, "ETCDCTL_API": "3"}, input=given, capture_output=True)
        check(done.returncode == 0, f"etcdctl {command}: {done.stderr.decode()}")
        return done.stdout

    has_users = False
    cluster = "lockstep"

    def enable_authentication(self):
        for command in (["user", "add", "root:root"], ["user", "grant-role", "root", "root"], ["role", "add", "witness"],
                        ["role", "grant-permission", "--prefix=true", "witness", "readwrite", "/lockstep/"]):
            self.ctl(*command)
        self.add_user(self.PASSWORD)
        self.ctl("auth", "enable")
        self.has_users = True

    def add_user(self, password):
        self.ctl("user", "add", f"{self.USER}:{password}")
        self.ctl("user", "grant-role", self.USER, "witness")

    def record(self, key):
        """The value of a key, as bytes."""
        found = json.loads(self.ctl("get", key, "-w", "json"))
        return base64.b64decode(found["kvs"][0]["value"])

    def holds(self, key):
        return key.encode() in self.ctl("get", key, "--keys-only")

    def put(self, key, value):
        self.ctl("put", key, given=value)

    def backup(self):
        """What a backup of its disk would be; etcd is not running."""
        shutil.copytree(self.folder / "etcd", self.folder / "etcd.backup")

    def restore(self):
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "etcd.backup", self.folder / "etcd")

    def empty(self):
        """Its disk is a new one; etcd is not running."""
        shutil.rmtree(self.folder / "etcd")

    def become_another(self):
        """Another cluster at the same address; etcd is not running."""
        self.empty()
        self.cluster = "another"

    def restart(self):
        """Whoever had a connection makes a new one."""
        self.kill()
        self.start()

    def start(self):
        log = open(self.folder / "etcd.log", "ab")
        peer = f"http://{self.address}:{self.peer}"
        first = not (self.folder / "etcd").exists()
        urls, more = self.url, []
        if self.secure:
            if first:
                self.make_ca()
                self.make_certificate()
            urls += f",http://{self.address}:{self.health}"
            more = ["--cert-file", self.folder / "etcd.pem", "--key-file", self.folder / "etcd.key"]
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", urls, "--advertise-client-urls",
             urls, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
             f"default={peer}", "--initial-cluster-token", self.cluster, "--logger", "zap", *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("etcd to answer", self.answers, 30)
        if self.secure and first:
            self.enable_authentication()

    def answers(self):
        with contextlib.suppress(OSError):
            with socket.create_connection((self.address, self.health), 0.5) as s:
                s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                return b"true" in s.recv(4096)
        return False

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
