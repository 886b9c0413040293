"""A story from rows: the words, the details, and an order that does not depend on how it was read."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.ids import ExecutionId, lease_mark
from flowfabric.model.flow import Flow
from flowfabric.model.history import Awaited, Charged, Core, HistoryEntry, Life, Parked, Tried, What
from flowfabric.rules.executions import history
from flowfabric.rules.executions.history import (
    ENDINGS,
    LEASES,
    OPERATIONS,
    ROWS,
    SIGNALS,
    EventReader,
    FirstLines,
    Line,
    PageEnd,
)

WHO = ExecutionId.of(3, UUID(int=9))
LEASE, FLOW = UUID(int=77), UUID(int=5)
CORE = Core(
    partition_key=3,
    execution_id=WHO.uuid,
    flow_id=None,
    lane_id="lane",
    namespace="ns",
    execution_kind="render",
    creator_identity="alice",
    priority=4,
    created_at_ms=100,
    delay_until_ms=None,
    terminal_at_ms=None,
    attempt_index=0,
    attempt_state="running_attempt",
    failure_reason=None,
    cancellation_reason=None,
    cancelled_by=None,
    progress_pct=None,
    progress_message=None,
    progress_updated_at=None,
)
TRIED = Tried(0, 2, None, None, None, None)


def life(*tries: Tried, **said: Any) -> Life:
    parts = {k: said.pop(k) for k in ("waits", "parked", "charges") if k in said}
    return Life(structs.replace(CORE, **said), tries, **parts)


def told(about: Life, source: int, *rows: tuple[Any, ...]) -> list[HistoryEntry]:
    teller = EventReader(about, source)
    return [
        line.entry
        for line in (*(line for row in rows for line in teller.read(row)), *teller.flush())
    ]


def lease(
    number: int, kind: str, at: int, reason: str | None = None, epoch: int = 1, **said: Any
) -> tuple[Any, ...]:
    return (
        number,
        WHO.uuid,
        said.get("lease", LEASE),
        epoch,
        said.get("worker", "w-1"),
        kind,
        reason,
        at,
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
def test_the_words_of_a_lease(kind: str, reason: str | None, what: What) -> None:
    (entry,) = told(life(), LEASES, lease(1, kind, 5, reason))
    assert (entry.at_ms, entry.what, entry.execution_id, entry.details) == (5, what, WHO, HELD)


@pytest.mark.parametrize(
    "reason", ["completed", "failed", "cancelled", "expired", "max_reclaims_exceeded", None, "news"]
)
def test_a_lease_that_goes_with_an_end_is_not_told(reason: str | None) -> None:
    assert told(life(), LEASES, lease(1, "revoked", 5, reason)) == []


def test_renewals_in_a_row_are_one_entry() -> None:
    rows = [lease(n, "renewed", 10 * n) for n in range(1, 4)]
    found = told(
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
    found = told(
        life(),
        LEASES,
        lease(1, "renewed", 1),
        lease(2, "renewed", 2, epoch=2),
        lease(3, "renewed", 3, epoch=2),
    )
    assert [(e.details["epoch"], e.details["count"]) for e in found] == [(1, 1), (2, 2)]


def test_what_is_not_known_is_left_out() -> None:
    (entry,) = told(life(), LEASES, lease(1, "acquired", 5, epoch=None, lease=None, worker=None))  # type: ignore[arg-type]
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


def test_a_retry_says_why_and_when_the_next_one_is() -> None:
    failed = structs.replace(TRIED, failure_reason="flaky")
    rows = (lease(1, "acquired", 5), lease(2, "revoked", 6, "retry"))
    waiting = life(failed, attempt_state="pending_retry_attempt", delay_until_ms=99)
    assert told(waiting, LEASES, *rows)[1].details == {**HELD, "reason": "flaky", "next_ms": 99}
    later = life(
        failed,
        structs.replace(TRIED, attempt_index=1, lease_epoch=4),
        attempt_index=1,
        delay_until_ms=99,
    )
    assert told(later, LEASES, *rows)[1].details == {**HELD, "reason": "flaky"}
    assert told(life(), LEASES, *rows)[1].details == HELD


def wait(
    suspension: int, key: str, at: int | None, closed: int | None = None, why: str | None = None
) -> Awaited:
    return Awaited(UUID(int=suspension), key, at, closed, why)


def test_a_suspension_names_what_it_waits_for() -> None:
    waits = (
        wait(1, "old", 1),
        wait(2, "b", 6),
        wait(2, "a", 6),
        wait(3, "later", 9),
        wait(4, "ahead", None),
    )
    row = lease(1, "revoked", 7, "suspended")
    assert told(life(waits=waits), LEASES, row)[0].details == {**HELD, "waitpoints": "a, b"}
    parked = Parked(UUID(int=2), "waiting_for_approval", 50)
    expected = {**HELD, "waitpoints": "a, b", "reason": "waiting_for_approval", "until_ms": 50}
    assert told(life(waits=waits, parked=parked), LEASES, row)[0].details == expected
    other = Parked(UUID(int=3), "waiting_for_callback", None)
    assert told(life(waits=waits, parked=other), LEASES, row)[0].details == {
        **HELD,
        "waitpoints": "a, b",
    }
    assert told(life(), LEASES, row)[0].details == HELD


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
def test_an_end_says_why(
    said: Any, tries: Any, outcome: str, index: int | None, details: Any
) -> None:
    (entry,) = told(life(*tries, **said), ENDINGS, (1, WHO.uuid, outcome, 9))
    assert (entry.what, entry.attempt_index, entry.details) == (
        What.ENDED,
        index,
        {"outcome": outcome, **details},
    )


def test_going_on_is_no_end() -> None:
    (entry,) = told(life(), ENDINGS, (1, WHO.uuid, "resumable", 9))
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


def test_what_operators_did() -> None:
    (entry,) = told(
        life(),
        OPERATIONS,
        operation("priority_changed", '{"old_priority":1,"new_priority":2,"list":[1]}'),
    )
    assert (entry.what, entry.details) == (
        What.PRIORITY_CHANGED,
        {"old_priority": 1, "new_priority": 2},
    )
    assert told(life(), OPERATIONS, operation("replayed"))[0].details == {}
    asked = structs.replace(TRIED, replay_reason="again", replay_requested_by="bob")
    assert told(life(asked), OPERATIONS, operation("replayed"))[0].details == {
        "by": "bob",
        "reason": "again",
    }
    assert told(life(asked), OPERATIONS, operation("budget_breached"))[0].details == {}
    assert told(life(), OPERATIONS, operation("unheard_of")) == []


def test_long_texts_are_kept_short() -> None:
    (entry,) = told(
        life(), OPERATIONS, operation("budget_breached", '{"reason":"' + "x" * 5_000 + '"}')
    )
    assert len(str(entry.details["reason"])) == 200


def test_what_is_told_of_the_rows() -> None:
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


def test_spending_is_told_before_the_end_and_a_delay_while_it_has_not_begun() -> None:
    charge = Charged("tokens", UUID(int=8), 120, 150)
    *_, spent = history.row_lines(life(charges=(charge,), terminal_at_ms=140))
    assert spent.entry.at_ms == 140
    assert next(history.row_lines(life(delay_until_ms=500))).entry.details["until_ms"] == 500
    assert "until_ms" not in next(history.row_lines(life(TRIED, delay_until_ms=500))).entry.details


def test_a_wait_whose_end_an_event_tells_is_told_once() -> None:
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


# ---- order and pages


def test_an_outbox_keeps_its_own_order_whatever_the_times_say() -> None:
    teller = EventReader(life(), LEASES)
    rows = [
        lease(1, "acquired", 9),
        lease(2, "revoked", 9, "delayed"),
        lease(3, "acquired", 9),
        lease(4, "expired", 3),
    ]
    keys = [line.key for row in rows for line in teller.read(row)]
    assert keys == sorted(keys) and len(set(keys)) == 4


def test_within_a_millisecond_creation_comes_first_and_the_end_last() -> None:
    made = next(history.row_lines(life()))
    assert made.key == history.creation_key(WHO, CORE.created_at_ms)
    (claimed,) = EventReader(life(), LEASES).read(lease(1, "acquired", 100))
    (ended,) = EventReader(life(), ENDINGS).read((1, WHO.uuid, "success", 100))
    assert sorted([ended, claimed, made], key=lambda line: line.key) == [made, claimed, ended]


def line(at: int, source: int = ROWS, number: int = 0) -> Line:
    return Line(
        (at, 0, "", source, number), HistoryEntry(at, What.CREATED, WHO, None, {}), source, number
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_the_first_lines_are_chosen_whatever_order_they_come_in(seed: int, limit: int) -> None:
    lines = [line(at, number=at % 3) for at in range(40)]
    mixed = random.Random(seed).sample(lines, len(lines))
    chosen = FirstLines(limit, lines[9].key)
    for each in mixed:
        chosen.add(each)
        assert len(chosen._lines) <= 2 * limit
    assert chosen.lines() == lines[10 : 10 + limit]


def test_what_lies_behind_everything_that_fits_is_known() -> None:
    chosen = FirstLines(2, None)
    assert not chosen.is_beyond(line(9).key)
    for at in (5, 7):
        chosen.add(line(at))
    assert chosen.is_beyond(line(8).key) and not chosen.is_beyond(line(6).key)


def test_what_is_known_to_be_new_is_told_even_if_its_time_has_passed() -> None:
    chosen = FirstLines(2, line(9).key)
    chosen.add(line(5))
    chosen.add(line(6), new=True)
    assert [each.key[0] for each in chosen.lines()] == [6]


def test_a_place_remembers_how_far_each_outbox_was_told() -> None:
    page = [line(1), line(2, LEASES, 4), line(3, SIGNALS, 7), line(4, LEASES, 6)]
    first = history.page_end(page, None, 1)
    assert first == PageEnd(page[-1].key, (6, 0, 7, 0), 1)
    late = history.page_end([line(2, ENDINGS, 3)], first, 1)
    assert late == PageEnd(page[-1].key, (6, 3, 7, 0), 1)


def test_the_attempt_that_ran_at_the_end_of_a_page() -> None:
    (claimed,) = EventReader(life(TRIED), LEASES).read(lease(1, "acquired", 5))
    assert history.last_attempt([line(1), claimed, line(9)], None) == 0
    assert history.last_attempt([line(1)], 3) == 3
