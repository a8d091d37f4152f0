"""The power of one node, the other, or both is cut again and again under a writer: what was acknowledged is there.

LOCKSTEP_VM_CUTS is the number of cuts (6), LOCKSTEP_VM_SEED decides what is cut when, and what the disks lose."""
import os
import random
import time

from harness import MIB
from lab import report
from lab.pair import VOLUME_MIB, PairOfMachines
from lab.writer import Writer

WHERE = "host"
CUTS = int(os.environ.get("LOCKSTEP_VM_CUTS", "6"))
SEED = int(os.environ.get("LOCKSTEP_VM_SEED", "0")) or random.randrange(1, 1 << 31)
ONE, BOTH, ONE_AND_THE_OTHER, AGAIN = "one node", "both at once", "one, then the other", "again while it comes back"
PROMISE = 2.0


def one_is_cut(w, volume, writer, choice, pauses):
    victim = choice.choice(w.nodes)
    lost = cut(w, volume, writer, victim, pauses)
    w.power_on([victim])
    return victim.side, [lost]


def cut(w, volume, writer, victim, pauses):
    """Cuts one of two; the other goes on alone."""
    writer.forget_times()
    begun = time.monotonic()
    lost = victim.power_cut()
    w.other(victim).wait_state(volume, "solo", seconds=30)
    writer.wait_writes(50)
    # What was on its way to the node that died goes the other way, when the host takes notice.
    while any(o.begun < begun for p in writer.paths for o in list(p.flying.values())) or writer.waiting:
        writer.check()
        time.sleep(0.02)
    pauses.add(f"{ONE} loses its power", writer.gap(begun), writer.longest)
    return lost


def both_are_cut(w, volume, writer, choice, pauses):
    gives_up = choice.random() < 0.5  # the host's power went, too
    writer.forget_times()
    begun = time.monotonic()
    nodes = choice.sample(w.nodes, 2)
    lost = [node.power_cut() for node in nodes]
    if gives_up:
        writer.give_up()
    come_back(w, writer, choice, nodes)
    if not gives_up:
        pauses.add("both lose their power, until both are back", writer.gap(begun), writer.longest)
    return "both" + (" and the host" if gives_up else ""), lost


def one_and_the_other(w, volume, writer, choice, pauses):
    """The second cut comes at any moment: before, while or after the survivor goes on alone."""
    nodes = choice.sample(w.nodes, 2)
    lost = [nodes[0].power_cut()]
    between = choice.uniform(0.0, 4.0)
    time.sleep(between)
    lost.append(nodes[1].power_cut())
    come_back(w, writer, choice, choice.sample(w.nodes, 2))
    return f"{nodes[0].side}, {between:.1f} s later {nodes[1].side}", lost


def again(w, volume, writer, choice, pauses):
    """The node that comes back, or the one that brings it up to date, is cut while that goes on."""
    first = choice.choice(w.nodes)
    lost = [cut(w, volume, writer, first, pauses)]
    w.power_on([first])
    time.sleep(choice.uniform(0.0, 1.0))
    second = choice.choice(w.nodes)
    lost.append(second.power_cut())
    w.power_on([second])
    return f"{first.side}, then {second.side} while {first.side} comes back", lost


def come_back(w, writer, choice, nodes):
    if choice.random() < 0.5:
        w.power_on(nodes)
    else:
        for node in nodes:
            w.power_on([node])
    writer.go()
    writer.wait_writes(20, seconds=120)


KINDS = {ONE: one_is_cut, BOTH: both_are_cut, ONE_AND_THE_OTHER: one_and_the_other, AGAIN: again}


def scenario(lab, work):
    print(f"seed {SEED}", flush=True)
    choice, pauses, counts = random.Random(SEED), report.Pauses(), {"cuts": 0, "writes": 0, "lost": 0}
    with PairOfMachines(lab, work, SEED) as w:
        volume = w.mirror(size=VOLUME_MIB * MIB)
        with Writer(w, volume, work, SEED) as writer:
            kinds = list(KINDS) if CUTS >= 4 else [ONE]
            while counts["cuts"] < CUTS:
                kind = kinds.pop(0) if kinds else choice.choices(list(KINDS), (4, 3, 1, 1))[0]
                round_of(w, volume, writer, choice, pauses, counts, kind)
            print(pauses.table(), flush=True)
            pauses.must_be_below(f"{ONE} loses its power", PROMISE)
            return (f"{counts['cuts']} cuts, {writer.writes} writes acknowledged, {writer.reads} read while others went on, "
                    f"{counts['lost']} of {counts['writes']} writes in the disks' caches lost or torn; each block read back "
                    f"through both nodes, copies the same; seed {SEED}")


def round_of(w, volume, writer, choice, pauses, counts, kind):
    begun = time.monotonic()
    writer.go()
    writer.wait_writes(100)
    time.sleep(choice.uniform(0.0, 0.5))  # the moment of the cut is any
    what, lost = KINDS[kind](w, volume, writer, choice, pauses)
    w.wait_in_sync(volume)
    writer.wait_writes(50)
    writer.pause()
    for node in w.nodes:
        writer.read_back(node)
    w.same_data(volume)
    counts["cuts"] += len(lost)
    counts["writes"] += sum(writes for writes, _ in lost)
    counts["lost"] += sum(gone for _, gone in lost)
    print(f"cut {counts['cuts']} of {CUTS}: {what}; lost or torn {[f'{gone} of {writes}' for writes, gone in lost]}; "
          f"{time.monotonic() - begun:.1f} s", flush=True)
