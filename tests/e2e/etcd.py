"""A real etcd for a pair's witness."""
import contextlib
import os
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

    @property
    def url(self):
        return f"{'https' if self.secure else 'http'}://{self.address}:{self.client}"

    @property
    def arbiter(self):
        """As lockstepd and the API are told of it."""
        arbiter = {"kind": "witness", "endpoints": [self.url]}
        if self.secure:
            arbiter |= {"ca": (self.folder / "ca.pem").read_text(), "user": self.USER, "password": self.PASSWORD}
        return arbiter

    def make_certificates(self):
        """A CA, and etcd's certificate that it signed."""
        def openssl(name, subject, *more):
            made = subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.pem", "-subj", subject, *more],
                stdin=subprocess.DEVNULL, capture_output=True, text=True)
            check(made.returncode == 0, f"openssl: {made.stderr}")
        openssl("ca", "/CN=A test's CA")
        openssl("etcd", "/CN=etcd", "-CA", self.folder / "ca.pem", "-CAkey", self.folder / "ca.key",
                "-addext", f"subjectAltName=IP:{self.address}", "-addext", "basicConstraints=critical,CA:FALSE")

    def enable_authentication(self):
        for command in (["user", "add", "root:root"], ["user", "grant-role", "root", "root"],
                        ["user", "add", f"{self.USER}:{self.PASSWORD}"], ["role", "add", "witness"],
                        ["role", "grant-permission", "--prefix=true", "witness", "readwrite", "/lockstep/"],
                        ["user", "grant-role", self.USER, "witness"], ["auth", "enable"]):
            done = subprocess.run(["etcdctl", "--endpoints", f"http://{self.address}:{self.health}", *command],
                                  env={**os.environ, "ETCDCTL_API": "3"}, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True)
            check(done.returncode == 0, f"etcdctl {command}: {done.stderr}")

    def start(self):
        log = open(self.folder / "etcd.log", "ab")
        peer = f"http://{self.address}:{self.peer}"
        first = not (self.folder / "etcd").exists()
        urls, more = self.url, []
        if self.secure:
            if first:
                self.make_certificates()
            urls += f",http://{self.address}:{self.health}"
            more = ["--cert-file", self.folder / "etcd.pem", "--key-file", self.folder / "etcd.key"]
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", urls, "--advertise-client-urls",
             urls, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
             f"default={peer}", "--logger", "zap", *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
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
