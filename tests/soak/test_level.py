"""Planted leaks and slowdowns are found by the checks of a run of many minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from . import level

S = 10**9
LASTS_S = 600.0
Notes = list[dict[str, Any]]


def notes() -> Notes:
    """Ten minutes of constant values with some noise."""
    found: Notes = []
    for at in range(0, int(LASTS_S), 5):
        wobble = at % 3
        found.append(
            {
                "op": "vitals",
                "instance": "gauge-1",
                "t": at * S,
                "rss_mb": 60.0 + wobble,
                "descriptors": 20 + wobble,
                "tasks": 30 + wobble,
            }
        )
        found.append(
            {
                "op": "sample",
                "instance": "soak-1",
                "t": at * S,
                "connections": 25 + wobble,
                "rows": {"ff_exec_core": 1_000 + wobble, "ff_idempotency": 10 * at},
            }
        )
        found.append({"op": "control", "instance": "gauge-1", "t": at * S, "seconds": 0.001})
    for number in range(int(LASTS_S) * 5):
        began = number * S // 5
        took = 0.010 if number % 50 else 0.040
        found.append(
            {"op": "latency", "instance": "gauge-1", "t": began + int(took * S), "began": began}
        )
    return found


def found_in(made: Notes, lasts_s: float = LASTS_S) -> list[tuple[str, str]]:
    series = level.series_of(made, 0, lasts_s)
    samples = level.latencies(made, 0, lasts_s, [])
    slow = level.slowness(samples, level.controls(made, 0), lasts_s)
    violations = [
        *level.leaks(series, lasts_s, ("ff_idempotency",)),
        *level.missing(series, ("gauge",)),
        *level.slower(slow, lasts_s),
    ]
    return [(violation.invariant, violation.subject) for violation in violations]


def rising(made: Notes, op: str, name: str, per_minute: float) -> None:
    for note in made:
        if note["op"] == op:
            note[name] += per_minute * note["t"] / S / 60


def memory_rises(made: Notes) -> None:
    rising(made, "vitals", "rss_mb", 3.0)


def descriptors_rise(made: Notes) -> None:
    rising(made, "vitals", "descriptors", 3.0)


def tasks_rise(made: Notes) -> None:
    rising(made, "vitals", "tasks", 6.0)


def connections_rise(made: Notes) -> None:
    rising(made, "sample", "connections", 4.0)


def rows_rise(made: Notes) -> None:
    for note in made:
        if note["op"] == "sample":
            note["rows"]["ff_exec_core"] += 3 * note["t"] // S


def process_died(made: Notes) -> None:
    for note in made:
        if note["op"] == "vitals" and note["t"] > 300 * S:
            note["instance"] = "gauge-2"


def process_was_not_measured(made: Notes) -> None:
    made[:] = [note for note in made if note["op"] != "vitals"]


def slows_down(made: Notes) -> None:
    for note in made:
        if note["op"] == "latency" and note["began"] > 300 * S:
            note["t"] += S // 50


def tail_grows(made: Notes) -> None:
    for number, note in enumerate(made):
        if note["op"] == "latency" and note["began"] > 300 * S and number % 40 == 0:
            note["t"] += S


def results_stop(made: Notes) -> None:
    made[:] = [note for note in made if note["op"] != "latency" or note["began"] < 300 * S]


PLANTED: dict[Callable[[Notes], None], tuple[str, str]] = {
    memory_rises: ("leak", "gauge-1"),
    descriptors_rise: ("leak", "gauge-1"),
    tasks_rise: ("leak", "gauge-1"),
    connections_rise: ("leak", "server"),
    rows_rise: ("leak", "ff_exec_core"),
    process_died: ("leak", "gauge"),
    process_was_not_measured: ("leak", "gauge"),
    slows_down: ("latency", "gauge"),
    tail_grows: ("latency", "gauge"),
    results_stop: ("latency", "gauge"),
}


def test_what_stays_level_is_no_violation() -> None:
    assert found_in(notes()) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_violation_is_caught(plant: Callable[[Notes], None]) -> None:
    made = notes()
    plant(made)
    assert PLANTED[plant] in found_in(made)


def test_what_a_slower_machine_explains_is_no_slowness() -> None:
    made = notes()
    for note in made:
        if note["op"] == "latency" and note["began"] > 300 * S:
            note["t"] += 3 * (note["t"] - note["began"])
        if note["op"] == "control" and note["t"] > 300 * S:
            note["seconds"] *= 4
    assert found_in(made) == []


def test_a_long_run_allows_a_fifth() -> None:
    slow = [level.Slowness(0.5, 0.100, 0.130, 1.0)]
    assert list(level.slower(slow, level.LONG_S)) and not list(level.slower(slow, LASTS_S))
    assert level.window_s(level.LONG_S) == 300.0 and level.window_s(LASTS_S) == 100.0
    assert level.window_s(90.0) == 30.0 and level.window_s(40.0) == 20.0


def test_results_that_met_the_store_away_are_left_out() -> None:
    made = notes()
    kept = level.latencies(made, 0, LASTS_S, [(100 * S, 110 * S)])
    assert len(level.latencies(made, 0, LASTS_S, [])) - len(kept) == 51
