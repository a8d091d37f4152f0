"""The link's paths as an operator adds and removes them: real daemons on several loopback addresses, under the verifying writer.
What a path is worth when another one is cut: test_paths.py."""
import json
import subprocess

from harness import Writer, check, check_time, settings, wait_for
from managed_pair import scene
from test_addresses import Moving

LIMIT_MS = 500
NOWHERE = "192.0.2.7:3261"  # nobody's (RFC 5737)


class Paths(Moving):
    def lockstep(self, *words):
        node = self.a
        return subprocess.run(
            [settings.build / "ui-api/cli/lockstep", "--server", f"https://127.0.0.1:{node.port}", "--insecure", "--token-file",
             node.folder / "mgmt/admin.token", "--config", "/dev/null", *words], capture_output=True, text=True, timeout=60)

    def states(self, n=None):
        """Of the paths, as both nodes see them; of one path with `n`."""
        if n is not None and not isinstance(n, int):
            return super().states(n)
        paths = [[end["state"] for end in path["nodes"]] for path in self.a.get("/api/v1/pair/link").json["paths"]]
        return paths if n is None else paths[n]

    def ends(self, n):
        return self.a.get("/api/v1/pair/link").json["paths"][n]["nodes"]


def test_paths_come_and_go_and_no_host_notices():
    with scene(Paths, witness=True) as s:
        writer = Writer(s, s.volume, [s.a, s.b], all_paths=True)
        writer.wait_writes(300)
        epochs = s.epochs()
        for last_resort in (False, True):
            a, b = s.fresh(), s.fresh()
            added = s.lockstep("link", "add", "--a", a, "--b", b, *(["--last-resort"] if last_resort else []))
            check(added.returncode == 0, f"it is there within seconds: {added}")
            check(a in added.stdout and b in added.stdout and "not used" not in added.stdout, f"it is shown: {added}")
        check(len(s.states()) == 3, "there are three")
        wait_for("all to be proven on both nodes", lambda: all(states == ["proven"] * 2 for states in s.states()), 90)
        writer.wait_writes(300)
        for end in s.ends(2):
            check(end["from"] and end["to"] and end["cipher"] == "TLS_AES_256_GCM_SHA384", f"it is encrypted as the first: {end}")
        shown = json.loads(s.lockstep("link", "--json").stdout)
        check([p["last_resort"] for p in shown["paths"]] == [False, False, True], "the last resort is the last")
        for node in (s.a, s.b):
            check(node.get("/api/v1/health").json["status"] == "ok", "all is well")
        for n in (1, 1):
            removed = s.lockstep("link", "remove", s.ends(n)[1]["address"])
            check(removed.returncode == 0, f"it is removed: {removed}")
            writer.wait_writes(100)
        wait_for("the first to go on alone", lambda: s.states() == [["proven"] * 2])
        status = writer.stop()
        check(status["path_failures"] == 0 and not status["last_sense"], f"no initiator has noticed: {status}")
        check_time(status["worst_gap_ms"] <= LIMIT_MS, f"the pause is below {LIMIT_MS} ms: {status['worst_gap_ms']}")
        check(s.epochs() == epochs, "no epoch has passed")
        s.in_sync()
        s.check_same()


def test_a_path_whose_partner_does_not_answer_is_told_with_why_and_harms_nothing():
    with scene(Paths) as s:
        writer = Writer(s, s.volume, [s.a])
        writer.wait_writes(100)
        added = s.lockstep("link", "add", "--a", s.fresh(), "--b", NOWHERE)
        check(added.returncode == 1 and "is configured, but is not there yet" in added.stderr, f"the command says so: {added}")
        for node in (s.a, s.b):
            wait_for("health to tell of it", lambda node=node: any(
                p["message"].startswith("Path 2 of the link, between ") and "is down: " in p["message"]
                for p in node.get("/api/v1/health").json["problems"]))
        shown = s.lockstep("link")
        check("Path 2 is not used:\n  node-a: " in shown.stdout, f"the command shows why: {shown}")
        refused = s.lockstep("link", "add", "--a", s.ends(1)[0]["address"], "--b", s.fresh())
        check(refused.returncode == 1 and "is used by node-a already" in refused.stderr, f"an address is used once: {refused}")
        first = s.lockstep("link", "remove", s.a.link)
        check(first.returncode == 1 and "`lockstep node set a --link-address" in first.stderr, f"the first stays: {first}")
        check(s.lockstep("link", "remove", NOWHERE).returncode == 0, "it is removed")
        status = writer.stop()
        check(status["path_failures"] == 0 and not status["last_sense"], f"no initiator has noticed: {status}")
        s.in_sync()
