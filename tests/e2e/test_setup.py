"""`lockstep setup` on two nodes laid out as the package does, with a witness over TLS: real daemons, real etcd, the command alone."""
import contextlib
import os
import pathlib
import shutil
import socket
import tempfile

from basics import check, free_port, group, settings, wait_for
from installed_node import InstalledNode
from packaged_witness import PackagedWitness


class TwoNodes:
    def __init__(self, folder):
        self.folder, self.witness = folder, None
        folder.chmod(0o755)
        self.nodes = []
        for name in ("node-a", "node-b"):
            self.nodes.append(InstalledNode(settings.build, folder / name, name))
        self.a, self.b = self.nodes
        for node in self.nodes:  # on two machines each could listen on every address
            node.configuration.write_text(f'listen = "{node.management}"  # mine\n' + node.configuration.read_text())

    def start(self):
        for node in self.nodes:
            node.systemctl("start", "lockstepd", "lockstep-mgmtd")

    def token(self):
        """What `lockstep-witness setup --pair` prints for pasting."""
        self.witness = PackagedWitness(self.folder / "witness")
        self.witness.done(*self.witness.setup_arguments)  # the test plays its unit
        self.witness.start()
        said = self.witness.done(*self.witness.setup_arguments, "--pair", "pair1")
        return said.strip().splitlines()[-1]

    def first(self, token):
        return done(self.a.setup("--pair", "pair1", "--witness-token-file", "-", typed=token + "\n"))

    def second(self, invitation, *more):
        return done(self.b.setup("--invitation-file", "-", *more, typed=invitation + "\n"))

    def stop(self):
        for node in self.nodes:
            node.stop()
        if self.witness:
            self.witness.kill()

    def show(self):
        for node in self.nodes:
            node.show()


def done(outcome):
    status, out, err = outcome
    check(status == 0, f"it is done: {status}\n{out}\n{err}")
    return out, err


def refused(words, outcome):
    status, out, err = outcome
    check(status not in (0, 130) and words in err, f"it is refused with \"{words}\": {status}\n{out}\n{err}")
    return err


@contextlib.contextmanager
def two_nodes(start=True):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-setup-", dir=os.environ.get("LOCKSTEP_E2E_FOLDER")))
    scene = TwoNodes(folder)
    try:
        if start:
            scene.start()
        yield scene
    except BaseException:
        scene.show()
        raise
    finally:
        scene.stop()
        if not settings.keep:
            shutil.rmtree(folder, ignore_errors=True)


def states(node):
    return [replica["state"] for replica in node.get("volume", "list")[0]["replicas"]]


def files_of(node):
    return {path.name: (path.read_bytes(), path.stat().st_mode) for path in node.etc.iterdir()}


def with_secrets_are_closed(scene, *secrets):
    for path in scene.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            held = path.read_bytes()
            if any(secret.encode() in held for secret in secrets):
                check(path.stat().st_mode & 0o077 == 0, f"nobody else reads {path}, which holds a secret")
                check(path.suffix != ".log", f"no log holds a secret: {path}")


def test_leads_from_two_packages_to_a_mirrored_volume_with_a_witness_over_tls_and_changes_nothing_when_run_again():
    with two_nodes() as s:
        token = s.token()
        invitation, _ = s.first(token)
        invitation = invitation.strip()
        check(invitation.startswith("lsi1.") and "\n" not in invitation, f"the invitation alone is printed: {invitation}")
        s.second(invitation, "--partner-link", s.a.link)
        done(s.b.command("volume", "create", "vm1", "--size", "64MiB", "--any"))
        for node in s.nodes:
            wait_for("the volume to be in sync", lambda n=node: states(n) == ["in_sync", "in_sync"], 60)
        pair = s.a.get("pair", "show")
        check(pair["arbiter"]["kind"] == "witness" and pair["id"] == s.witness.id_of("pair1"), f"by the token's witness: {pair}")
        password = (s.witness.pair_folder("pair1") / "password").read_text().strip()
        with_secrets_are_closed(s, password, token, invitation)

        before, told = [files_of(node) for node in s.nodes], [node.told_systemctl() for node in s.nodes]
        out, err = s.first(token)
        check(out == "" and "nothing left to do" in err, f"the first node says that all is done: {out} {err}")
        out, err = s.second(invitation)
        check(out == "" and "nothing left to do" in err, f"the second one, too: {out} {err}")
        refused("Nothing was changed", s.a.setup("--pair", "pair2", "--preferred", "a"))
        refused("Nothing was changed", s.a.setup(link_address=f"127.0.0.1:{free_port()}"))
        check([files_of(node) for node in s.nodes] == before, "the files are as they were")
        check([node.told_systemctl() for node in s.nodes] == told, "nothing was restarted")
        check(states(s.a) == ["in_sync", "in_sync"], "hosts saw nothing of it")


def test_makes_another_invitation_when_it_is_run_again_before_the_second_node_joined():
    with two_nodes() as s:
        arguments = ("--pair", "pair1", "--preferred", "a")
        first, _ = done(s.a.setup(*arguments))
        restarts = len(s.a.told_systemctl())
        second, _ = done(s.a.setup(*arguments))
        check(first != second, "it is another one")
        check(len(s.a.told_systemctl()) == restarts, "management is not restarted for that")
        refused("--node-name", s.b.setup("--invitation-file", "-", typed=second, node_name="node-a"))
        done(s.b.setup("--invitation-file", "-", typed=second))


def test_keeps_the_configuration_when_management_does_not_come_up_with_the_new_one():
    with two_nodes() as s:
        before = files_of(s.a)["mgmtd.toml"]
        (s.a.folder / "refuse").write_text("1")
        err = refused("is as it was", s.a.setup("--pair", "pair1", "--preferred", "a"))
        check("control process exited" in err, f"it says what systemd said: {err}")
        check(files_of(s.a)["mgmtd.toml"] == before, "the file is the old one, with the old permissions")
        wait_for("the old management to answer again", lambda: s.a.command("pair", "show")[0] == 0)
        done(s.a.setup("--pair", "pair1", "--preferred", "a"))
        check("# mine" in s.a.configuration.read_text(), "what else stands in the file is kept")


def test_changes_nothing_when_lockstep_mgmtd_could_not_use_the_file():
    with two_nodes() as s:
        with s.a.configuration.open("a") as file:
            file.write('data_folder = "not/whole"\n')
        before, told = files_of(s.a), s.a.told_systemctl()
        err = refused("must begin with /", s.a.setup("--pair", "pair1", "--preferred", "a"))
        check("is as it was" in err, f"it says so: {err}")
        check(files_of(s.a) == before, "no file is another one, and none is left behind")
        check(s.a.told_systemctl() == told, "nothing was restarted")


@group("security")
def test_takes_no_invitation_that_another_machine_made_up():
    with two_nodes() as s:
        invitation, _ = done(s.a.setup("--pair", "pair1", "--preferred", "a"))
        damaged = invitation.strip()[:-4] + "AAAA"
        before = files_of(s.b)
        refused("", s.b.setup("--invitation-file", "-", typed="lsi1.x\n"))
        check(files_of(s.b) == before, "what is no invitation is found before anything is written")
        refused("", s.b.setup("--invitation-file", "-", typed=damaged + "\n"))
        check(s.b.get("pair", "show")["state"] == "none", "it has not joined")
        done(s.b.setup("--invitation-file", "-", typed=invitation))


def test_refuses_what_would_not_work_before_it_changes_anything():
    with two_nodes() as s, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before, told = files_of(s.a), s.a.told_systemctl()
        wish = ("--pair", "pair1", "--preferred", "a")
        refused("has the port", s.a.setup(*wish, portal=f"127.0.0.1:{port}"))
        refused("is not an address of this machine", s.a.setup(*wish, link_address="203.0.113.7:3261"))
        refused("nothing would answer there", s.a.setup(*wish, management_address=f"127.0.0.1:{free_port()}"))
        refused("is not there", s.a.setup(*wish, "--volume-folder", "/srv/none"))
        s.a.inside("mkdir", "/run/disks")
        refused("is kept in memory", s.a.setup(*wish, "--volume-folder", "/run/disks"))
        refused("Who decides", s.a.setup("--pair", "pair1"))
        refused("does not answer", s.a.setup(*wish, "--partner", f"127.0.0.1:{free_port()}"))
        check(files_of(s.a) == before and s.a.told_systemctl() == told, "nothing was changed")
        check(s.a.get("pair", "show")["state"] == "none", "and no pair was made")
