from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.execution import Execution
from flowfabric.model.waitpoint import Signal, Suspension, Waitpoint
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.rules.waits.signals import deliver, resume
from flowfabric.rules.waits.suspension_timeouts import expire
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    NOW,
    answer,
    applied,
    attempt,
    commit,
    events,
    execution,
    grant,
    load,
    seeded,
    stored,
    stored_attempt,
    told,
)
from .test_signals import around
from .wait_factory import (
    SECOND,
    SIGNAL_ID,
    SUSPENSION_ID,
    THIRD,
    WAITPOINT_ID,
    deliver_args,
    one,
    rows_of,
    suspended,
    suspension,
    waitpoint,
)

DUE: dict[str, Any] = {"timeout_at_ms": NOW - 10}


def test_the_situations_in_order() -> None:
    due = suspension(**DUE)
    assert answer(expire(None, due, NOW, SIGNAL_ID)) == "not_found_cleaned"
    for name in VECTORS:
        if name != "SUSPENDED":
            assert answer(expire(execution(name), due, NOW, SIGNAL_ID)) == "not_suspended_cleaned"
    assert answer(expire(suspended(), None, NOW, SIGNAL_ID)) == "no_active_suspension_cleaned"
    closed = suspension(**DUE, closed_at_ms=NOW)
    assert answer(expire(suspended(), closed, NOW, SIGNAL_ID)) == "no_active_suspension_cleaned"
    assert answer(expire(suspended(), suspension(), NOW, SIGNAL_ID)) == "not_yet_due"


@pytest.mark.parametrize(("at", "due"), [(NOW + 1, False), (NOW, True), (NOW - 1, True), (0, True)])
def test_a_timeout_is_due_when_its_time_has_come(at: int, due: bool) -> None:
    decision = expire(suspended(), suspension(timeout_at_ms=at), NOW, SIGNAL_ID)
    if due:
        assert isinstance(decision, Commit)
    else:
        assert answer(decision) == "not_yet_due"


def timed_out(
    behavior: str | None, *rows: Waitpoint, **columns: Any
) -> tuple[str, Execution, MemoryStore]:
    before = suspended(
        flow_id=FLOW_ID,
        retention_ttl_ms=10,
        failed_retention_ttl_ms=10,
        reserved_for="w",
        **columns,
    )
    wait = suspension(**DUE, timeout_behavior=behavior)
    decision = expire(before, wait, NOW - 3, SIGNAL_ID)
    assert isinstance(decision, Commit)
    store = applied(
        decision,
        before,
        attempt(before),
        grant(),
        wait,
        *(rows or (waitpoint(), waitpoint(SECOND, "b"))),
    )
    assert isinstance(commit(store, decision.plan), Refused)
    return decision.result, before, store


ENDINGS = [
    ("fail", "failed", "fail", "ended_failure"),
    (None, "failed", "fail", "ended_failure"),
    ("", "failed", "fail", "ended_failure"),
    ("no such word", "failed", "fail", "ended_failure"),
    ("cancel", "cancelled", "cancel", "ended_cancelled"),
    ("expire", "expired", "expire", "ended_failure"),
]


@pytest.mark.parametrize(("behavior", "outcome", "word", "phase"), ENDINGS)
def test_a_timeout_that_ends_the_execution(
    behavior: str | None, outcome: str, word: str, phase: str
) -> None:
    policy = '{"retry_policy":{"max_retries":5}}'
    result, before, store = timed_out(behavior, policy=policy)
    assert result == outcome
    after = stored(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.public_state) == (
        "ENDED",
        outcome,
        outcome,
    )
    assert (after.attempt_state, after.failure_reason) == (
        "attempt_terminal",
        f"suspension_timeout:{word}",
    )
    assert (after.terminal_at_ms, after.last_transition_at, after.retain_until_ms) == (
        NOW - 3,
        NOW - 3,
        NOW + 10,
    )
    assert (after.lease_epoch, after.version, after.retry_count) == (
        before.lease_epoch,
        before.version + 1,
        before.retry_count,
    )
    assert (after.closing_epoch, after.closing_attempt_index, after.reserved_for) == (
        before.lease_epoch,
        0,
        None,
    )
    assert (after.current_suspension_id, after.current_waitpoint_id, after.blocking_detail) == (
        None,
        None,
        "",
    )
    row = stored_attempt(store)
    assert (row.attempt_state, row.outcome) == (phase, outcome)
    assert (row.failure_reason, row.terminal_at_ms) == (f"suspension_timeout:{word}", NOW - 3)
    wait = one(store, Suspension)
    assert (wait.closed_at_ms, wait.close_reason) == (NOW - 3, f"timed_out_{word}")
    for waited in rows_of(store, Waitpoint):
        assert (waited.state, waited.closed_at_ms, waited.close_reason) == (
            "closed",
            NOW - 3,
            f"timed_out_{word}",
        )
    assert load(store).grant is None
    assert rows_of(store, Signal) == []
    assert told(store) == ([], [outcome], [])
    (done,) = events(store, "ff_completion_event")
    assert (done["flow_id"], done["occurred_at_ms"]) == (FLOW_ID, NOW - 3)


@pytest.mark.parametrize("behavior", ["auto_resume_with_timeout_signal", "auto_resume"])
def test_a_timeout_that_resumes(behavior: str) -> None:
    result, before, store = timed_out(behavior)
    assert result == "auto_resumed"
    after = stored(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.public_state) == (
        "READY",
        "attempt_interrupted",
        "waiting",
    )
    assert (after.lease_epoch, after.version, after.interrupt_cause) == (
        before.lease_epoch,
        before.version + 1,
        "suspended",
    )
    assert (after.current_suspension_id, after.current_waitpoint_id, after.blocking_detail) == (
        None,
        None,
        "",
    )
    assert stored_attempt(store) == attempt(before)
    wait = one(store, Suspension)
    assert (wait.closed_at_ms, wait.close_reason, wait.closer_signal_id) == (
        NOW - 3,
        "timed_out_auto_resume",
        None,
    )
    for waited in rows_of(store, Waitpoint):
        assert (waited.state, waited.close_reason, waited.satisfied_at_ms) == (
            "closed",
            "timed_out_auto_resume",
            None,
        )
    made = one(store, Signal)
    assert (made.signal_id, made.signal_name, made.signal_category) == (
        SIGNAL_ID,
        "timeout",
        "system",
    )
    assert (made.source_type, made.source_identity, made.payload) == (
        "engine",
        "suspension_timeout",
        None,
    )
    assert (made.accepted_at_ms, made.suspension_id, made.waitpoint_id) == (
        NOW - 3,
        SUSPENSION_ID,
        WAITPOINT_ID,
    )
    assert told(store) == ([], [], [])
    assert events(store, "ff_signal_event") == []


def test_a_timeout_that_resumes_leaves_pending_waitpoints_for_the_next_suspension() -> None:
    left = waitpoint(THIRD, "left", "pending")
    _, _, store = timed_out("auto_resume", waitpoint(), left)
    assert one(store, Waitpoint, waitpoint_id=THIRD) == left
    assert one(store, Waitpoint, waitpoint_id=WAITPOINT_ID).state == "closed"


def test_a_suspension_without_a_primary_waitpoint_resumes_too() -> None:
    before, wait = (
        suspended(),
        suspension(**DUE, timeout_behavior="auto_resume", primary_waitpoint_id=None),
    )
    store = applied(expire(before, wait, NOW, SIGNAL_ID), before, attempt(before), wait)
    assert one(store, Signal).waitpoint_id == SIGNAL_ID


def test_an_escalating_timeout() -> None:
    result, before, store = timed_out("escalate", current_suspension_id=SUSPENSION_ID)
    assert result == "escalated"
    after = stored(store)
    assert (name_of(vector_of(after)), after.public_state) == ("SUSPENDED", "suspended")
    assert (after.blocking_reason, after.attempt_state) == (
        "paused_by_operator",
        "attempt_interrupted",
    )
    assert after.blocking_detail == f"suspension escalated: timeout at {NOW - 10}"
    assert (after.current_suspension_id, after.version) == (SUSPENSION_ID, before.version + 1)
    assert stored_attempt(store) == attempt(before)
    wait = one(store, Suspension)
    assert (wait.is_open, wait.reason_code) == (True, "waiting_for_operator_review")
    assert (wait.timeout_at_ms, wait.timeout_behavior) == (None, None)
    assert {row.state for row in rows_of(store, Waitpoint)} == {"active"}
    assert rows_of(store, Signal) == []
    assert told(store) == ([], [], [])
    assert answer(expire(after, wait, NOW + 99, SIGNAL_ID)) == "not_yet_due"
    assert isinstance(resume(after, wait, 0, NOW), Commit)
    seen, _ = around(after, one(store, Waitpoint, waitpoint_id=WAITPOINT_ID), wait)
    signalled = deliver(seen, deliver_args())
    assert isinstance(signalled, Commit)
    assert isinstance(commit(store, signalled.plan), Applied)
    assert name_of(vector_of(stored(store))) == "READY"


@pytest.mark.parametrize("behavior", ["fail", "cancel", "expire", "auto_resume", "escalate"])
def test_a_signal_and_a_timeout_at_once(behavior: str) -> None:
    """The first commit wins; the other is refused, and finds the new state."""
    wait = suspension(**DUE, timeout_behavior=behavior)
    seen, rows = around(wait=wait)
    signalled, ended = deliver(seen, deliver_args()), expire(seen.execution, wait, NOW, SIGNAL_ID)
    assert isinstance(signalled, Commit) and isinstance(ended, Commit)
    for first, second in ((signalled, ended), (ended, signalled)):
        store = seeded(*rows)
        assert isinstance(commit(store, first.plan), Applied)
        after = stored(store)
        assert isinstance(commit(store, second.plan), Refused)
        assert stored(store) == after
