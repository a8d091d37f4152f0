"""Two nodes as an operator has them, lockstep-mgmtd and lockstepd each, in one folder. Their logs are shown when a test fails.

Whoever imports this finds the modules in rest/, too.
"""
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

from basics import settings
from harness import Rpc

sys.path.insert(0, str(pathlib.Path(__file__).parent / "rest"))
from nodes import Node, make_pair  # noqa: E402


class ManagedPair:
    """`children`: processes of a test's own, such as writers; they end with the pair."""

    def __init__(self, folder):
        self.folder, self.build, self.children = folder, settings.build, []
        self.a, self.b = (Node(self.build, folder / name, name, real=True) for name in ("node-a", "node-b"))

    def start(self, **pair):
        self.a.start()
        self.b.start()
        make_pair(self.a, self.b, **pair)

    def stop(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        self.a.stop()
        self.b.stop()

    @staticmethod
    def own(node, volume_id):
        """What its lockstepd itself says of a volume at this moment: what management shows may be of a second ago."""
        with contextlib.suppress(OSError):
            with contextlib.closing(Rpc(node.socket)) as rpc:
                return next((v for v in rpc.call("node.status")["volumes"] if v["id"] == volume_id), {})
        return {}

    def show(self):
        for node in (self.a, self.b):
            log = node.folder / "lockstepd.log"
            of_mgmtd = node.log() if node.mgmtd else ""
            print(f"\n--- {node.name}\n{of_mgmtd[-3000:]}\n{log.read_text()[-3000:] if log.exists() else ''}")


@contextlib.contextmanager
def scene(kind, **more):
    """A started one of that kind, in a folder that goes with it; `more` is for its start()."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-pair-", dir=os.environ.get("LOCKSTEP_E2E_FOLDER")))
    pair = kind(folder)
    try:
        pair.start(**more)
        yield pair
    except BaseException:
        pair.show()
        raise
    finally:
        pair.stop()
        if not settings.keep:
            shutil.rmtree(folder, ignore_errors=True)
