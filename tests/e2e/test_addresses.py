"""A node of a pair that is in use gets other addresses: real daemons on several loopback addresses, under the verifying
writer."""
import random
import signal
import socket

from basics import free_port
from harness import Writer, check, check_time, settings, wait_for
from managed_pair import scene
from test_lost_management import Scene

LIMIT_MS = 500  # the promise: the link's move is a pause below this


class Moving(Scene):
    """What is written of a node's addresses into its file, and asked of the pair."""

    def start(self, **shape):
        self.hosts = [f"127.{random.randrange(70, 120)}.{random.randrange(1, 250)}.{i}" for i in range(1, 9)]
        super().start(**shape)

    def fresh(self):
        host = self.hosts.pop()
        return f"{host}:{free_port(host)}"

    def set(self, side, through=None, **addresses):
        return (through or self.a).patch(f"/api/v1/nodes/{side}/addresses", addresses)

    def done(self, side, through=None, **addresses):
        through = through or self.a
        job = through.job(self.set(side, through, **addresses), 90)
        check(job["state"] == "done", f"the addresses are changed: {job}")
        return job

    def addresses(self, node, side):
        shown = next(n for n in node.get("/api/v1/nodes").json["items"] if n["side"] == side)["addresses"]
        return {"portals": shown["portals"], "link_address": shown["link"], "management_address": shown["management"]}

    def write_into_file(self, node, portals=None, link_address=None, management_address=None):
        node.portal, node.link = (portals or [node.portal])[0], link_address or node.link
        if management_address:
            node.extra = f'management_address = "{management_address}"\n'
        node.write_configuration()

    def epochs(self):
        return [self.epoch(node) for node in (self.a, self.b)]


def is_open(address):
    host, port = address.rsplit(":", 1)
    with socket.socket() as s:
        s.settimeout(2)
        return s.connect_ex((host, int(port))) == 0


def every_address_changes(through):
    with scene(Moving, witness=True) as s:
        # The writer's own node keeps its portal until the end; what is measured is the move of the link.
        writer = Writer(s, s.volume, [s.a if through == "a" else s.b])
        writer.wait_writes(300)
        before = s.epochs()
        for node, side in ((s.a, "a"), (s.b, "b")):
            for asked in (s.a, s.b):
                old = s.addresses(s.a, side)["link_address"]
                new = s.fresh()
                s.done(side, asked, link_address=new)
                s.write_into_file(node, link_address=new)
                check(not is_open(old) and is_open(new), "the old address is closed, the new one is open")
                writer.wait_writes(100)
            new = s.fresh()
            s.done(side, management_address=new)
            s.write_into_file(node, management_address=new)
            check(is_open(new), "the management listens there, beside what its file says")
            new = s.fresh()
            s.done(side, portals=[node.portal, new])
            check(is_open(new) and is_open(node.portal), "both portals are open")
            for shown in (s.a, s.b):
                check(s.addresses(shown, side)["portals"] == [node.portal, new], "both nodes tell of them")
        status = writer.stop()
        check(status["path_failures"] == 0 and not status["last_sense"], f"no initiator has noticed: {status}")
        check(s.epochs() == before, "no epoch has changed")
        for node, side in ((s.a, "a"), (s.b, "b")):
            s.done(side, portals=[node.portal])
        s.check_whole()
        limit = LIMIT_MS * (5 if settings.sanitized else 1)
        check_time(status["worst_gap_ms"] < limit, f"the pause was {status['worst_gap_ms']} ms")
        return f"pause {status['worst_gap_ms']} ms"


def test_every_address_of_both_nodes_changes_while_written_through_a():
    return every_address_changes("a")


def test_every_address_of_both_nodes_changes_while_written_through_b():
    return every_address_changes("b")


def test_all_addresses_of_a_node_change_in_one_job_and_hosts_with_two_paths_see_no_error():
    with scene(Moving, witness=True) as s:
        writer = Writer(s, s.volume, [s.b, s.a])
        writer.wait_writes(200)
        new = {"portals": [s.fresh()], "link_address": s.fresh(), "management_address": s.fresh()}
        s.done("b", s.b, **new)
        check(s.addresses(s.a, "b") == new and s.addresses(s.b, "b") == new, "both nodes have them")
        check(not is_open(s.b.portal), "the old portal is closed")
        writer.wait_writes(200)
        status = writer.stop()
        check_time(status["worst_gap_ms"] < 2000, f"the writer has gone on through the other path: {status}")
        s.write_into_file(s.b, **new)
        s.check_whole()


def test_what_does_not_work_is_refused_or_taken_back_and_says_what_was_tried():
    with scene(Moving, witness=True) as s:
        before = s.addresses(s.a, "b")
        for wish, code in (({}, 422), ({"portals": []}, 422), ({"portals": [s.a.portal]}, 422),
                           ({"portals": ["0.0.0.0:3260"]}, 422), ({"link_address": s.b.portal}, 422),
                           ({"link_address": "192.0.2.7:3261"}, 409), ({"management_address": "192.0.2.7:8443"}, 409),
                           ({"portals": [s.b.portal, "192.0.2.7:3260"]}, 409)):
            for asked in (s.a, s.b):
                reply = s.set("b", asked, **wish)
                check(reply.status == code, f"{wish} through {asked.name}: {reply}")
        taken = s.fresh()
        with socket.create_server((taken.rsplit(":", 1)[0], int(taken.rsplit(":", 1)[1]))):
            for key in ("link_address", "management_address"):
                reply = s.set("b", **{key: taken})
                check(reply.status == 409 and taken in reply.json["detail"] and "node-b" in reply.json["detail"],
                      f"the node and what was tried are named: {reply}")
        check(s.addresses(s.a, "b") == before, "nothing was changed")
        s.check_whole()


def killed_at_each_step(daemon):
    with scene(Moving, witness=True) as s:
        writer = Writer(s, s.volume, [s.a, s.b], all_paths=daemon == "mgmtd")
        writer.wait_writes(100)
        for progress in (0.0, 0.2, 0.4, 0.6):
            for victim in (s.a, s.b):
                link, management = s.fresh(), s.fresh()
                reply = s.set("b", link_address=link, management_address=management)
                check(reply.status == 202, f"the job begins: {reply}")
                wait_for("the job to come so far", lambda: s.a.get(reply.headers["Location"]).json["progress"] >= progress,
                         30)
                if daemon == "mgmtd":
                    victim.stop_mgmtd(signal.SIGKILL)
                    victim.start_mgmtd()
                else:
                    victim.stop_lockstepd(signal.SIGKILL)
                    victim.start_lockstepd()
                job = s.a.job(reply, 120)
                now = s.addresses(s.a, "b")
                check((now["link_address"] == link) == (job["state"] == "done"), f"it is one or the other: {job} {now}")
                s.write_into_file(s.b, link_address=now["link_address"], management_address=now["management_address"])
                s.in_sync()
                writer.wait_writes(50)
                s.hosts += [link.rsplit(":", 1)[0], management.rsplit(":", 1)[0]]
                random.shuffle(s.hosts)
        writer.stop()
        s.check_whole()


def test_management_killed_at_each_step_ends_with_the_old_or_the_new_addresses():
    killed_at_each_step("mgmtd")


def test_lockstepd_killed_at_each_step_ends_with_the_old_or_the_new_addresses():
    killed_at_each_step("lockstepd")


def machine_has_another_address(side, through):
    """Its partner finds nobody at its management address, which lockstep-mgmtd can't have any more."""
    with scene(Moving, witness=True) as s:
        moved, left = (s.a, s.b) if side == "a" else (s.b, s.a)
        gone = s.fresh()
        s.done(side, management_address=gone)
        moved.listen = f"0.0.0.0:{moved.port}"
        s.write_into_file(moved, management_address=gone)
        moved.stop_mgmtd(signal.SIGKILL)
        host, port = gone.rsplit(":", 1)
        with socket.create_server((host, int(port))):  # somebody else has it now, who speaks no TLS
            moved.start_mgmtd()
            wait_for("the partner to find nobody there", lambda: left.get("/api/v1/health").json["status"] != "ok", 60)
            new = f"{s.hosts.pop()}:{moved.port}"
            s.done(side, s.a if through == "a" else s.b, management_address=new)
            s.write_into_file(moved, management_address=new)
        check(s.addresses(left, side)["management_address"] == new, "the pair has it")
        s.check_whole()


def test_node_a_has_another_address_and_is_told_itself():
    machine_has_another_address("a", "a")


def test_node_a_has_another_address_and_its_partner_is_told():
    machine_has_another_address("a", "b")


def test_node_b_has_another_address_and_is_told_itself():
    machine_has_another_address("b", "b")


def test_node_b_has_another_address_and_its_partner_is_told():
    machine_has_another_address("b", "a")


def test_what_the_file_says_and_the_pair_has_not_is_in_the_health_with_the_command():
    with scene(Moving) as s:
        other = s.fresh()
        link = s.b.link
        s.write_into_file(s.b, link_address=other)

        def told():
            problems = s.b.get("/api/v1/health").json["problems"]
            return next((p for p in problems if other in p["message"]), None)
        problem = wait_for("health to tell of it", told)
        check(f"lockstep node set b --link-address {other}" in problem["advice"], f"with the command: {problem}")
        s.write_into_file(s.b, link_address=link)
        wait_for("all to be well again", lambda: s.b.get("/api/v1/health").json["status"] == "ok")
