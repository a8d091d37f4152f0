"""What the two nodes' stores hold, looked at past the product."""
import filecmp
import os
import signal

from harness import check


def same_data(world, volume):
    """Stops both nodes cleanly and compares their data files byte by byte."""
    for node in world.nodes:
        node.kill(signal.SIGTERM)
    check(filecmp.cmp(world.a.data(volume), world.b.data(volume), shallow=False),
          f"the two replicas of {volume.name} differ")


def used(node, volume):
    """Bytes that the node's data file takes on its disk: what `du` reports."""
    return os.stat(node.data(volume)).st_blocks * 512
