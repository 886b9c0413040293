"""Whether the resources used by a run stay level, and whether it slows down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from msgspec import Struct

from flowfabric.verify.invariants import Violation

Note = Mapping[str, Any]
Series = list[tuple[float, float]]
"""Seconds since the run began, and a value."""


class Allowance(Struct, frozen=True):
    """The allowed rise from the third quarter to the last."""

    share: float
    amount: float

    def limit(self, before: float) -> float:
        return before * (1 + self.share) + self.amount


LEVELS = {
    "rss_mb": Allowance(0.03, 3.0),
    "descriptors": Allowance(0.0, 4.0),
    "tasks": Allowance(0.0, 12.0),
    "connections": Allowance(0.05, 6.0),
    "rows": Allowance(0.10, 200.0),
}
WARM_S = 600.0
"""A process takes more memory while it is younger than this."""
YOUNG = Allowance(0.15, 8.0)
LONG_S, LONG_WINDOW_S = 1_800.0, 300.0
SHORT_SHARE, SHORTEST_S = 1 / 6, 30.0
SLOWER = 1.2
SLOWER_SHORT = {0.5: 2.0, 0.99: 4.0}
NOISE_S = 0.002
FEWEST = 30


class Slowness(Struct, frozen=True):
    """Seconds in the first and the last part of a run, and the change of the machine's own
    speed.
    """

    share: float
    first_s: float
    last_s: float
    control: float

    @property
    def ratio(self) -> float:
        return self.last_s / self.first_s

    def exceeds(self, most: float) -> bool:
        """Excludes the part that a slower machine explains."""
        return self.last_s > self.first_s * most * max(self.control, 1.0) + NOISE_S


def series_of(notes: Iterable[Note], began_ns: int, ends_s: float) -> dict[tuple[str, str], Series]:
    """Measurements by name and place: vitals by process, samples of the store by table."""
    found: dict[tuple[str, str], Series] = defaultdict(list)
    for note in notes:
        at_s = (note["t"] - began_ns) / 1e9
        if not 0 <= at_s <= ends_s:
            continue
        if note["op"] == "vitals":
            for name in ("rss_mb", "descriptors", "tasks"):
                found[name, note["instance"]].append((at_s, note[name]))
        elif note["op"] == "sample":
            if note["connections"] is not None:
                found["connections", "server"].append((at_s, note["connections"]))
            for table, rows in note["rows"].items():
                found["rows", table].append((at_s, rows))
    return found


def quarters(series: Series, ends_s: float) -> tuple[float, float] | None:
    """The medians of the third and of the last quarter."""
    third = [value for at, value in series if ends_s / 2 <= at < ends_s * 3 / 4]
    last = [value for at, value in series if at >= ends_s * 3 / 4]
    return (median(third), median(last)) if third and last else None


def leaks(
    found: Mapping[tuple[str, str], Series], ends_s: float, growing: Sequence[str] = ()
) -> Iterator[Violation]:
    """Series that rose from the third quarter to the last. `growing` tables keep rows by design."""
    for (what, where), series in found.items():
        middle = quarters(series, ends_s)
        if middle is None or where in growing:
            continue
        allowed = YOUNG if what == "rss_mb" and ends_s < WARM_S else LEVELS[what]
        before, after = middle
        if after > allowed.limit(before):
            yield Violation(
                "leak", where, f"{what} rose from {before:.1f} to {after:.1f} in the second half"
            )


def missing(found: Mapping[tuple[str, str], Series], spared: Sequence[str]) -> Iterator[Violation]:
    """Processes that should last for the whole run and died, or were never measured."""
    lives = {where for what, where in found if what == "rss_mb"}
    for role in spared:
        own = [each for each in lives if each.rpartition("-")[0] == role]
        if len(own) != 1:
            yield Violation("leak", role, f"was to live once and was measured as {sorted(own)}")


def latencies(
    notes: Iterable[Note], began_ns: int, ends_s: float, away: Sequence[tuple[int, int]]
) -> Series:
    """Start and duration of each, without those during an outage of the store."""
    return [
        ((note["began"] - began_ns) / 1e9, (note["t"] - note["began"]) / 1e9)
        for note in notes
        if note["op"] == "latency"
        and note["began"] <= began_ns + ends_s * 1e9
        and not any(down <= note["t"] and note["began"] <= up for down, up in away)
    ]


def controls(notes: Iterable[Note], began_ns: int) -> Series:
    return [((n["t"] - began_ns) / 1e9, n["seconds"]) for n in notes if n["op"] == "control"]


def window_s(ends_s: float) -> float:
    """The two windows of a run do not overlap."""
    if ends_s >= LONG_S:
        return LONG_WINDOW_S
    return min(max(ends_s * SHORT_SHARE, SHORTEST_S), ends_s / 2)


def slowness(samples: Series, control: Series, ends_s: float) -> list[Slowness]:
    """At p50 and p99; empty with too few samples."""
    size = window_s(ends_s)
    first, last = _parts(samples, size, ends_s)
    speeds = _parts(control, size, ends_s)
    if min(len(first), len(last)) < FEWEST or not all(speeds):
        return []
    changed = median(speeds[1]) / median(speeds[0])
    return [
        Slowness(share, percentile(first, share), percentile(last, share), changed)
        for share in (0.5, 0.99)
    ]


def slower(found: Sequence[Slowness], ends_s: float) -> Iterator[Violation]:
    is_long = ends_s >= LONG_S
    if not found:
        yield Violation("latency", "gauge", "too few results were measured")
    for each in found:
        most = SLOWER if is_long else SLOWER_SHORT[each.share]
        if each.exceeds(most):
            yield Violation(
                "latency",
                "gauge",
                f"p{each.share * 100:.0f} rose from {each.first_s * 1e3:.1f} to "
                f"{each.last_s * 1e3:.1f} ms, allowed is {most} times; the machine itself took "
                f"{each.control:.2f} times as long",
            )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _parts(series: Series, size: float, ends_s: float) -> tuple[list[float], list[float]]:
    first = [value for at, value in series if at < size]
    last = [value for at, value in series if at >= ends_s - size]
    return first, last
