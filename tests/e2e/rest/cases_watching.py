"""Lists, health, metrics, the stream of events."""
import json
import subprocess
import time
import uuid

import scratch
from nodes import PREFERRED, make_pair, wait_for
from scratch import HOST1, Scratch


class Watching(Scratch):
    def test_lists_have_their_limits(self):
        a, b = self.pair()
        self.volume(a)
        self.assertEqual(len(a.get("/api/v1/events?limit=1").json["items"]), 1)
        events = a.get("/api/v1/events?after=0&limit=1000").json["items"]
        self.assertEqual([e["id"] for e in events], sorted(e["id"] for e in events))
        self.assertEqual(a.get(f"/api/v1/events?after={events[0]['id']}&limit=1").json["items"], [events[1]])
        self.assertEqual(len(a.get("/api/v1/jobs?limit=1").json["items"]), 1)
        for query in ("events?limit=0", "events?limit=1001", "events?limit=x", "events?after=-1", "events?limit="):
            self.problem(a.get(f"/api/v1/{query}"), 400, "malformed", "?" + query.split("?")[1].split("=")[0])
        self.problem(a.get("/api/v1/jobs?limit=1e9"), 400, "malformed", "?limit")
        for path in ("jobs", "volumes"):
            self.problem(a.get(f"/api/v1/{path}/{uuid.uuid4()}"), 404, "not-found")
            self.problem(a.get(f"/api/v1/{path}/x"), 404, "not-found")

    def test_jobs_and_events_of_one_node_are_told_by_the_other(self):
        a, b = self.pair()
        self.volume(a)
        wait_for("the job on the other node", lambda: "volume.create" in [
            j["kind"] for j in b.get("/api/v1/jobs").json["items"]])
        wait_for("the event on the other node", lambda: "volume.created" in [
            e["kind"] for e in b.get("/api/v1/events").json["items"]])

    def test_sessions_of_both_nodes_are_listed(self):
        a, b = self.pair()
        session = {"initiator": HOST1, "address": "10.0.0.1:5000", "portal": "10.0.0.11:3260", "since_ms": 1700000000000}
        b.script(sessions=[session])
        listed = wait_for("the session", lambda: a.get("/api/v1/sessions").json["items"])
        self.assertEqual([(s["side"], s["initiator"], s["since"]) for s in listed], [("b", HOST1, "2023-11-14T22:13:20.000Z")])

    def test_the_witness_and_the_link_are_in_the_health(self):
        a, b = self.node("node-a"), self.node("node-b")
        make_pair(a, b, arbiter={"kind": "witness", "endpoints": ["http://127.0.0.1:2379"]})
        self.well(a, b)
        a.script(witness=False, linked=False)
        wait_for("both problems", lambda: sorted(
            p["subject"] for p in b.get("/api/v1/health").json["problems"]) == ["link", "witness"])

    def test_what_endangers_io_is_no_piece_of_information(self):
        told = {"fence.failed": "critical", "fence.lost": "warning", "fence.begun": "warning", "fence.found": "info",
                "witness.lost": "warning", "witness.slow": "warning", "witness.fast": "info",
                "witness.open": "warning", "witness.closed": "info"}
        a = self.node("node-a", start=False)
        a.script(events=[{"kind": kind, "message": f"{kind}."} for kind in told])
        a.start()
        a.post("/api/v1/pair", {"name": "pair1", "arbiter": PREFERRED})
        seen = wait_for("the events", lambda: (lambda s: s if len(s) == len(told) else None)(
            {e["kind"]: e["severity"] for e in a.get("/api/v1/events").json["items"] if e["kind"] in told}))
        self.assertEqual(seen, told)

    def test_a_full_disk_under_the_database_is_told_by_both_nodes_until_there_is_space(self):
        a, b = self.node("node-a", start=False), self.node("node-b")
        data = a.folder / "mgmt"
        data.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", data], capture_output=True).returncode != 0:
            self.skipTest("may not mount")
        try:
            a.start()
            make_pair(a, b)
            self.volume(a)
            self.well(a)
            with open(data / "ballast", "wb", buffering=0) as ballast:
                try:
                    while ballast.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
            for node in (a, b):
                wait_for("the health to tell", lambda n=node: [
                    p for p in n.get("/api/v1/health").json["problems"]
                    if "mgmt.db: changes of the configuration are refused" in p["message"] and p["side"] == "a"])
            (data / "ballast").unlink()
            self.well(a, b)
        finally:
            a.stop()
            subprocess.run(["umount", "-l", data], check=True)

    def test_metrics_are_prometheus_text_with_the_pair(self):
        a, b = self.pair()
        self.volume(a)
        in_sync = 'lockstep_volume_state{pair="pair1",node="node-a",volume="vm1",state="in_sync"} 1'
        text = wait_for("figures", lambda: (t := a.get("/metrics").raw.decode())
                        and "lockstep_volume_reads_total" in t and in_sync in t and t)
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) lockstep_\w+ .*|lockstep_\w+\{pair="pair1".*\} [0-9.e+-]+)$')

    def test_rdma_is_in_the_health_and_the_metrics(self):
        a, b = self.pair()
        self.well(a, b)
        copied = {"immediate_prefix": 0, "ahs": 0, "bounce": 0, "control": 77, "cipher": 0}
        b.script(rdma={"findings": [{"id": "small_mtu", "severity": "advice", "message": "eth1 has an MTU of 1500.", "advice": "Set 9000."}],
                       "hosts": {"messages_in": 12, "bytes_in": 4096, "copied": copied},
                       "link": {"messages_in": 34, "windows": 5, "errors": {"no_receive": 3}, "queues": {"most": 40}},
                       "registrations": {"regions": 8, "bytes": 4096, "made": 9, "refused": 0},
                       "counters": [{"device": "mlx5_0", "port": 1, "kind": "packets_lost", "name": "out_of_sequence", "value": 6}]})
        health = wait_for("the advice", lambda: (h := a.get("/api/v1/health").json)["problems"] and h)
        self.assertEqual((health["status"], health["summary"]), ("ok", "Everything is in order."))
        self.assertEqual([(p["severity"], p["subject"], p["side"], p["message"], p["advice"]) for p in health["problems"]],
                         [("info", "node", "b", "On node-b: eth1 has an MTU of 1500.", "Set 9000.")])
        labels = '{pair="pair1",node="node-b",transport="rdma",used_by="hosts"'
        text = b.get("/metrics").raw.decode()
        self.assertIn(f"lockstep_transport_received_messages_total{labels}}} 12", text)
        self.assertIn(f'lockstep_transport_copied_bytes_total{labels},reason="control"}} 77', text)
        of_link = labels.replace("hosts", "link")
        self.assertIn(f"lockstep_transport_received_messages_total{of_link}}} 34", text)
        self.assertIn(f"lockstep_transport_windows_total{of_link}}} 5", text)
        self.assertIn(f'lockstep_transport_errors_total{of_link},status="no_receive"}} 3', text)
        self.assertIn(f"lockstep_transport_work_most{of_link}}} 40", text)
        self.assertIn('lockstep_rdma_registrations_total{pair="pair1",node="node-b"} 9', text)
        self.assertIn('device="mlx5_0",port="1",kind="packets_lost",counter="out_of_sequence"} 6', text)
        self.assertNotIn("lockstep_transport_", a.get("/metrics").raw.decode())
        b.script(rdma={"findings": [{"id": "port_down", "severity": "warning", "message": "rxe0/1 is not active.", "advice": "Look."}]})
        health = wait_for("what is wrong", lambda: (h := a.get("/api/v1/health").json)["status"] == "degraded" and h)
        self.assertEqual(health["summary"], "On node-b: rxe0/1 is not active.")

    def stream(self, node, last_event_id=None):
        connection = node.connect()
        headers = {"Authorization": f"Bearer {node.token}"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        connection.request("GET", "/api/v1/events/stream", headers=headers)
        response = connection.getresponse()
        self.assertEqual((response.status, response.headers["Content-Type"]), (200, "text/event-stream"))
        scratch.CONTRACT.seen.add(("streamEvents", "200"))
        self.addCleanup(connection.close)

        def messages():
            message = {}
            while True:
                line = response.readline().decode().rstrip("\n")
                if not line and message:
                    yield message
                    message = {}
                elif line and not line.startswith(":"):
                    key, value = line.split(": ", 1)
                    message[key] = json.loads(value) if key == "data" else value
        return messages()

    def test_the_stream_begins_with_the_present_and_goes_on_with_what_changes(self):
        a, b = self.pair()
        schemas = {"event": "Event", "volume": "Volume", "job": "Job", "node": "Node"}
        messages = self.stream(b)
        seen = []

        def until(condition, deadline=60):
            """Reads on until a message fulfils the condition; one that was read already will do."""
            if any(condition(m["event"], m["data"]) for m in seen):
                return
            end = time.monotonic() + deadline
            for message in messages:
                self.assertLess(time.monotonic(), end, seen)
                problems = scratch.CONTRACT.check(message["data"], {"$ref": f"#/components/schemas/{schemas[message['event']]}"},
                                          f"stream {message['event']}")
                self.assertEqual(problems, [])
                if message["event"] == "event":
                    self.assertEqual(int(message["id"]), message["data"]["id"])
                seen.append(message)
                if condition(message["event"], message["data"]):
                    return
        nodes = set()
        until(lambda kind, data: kind == "node" and (nodes.add(data["side"]) or len(nodes) == 2))
        volume_id = self.volume(a)
        until(lambda kind, data: kind == "event" and data["kind"] == "volume.created")
        until(lambda kind, data: (kind, data.get("kind")) == ("job", "volume.create"))
        until(lambda kind, data: kind == "volume" and [r["state"] for r in data["replicas"]] == ["in_sync"] * 2)
        last = int([m for m in seen if m["event"] == "event"][-1]["id"])
        b.job(b.delete(f"/api/v1/volumes/{volume_id}?confirm=vm1"))
        until(lambda kind, data: kind == "volume" and data["lifecycle"] == "deleted")
        # Another stream that was away meanwhile is told of the events it missed.
        messages = self.stream(b, last)
        seen.clear()
        until(lambda kind, data: kind == "event" and data["kind"] == "volume.deleted")

    def test_streams_are_bounded_and_their_places_become_free(self):
        a = self.node("node-a")
        streams = [self.stream(a) for _ in range(32)]
        self.problem(a.get("/api/v1/events/stream"), 429, "too-many")
        self.assertEqual(a.get("/api/v1/pair").status, 200)
        self.doCleanups()
        del streams

        def place():
            connection = a.connect()
            connection.request("GET", "/api/v1/events/stream", headers={"Authorization": f"Bearer {a.token}"})
            status = connection.getresponse().status
            connection.close()
            return status == 200
        wait_for("a free place", place)
