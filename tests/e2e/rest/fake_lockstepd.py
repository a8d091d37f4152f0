#!/usr/bin/env python3
"""A lockstepd that keeps nothing: it speaks docs/developer/rpc.md, believes what it is told and says that all is well.
For tests of the management alone. A file beside the socket, <socket>.script, changes its mind:

    {"fail": {"replica.create": "a sentence"}, "state": "solo", "epoch": {"members": "a"}, "lost": ["volume's id"], "serving": true, "uptime_ms": 9, "resync": {...}, "lease": {"settled": false}, "silent": ["node.apply"], "paths": {"10.0.0.2:3261": {"state": "down"}}}
"""
import json
import pathlib
import socketserver
import sys
import threading
import time
import uuid


class Node:
    def __init__(self, path):
        self.script_file = pathlib.Path(str(path) + ".script")
        self.process = str(uuid.uuid4())
        self.start = time.monotonic()
        self.applied = None
        self.applied_file = pathlib.Path(str(path) + ".applied")  # for tests to look at
        self.forgotten_file = pathlib.Path(str(path) + ".forgotten")  # what witness.forget was told, a line each
        self.subscribed_file = pathlib.Path(str(path) + ".subscribed")  # the management speaks to it
        self.replicas_file = pathlib.Path(str(path) + ".replicas")  # as the disks would keep them
        self.lock = threading.Lock()
        self.subscribers = []
        self.calls = []

    @property
    def replicas(self):
        return json.loads(self.replicas_file.read_text()) if self.replicas_file.exists() else {}

    def keep(self, replicas):
        self.put(self.replicas_file, replicas)

    @staticmethod
    def put(path, what):
        """At once: a test may be reading it."""
        beside = path.with_name(f"{path.name}.new")
        beside.write_text(json.dumps(what))
        beside.replace(path)

    def script(self):
        try:
            return json.loads(self.script_file.read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def call(self, method, params):
        with self.lock:
            script = self.script()
            if method in script.get("fail", {}):
                raise Refused(script["fail"][method])
            handler = getattr(self, method.replace(".", "_"), None)
            if handler is None:
                raise Refused(f"There is no method {method}.")
            return handler(params, script)

    def node_apply(self, wanted, script):
        problems = []
        for volume in wanted["volumes"]:
            assert volume["data"].endswith(".data") and volume["metadata"].endswith(".meta")
            if volume["id"] not in self.replicas:
                problems.append({"object": f"volume {volume['id']}", "message": "There is no replica of it here."})
            elif self.lost(volume, script):
                problems.append({"object": f"volume {volume['name']}", "message": "The replica's data is missing."})
        before = {v["id"] for v in (self.applied or {"volumes": []})["volumes"]}
        self.put(self.applied_file, wanted)
        self.applied = wanted
        for volume in wanted["volumes"]:
            if volume["id"] in self.replicas and volume["id"] not in before:
                self.tell({"kind": "volume.state", "volume": volume["id"], "from": "starting", "to": "in_sync",
                           "message": f"{volume['name']} is in sync."})
        return {"revision": wanted["revision"], "problems": problems}

    @staticmethod
    def lost(volume, script):
        """The volume's first copy, where the script says that it is gone."""
        return volume["id"] in script.get("lost", []) and volume["data"].endswith(f"{volume['id']}.data")

    def replica_create(self, p, script):
        assert p["side"] in "ab" and p["epoch"]["sequencer"] == "a" and p["epoch"]["members"] in ("a", "both")
        replicas = self.replicas
        known = replicas.get(p["volume"])
        if "number" in p["epoch"]:  # in the place of a lost one
            assert not p["clean"] and p["side"] != p["epoch"]["members"]
        elif known is not None and known != p:
            raise Refused(f"{p['data']} holds another replica.")
        for file in (p["data"], p["metadata"]):
            pathlib.Path(file).touch()
        replicas[p["volume"]] = p
        self.keep(replicas)
        return {}

    def replica_grow(self, p, script):
        assert p["volume"] in self.replicas and p["size"] % 4096 == 0
        self.grown = {**getattr(self, "grown", {}), p["volume"]: p["size"]}
        return {}

    def replica_delete(self, p, script):
        if self.applied and any(v["id"] == p["volume"] for v in self.applied["volumes"]):
            raise Refused("The volume is attached.")
        replicas = self.replicas
        replicas.pop(p["volume"], None)
        for file in (p["data"], p["metadata"]):
            pathlib.Path(file).unlink(missing_ok=True)
        self.keep(replicas)
        return {}

    def volume_leave(self, p, script):
        self.tell({"kind": "volume.state", "volume": p["volume"], "from": "in_sync", "to": "left", "message": "Left."})
        return {}

    volume_force_solo = volume_give_up = volume_leave

    def node_shutdown(self, p, script):
        """And started again at once, as systemd does: it knows nothing any more."""
        self.applied, self.process = None, str(uuid.uuid4())
        self.applied_file.unlink(missing_ok=True)
        return {}

    def witness_try(self, p, script):
        found = script.get("tries", {}).get(p["endpoint"]) or script.get("try", {})
        return {"answers": True, "refused": False, "problem": "", "cluster": p["endpoint"].split(":")[-1], **found}

    def listen_try(self, p, script):
        return {"problems": [{"object": a, "message": "It is not an address of this machine's."}
                             for a in p["addresses"] if a.startswith("192.0.2.")]}

    def link_test(self, p, script):
        return {"sizes": [{"bytes": size, "round_trips": 9, "least_us": 50.5, "median_us": 61.0, "p99_us": 90.0,
                           "bytes_a_second": size * 9000} for size in (64, 4096, 65536, 1048576)], **script.get("measured", {})}

    def link_try(self, p, script):
        return {"problem": script.get("link", "")}

    def fence_try(self, p, script):
        return {"answers": True, "off": False, "problem": "", **script.get("fence", {})}

    def witness_forget(self, p, script):
        with open(self.forgotten_file, "a") as forgotten:
            forgotten.write(json.dumps(p) + "\n")
        return {}

    def witness_read(self, p, script):
        return {"view": None, "problem": "nobody is there"}

    def node_status(self, p, script):
        applied = self.applied or {"revision": 0, "volumes": [], "node": {"side": None}, "arbiter": {"kind": "none"},
                                   "partner": None}
        witness = {"kind": applied["arbiter"]["kind"]}
        if witness["kind"] == "witness":
            witness["changing"] = applied["arbiter"].get("changing", False)
            witness["reachable"] = script.get("witness", True) and not witness["changing"]
        return {"version": "0.1.0", "process": self.process, "revision": applied["revision"],
                "side": applied["node"]["side"], "uptime_ms": script.get("uptime_ms", int((time.monotonic() - self.start) * 1000)),
                "partner": applied["partner"] and {"connected": script.get("linked", True), "path": "tcp",
                                                   "since_ms": int(time.time() * 1000), **self.paths(script)},
                "witness": witness, **self.lease(script),
                "volumes": [self.volume(v, script) for v in applied["volumes"]
                            if v["id"] in self.replicas and not self.lost(v, script)],
                "sessions": script.get("sessions", []), "rdma": script.get("rdma", {"findings": [], "hosts": None})}

    def paths(self, script):
        """"paths" in the script: null for a lockstepd that knows of one only, or what is otherwise of the path to an address."""
        link = self.applied["partner"]["link"]
        said = script.get("paths", {})
        ways = [{"listen": link["listen"], "connect": link["connect"]}, *link.get("more_paths", [])]
        return {} if said is None else {"paths": [
            {"transport": "tcp", "from": way["listen"].rsplit(":", 1)[0], "to": way["connect"], "state": "proven",
             "last_resort": way.get("last_resort", False), "cipher": None, "problem": "", **said.get(way["connect"], {})}
            for way in ways]}

    def lease(self, script):
        held = (self.applied or {}).get("settings", {}).get("lease_ms", 1500)
        return {} if "lease" in script and not script["lease"] else {"lease": {"ms": held, "settled": True, **script.get("lease", {})}}

    def volume(self, v, script):
        epoch = self.replicas[v["id"]]["epoch"]
        state = script.get("state") or ("in_sync" if epoch["members"] == "both" else "solo")
        told = self.applied["arbiter"]
        named = f"preferred_{told['preferred']}" if told["kind"] == "preferred" else told["kind"]
        return {"id": v["id"], "state": state, "serving": script.get("serving", True), "access": "active_optimized",
                "failover_limited": script.get("limited", False), "epoch": {"number": 1, **epoch, "arbiter": named, **script.get("epoch", {})}, "size": v["size"], "dirty_bytes": 0, "allocated_bytes": 4096,
                "reason": script.get("reason", ""),
                "resync": script.get("resync", {"running": False, "bytes_total": 0, "bytes_done": 0,
                                                "bytes_per_second": 0}),
                "io": {"reads": 7, "writes": 3, "read_bytes": 28672, "write_bytes": 12288}}

    def events_subscribe(self, p, script):
        self.subscribed_file.touch()
        return {}

    def tell(self, params):
        line = json.dumps({"jsonrpc": "2.0", "method": "event",
                           "params": {"time_ms": int(time.time() * 1000), **params}}) + "\n"
        for write in list(self.subscribers):
            try:
                write(line.encode())
            except OSError:
                self.subscribers.remove(write)


class Refused(Exception):
    pass


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        node = self.server.node
        lock = threading.Lock()

        def write(data):
            with lock:
                self.connection.sendall(data)
        for line in self.rfile:
            request = json.loads(line)
            answer = {"jsonrpc": "2.0", "id": request["id"]}
            if request["method"] in node.script().get("silent", []):
                continue
            try:
                answer["result"] = node.call(request["method"], request.get("params", {}))
            except Refused as refused:
                answer["error"] = {"code": -32000, "message": str(refused), "data": {"code": "refused"}}
            write((json.dumps(answer) + "\n").encode())
            if request["method"] == "events.subscribe":
                node.subscribers.append(write)
                for event in node.script().get("events", []):
                    node.tell(event)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main():
    path = pathlib.Path(sys.argv[1])
    path.unlink(missing_ok=True)
    with Server(str(path), Connection) as server:
        server.node = Node(path)
        server.serve_forever()


if __name__ == "__main__":
    main()
