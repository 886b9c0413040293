"""Who may still write: the checks behind every call of a lease holder, in their documented order."""

from __future__ import annotations

from typing import Any

from flowfabric.errors import (
    Contention,
    ContentionKind,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields, LeaseFence
from flowfabric.model.state import OPERATOR_OVERRIDE
from flowfabric.plan import After, Before, Cond, Form, Now, Pick, Plan, Update, Wake
from flowfabric.rules.decision import Reject, Snapshot
from flowfabric.rules.fragments import EXEC, FULL_TIME_AGAIN, MOVED, UNCHANGED, granted_event, named
from flowfabric.rules.states import canonical, entering, is_ended

_LOSE = {
    **MOVED,
    **entering("LOST", detail="lease expired, awaiting reclaim"),
    "attempt_state": "attempt_interrupted",
    "lease_expired_at": Now(),
    "expired_epoch": Before("lease_epoch"),
    "interrupt_cause": "lease_expired",
    **FULL_TIME_AGAIN,
}
_RAN_OUT = (Cond("ownership_state", "=", "leased"), Cond("lease_expires_at_ms", "<=", Now()))

MARK_EXPIRED = Form(
    "mark_expired",
    Update(EXEC, (*UNCHANGED, *_RAN_OUT), _LOSE),
    granted_event("expired"),
    Wake("leased", at=After("lease_expires_at_ms")),
)
SWEEP_EXPIRED = Form(
    "sweep_expired",
    Update(EXEC, _RAN_OUT, _LOSE),
    granted_event("expired"),
    Wake("leased", at=After("lease_expires_at_ms")),
    pick=Pick("leased", upto=Now()),
    returning=("partition_key", "execution_id"),
)


def mark_expired(execution: Execution) -> Plan:
    return MARK_EXPIRED(**named(execution))


def not_active(execution: Execution) -> Contention:
    return Contention(
        ContentionKind.EXECUTION_NOT_ACTIVE,
        terminal_outcome=execution.terminal_outcome,
        lease_epoch=str(execution.lease_epoch),
        lifecycle_phase=canonical("lifecycle_phase", execution.lifecycle_phase),
        attempt_id=""
        if execution.current_attempt_id is None
        else str(execution.current_attempt_id),
    )


def closed_by(snapshot: Snapshot, handle: HandleFields, outcome: str) -> bool:
    """This very lease ended the execution with this very outcome: the answer got lost, the work did not."""
    execution, attempt = snapshot.execution, snapshot.attempt
    return (
        execution is not None
        and attempt is not None
        and is_ended(execution)
        and execution.terminal_outcome == outcome
        and execution.closing_epoch == handle.lease_epoch
        and execution.closing_attempt_index == handle.attempt_index
        and attempt.lease_id == handle.lease_id
    )


def retry_scheduled_by(snapshot: Snapshot, handle: HandleFields) -> bool:
    """This very lease failed its attempt and a retry is waiting."""
    execution, attempt = snapshot.execution, snapshot.attempt
    return (
        execution is not None
        and attempt is not None
        and canonical("lifecycle_phase", execution.lifecycle_phase) == "runnable"
        and execution.attempt_state == "pending_retry_attempt"
        and execution.lease_epoch == handle.lease_epoch
        and execution.attempt_index == handle.attempt_index
        and attempt.lease_id == handle.lease_id
    )


def out_of_time(execution: Execution, snapshot: Snapshot) -> bool:
    """The attempt has run for its whole timeout: nothing its holder sends counts any more."""
    limit = execution.attempt_timeout_at_ms
    return limit is not None and limit <= snapshot.now_ms


def check_handle(snapshot: Snapshot, handle: HandleFields, *, marks: bool = True) -> Reject | None:
    """None when the handle's lease is the current, live one."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", handle.execution_id))
    if snapshot.attempt is None:
        return Reject(NotFound("attempt", f"{handle.attempt_index} of {handle.execution_id}"))
    if execution.expired_epoch == handle.lease_epoch:
        return Reject(StateError(StateKind.LEASE_EXPIRED))
    if (
        execution.lease_epoch != handle.lease_epoch
        or execution.attempt_index != handle.attempt_index
    ):
        return Reject(Contention(ContentionKind.LEASE_CONFLICT))
    if snapshot.attempt.lease_id != handle.lease_id:
        return Reject(Contention(ContentionKind.LEASE_CONFLICT))
    refused = _check_live(snapshot, execution, marks=marks)
    if refused is None and execution.current_worker_instance_id != handle.worker_instance_id:
        return Reject(Contention(ContentionKind.LEASE_CONFLICT))
    return refused


def check_fence(
    snapshot: Snapshot, fence: LeaseFence | None, attempt_index: int, source: str | None
) -> Reject | None:
    """The typed form. `source` is None where even an operator must show the fence."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    if fence is None and source != OPERATOR_OVERRIDE:
        return Reject(ValidationError(ValidationKind.INVALID_INPUT, "fence_required"))
    if fence is not None and execution.expired_epoch == fence.lease_epoch:
        return Reject(StateError(StateKind.LEASE_EXPIRED))
    refused = _check_live(snapshot, execution, marks=True)
    if refused is not None or fence is None:
        return refused
    stored = (
        execution.attempt_index,
        execution.current_attempt_id,
        execution.current_lease_id,
        execution.lease_epoch,
    )
    if stored != (attempt_index, fence.attempt_id, fence.lease_id, fence.lease_epoch):
        return Reject(StateError(StateKind.STALE_LEASE))
    return None


def _check_live(snapshot: Snapshot, execution: Execution, *, marks: bool) -> Reject | None:
    if execution.lifecycle_phase != "active":
        return Reject(not_active(execution))
    if execution.ownership_state == "lease_revoked":
        return Reject(StateError(StateKind.LEASE_REVOKED))
    expires = execution.lease_expires_at_ms
    if execution.ownership_state == "leased" and expires is not None and expires > snapshot.now_ms:
        return (
            Reject(StateError(StateKind.LEASE_EXPIRED, "the attempt exceeded its timeout"))
            if out_of_time(execution, snapshot)
            else None
        )
    mark = mark_expired(execution) if marks and execution.ownership_state == "leased" else None
    return Reject(StateError(StateKind.LEASE_EXPIRED), mark)


HELD_COLUMNS = ("execution_id", "current_lease_id", "lifecycle_phase", "ownership_state")


def is_held(row: tuple[Any, ...] | None, fields: HandleFields) -> bool:
    """Whether the row, read by `HELD_COLUMNS`, shows this lease as the current one."""
    return row is not None and row[1:] == (fields.lease_id, "active", "leased")
