"""What the cases share: nodes in a folder of their own, and how a problem looks."""
import json
import pathlib
import shutil
import tempfile
import unittest

from nodes import Node, make_pair, wait_for

BUILD = pathlib.Path()  # both by run.py
CONTRACT = None
HOST1, HOST2 = "iqn.1993-08.org.debian:01:host1", "iqn.1993-08.org.debian:01:host2"
GIB = 1 << 30


def attack(test):
    """Marks a case, or all of a class: they are run by ./check security, the others by ./check e2e."""
    test.attack = True
    return test


def is_attack(case):
    return hasattr(case, "attack") or hasattr(getattr(case, case._testMethodName), "attack")


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-rest-"))
        self.started = []

    def tearDown(self):
        for node in self.started:
            node.stop()
        failed = self._outcome.result.failures + self._outcome.result.errors
        if any(test is self for test, _ in failed):
            for node in self.started:
                print(f"--- {node.name}'s log\n{node.log()[-4000:]}")
        shutil.rmtree(self.folder)

    def node(self, name, start=True, **settings):
        node = Node(BUILD, self.folder / name, name)
        node.extra = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        self.started.append(node)
        return node.start() if start else node

    def pair(self, **settings):
        a, b = self.node("node-a", **settings), self.node("node-b", **settings)
        make_pair(a, b)
        return a, b

    def well(self, *nodes):
        for node in nodes:
            wait_for("all to be well", lambda n=node: n.get("/api/v1/health").json["status"] == "ok")

    def gone(self, node, away):
        """The one that was ended is missed by the other."""
        wait_for("the loss to be seen", lambda: next(
            not n["reachable"] for n in node.get("/api/v1/nodes").json["items"] if n["name"] == away.name))

    def problem(self, reply, status, kind, *pointers):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.type, "application/problem+json")
        self.assertEqual(reply.json["type"], f"urn:lockstep:problem:{kind}", reply)
        self.assertTrue(reply.json["detail"].endswith((".", "\".")), reply.json["detail"])
        found = [e["pointer"] for e in reply.json.get("errors", [])]
        for pointer in pointers:
            self.assertIn(pointer, found, reply)

    def volume(self, node, name="vm1", **more):
        wait_for("lockstepd to run", lambda: all(
            n["lockstepd"]["state"] == "running" for n in node.get("/api/v1/nodes").json["items"]))
        job = node.job(node.post("/api/v1/volumes", {"name": name, "size_bytes": GIB, **more}))
        self.assertEqual(job["state"], "done", job)
        return job["volume_id"]
