from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import ValidationError
from flowfabric.model.execution import CancelExecutionArgs, Cancelled, Execution
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.executions.operator_actions import cancel, cancel_plan
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    IDENT,
    LEASE_ID,
    NOW,
    answer,
    applied,
    attempt,
    events,
    execution,
    grant,
    load,
    refusal,
    snapshot,
    stored,
    stored_attempt,
    told,
)

LIVE = [name for name in VECTORS if name != "ENDED"]


def cancelled(of: Execution | None, **args: Any) -> Decision:
    return cancel(snapshot(of), CancelExecutionArgs(execution_id=IDENT, **args))


def test_cancelling_a_missing_execution_is_refused() -> None:
    assert refusal(cancelled(None)) == "execution_not_found"


def test_cancelling_twice_succeeds() -> None:
    done = execution("ENDED", outcome="cancelled")
    assert answer(cancelled(done)) == Cancelled(IDENT)
    assert answer(cancelled(done, source="worker")) == Cancelled(IDENT)


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        ("success", "completed"),
        ("failed", "failed"),
        ("expired", "expired"),
        ("skipped", "skipped"),
    ],
)
def test_cancelling_an_execution_with_another_outcome_is_refused(outcome: str, shown: str) -> None:
    decision = cancelled(execution("ENDED", outcome=outcome))
    assert isinstance(decision, Reject) and isinstance(decision.error, ValidationError)
    assert decision.error.code == "invalid_input"
    assert decision.error.already_terminal
    assert (
        decision.error.detail
        == f"cancel_execution: execution_id={IDENT}: already terminal in state '{shown}'"
    )


RUNNING = execution("RUNNING")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({}, "invalid_input"),
        ({"lease_id": LEASE_ID}, "invalid_input"),
        ({"lease_epoch": RUNNING.lease_epoch - 1}, "stale_lease"),
        ({"lease_epoch": RUNNING.lease_epoch + 1}, "stale_lease"),
        ({"lease_epoch": RUNNING.lease_epoch, "lease_id": UUID(int=9)}, "stale_lease"),
        ({"lease_epoch": RUNNING.lease_epoch}, None),
        ({"lease_epoch": RUNNING.lease_epoch, "lease_id": LEASE_ID}, None),
    ],
)
def test_a_cancel_by_others_must_name_the_lease(args: dict[str, Any], code: str | None) -> None:
    decision = cancelled(RUNNING, source="lease_holder", **args)
    if code is None:
        assert isinstance(decision, Commit)
    else:
        assert refusal(decision) == code


def test_a_missing_epoch_is_named() -> None:
    decision = cancelled(RUNNING, source="flow_cascade")
    assert isinstance(decision, Reject) and isinstance(decision.error, ValidationError)
    assert not decision.error.already_terminal
    assert decision.error.detail == (
        f"cancel_execution: execution_id={IDENT}: "
        "lease_epoch required when source != operator_override and execution is active"
    )


def test_an_operator_cancels_without_the_lease() -> None:
    assert isinstance(cancelled(RUNNING, lease_epoch=999, lease_id=UUID(int=9)), Commit)


@pytest.mark.parametrize("name", [name for name in LIVE if name != "RUNNING"])
def test_a_cancel_without_a_live_lease_needs_no_lease(name: str) -> None:
    assert isinstance(cancelled(execution(name), source="lease_holder"), Commit)


CANCEL_CASES = [(name, state) for name in LIVE for state in VECTORS[name].attempt_states]


@pytest.mark.parametrize(("name", "state"), CANCEL_CASES)
def test_cancel_ends_every_live_execution(name: str, state: str) -> None:
    before = execution(name, state)
    store = applied(
        cancelled(
            before, reason="no more", source="operator", lease_epoch=before.lease_epoch, now=NOW - 5
        ),
        before,
        attempt(before),
        grant(),
    )
    after = stored(store)
    assert name_of(vector_of(after)) == "ENDED"
    assert (after.lifecycle_phase, after.public_state, after.terminal_outcome) == (
        "cancelled",
        "cancelled",
        "cancelled",
    )
    assert (after.terminal_at_ms, after.last_transition_at, after.last_mutation_at) == (
        NOW - 5,
        NOW - 5,
        NOW - 5,
    )
    assert (after.cancellation_reason, after.cancelled_by) == ("no more", "operator")
    assert (after.closing_epoch, after.closing_attempt_index) == (
        before.lease_epoch,
        before.attempt_index,
    )
    assert (
        after.delay_until_ms,
        after.blocking_detail,
        after.current_lease_id,
        after.lease_expires_at_ms,
    ) == (
        None,
        "",
        None,
        None,
    )
    assert load(store).grant is None
    open_attempt = before.current_attempt_id is not None
    assert after.lease_epoch == before.lease_epoch + open_attempt
    assert after.attempt_state == (
        "attempt_terminal" if before.total_attempt_count else "pending_first_attempt"
    )
    assert told(store) == (["revoked"] if name == "RUNNING" else [], ["cancelled"], [])
    if open_attempt:
        closed = stored_attempt(store)
        assert (closed.attempt_state, closed.outcome, closed.failure_reason) == (
            "ended_cancelled",
            "cancelled",
            "cancelled: no more",
        )
        assert (closed.terminal_at_ms, closed.worker_instance_id, closed.lease_expires_at_ms) == (
            NOW - 5,
            None,
            None,
        )
        assert (closed.lease_epoch, closed.worker_id) == (after.lease_epoch, "worker")


def test_a_failed_attempt_stays_as_it_ended_when_its_retry_is_cancelled() -> None:
    before = execution("DELAYED", "pending_retry_attempt", reason="waiting_for_retry_backoff")
    store = applied(cancelled(before), before, attempt(before))
    assert stored_attempt(store) == attempt(before)


def test_the_lease_event_of_a_cancel_names_the_lease_that_was_taken() -> None:
    store = applied(cancelled(RUNNING, now=NOW - 5), RUNNING, attempt(RUNNING))
    (event,) = events(store, "ff_lease_event")
    assert (event["lease_id"], event["worker_instance_id"], event["occurred_at_ms"]) == (
        LEASE_ID,
        "worker-1",
        NOW - 5,
    )
    assert (event["reason"], event["lease_epoch"]) == ("cancelled", RUNNING.lease_epoch + 1)


def test_a_cancel_without_a_time_uses_the_clock_of_the_store() -> None:
    assert stored(applied(cancelled(RUNNING), RUNNING)).terminal_at_ms == NOW
    assert stored(applied(cancelled(RUNNING, now=0), RUNNING)).terminal_at_ms == 0


@pytest.mark.parametrize(("name", "state"), CANCEL_CASES)
def test_a_cancel_writes_a_lease_event_on_request_and_stores_the_canceller(
    name: str, state: str
) -> None:
    before = execution(name, state)
    quiet, told_of = (
        Commit(cancel_plan(before, "r", "cancel_flow", NOW, always_revoked=told))
        for told in (False, True)
    )
    stores = [applied(decision, before, attempt(before), grant()) for decision in (quiet, told_of)]
    assert stored(stores[0]) == stored(stores[1])
    assert stored(stores[0]).cancelled_by == "cancel_flow"
    assert load(stores[0]) == load(stores[1])
    leased = ["revoked"] if name == "RUNNING" else []
    assert [told(store) for store in stores] == [
        (leased, ["cancelled"], []),
        (["revoked"], ["cancelled"], []),
    ]
    (event,) = events(stores[1], "ff_lease_event")
    assert (event["reason"], event["lease_id"]) == ("cancelled", before.current_lease_id)


def test_the_canceller_is_the_source() -> None:
    assert stored(applied(cancelled(RUNNING), RUNNING)).cancelled_by == "operator_override"


def test_an_own_retention_starts_at_the_end() -> None:
    kept = execution(retention_ttl_ms=500)
    assert stored(applied(cancelled(kept), kept)).retain_until_ms == NOW + 500
