"""The power of one node, the other, or both is cut again and again under a writer: what was acknowledged is there.

LOCKSTEP_VM_CUTS is the number of cuts (6), LOCKSTEP_VM_SEED decides what is cut when, and what the disks lose."""
import os
import time

from lab.trial import DEAD_NODE, trial

WHERE = "host"
CUTS = int(os.environ.get("LOCKSTEP_VM_CUTS", "6"))
ONE = "one node loses its power"


def one_is_cut(t):
    victim = t.choice.choice(t.pair.nodes)
    lost = cut(t, victim)
    with t.pause_of("it comes back, until both are in sync"):
        t.pair.power_on([victim])
        t.pair.wait_in_sync(t.volume)
    return victim.side, [lost]


def cut(t, victim):
    """Cuts one of two; the other goes on alone."""
    with t.pause_of(ONE):
        lost = victim.power_cut()
        t.pair.other(victim).wait_state(t.volume, "solo", seconds=30)
    return lost


def both_are_cut(t):
    if t.choice.random() < 0.5:
        lost = cut_both(t)
        t.writer.give_up()
        come_back(t)
        t.read_back()  # before anything new is written over what may be gone
        return "both, and the host gives up what it had sent", lost
    with t.pause_of("both lose their power, until both are back"):
        lost = cut_both(t)
        come_back(t)
        t.writer.wait_writes(20, seconds=120)
    return "both", lost


def cut_both(t):
    return [node.power_cut() for node in t.choice.sample(t.pair.nodes, 2)]


def one_and_the_other(t):
    """The second cut comes at any moment: before, while or after the survivor goes on alone."""
    first, second = t.choice.sample(t.pair.nodes, 2)
    lost = [first.power_cut()]
    between = t.choice.uniform(0.0, 4.0)
    time.sleep(between)
    lost.append(second.power_cut())
    t.writer.give_up()
    come_back(t)
    t.read_back()
    return f"{first.side}, {between:.1f} s later {second.side}", lost


def again(t):
    """The node that comes back, or the one that brings it up to date, is cut while that goes on."""
    first, second = t.choice.choice(t.pair.nodes), t.choice.choice(t.pair.nodes)
    lost = [cut(t, first)]
    t.pair.power_on([first])
    time.sleep(t.choice.uniform(0.0, 1.0))
    lost.append(second.power_cut())
    t.pair.power_on([second])
    return f"{first.side}, then {second.side} while {first.side} comes back", lost


def come_back(t):
    """Together, or one after the other."""
    nodes = t.choice.sample(t.pair.nodes, 2)
    for group in [nodes] if t.choice.random() < 0.5 else [[node] for node in nodes]:
        t.pair.power_on(group)


KINDS = {one_is_cut: 4, both_are_cut: 3, one_and_the_other: 1, again: 1}  # and how often


def scenario(lab, work):
    with trial(lab, work) as t:
        cuts, cached, lost = 0, 0, 0
        kinds = list(KINDS)  # each once, then at random
        while cuts < CUTS:
            kind = kinds.pop(0) if kinds else t.choice.choices(list(KINDS), KINDS.values())[0]
            t.load()
            what, disks = kind(t)
            t.writer.go()
            t.settle()
            cuts += len(disks)
            cached, lost = cached + sum(disk[0] for disk in disks), lost + sum(disk[1] for disk in disks)
            t.told(f"cut {cuts} of {CUTS}: {what}; lost or torn {', '.join(f'{gone} of {held}' for held, gone in disks)}")
        t.pauses.must_be_below(ONE, DEAD_NODE)
        return f"{cuts} cuts, {lost} of {cached} writes in the disks' caches lost or torn; {t.summary()}"
