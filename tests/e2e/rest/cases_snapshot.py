"""A node whose machine is set back to a snapshot that holds its memory: its management ends, and begins anew."""
import contextlib
import signal
import sqlite3
import uuid

from cases_lost import Lost
from nodes import wait_for


class Snapshot(Lost):
    def decide_one_more(self, node):
        """The follower has one revision more than its partner's process knows of, as if that had been set back."""
        with contextlib.closing(sqlite3.connect(node.folder / "mgmt/mgmt.db")) as database, database:
            row = database.execute("SELECT epoch, n, summary, at_ms FROM revisions WHERE state = 'committed' ORDER BY seq DESC LIMIT 1")
            epoch, n, summary, at_ms = row.fetchone()
            database.execute("INSERT INTO revisions (epoch, n, change, state, summary, at_ms) VALUES (?, ?, ?, 'committed', ?, ?)",
                             (epoch, n + 1, str(uuid.uuid4()), summary, at_ms))
        return n + 1

    def test_the_one_that_orders_changes_ends_and_its_next_process_ends_the_jobs_of_then(self):
        a, b, _ = self.configured_pair()
        b.script(silent=["replica.create"])
        job = a.post("/api/v1/volumes", {"name": "vm2", "size_bytes": 1 << 30}).json
        wait_for("node-b to know of it", lambda: (v := b.volume("vm2")) and v["lifecycle"] == "creating")
        self.whole(a, b)
        b.stop_mgmtd(signal.SIGKILL)
        n = self.decide_one_more(b)
        b.start_mgmtd()
        wait_for("node-a's management to end by itself", lambda: a.mgmtd.poll() is not None)
        self.assertEqual(a.mgmtd.poll(), 1)
        self.assertIn("This machine was set back to a snapshot with its memory", a.log())
        a.start_mgmtd()
        wait_for("node-a to take over what it lacks", lambda: a.get("/api/v1/pair").json["revision"] >= n)
        wait_for("the job to end", lambda: a.get(f"/api/v1/jobs/{job['id']}").json["state"] == "failed")
        self.assertIn("was set back to a time", a.get(f"/api/v1/jobs/{job['id']}").json["message"])
        self.assertEqual(a.post("/api/v1/tokens", {"name": "later"}).status, 201)
