"""The link over two networks: while one of them is left, no initiator notices that the other is gone."""
from basics import free_port
from cable import Cable
from harness import RpcError, World, Writer, check, wait_for
from test_mirror import hosts_noticed_nothing, same_data, verify

LIMIT_MS = 500  # the promise: a path that is lost is a pause below this


class Cables:
    """A world whose nodes reach one another by two cables only."""

    def __init__(self, world):
        self.world = world
        self.ports = {node: (node.link, free_port(node.address)) for node in world.nodes}
        self.all = [Cable(*(f"{node.address}:{self.ports[node][i]}" for node in world.nodes)) for i in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for cable in self.all:
            cable.close()

    def relay(self, node, i):
        """Where the node calls its partner by that cable."""
        return (self.all[i].into_b if node is self.world.a else self.all[i].into_a).address

    def tell(self, node, paths=2, last_resort=False):
        partner = node.desired([])["partner"]
        listens = [f"{node.address}:{port}" for port in self.ports[node]]
        partner["link"].update(listen=listens[0], connect=self.relay(node, 0))
        if paths > 1:
            partner["link"]["more_paths"] = [
                {"listen": listens[1], "connect": self.relay(node, 1), "last_resort": last_resort}]
        node.apply_cleanly(partner=partner)


def paths_of(node):
    return node.status()["partner"]["paths"]


def wait_up(w, i):
    wait_for(f"path {i} to be there on both nodes",
             lambda: all(len(paths_of(node)) > i and paths_of(node)[i]["state"] in ("proving", "proven")
                         for node in w.nodes), 30)


def whole_pair(w, cables, **how):
    volume = w.mirror()
    for node in w.nodes:
        cables.tell(node, **how)
    for i in range(2):
        wait_up(w, i)
    for node in w.nodes:
        node.wait_state(volume, "in_sync")
    return volume


def marks_of(w, volume):
    """What changes when the partner is lost, be it for a moment."""
    return [(node.status()["partner"]["since_ms"], node.volume_status(volume)["epoch"]["number"]) for node in w.nodes]


def test_both_are_cut_at_once_and_it_is_as_if_the_network_was_lost_and_nothing_is_lost_with_it():
    with World(lease_ms=1500) as w, Cables(w) as cables:
        volume = whole_pair(w, cables)
        writer = Writer(w, volume, w.nodes)
        writer.wait_writes(300)
        for turn in range(4):
            for i in range(2):
                cables.all[i].cut(silent=turn % 2 == 0)
            wait_for("the partner to be missed", lambda: not any(n.status()["partner"]["connected"] for n in w.nodes), 15)
            wait_for("one node, and no other, to go on",
                     lambda: sorted(n.volume_status(volume)["serving"] for n in w.nodes) == [False, True], 15)
            writer.wait_writes(100)
            for i in range(2):
                cables.all[i].mend()
                wait_up(w, i)
            for node in w.nodes:
                node.wait_state(volume, "in_sync")
            writer.wait_writes(100)
        status = writer.stop()
        for node in w.nodes:
            verify(w, node, volume, writer.log)
        same_data(w, volume)
        return f"4 times, pause {status['worst_gap_ms']} ms"


def test_a_last_resort_carries_data_only_when_nothing_else_does():
    with World(lease_ms=1500) as w, Cables(w) as cables:
        volume = whole_pair(w, cables, last_resort=True)
        before = marks_of(w, volume)
        writer = Writer(w, volume, [w.a])
        for round in range(3):
            wait_for("the first path to have proven itself", lambda: paths_of(w.a)[0]["state"] == "proven", 90)
            carried = paths_of(w.a)[1]["bytes_out"]
            writer.wait_writes(300)
            more = paths_of(w.a)[1]["bytes_out"] - carried
            check(more < 200_000, f"heartbeats alone are no {more} bytes")
            cables.all[0].cut(silent=True)
            wait_for("the first path to be noticed as lost", lambda: paths_of(w.a)[0]["state"] == "down", 10)
            carried = paths_of(w.a)[1]["bytes_out"]
            writer.wait_writes(300)
            more = paths_of(w.a)[1]["bytes_out"] - carried
            check(more > 1_000_000, f"300 writes are more than {more} bytes")
            cables.all[0].mend()
            wait_up(w, 0)
        check(marks_of(w, volume) == before, f"the partner was never lost: {before}, {marks_of(w, volume)}")
        check(writer.stop()["path_failures"] == 0, "no initiator sees an error")
        for node in w.nodes:
            check(paths_of(node)[0]["losses"] == 3, f"each loss is counted: {paths_of(node)}")
        same_data(w, volume)


def check_refused(node, to):
    try:
        check(False, f"a path that is down was measured: {node.rpc.call('link.test', to=to)}")
    except RpcError as error:
        check("is down" in str(error), error)


def test_a_path_is_measured_beside_a_writer():
    with World(lease_ms=1500) as w, Cables(w) as cables:
        volume = whole_pair(w, cables)
        before = marks_of(w, volume)
        writer = Writer(w, volume, [w.a])
        writer.wait_writes(50)
        for path in paths_of(w.a):
            sizes = w.a.rpc.call("link.test", to=path["to"])["sizes"]
            check([s["bytes"] for s in sizes] == [64, 4096, 65536, 1048576], sizes)
            for s in sizes:
                check(0 < s["least_us"] <= s["median_us"] <= s["p99_us"], s)
                check(s["round_trips"] > 0 and s["bytes_a_second"] > s["bytes"], s)
        check_refused(w.a, w.b.portal)
        cables.all[1].cut(silent=False)
        wait_for("the second path to be noticed as lost", lambda: paths_of(w.a)[1]["state"] == "down", 10)
        check_refused(w.a, paths_of(w.a)[1]["to"])
        check(writer.stop()["path_failures"] == 0, "no initiator sees an error")
        check(marks_of(w, volume) == before, f"the partner was never lost: {before}, {marks_of(w, volume)}")
        same_data(w, volume)


def each_is_cut_in_turn(through, cuts):
    with World(lease_ms=1500) as w, Cables(w) as cables:
        volume = whole_pair(w, cables)
        before = marks_of(w, volume)
        writer = Writer(w, volume, [w.a if through == "a" else w.b])
        writer.wait_writes(300)
        for turn in range(2 * cuts):
            i = turn % 2
            wait_up(w, i)
            wait_up(w, 1 - i)
            cables.all[i].cut(silent=turn // 2 % 2 == 0)
            writer.wait_writes(30)
            wait_for(f"path {i} to be noticed as lost", lambda: all(paths_of(node)[i]["state"] not in ("proving", "proven")
                                                                  for node in w.nodes), 10)
            writer.wait_writes(30)
            cables.all[i].mend()
        check(marks_of(w, volume) == before, f"the partner was never lost: {before}, {marks_of(w, volume)}")
        return f"{2 * cuts} cuts, {hosts_noticed_nothing(w, volume, writer, LIMIT_MS)}"


def test_each_of_two_paths_is_cut_fifty_times_and_a_writer_through_the_ordering_node_notices_nothing():
    return each_is_cut_in_turn("a", 50)


def test_each_of_two_paths_is_cut_fifteen_times_and_a_writer_through_the_other_node_notices_nothing():
    return each_is_cut_in_turn("b", 15)
