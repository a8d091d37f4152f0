"""The pairs that have a user at this witness."""
import dataclasses
import os
import re
import secrets
import shlex
import shutil
import subprocess
import uuid

from lockstep_witness.database import MIB, QUOTA, database_size
from lockstep_witness.etcd import EtcdSaid, as_root, prefix_of, span
from lockstep_witness.files import Folder, Refused, Settings, keep_names
from lockstep_witness.token import token_of

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclasses.dataclass
class Pair:
    name: str
    folder: Folder

    @property
    def path(self):
        return self.folder.pairs / self.name

    @property
    def user(self):
        return f"pair-{self.name}"

    @property
    def password_file(self):
        return self.path / "password"

    def id(self):
        """None: there is no such pair, or not yet."""
        try:
            return str(uuid.UUID((self.path / "id").read_text().strip()))
        except FileNotFoundError:
            return None
        except ValueError:
            raise Refused(f"{self.path / 'id'} holds no UUID. Restore it from a backup.") from None

    def password(self):
        return self.password_file.read_text().strip()

    def token(self):
        return token_of(self.name, self.id(), Settings.read(self.folder).endpoints, self.folder.ca.read_text(), self.user,
                        self.password())


def pairs_of(folder):
    if not folder.pairs.is_dir():
        return []
    found = [Pair(path.name, folder) for path in sorted(folder.pairs.iterdir()) if NAME.fullmatch(path.name)]
    return [pair for pair in found if pair.id()]


def named(folder, name):
    if not NAME.fullmatch(name):
        raise Refused(f"{name} is no name of a pair: lower-case letters, digits and hyphens, 32 at the most.")
    return Pair(name, folder)


def wanted_id(text):
    try:
        wanted = uuid.UUID(text)
    except ValueError:
        wanted = uuid.UUID(int=0)
    if wanted.int == 0 or str(wanted) != text.lower():
        raise Refused(f"{text} is no pair's id. `lockstep pair show` tells it.")
    return str(wanted)


def note_pair(folder, pair, pair_id):
    """On this machine first: what etcd has then, is this pair's. The id is the last file, and makes it one."""
    for other in pairs_of(folder):
        if other.id() == pair_id:
            raise Refused(f"The pair {other.name} has that id here already.")
    pair.path.mkdir(mode=0o700, exist_ok=True)
    keep_names(folder.pairs)
    folder.write(pair.password_file, secrets.token_urlsafe(32) + "\n")
    folder.write(pair.path / "id", pair_id + "\n")


def check_passwords(folder):
    """Before etcd is stopped: each pair's user can be made again."""
    for pair in pairs_of(folder):
        if not pair.password_file.is_file() or not pair.password():
            raise Refused(f"{pair.password_file} is missing or empty. Nothing was changed. Restore it from a backup, or have the pair "
                          f"{pair.name} removed: rm -r {pair.path}, and run this again.")


def make_known_users(etcd, folder):
    """Those of all pairs, as they were; etcd does not ask for passwords yet."""
    for pair in pairs_of(folder):
        make_user(etcd, pair, pair.id())


def make_user(etcd, pair, pair_id):
    etcd.ask_unless("role name already exists", "auth/role/add", name=pair.user)
    etcd.ask("auth/role/grant", name=pair.user, perm={"permType": "READWRITE", **span(prefix_of(pair_id))})
    etcd.ask_unless("user name already exists", "auth/user/add", name=pair.user, password=pair.password())
    etcd.ask("auth/user/grant", user=pair.user, role=pair.user)


def make_pairs_user(etcd, pair, pair_id):
    """All of it again with the same outcome, wherever an earlier run ended. A pair that uses its user is not disturbed."""
    make_user(etcd, pair, pair_id)
    try:
        return records_as_seen_by(etcd, pair, pair_id)
    except EtcdSaid:
        etcd.ask("auth/user/changepw", name=pair.user, password=pair.password())
    return records_as_seen_by(etcd, pair, pair_id)


def records_as_seen_by(etcd, pair, pair_id):
    """How many there are; asked for as a node will."""
    return etcd.logged_in_as(pair.user, pair.password()).keys_below(prefix_of(pair_id))


def make_pair(folder, etcd, name, wanted=None):
    """The pair, and how many records it has. The folder is locked, and etcd is spoken to as root."""
    pair = named(folder, name)
    known = pair.id()
    if known and wanted and known != wanted:
        raise Refused(f"The pair {pair.name} is here already, with the id {known}. Nothing was changed. Choose another name, "
                      f"or `lockstep-witness remove {pair.name}` first.")
    if not known:
        if pair.user in etcd.users():
            raise Refused(f"etcd has a user {pair.user}, and {pair.path} does not tell whose it is. Restore that from a "
                          f"backup, or `lockstep-witness remove {pair.name}` first.")
        note_pair(folder, pair, wanted or str(uuid.uuid4()))
    (pair.path / "password.new").unlink(missing_ok=True)
    records = make_pairs_user(etcd, pair, pair.id())
    folder.write(pair.path / "ca.pem", folder.ca.read_text())
    return pair, records


def add_pair(folder, options):
    named(folder, options.name)
    with folder.locked():
        wanted = wanted_id(options.id) if options.id else None
        pair, records = make_pair(folder, as_root(folder), options.name, wanted)
    tell_pair(folder, pair, pair.id(), in_use=bool(records or options.id))


def print_token(folder, options):
    """Alone on standard output, so that it can be sent into a file."""
    pair = named(folder, options.name)
    with folder.locked():
        if not pair.id():
            raise Refused(f"There is no pair {pair.name} here. `lockstep-witness list` shows them.")
        print(pair.token())


def tell_first_node(pair, in_use):
    """After `setup --pair`: what to run on the pair's first node, and what to paste there."""
    if in_use:
        print(f"The pair {pair.name} has records here already. To tell it of this witness anew, on a node, once both are in sync:\n"
              "    lockstep pair witness set --witness-token-file -")
    else:
        print(f"Next, on the first node of {pair.name}:\n    lockstep setup --pair {pair.name} --witness-token-file -")
    print("and paste this token there. It holds the pair's password.\n\n" + pair.token())


def tell_pair(folder, pair, pair_id, in_use):
    endpoints = Settings.read(folder).endpoints
    mine = shlex.quote(f"root@{Settings.read(folder).addresses[0]}:{pair.path}")

    def command(*words):
        return "    " + " ".join(map(shlex.quote, words))
    print(f"Pair      {pair.name}\nId        {pair_id}\nEndpoints {' '.join(endpoints)}\nCA        {pair.path}/ca.pem\n"
          f"User      {pair.user}\nPassword  {pair.password_file}\n\n"
          f"Copy the two files to a node of the pair:\n    scp {mine}/ca.pem {mine}/password .")
    create = [word for e in endpoints for word in ("--witness", e)]
    change = [word for e in endpoints for word in ("--endpoint", e)]
    if not in_use:
        print("and there, if the pair is not made yet:")
        print(command("lockstep", "pair", "create", pair.name, "--id", pair_id, *create, "--witness-ca", "ca.pem",
                      "--witness-user", pair.user, "--witness-password-file", "password"))
    else:
        print("and there, once both nodes are in sync:")
        print(command("lockstep", "pair", "witness", "set", *change, "--ca", "ca.pem", "--user", pair.user,
                      "--password-file", "password"))
    print("Then remove the copy of the password. Or take all of it in one line, to be pasted with --witness-token-file -:\n"
          f"    lockstep-witness token {pair.name}")


def new_password(folder, options):
    pair = named(folder, options.name)
    with folder.locked():
        if not pair.id():
            raise Refused(f"There is no pair {pair.name} here. `lockstep-witness list` shows them.")
        etcd, beside = as_root(folder), pair.path / "password.new"
        folder.write(beside, secrets.token_urlsafe(32) + "\n")
        etcd.ask("auth/user/changepw", name=pair.user, password=beside.read_text().strip())
        os.replace(beside, pair.password_file)
        keep_names(pair.path)
    print(f"{pair.user} has another password at the witness. Until the pair knows it, the witness is lost to it, and the loss of "
          f"a node stops I/O. Copy {pair.password_file} to a node, and there, at once:\n"
          f"    lockstep pair witness set --user {pair.user} --password-file password")


def list_pairs(folder, _):
    with folder.locked():
        etcd, settings = as_root(folder), Settings.read(folder)
        users = etcd.users()
        rows = [("PAIR", "ID", "RECORDS", "USER")]
        for pair in pairs_of(folder):
            rows.append((pair.name, pair.id(), str(etcd.keys_below(prefix_of(pair.id()))),
                         pair.user if pair.user in users else f"none: `lockstep-witness add-pair {pair.name}`"))
        size = database_size(etcd)
    done = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", folder.certificate], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    print(f"Endpoints    {' '.join(settings.endpoints)}\nCertificate  until {done.stdout.strip().partition('=')[2]}\n"
          f"Database     {size / MIB:.1f} MiB of {QUOTA // MIB}\n")
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]))


def remove(folder, options):
    pair = named(folder, options.name)
    with folder.locked():
        etcd, pair_id = as_root(folder), pair.id()
        if not pair_id and pair.user not in etcd.users() and not pair.path.exists():
            raise Refused(f"There is no pair {pair.name} here. `lockstep-witness list` shows them.")
        records = etcd.keys_below(prefix_of(pair_id)) if pair_id else 0
        if records and not options.with_records:
            raise Refused(f"{records} records of the pair {pair.name} are here: it may still be its witness, and without one the "
                          "loss of a node stops I/O. Give it another (`lockstep pair witness set`), or say --with-records.")
        etcd.ask_unless("user name not found", "auth/user/delete", name=pair.user)
        etcd.ask_unless("role name not found", "auth/role/delete", role=pair.user)
        if records:
            etcd.ask("kv/deleterange", **span(prefix_of(pair_id)))
        if pair.path.exists():
            (pair.path / "id").unlink(missing_ok=True)  # without it there is no pair, wherever this is cut off
            keep_names(pair.path)
            shutil.rmtree(pair.path)
            keep_names(folder.pairs)
    print(f"The pair {pair.name} has no user here any more.")
