"""etcd: how it is spoken to, what it is configured with, and its first start."""
import base64
import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

from lockstep_witness.files import Folder, Refused, Settings, in_url

UNIT = "lockstep-witness.service"
AUTHENTICATION_OFF = "authentication is not enabled"


class EtcdSaid(Exception):
    """etcd answered, and did not do what was asked."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message.removeprefix("etcdserver: ")


class DoesNotAnswer(Refused):
    """Perhaps it does not run."""


class TakesEverybody(Refused):
    """etcd runs, and asks nobody for a password."""


class Etcd:
    """Its HTTP gateway, over TLS, as root once there are users."""

    def __init__(self, connect_to, host, ca, pair_of_files=None):
        self.connect_to, self.host, self.token = connect_to, host, None
        self.how = (connect_to, host, ca, pair_of_files)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.load_verify_locations(cafile=str(ca))
        if pair_of_files:
            self.context.load_cert_chain(*map(str, pair_of_files))

    def logged_in_as(self, name, password):
        """The same etcd, as another user."""
        etcd = Etcd(*self.how)
        etcd.log_in(name, password)
        return etcd

    def ask(self, path, *, seconds=15, **body):
        connection = http.client.HTTPConnection(self.host, timeout=seconds)
        connection.sock = self.context.wrap_socket(socket.create_connection(self.connect_to, seconds), server_hostname=self.host)
        try:
            headers = {"Content-Type": "application/json", **({"Authorization": self.token} if self.token else {})}
            connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {}
        if reply.status != 200 or not isinstance(answer, dict):
            said = answer.get("message") if isinstance(answer, dict) else None
            raise EtcdSaid(said or f"HTTP {reply.status}")
        return answer

    def ask_unless(self, harmless, path, **body):
        """What etcd says when it has been done before is no failure."""
        try:
            return self.ask(path, **body)
        except EtcdSaid as said:
            if said.message != harmless:
                raise
        return None

    def log_in(self, name, password):
        self.token = None
        self.token = self.ask("auth/authenticate", name=name, password=password)["token"]

    def users(self):
        return set(self.ask("auth/user/list").get("users", []))

    def roles(self):
        return set(self.ask("auth/role/list").get("roles", []))

    def keys_below(self, prefix):
        return int(self.ask("kv/range", **span(prefix), count_only=True).get("count", 0))


def span(prefix):
    return {"key": b64(prefix), "range_end": b64(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def b64(text):
    return base64.b64encode(text.encode()).decode()


def prefix_of(pair_id):
    return f"/lockstep/{pair_id}/"


def loopback_of(settings):
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.listen, settings.listen)


def is_listening(settings):
    try:
        socket.create_connection((loopback_of(settings), settings.port), 5).close()
    except OSError:
        return False
    return True


def as_root(folder):
    """The running witness, logged in."""
    settings = Settings.read(folder)
    if not folder.etcd_yaml.exists():
        raise Refused("The witness is not set up to its end. Run `lockstep-witness setup` again.")
    etcd = Etcd((loopback_of(settings), settings.port), settings.addresses[0], folder.ca)
    try:
        etcd.log_in("root", folder.root_password.read_text().strip())
    except (OSError, http.client.HTTPException) as e:
        if not folder.has_data():
            raise DoesNotAnswer(f"etcd's data is gone from {folder.etcd_data}, and with it its users. Run `lockstep-witness "
                                "setup`, which makes them again.") from None
        raise DoesNotAnswer(f"The witness does not answer ({e}). Is it running? `systemctl status {UNIT}` tells.") from None
    except EtcdSaid as said:
        if said.message == AUTHENTICATION_OFF:
            raise TakesEverybody("This etcd takes everybody: it has lost its users. Run `lockstep-witness setup`, which makes "
                                 "them again.") from None
        raise Refused(f"etcd refuses its user root ({said.message}). Is {folder.root_password} that of this etcd? If "
                      f"it has been lost, stop etcd, remove {folder.etcd_data}, and run `lockstep-witness setup`.") from None
    return etcd


ETCD_YAML = """# Written by lockstep-witness, which writes it anew when an address is changed.
name: lockstep-witness
data-dir: "{data}"
listen-client-urls: "{listen}"
advertise-client-urls: "{advertised}"
client-transport-security:
  cert-file: "{certificate}"
  key-file: "{key}"
# One member. It asks for a certificate here that nobody else has.
listen-peer-urls: "{peer_url}"
initial-advertise-peer-urls: "{peer_url}"
initial-cluster: "lockstep-witness={peer_url}"
initial-cluster-token: "{token}"
peer-transport-security:
  cert-file: "{peer}"
  key-file: "{peer_key}"
  client-cert-auth: true
  trusted-ca-file: "{peer}"
# The nodes speak to etcd by HTTP.
enable-grpc-gateway: true
auth-token: simple
# Passwords are 256 random bits, which no guessing finds: a dear hash would only cost time when all nodes log in at once.
bcrypt-cost: 4
# A volume's record is a few hundred bytes. Old ones are dropped, so that the quota, behind which etcd takes no more
# writes, is never near.
max-request-bytes: 65536
quota-backend-bytes: 1073741824
auto-compaction-mode: revision
auto-compaction-retention: "1000"
snapshot-count: 10000
logger: zap
log-level: warn
"""


def etcd_yaml(folder, settings):
    return ETCD_YAML.format(
        data=folder.etcd_data, listen=f"https://{in_url(settings.listen)}:{settings.port}",
        advertised=",".join(settings.endpoints), certificate=folder.certificate, key=folder.key,
        peer_url=peer_url(settings), peer=folder.peer, peer_key=folder.peer_key, token=settings.token)


def peer_url(settings):
    return f"https://127.0.0.1:{settings.port + 1}"


def closed_command(folder, settings, data, port):
    """etcd for this program alone: whoever connects has to show the certificate that nobody else has."""
    url, peers = f"https://127.0.0.1:{port}", peer_url(settings)
    tls = [f"--{kind}{name}" for kind in ("", "peer-") for name in (
        f"cert-file={folder.peer}", f"key-file={folder.peer_key}", f"trusted-ca-file={folder.peer}", "client-cert-auth=true")]
    return ["etcd", "--name=lockstep-witness", f"--data-dir={data}", f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}", f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=lockstep-witness={peers}", f"--initial-cluster-token={settings.token}", "--bcrypt-cost=4",
            "--logger=zap", *tls]


@contextlib.contextmanager
def closed_etcd(folder, settings):
    """On this witness's data, which may hold no users yet; on new ones, which are taken in the end, where it has none."""
    if folder.has_data():
        with closed_etcd_on(folder.etcd_data, folder, settings) as etcd:
            yield etcd
        return
    folder.forget_new_data()
    with closed_etcd_on(folder.new_etcd_data, folder, settings) as etcd:
        yield etcd
    folder.take_new_data()


@contextlib.contextmanager
def closed_etcd_on(data, folder, settings):
    if not shutil.which("etcd"):
        raise Refused("There is no etcd here. Install the package etcd-server.")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    user = Folder.etcd_user()
    who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryFile() as log:
        # It ends with this program, however that ends.
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *closed_command(folder, settings, data, port)],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **who)
        try:
            etcd = Etcd(("127.0.0.1", port), "127.0.0.1", folder.peer, (folder.peer, folder.peer_key))
            wait_until_it_answers(etcd, process, log, data)
            yield etcd
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_it_answers(etcd, process, log, data):
    deadline = time.monotonic() + 60
    while True:
        try:
            return etcd.ask("maintenance/status")
        except EtcdSaid:
            return None  # it wants a user, and so it is there
        except (OSError, http.client.HTTPException) as e:
            if process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            log.seek(0)
            tail = b"\n".join(log.read().splitlines()[-5:]).decode(errors="replace")
            raise Refused(f"etcd does not come up with the data in {data} ({e}). If no pair uses this witness, remove them and "
                          f"run `lockstep-witness setup`. It says:\n{tail}") from None


def close_to_others(etcd, folder, make_users):
    """Again and again with the same outcome: etcd that takes nobody without a password, and root's is ours. Whether it had
    to be done: then `make_users` made the others, before anybody could miss them."""
    password = folder.root_password.read_text().strip()
    try:
        etcd.log_in("root", password)
        return False
    except EtcdSaid as said:
        if said.message == "authentication failed, invalid user ID or password":
            raise Refused(f"{folder.data} holds the data of another witness, whose {folder.path} is gone. Restore that from "
                          f"a backup, or remove {folder.etcd_data}: its pairs then need another witness.") from None
        if said.message != AUTHENTICATION_OFF:
            raise
    folder.keep_from_starting()
    # Anybody who reached it may have made some.
    for user in etcd.users():
        etcd.ask("auth/user/delete", name=user)
    for role in etcd.roles():
        etcd.ask("auth/role/delete", role=role)
    etcd.ask("auth/user/add", name="root", password=password)
    etcd.ask("auth/role/add", name="root")
    etcd.ask("auth/user/grant", user="root", role="root")
    make_users(etcd)
    etcd.ask("auth/enable")
    etcd.log_in("root", password)
    return True
