"""Assertions shared by several operations."""

from __future__ import annotations

from flowfabric.model.execution import Execution
from flowfabric.rules.states import name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import NEW_LEASE_ID, NOW, TTL, WORKER, load, stored, stored_attempt, told


def check_lease(
    before: Execution,
    store: MemoryStore,
    *,
    new: bool,
    event: str = "acquired",
    worker: str = WORKER,
) -> Execution:
    """The state after every claim."""
    after = stored(store)
    assert name_of(vector_of(after)) == "RUNNING"
    assert (after.lease_epoch, after.version) == (before.lease_epoch + 1, before.version + 1)
    assert (after.current_lease_id, after.current_worker_id) == (NEW_LEASE_ID, worker)
    assert (after.lease_acquired_at, after.lease_last_renewed_at, after.lease_expires_at_ms) == (
        NOW,
        NOW,
        NOW + TTL,
    )
    assert (after.lease_renewal_deadline, after.started_at_ms) == (
        NOW + TTL * 2 // 3,
        before.started_at_ms or NOW,
    )
    assert (
        after.interrupt_cause,
        after.delay_until_ms,
        after.lease_expired_at,
        after.blocking_detail,
    ) == (None, None, None, "")
    assert after.attempt_index == (before.total_attempt_count if new else before.attempt_index)
    assert after.total_attempt_count == before.total_attempt_count + new
    row = stored_attempt(store, after.attempt_index)
    assert (row.attempt_state, row.lease_id, row.lease_epoch) == (
        "started",
        NEW_LEASE_ID,
        after.lease_epoch,
    )
    assert (row.lease_expires_at_ms, row.attempt_id, row.outcome) == (
        NOW + TTL,
        after.current_attempt_id,
        None,
    )
    assert load(store).grant is None
    assert told(store) == ([event], [], [])
    return after
