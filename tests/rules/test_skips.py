from __future__ import annotations

import pytest

from flowfabric.plan import Refused
from flowfabric.rules.decision import Commit, Reject
from flowfabric.rules.executions.termination import skip
from flowfabric.rules.flows.flows import member_of
from flowfabric.rules.leases.attempts import explain_refusal
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    FLOW_ID,
    LEASE_ID,
    NOW,
    applied,
    attempt,
    commit,
    events,
    grant,
    handle,
    load,
    seeded,
    stored,
    stored_attempt,
    told,
)
from .flow_factory import waiting

LIVE = [
    (name, state)
    for name, vector in VECTORS.items()
    if name != "ENDED"
    for state in vector.attempt_states
]
CLOSES = ("running_attempt", "attempt_interrupted")


@pytest.mark.parametrize(("name", "state"), LIVE)
def test_a_skip_ends_every_live_execution(name: str, state: str) -> None:
    before = waiting(name, state, retention_ttl_ms=10, reserved_for="w", reserved_until_ms=NOW)
    store = applied(Commit(skip(member_of(before))), before, attempt(before), grant())
    after = stored(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.public_state) == (
        "ENDED",
        "skipped",
        "skipped",
    )
    assert (after.terminal_at_ms, after.last_transition_at, after.last_mutation_at) == (
        NOW,
        NOW,
        NOW,
    )
    assert (after.lease_epoch, after.version) == (before.lease_epoch, before.version + 1)
    assert (after.closing_epoch, after.closing_attempt_index) == (
        before.lease_epoch,
        before.attempt_index,
    )
    assert (after.current_lease_id, after.current_worker_id, after.lease_expires_at_ms) == (
        None,
        None,
        None,
    )
    assert (
        after.delay_until_ms,
        after.blocking_detail,
        after.reserved_for,
        after.retain_until_ms,
    ) == (None, "", None, NOW + 10)
    assert after.attempt_state == (
        "attempt_terminal" if before.total_attempt_count else "pending_first_attempt"
    )
    assert load(store).grant is None
    assert told(store) == (["revoked"] if name == "RUNNING" else [], ["skipped"], [])
    if state not in CLOSES:
        assert load(store).attempt == attempt(before)
        return
    closed = stored_attempt(store)
    assert (closed.attempt_state, closed.outcome, closed.failure_reason) == (
        "ended_cancelled",
        "skipped",
        "dependency_impossible",
    )
    assert (closed.terminal_at_ms, closed.lease_expires_at_ms) == (NOW, None)


def test_the_events_of_a_skip_name_the_flow_and_the_lease() -> None:
    before = waiting("RUNNING")
    store = applied(Commit(skip(member_of(before))), before, attempt(before))
    (lease,), (done,) = events(store, "ff_lease_event"), events(store, "ff_completion_event")
    assert (lease["lease_id"], lease["reason"], lease["lease_epoch"]) == (
        LEASE_ID,
        "dependency_impossible",
        before.lease_epoch,
    )
    assert (
        done["flow_id"],
        done["occurred_at_ms"],
        done["committed_at_ms"],
        done["dispatched_at_ms"],
    ) == (
        FLOW_ID,
        NOW,
        NOW,
        None,
    )


def test_the_holder_of_a_skipped_member_is_refused() -> None:
    before = waiting("RUNNING")
    store = applied(Commit(skip(member_of(before))), before, attempt(before))
    for outcome in (None, "success", "failed"):
        reason = explain_refusal(load(store, 0), handle(before), outcome)
        assert isinstance(reason, Reject)
        assert reason.error.code == "execution_not_active"


def test_an_execution_that_changed_is_not_skipped() -> None:
    store = seeded(waiting("RUNNING", version=9))
    assert isinstance(commit(store, skip(member_of(waiting()))), Refused)
    assert stored(store) == waiting("RUNNING", version=9)
