"""What the witness keeps on this machine."""
import contextlib
import dataclasses
import fcntl
import ipaddress
import json
import os
import pathlib
import pwd
import shutil
import tempfile

USER = "lockstep-witness"  # that etcd runs as


class Refused(Exception):
    """A sentence for the operator: what is wrong, and what to do."""


class Folder:
    """Where the witness is configured; whoever is root writes here, and etcd's user reads what it needs."""

    def __init__(self, path, data):
        self.path, self.data = path, data
        self.settings, self.etcd_yaml = path / "settings.json", path / "etcd.yaml"
        self.ca, self.ca_key = path / "ca.pem", path / "ca.key"
        self.certificate, self.key = path / "server.pem", path / "server.key"
        self.peer, self.peer_key = path / "peer.pem", path / "peer.key"
        self.root_password, self.pairs = path / "root.password", path / "pairs"
        self.etcd_data = data / "etcd"
        self.new_etcd_data = self.etcd_data / "new"

    def has_data(self):
        """The unit asks for this folder, too."""
        return (self.etcd_data / "member").is_dir()

    def forget_new_data(self):
        if self.new_etcd_data.exists():
            shutil.rmtree(self.new_etcd_data)

    def take_new_data(self):
        """All of it at once: etcd that was ended while it made its first data never comes up with them."""
        member = self.new_etcd_data / "member"
        for folder, _, _ in os.walk(member):
            keep_names(folder)
        member.rename(self.etcd_data / "member")
        keep_names(self.etcd_data)
        self.forget_new_data()

    def keep_from_starting(self):
        """Until etcd.yaml is there again, also when this program ends before that: the unit asks for it."""
        self.etcd_yaml.unlink(missing_ok=True)
        keep_names(self.path)

    @staticmethod
    def etcd_user():
        """None when the command is not root's: etcd then runs as whoever calls it."""
        if os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(USER)
        except KeyError:
            raise Refused(f"There is no user {USER}, which etcd is to run as. Install the package lockstep-witness.") from None

    def prepare(self):
        user = self.etcd_user()
        for folder, mode in ((self.path, 0o750), (self.data, 0o700)):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)
        if user:
            os.chown(self.path, 0, user.pw_gid)
            os.chown(self.data, user.pw_uid, user.pw_gid)
            # In a backup of another machine the group has perhaps another number.
            for file in (self.ca, self.certificate, self.key, self.peer, self.peer_key, self.etcd_yaml):
                if file.exists():
                    self.share(file, user)

    @staticmethod
    def share(file, user):
        """With etcd. `file` is its name, or its descriptor."""
        os.chown(file, 0, user.pw_gid)
        os.chmod(file, 0o640)

    def write(self, path, text, shared=False):
        """Whole or not at all. `shared`: etcd reads it, too."""
        user = self.etcd_user()
        handle, beside = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # mode 0600
        try:
            with open(handle, "w", encoding="utf-8") as f:
                f.write(text)
                if shared and user:
                    self.share(f.fileno(), user)
                f.flush()
                os.fsync(f.fileno())
            os.replace(beside, path)
        except BaseException:
            pathlib.Path(beside).unlink(missing_ok=True)
            raise
        keep_names(path.parent)

    @contextlib.contextmanager
    def locked(self):
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise Refused(f"There is no witness here ({self.path} does not exist). Run `lockstep-witness setup`.") from None
        except PermissionError:
            raise Refused(f"{self.path} may not be read. Run this as root.") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Refused("Another lockstep-witness is at work here. Try again when it has ended.") from None
        finally:
            os.close(handle)


def keep_names(folder):
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclasses.dataclass
class Settings:
    addresses: list  # by which the nodes reach it
    listen: str
    port: int        # and port + 1 on the loopback address, for etcd itself
    token: str       # makes etcd's cluster id one that no other witness has

    @staticmethod
    def read(folder):
        try:
            return Settings(**json.loads(folder.settings.read_text()))
        except FileNotFoundError:
            raise Refused("There is no witness here yet. Run `lockstep-witness setup`.") from None
        except PermissionError:
            raise Refused(f"{folder.settings} may not be read. Run this as root.") from None
        except (ValueError, TypeError) as e:
            raise Refused(f"{folder.settings} cannot be read ({e}). Restore it from a backup.") from None

    @property
    def endpoints(self):
        return [f"https://{in_url(address)}:{self.port}" for address in self.addresses]


def in_url(address):
    return f"[{address}]" if ":" in address else address


def is_ip(address):
    try:
        ipaddress.ip_address(address)
        return True
    except ValueError:
        return False
