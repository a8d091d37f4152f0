"""sg_sanitize --crypto through one path ends what an encrypted volume held, through both paths and on both disks."""
import pathlib

from harness import MIB, World, check
from initiator import Initiator, read_direct, run, write_direct
from replicas import used

SECRET = b"payroll-of-2026!"
PIECES = 8


def scenario():
    with World() as w, Initiator(w) as i:
        volume = w.mirror(encrypted=True)
        device = i.attach()
        for through, other in ((w.b, w.a), (w.a, w.b)):
            for piece in range(PIECES):
                write_direct(device, piece * MIB, SECRET * (MIB // len(SECRET)))
            for node in w.nodes:
                check(used(node, volume) >= PIECES * MIB, "it is on both disks")
                check(SECRET not in pathlib.Path(node.data(volume)).read_bytes(), "and not to be read there")
            run("sg_sanitize", "--crypto", "--quick", "--wait", i.path_of(through))
            for node in (other, through):
                check(read_direct(i.path_of(node), 0, PIECES * MIB) == bytes(PIECES * MIB), f"zeros through node {node.side}")
                check(used(node, volume) <= MIB, f"the space is given back on node {node.side}")
        plain = run("sg_opcodes", "--opcode=0x48,3", i.path_of(w.a))
        return f"through each path; {plain.splitlines()[-1].strip()}"
