"""Pauses by kind of fault: p50, p99 and the longest."""
import math

from harness import check


def percentile(values, share):
    """The smallest value that at least this share of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Pauses:
    """Seconds, in the order of their kinds' first appearance. `gap`: no write at all was acknowledged; `write`: the longest
    that one write took, with what the host itself waits before it turns to the other path."""

    def __init__(self):
        self.gaps, self.writes = {}, {}

    def add(self, kind, gap, write):
        self.gaps.setdefault(kind, []).append(gap)
        self.writes.setdefault(kind, []).append(write)

    def table(self):
        lines = ["| fault | times | pause p50 | p99 | longest | longest write p50 | p99 | longest |", "|" + " --- |" * 8]
        for kind, gaps in self.gaps.items():
            cells = [f"{value:.3f} s" for values in (gaps, self.writes[kind])
                     for value in (percentile(values, 0.5), percentile(values, 0.99), max(values))]
            lines.append(f"| {kind} | {len(gaps)} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def must_be_below(self, kind, seconds):
        values = self.gaps.get(kind, [])
        check(values, f"{kind}: no pause was measured")
        check(percentile(values, 0.99) < seconds,
              f"{kind}: the pause is {percentile(values, 0.99):.3f} s at p99 of {len(values)}, {seconds:g} s are promised")
