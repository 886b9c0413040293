"""The fence: the checks that every call of a lease holder passes, in their documented order."""

from __future__ import annotations

from flowfabric import errors
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields, LeaseFence
from flowfabric.model.state import OPERATOR_OVERRIDE
from flowfabric.plan import After, Before, Cond, Form, Now, Pick, Plan, Update, Wake
from flowfabric.rules.decision import Reject, Snapshot
from flowfabric.rules.fragments import EXEC, MOVED, TIMEOUT_RESET, UNCHANGED, granted_event, named
from flowfabric.rules.states import canonical, entering, is_ended

_EXPIRED = {
    **MOVED,
    **entering("LOST", detail="lease expired, awaiting reclaim"),
    "attempt_state": "attempt_interrupted",
    "lease_expired_at": Now(),
    "expired_epoch": Before("lease_epoch"),
    "interrupt_cause": "lease_expired",
    **TIMEOUT_RESET,
}
_IS_DUE = (Cond("ownership_state", "=", "leased"), Cond("lease_expires_at_ms", "<=", Now()))

_EXPIRY = (granted_event("expired"), Wake("leased", at=After("lease_expires_at_ms")))

MARK_EXPIRED = Form("mark_expired", Update(EXEC, (*UNCHANGED, *_IS_DUE), _EXPIRED), *_EXPIRY)
SWEEP_EXPIRED = Form(
    "sweep_expired",
    Update(EXEC, _IS_DUE, _EXPIRED),
    *_EXPIRY,
    pick=Pick("leased", upto=Now()),
    returning=("partition_key", "execution_id"),
)


def mark_expired(execution: Execution) -> Plan:
    return MARK_EXPIRED(**named(execution))


def not_active(execution: Execution) -> errors.Contention:
    return errors.Contention(
        errors.ContentionKind.EXECUTION_NOT_ACTIVE,
        terminal_outcome=execution.terminal_outcome,
        lease_epoch=str(execution.lease_epoch),
        lifecycle_phase=canonical("lifecycle_phase", execution.lifecycle_phase),
        attempt_id=str(execution.current_attempt_id or ""),
    )


def closed_by(snapshot: Snapshot, handle: HandleFields, outcome: str) -> bool:
    """Whether this lease ended the execution with this outcome, so the call is repeated."""
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
    """Whether this lease failed its attempt and the retry has not been claimed yet."""
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


def attempt_timed_out(execution: Execution, snapshot: Snapshot) -> bool:
    """Whether the attempt has reached its timeout; its holder's results are then refused."""
    limit = execution.attempt_timeout_at_ms
    return limit is not None and limit <= snapshot.now_ms


def check_handle(snapshot: Snapshot, handle: HandleFields, *, marks: bool = True) -> Reject | None:
    """None for a current, live lease. `marks`: a refusal marks an expired lease as expired."""
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution", handle.execution_id))
    if snapshot.attempt is None:
        return Reject(
            errors.NotFound("attempt", f"{handle.attempt_index} of {handle.execution_id}")
        )
    if execution.expired_epoch == handle.lease_epoch:
        return Reject(errors.StateError(errors.StateKind.LEASE_EXPIRED))
    stored = (execution.lease_epoch, execution.attempt_index, snapshot.attempt.lease_id)
    if stored != (handle.lease_epoch, handle.attempt_index, handle.lease_id):
        return Reject(errors.Contention(errors.ContentionKind.LEASE_CONFLICT))
    refused = _check_live(snapshot, execution, marks=marks)
    if refused is None and execution.current_worker_instance_id != handle.worker_instance_id:
        return Reject(errors.Contention(errors.ContentionKind.LEASE_CONFLICT))
    return refused


def check_fence(
    snapshot: Snapshot, fence: LeaseFence | None, attempt_index: int, source: str | None
) -> Reject | None:
    """As `check_handle`, for a call that names its lease by a fence.

    `source` is None for an operation that requires the fence of operators too.
    """
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution"))
    if fence is None and source != OPERATOR_OVERRIDE:
        return Reject(errors.bad_input("fence_required"))
    if fence is not None and execution.expired_epoch == fence.lease_epoch:
        return Reject(errors.StateError(errors.StateKind.LEASE_EXPIRED))
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
        return Reject(errors.StateError(errors.StateKind.STALE_LEASE))
    return None


def _check_live(snapshot: Snapshot, execution: Execution, *, marks: bool) -> Reject | None:
    if execution.lifecycle_phase != "active":
        return Reject(not_active(execution))
    if execution.ownership_state == "lease_revoked":
        return Reject(errors.StateError(errors.StateKind.LEASE_REVOKED))
    leased, expires = execution.ownership_state == "leased", execution.lease_expires_at_ms
    if not leased or expires is None or expires <= snapshot.now_ms:
        mark = mark_expired(execution) if marks and leased else None
        return Reject(errors.StateError(errors.StateKind.LEASE_EXPIRED), mark)
    if attempt_timed_out(execution, snapshot):
        return Reject(
            errors.StateError(errors.StateKind.LEASE_EXPIRED, "the attempt exceeded its timeout")
        )
    return None


HELD_COLUMNS = ("execution_id", "current_lease_id", "lifecycle_phase", "ownership_state")


def is_held(row: tuple[object, ...] | None, fields: HandleFields) -> bool:
    """Whether the row, read with `HELD_COLUMNS`, holds this lease."""
    return row is not None and row[1:] == (fields.lease_id, "active", "leased")
