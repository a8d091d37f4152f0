"""A whole pair on this machine: two nodes on loopback addresses of their own, each its own lockstepd and lockstep-mgmtd,
and a one-member etcd as the witness. Everything lives in one folder."""
import contextlib
import errno
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

PAGE = pathlib.Path(__file__).resolve().parents[2] / "ui-api/web/dist"
ISCSI, LINK, MANAGEMENT, ETCD_CLIENT, ETCD_PEER = 3260, 3261, 8443, 2379, 2380


class Trouble(Exception):
    """A sentence for the person at the keyboard."""


class Node:
    """One of the two nodes: its folder, its address, its two daemons."""

    def __init__(self, side, folder, address, build, rdma):
        self.side, self.folder, self.address, self.build, self.rdma = side, folder, address, build, rdma
        self.name = f"node-{side}"
        self.lockstepd = self.mgmtd = None
        self.socket = folder / "lockstepd.sock"
        self.token_file = folder / "mgmt" / "admin.token"
        self.certificate = folder / "mgmt" / "tls.crt"

    @property
    def url(self):
        return f"https://{self.address}:{MANAGEMENT}"

    @property
    def portal(self):
        return f"{self.address}:{ISCSI}"

    @property
    def token(self):
        return self.token_file.read_text().strip()

    def write_configuration(self):
        for folder in (self.folder, self.folder / "volumes", self.folder / "mgmt"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "lockstepd.toml").write_text(
            f'rpc_socket = "{self.socket}"\n'
            f'state_folder = "{self.folder}"\n'
            "reactors = 1\n"
            "buffer_mib = 128\n")
        (self.folder / "mgmtd.toml").write_text(
            f'listen = "{self.address}:{MANAGEMENT}"\n'
            f'data_folder = "{self.folder / "mgmt"}"\n'
            f'volume_folder = "{self.folder / "volumes"}"\n'
            f'rpc_socket = "{self.socket}"\n'
            f'web_folder = "{PAGE}"\n'
            f'node_name = "{self.name}"\n'
            f'portals = ["{self.portal}"]\n'
            f'link_address = "{self.address}:{LINK}"\n')

    def _spawn(self, name, arguments, **environment):
        log = open(self.folder / f"{name}.log", "ab")
        return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                env={**os.environ, **environment})

    def start_lockstepd(self):
        program, environment = "mgmt/main/lockstepd", {}
        if self.rdma:
            program, environment = "tests/support/lockstepd_test_fabric", {"LOCKSTEP_TEST_FABRIC": str(self.rdma)}
        self.lockstepd = self._spawn("lockstepd", [self.build / program, "--config", self.folder / "lockstepd.toml"], **environment)

    def serves_over_rdma(self):
        return f"Serving at {self.portal}, over TCP and RDMA." in (self.folder / "lockstepd.log").read_text(errors="replace")

    def start_mgmtd(self):
        self.mgmtd = self._spawn("lockstep-mgmtd", [self.build / "mgmt/main/lockstep-mgmtd", "--config", self.folder / "mgmtd.toml"])
        wait_for(f"{self.name}'s management to answer", self._answers, 20, alive=self.mgmtd,
                 log=self.folder / "lockstep-mgmtd.log")

    def _answers(self):
        if not self.token_file.exists() or not self.certificate.exists():
            return False
        try:
            self.get("/api/v1/pair")
            return True
        except (OSError, ssl.SSLError):
            return False

    def request(self, method, path, body=None, timeout=30):
        context = ssl.create_default_context(cafile=self.certificate)
        context.check_hostname = False  # the certificate itself is pinned
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.token}",
                                                  "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            problem = json.loads(error.read() or b"{}")
            raise Trouble(f"{method} {path} on {self.name}: {problem.get('title')}. {problem.get('detail')}") from None

    def get(self, path):
        return self.request("GET", path)

    def job(self, method, path, body=None, timeout=60):
        """Makes a request that is answered with a job, and waits for its end."""
        job = self.request(method, path, body)
        deadline = time.monotonic() + timeout
        while job["state"] in ("pending", "running"):
            if time.monotonic() > deadline:
                raise Trouble(f"{job['kind']} takes longer than {timeout} s: {job['message']}")
            time.sleep(0.05)
            job = self.get(f"/api/v1/jobs/{job['id']}")
        if job["state"] == "failed":
            raise Trouble(f"{job['kind']} failed: {job['error']['title']}. {job['error']['detail']}")
        return job

    def kill_lockstepd(self):
        self.lockstepd.kill()
        self.lockstepd.wait()

    def stop(self):
        """Both daemons, by agreement with the partner."""
        for process in (self.mgmtd, self.lockstepd):
            stop_process(process)


def stop_process(process, seconds=20):
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(what, condition, seconds, alive=None, log=None):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if alive is not None and alive.poll() is not None:
            raise Trouble(f"Waited for {what}, but the process ended with status {alive.returncode}.{tail(log)}")
        if time.monotonic() > deadline:
            raise Trouble(f"Waited {seconds} s for {what} in vain.{tail(log)}")
        time.sleep(0.05)


def tail(log):
    if log is None or not log.exists():
        return ""
    lines = log.read_text(errors="replace").splitlines()[-5:]
    return "".join(f"\n    {line}" for line in lines) + f"\n  (from {log})"


def free(address, port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            return True
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise


class Pair:
    """Finds loopback addresses that nobody uses, starts everything, stops everything. With `rdma` the daemons have the
    tests' fabric between processes (tests/support/rdma_between) in place of a device."""

    def __init__(self, folder, build, rdma=False):
        self.folder, self.build = pathlib.Path(folder).resolve(), pathlib.Path(build).resolve()
        self.etcd = None
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.network = self._network()
        self.witness = f"{self.network}.10"
        self.rdma = self.folder / "rdma" if rdma else None
        self.a = Node("a", self.folder / "node-a", f"{self.network}.11", self.build, self.rdma)
        self.b = Node("b", self.folder / "node-b", f"{self.network}.12", self.build, self.rdma)
        self.nodes = (self.a, self.b)

    def _network(self):
        """The addresses are part of the pair's configuration, so they are kept beside its data."""
        kept = self.folder / "network"
        candidates = [kept.read_text().strip()] if kept.exists() else [f"127.0.{n}" for n in range(0, 250)]
        for network in candidates:
            if all(free(f"{network}.{host}", port) for host, port in
                   ((10, ETCD_CLIENT), (10, ETCD_PEER), (11, ISCSI), (11, LINK), (11, MANAGEMENT),
                    (12, ISCSI), (12, LINK), (12, MANAGEMENT))):
                kept.write_text(network + "\n")
                return network
        raise Trouble(f"The pair in {self.folder} uses the addresses {candidates[0]}.10 to .12, and some of their ports "
                      "are in use. Does it run already? Stop the other, or choose another folder with --data.")

    def start(self):
        if self.rdma:
            self.rdma.mkdir(exist_ok=True)
            (self.rdma / "faults").unlink(missing_ok=True)
        self.start_witness()
        for node in self.nodes:
            node.write_configuration()
            node.start_lockstepd()
            node.start_mgmtd()
        if self.a.get("/api/v1/pair")["state"] == "none":
            self._make_pair()
        wait_for("both nodes to see each other", self.linked, 30)
        if self.rdma:
            wait_for("both nodes to serve over RDMA", lambda: all(n.serves_over_rdma() for n in self.nodes), 10)
            self.wait_carried("rdma")

    def carriers(self):
        return [n["partner_link"]["path"] for n in self.a.get("/api/v1/nodes")["items"]]

    def wait_carried(self, transport, seconds=60):
        wait_for(f"the link's data to go by {transport}", lambda: self.carriers() == [transport, transport], seconds)

    @contextlib.contextmanager
    def rdma_cut(self):
        (self.rdma / "cut").touch()
        try:
            yield
        finally:
            (self.rdma / "cut").unlink()

    def check_rdma(self):
        """What the daemons did against the rules of RDMA would lose a connection on a device."""
        faults = self.rdma / "faults" if self.rdma else None
        if faults and faults.exists():
            raise Trouble(f"The daemons used RDMA wrongly:\n{faults.read_text()}")

    def start_witness(self):
        self.run_witness()

        def healthy():
            try:
                with urllib.request.urlopen(f"http://{self.witness}:{ETCD_CLIENT}/health", timeout=2) as answer:
                    return json.load(answer).get("health") == "true"
            except (OSError, ValueError):
                return False
        wait_for("the witness (etcd) to answer", healthy, 20, alive=self.etcd, log=self.folder / "witness.log")

    def run_witness(self):
        data = self.folder / "witness"
        data.mkdir(exist_ok=True, mode=0o700)
        log = open(self.folder / "witness.log", "ab")
        client, peer = f"http://{self.witness}:{ETCD_CLIENT}", f"http://{self.witness}:{ETCD_PEER}"
        self.etcd = subprocess.Popen(
            ["etcd", "--name", "witness", "--data-dir", data, "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"witness={peer}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _make_pair(self):
        self.a.request("POST", "/api/v1/pair", {
            "name": "pair1",
            "arbiter": {"kind": "witness", "endpoints": [f"http://{self.witness}:{ETCD_CLIENT}"]}})
        invitation = self.a.request("POST", "/api/v1/pair/invitations")["invitation"]
        self.b.job("POST", "/api/v1/pair/join", {"invitation": invitation})

    def linked(self):
        nodes = self.a.get("/api/v1/nodes")["items"]
        return len(nodes) == 2 and all(n["reachable"] and n["partner_link"]["connected"] for n in nodes)

    def volume(self, name):
        for volume in self.a.get("/api/v1/volumes")["items"]:
            if volume["name"] == name:
                return volume
        return None

    def create_volume(self, name, size):
        # For this machine's own initiators, under whatever name: the pair listens on loopback only.
        self.a.job("POST", "/api/v1/volumes", {"name": name, "size_bytes": size, "any_initiator": True})
        return self.volume(name)

    def in_sync(self, volume_id, through=None):
        volume = (through or self.a).get(f"/api/v1/volumes/{volume_id}")
        return len(volume["replicas"]) == 2 and all(
            r["state"] == "in_sync" and r["serving"] for r in volume["replicas"])

    def data_file(self, node, volume_id):
        return node.folder / "volumes" / f"{volume_id}.data"

    def stop(self):
        # Both at once, so that neither has to take the volumes over from the other first.
        processes = [p for n in self.nodes for p in (n.mgmtd, n.lockstepd)]
        for process in processes:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            stop_process(process)
        stop_process(self.etcd)
