"""Every way to end a suspended execution closes its waits."""

from __future__ import annotations

from uuid import UUID

import pytest

from flowfabric.model.execution import CancelExecutionArgs, Execution
from flowfabric.model.policy import RetryPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.model.waitpoint import Suspension, Waitpoint
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.executions.operator_actions import cancel
from flowfabric.rules.executions.termination import skip
from flowfabric.rules.executions.time_limits import expire
from flowfabric.rules.flows.flows import member_of
from flowfabric.rules.states import name_of, vector_of
from flowfabric.rules.waits.signals import deliver
from flowfabric.rules.waits.suspend import check_stored

from .factory import (
    IDENT,
    NOW,
    applied,
    attempt,
    commit,
    execution,
    handle,
    load,
    refusal,
    seeded,
    snapshot,
    stored,
    told,
)
from .test_signals import around
from .wait_factory import (
    SECOND,
    THIRD,
    WAITPOINT_ID,
    deliver_args,
    one,
    suspend_args,
    suspended,
    suspension,
    waitpoint,
)
from .wait_factory import around as stored_around

ENDS = {
    "cancelled": "cancelled",
    "expired": "expired:execution_deadline",
    "skipped": "dependency_impossible",
}

NO_RETRIES = RetryPolicy(max_retries=0, backoff={})


def ended(outcome: str, of: Execution) -> Decision:
    match outcome:
        case "cancelled":
            return cancel(snapshot(of), CancelExecutionArgs(execution_id=IDENT, reason="r"))
        case "expired":
            return expire(snapshot(of), ExpirePhase.EXECUTION_DEADLINE, None, NO_RETRIES, 0)
        case _:
            return Commit(skip(member_of(of)))


NEIGHBOUR = UUID(int=0x99)
OLD = waitpoint(UUID(int=5), "old", "closed", close_reason="proactive_close", closed_at_ms=1)
FOREIGN = waitpoint(UUID(int=6), execution_id=NEIGHBOUR)
FOREIGN_WAIT = suspension(execution_id=NEIGHBOUR)


@pytest.mark.parametrize(("outcome", "reason"), ENDS.items())
def test_the_suspension_and_every_open_waitpoint_are_closed(outcome: str, reason: str) -> None:
    before = suspended(deadline_at_ms=NOW)
    mine = (waitpoint(), waitpoint(SECOND, "b"), waitpoint(THIRD, "left", "pending"))
    store = applied(
        ended(outcome, before),
        before,
        attempt(before),
        suspension(),
        *mine,
        OLD,
        FOREIGN,
        FOREIGN_WAIT,
    )
    after = stored(store)
    assert (name_of(vector_of(after)), after.terminal_outcome) == ("ENDED", outcome)
    assert (after.current_suspension_id, after.current_waitpoint_id) == (None, None)
    wait = one(store, Suspension, execution_id=IDENT.uuid)
    assert (wait.closed_at_ms, wait.close_reason, wait.version) == (NOW, reason, 1)
    for row in mine:
        closed = one(store, Waitpoint, waitpoint_id=row.waitpoint_id)
        assert (closed.state, closed.closed_at_ms, closed.close_reason) == ("closed", NOW, reason)
        assert (closed.version, closed.satisfied_at_ms) == (row.version + 1, None)
    for untouched in (OLD, FOREIGN):
        assert one(store, Waitpoint, waitpoint_id=untouched.waitpoint_id) == untouched
    assert one(store, Suspension, execution_id=NEIGHBOUR) == FOREIGN_WAIT
    assert told(store) == ([], [outcome], [])
    seen, _ = around(after, one(store, Waitpoint, waitpoint_id=WAITPOINT_ID), wait)
    assert refusal(deliver(seen, deliver_args())) == "target_not_signalable"


@pytest.mark.parametrize("outcome", ENDS)
def test_a_suspension_that_closed_before_keeps_its_reason(outcome: str) -> None:
    before = execution(
        "READY", "attempt_interrupted", interrupt_cause="suspended", deadline_at_ms=NOW
    )
    wait = suspension(closed_at_ms=NOW - 9, close_reason="resumed")
    store = applied(ended(outcome, before), before, attempt(before), wait)
    assert one(store, Suspension) == wait
    assert stored(store).terminal_outcome == outcome


@pytest.mark.parametrize("outcome", ENDS)
def test_a_signal_and_an_ending_at_once(outcome: str) -> None:
    seen, rows = around(suspended(deadline_at_ms=NOW))
    signalled, over = deliver(seen, deliver_args()), ended(outcome, seen.execution)
    assert isinstance(signalled, Commit) and isinstance(over, Commit)
    for first, second in ((signalled, over), (over, signalled)):
        store = seeded(*rows)
        assert isinstance(commit(store, first.plan), Applied)
        assert isinstance(commit(store, second.plan), Refused)


def test_an_attempt_timeout_does_not_reach_a_suspension() -> None:
    before = suspended(attempt_timeout_at_ms=NOW)
    decision = expire(snapshot(before), ExpirePhase.ATTEMPT_TIMEOUT, None, NO_RETRIES, 0)
    assert not isinstance(decision, Commit)


def test_an_old_suspension_does_not_block_after_an_end() -> None:
    before = suspended(deadline_at_ms=NOW)
    store = applied(ended("cancelled", before), before, attempt(before), suspension(), waitpoint())
    at = stored_around(one(store, Waitpoint), suspension=one(store, Suspension))
    assert check_stored(at, handle(before), suspend_args()) is None
    assert load(store).grant is None


@pytest.mark.parametrize("outcome", ["cancelled", "expired"])
def test_everything_closes_at_the_time_that_was_given(outcome: str) -> None:
    before = suspended(deadline_at_ms=NOW - 50)
    if outcome == "cancelled":
        decision = cancel(
            snapshot(before), CancelExecutionArgs(execution_id=IDENT, reason="r", now=NOW - 7)
        )
    else:
        decision = expire(snapshot(before), ExpirePhase.EXECUTION_DEADLINE, NOW - 7, NO_RETRIES, 0)
    store = applied(decision, before, attempt(before), suspension(), waitpoint())
    closed = {
        stored(store).terminal_at_ms,
        one(store, Suspension).closed_at_ms,
        one(store, Waitpoint).closed_at_ms,
    }
    assert closed == {NOW - 7}
