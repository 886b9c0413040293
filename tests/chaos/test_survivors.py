"""A process without supervision is active again after a restart of the server, or the check
fails.
"""

from __future__ import annotations

import pytest

from flowfabric.verify.snapshot import TABLES_READ

from .evidence import Evidence
from .logs import Call, History
from .survivors import nobody_is_stuck, reconnects

RESTARTS = ((10, 11), (60, 61))


def evidence(answered: tuple[int, ...], *notes: tuple[str, int]) -> Evidence:
    """A worker with answers at these seconds and its faults, a worker that is always active, and
    two restarts.
    """
    history = History([], [], [])
    for down, up in RESTARTS:
        history.notes += [
            {"instance": "outages-1", "op": op, "t": at * 10**9}
            for op, at in (("down", down), ("up", up))
        ]
    history.notes += [
        {
            "instance": "nemesis-1",
            "op": op,
            "t": at * 10**9,
            "target": "worker0-1",
            "seconds": "3.00",
        }
        for op, at in notes
    ]
    for instance, seconds in (("worker0-1", answered), ("worker1-1", range(100))):
        for second in seconds:
            at = second * 10**9
            history.calls.append(
                Call(instance, "claim", {}, at, 0, "acknowledged", at, {"granted": []})
            )
    return Evidence.of({table: [] for table in TABLES_READ}, history)


@pytest.mark.parametrize(
    "answered", [(5,), (5, 30, 62), (5, 12, 59)], ids=["never", "late", "not_again"]
)
def test_a_worker_without_answers_after_a_restart_is_stuck(answered: tuple[int, ...]) -> None:
    assert {violation.subject for violation in nobody_is_stuck(evidence(answered))} == {"worker0-1"}


@pytest.mark.parametrize(
    ("answered", "notes"),
    [
        ((5, 13, 65), ()),
        ((13, 65), ()),
        ((5,), (("kill", 13),)),
        ((5, 12), (("term", 30),)),
        ((5, 18, 62), (("stop", 11),)),
    ],
    ids=["in_time", "born_later", "killed", "asked_to_end", "stopped_meanwhile"],
)
def test_a_worker_that_was_disturbed_or_recovered_is_not_stuck(
    answered: tuple[int, ...], notes: tuple[tuple[str, int], ...]
) -> None:
    assert list(nobody_is_stuck(evidence(answered, *notes))) == []


def test_reconnects_are_counted_by_process_and_restart() -> None:
    assert reconnects(evidence((5, 13))) == 3
