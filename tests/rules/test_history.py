"""Rows become entries: their kinds and details."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.ids import lease_mark
from flowfabric.model.flow import Flow
from flowfabric.model.history import Awaited, Charged, Parked, Tried, What
from flowfabric.rules.executions import history
from flowfabric.rules.executions.history import (
    ENDINGS,
    LEASES,
    OPERATIONS,
    SIGNALS,
    EventReader,
)

from .history_factory import (
    FLOW,
    LEASE,
    TRIED,
    WHO,
    entries,
    lease,
    life,
)

HELD = {"worker": "w-1", "epoch": 1, "lease": str(lease_mark(LEASE))}


@pytest.mark.parametrize(
    ("kind", "reason", "what"),
    [
        ("acquired", None, What.CLAIMED),
        ("reclaimed", None, What.RECLAIMED),
        ("expired", None, What.LEASE_EXPIRED),
        ("revoked", "lease_revoked", What.REVOKED),
        ("revoked", "delayed", What.DELAYED),
        ("revoked", "waiting_children", What.WAITED),
        ("revoked", "budget", What.HELD_BACK),
    ],
)
def test_the_kinds_of_lease_entries(kind: str, reason: str | None, what: What) -> None:
    (entry,) = entries(life(), LEASES, lease(1, kind, 5, reason))
    assert (entry.at_ms, entry.what, entry.execution_id, entry.details) == (5, what, WHO, HELD)


@pytest.mark.parametrize(
    "reason", ["completed", "failed", "cancelled", "expired", "max_reclaims_exceeded", None, "news"]
)
def test_a_lease_revoked_by_an_end_is_no_entry(reason: str | None) -> None:
    assert entries(life(), LEASES, lease(1, "revoked", 5, reason)) == []


def test_renewals_in_a_row_are_one_entry() -> None:
    rows = [lease(n, "renewed", 10 * n) for n in range(1, 4)]
    found = entries(
        life(TRIED),
        LEASES,
        lease(0, "acquired", 5),
        *rows,
        lease(4, "expired", 50),
        lease(5, "renewed", 60),
    )
    assert [e.what for e in found] == [What.CLAIMED, What.RENEWED, What.LEASE_EXPIRED, What.RENEWED]
    assert found[1].details == {**HELD, "count": 3, "last_ms": 30} and found[1].at_ms == 10
    assert found[3].details["count"] == 1
    assert {e.attempt_index for e in found} == {0}


def test_renewals_of_two_leases_are_two_entries() -> None:
    found = entries(
        life(),
        LEASES,
        lease(1, "renewed", 1),
        lease(2, "renewed", 2, epoch=2),
        lease(3, "renewed", 3, epoch=2),
    )
    assert [(e.details["epoch"], e.details["count"]) for e in found] == [(1, 1), (2, 2)]


def test_unknown_facts_are_left_out() -> None:
    (entry,) = entries(life(), LEASES, lease(1, "acquired", 5, epoch=None, lease=None, worker=None))  # type: ignore[arg-type]
    assert entry.details == {} and entry.attempt_index is None


def test_the_attempt_is_the_first_that_reached_the_epoch() -> None:
    tries = (Tried(0, 3, None, None, None, None), Tried(1, 5, None, None, None, None))
    assert [history.attempt_of(tries, epoch) for epoch in (1, 3, 4, 5, 6, None)] == [
        0,
        0,
        1,
        1,
        None,
        None,
    ]


def test_a_retry_entry_has_the_reason_and_the_time_of_the_next_attempt() -> None:
    failed = structs.replace(TRIED, failure_reason="flaky")
    rows = (lease(1, "acquired", 5), lease(2, "revoked", 6, "retry"))
    waiting = life(failed, attempt_state="pending_retry_attempt", delay_until_ms=99)
    assert entries(waiting, LEASES, *rows)[1].details == {**HELD, "reason": "flaky", "next_ms": 99}
    later = life(
        failed,
        structs.replace(TRIED, attempt_index=1, lease_epoch=4),
        attempt_index=1,
        delay_until_ms=99,
    )
    assert entries(later, LEASES, *rows)[1].details == {**HELD, "reason": "flaky"}
    assert entries(life(), LEASES, *rows)[1].details == HELD


def wait(
    suspension: int, key: str, at: int | None, closed: int | None = None, why: str | None = None
) -> Awaited:
    return Awaited(UUID(int=suspension), key, at, closed, why)


def test_a_suspension_entry_names_its_waitpoints() -> None:
    waits = (
        wait(1, "old", 1),
        wait(2, "b", 6),
        wait(2, "a", 6),
        wait(3, "later", 9),
        wait(4, "ahead", None),
    )
    row = lease(1, "revoked", 7, "suspended")
    assert entries(life(waits=waits), LEASES, row)[0].details == {**HELD, "waitpoints": "a, b"}
    parked = Parked(UUID(int=2), "waiting_for_approval", 50)
    expected = {**HELD, "waitpoints": "a, b", "reason": "waiting_for_approval", "until_ms": 50}
    assert entries(life(waits=waits, parked=parked), LEASES, row)[0].details == expected
    other = Parked(UUID(int=3), "waiting_for_callback", None)
    assert entries(life(waits=waits, parked=other), LEASES, row)[0].details == {
        **HELD,
        "waitpoints": "a, b",
    }
    assert entries(life(), LEASES, row)[0].details == HELD


@pytest.mark.parametrize(
    ("said", "tries", "outcome", "index", "details"),
    [
        ({"terminal_at_ms": 9, "failure_reason": "boom"}, (), "failed", None, {"reason": "boom"}),
        (
            {
                "terminal_at_ms": 9,
                "cancellation_reason": "enough",
                "cancelled_by": "bob",
                "failure_reason": "old",
            },
            (structs.replace(TRIED, terminal_at_ms=9),),
            "cancelled",
            0,
            {"reason": "enough", "by": "bob"},
        ),
        (
            {"terminal_at_ms": 99},
            (structs.replace(TRIED, terminal_at_ms=9, failure_reason="first"),),
            "failed",
            0,
            {"reason": "first"},
        ),
        ({}, (TRIED,), "success", None, {}),
    ],
)
def test_an_end_entry_has_its_reason(
    said: Any, tries: Any, outcome: str, index: int | None, details: Any
) -> None:
    (entry,) = entries(life(*tries, **said), ENDINGS, (1, WHO.uuid, outcome, 9))
    assert (entry.what, entry.attempt_index, entry.details) == (
        What.ENDED,
        index,
        {"outcome": outcome, **details},
    )


def test_a_resume_is_no_end() -> None:
    (entry,) = entries(life(), ENDINGS, (1, WHO.uuid, "resumable", 9))
    assert (entry.what, entry.details) == (What.RESUMED, {})


def test_a_signal_with_its_source_and_its_name() -> None:
    signal = UUID(int=4)
    (line,) = EventReader(life(), SIGNALS).read(
        (1, WHO.uuid, signal, UUID(int=5), "bob", "no_match", 9)
    )
    assert (line.entry.what, line.entry.details) == (
        What.SIGNALLED,
        {"effect": "no_match", "source": "bob"},
    )
    assert history.signals_of([line]) == [(WHO, signal)]
    assert history.with_signal_name(line, "go").details == {
        "effect": "no_match",
        "source": "bob",
        "signal": "go",
    }
    assert history.signals_of([next(history.row_lines(life()))]) == []


def operation(kind: str, details: str | None = None) -> tuple[Any, ...]:
    return (1, WHO.uuid, kind, details, 9)


def test_operator_entries() -> None:
    (entry,) = entries(
        life(),
        OPERATIONS,
        operation("priority_changed", '{"old_priority":1,"new_priority":2,"list":[1]}'),
    )
    assert (entry.what, entry.details) == (
        What.PRIORITY_CHANGED,
        {"old_priority": 1, "new_priority": 2},
    )
    assert entries(life(), OPERATIONS, operation("replayed"))[0].details == {}
    asked = structs.replace(TRIED, replay_reason="again", replay_requested_by="bob")
    assert entries(life(asked), OPERATIONS, operation("replayed"))[0].details == {
        "by": "bob",
        "reason": "again",
    }
    assert entries(life(asked), OPERATIONS, operation("budget_breached"))[0].details == {}
    assert entries(life(), OPERATIONS, operation("unheard_of")) == []


def test_long_texts_are_kept_short() -> None:
    (entry,) = entries(
        life(), OPERATIONS, operation("budget_breached", '{"reason":"' + "x" * 5_000 + '"}')
    )
    assert len(str(entry.details["reason"])) == 200


def test_the_entries_of_rows() -> None:
    charge = Charged("tokens", UUID(int=8), 120, 150)
    waits = (
        wait(1, "a", 110, 120, "resumed"),
        wait(1, "b", 110, 120, "resumed"),
        wait(2, "c", 130, 140, "timed_out_auto_resume"),
        wait(3, "d", 145, 150, "cancelled"),
        wait(4, "e", 151),
    )
    about = life(waits=waits, charges=(charge,), progress_pct=0, progress_updated_at=115)
    found = [line.entry for line in history.row_lines(about)]
    assert [(e.what, e.at_ms, e.details) for e in found] == [
        (
            What.CREATED,
            100,
            {"by": "alice", "lane": "lane", "kind": "render", "namespace": "ns", "priority": 4},
        ),
        (What.PROGRESSED, 115, {"percent": 0}),
        (What.RESUMED, 120, {"by": "operator"}),
        (What.RESUMED, 140, {"by": "timeout"}),
        (What.SPENT, 150, {"budget": str(UUID(int=8)), "dimension": "tokens", "amount": 120}),
    ]


def test_a_charge_precedes_the_end_and_a_delay_is_shown_before_the_start() -> None:
    charge = Charged("tokens", UUID(int=8), 120, 150)
    *_, spent = history.row_lines(life(charges=(charge,), terminal_at_ms=140))
    assert spent.entry.at_ms == 140
    assert next(history.row_lines(life(delay_until_ms=500))).entry.details["until_ms"] == 500
    assert "until_ms" not in next(history.row_lines(life(TRIED, delay_until_ms=500))).entry.details


def test_a_resume_with_an_event_is_one_entry() -> None:
    waits = (wait(1, "a", 110, 120, "resumed"),)
    (row,) = [
        line for line in history.row_lines(life(waits=waits)) if line.entry.what is What.RESUMED
    ]
    (event,) = EventReader(life(), ENDINGS).read((1, WHO.uuid, "resumable", 120))
    assert history.without_repeats([event, row], None) == [event]
    assert history.without_repeats([row], event.key) == []
    assert history.without_repeats([row], None) == [row]


FLOW_ROW = Flow(3, FLOW, 0, "open", 50, None, 0, None, None, None, "{}")


def test_the_flow_itself() -> None:
    (made,) = history.flow_lines(FLOW_ROW)
    assert (made.entry.what, made.entry.execution_id, made.entry.details) == (
        What.FLOW_CREATED,
        None,
        {"flow": str(FLOW)},
    )
    _, ended = history.flow_lines(
        structs.replace(FLOW_ROW, public_flow_state="cancelled", terminal_at_ms=70)
    )
    assert (ended.entry.what, ended.entry.at_ms, ended.entry.details) == (
        What.FLOW_ENDED,
        70,
        {"outcome": "cancelled"},
    )
    assert len(list(history.flow_lines(structs.replace(FLOW_ROW, public_flow_state="failed")))) == 1
    asked = history.flow_operation(
        FLOW_ROW, operation("flow_cancel_requested", '{"reason":"enough"}')
    )
    assert asked is not None and (asked.source, asked.entry.details) == (
        OPERATIONS,
        {"reason": "enough"},
    )
    assert history.flow_operation(FLOW_ROW, operation("unheard_of")) is None
