"""Losing a lease and taking it over: revoke, expiry, requeue, reclaim grants and reclaim."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flowfabric.errors import (
    Contention,
    ContentionKind,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.ids import lease_mark, partition_tag
from flowfabric.model.execution import Execution
from flowfabric.model.lease import (
    AlreadySatisfied,
    GrantNotFound,
    IssueGrantArgs,
    MarkedExpired,
    NotReclaimable,
    ReclaimCapExceeded,
    ReclaimExecutionArgs,
    ReclaimGrant,
    ResumeToken,
    Revoked,
    RevokeLeaseArgs,
)
from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Before,
    Cond,
    Delete,
    Form,
    Insert,
    Now,
    Plan,
    Update,
    UpdateMany,
    Wake,
)
from flowfabric.rules.claims.claims import (
    CLAIMED,
    RECLAIM_SAME,
    TIMERS,
    acquired,
    leased_attempt,
    one,
    policy_text,
    renew_within_ms,
)
from flowfabric.rules.claims.grants import grant_plan, mismatch_plan, missing_capabilities
from flowfabric.rules.decision import AGAIN, Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.fence import mark_expired
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    FULL_TIME_AGAIN,
    GRANT,
    KEY,
    LEASE_IS_OVER,
    MOVED,
    RELEASED,
    THIS_ATTEMPT,
    THIS_ROW,
    UNCHANGED,
    UNRESERVED,
    close_attempt,
    completion_event,
    drop_grant,
    ending,
    granted_event,
    lease_event,
    named,
)
from flowfabric.rules.states import canonical, entering, is_ended

NO_POLICY_RECLAIM_LIMIT = 1_000

REVOKE = Form(
    "revoke",
    Update(
        EXEC,
        (
            *UNCHANGED,
            Cond("lease_epoch", "=", Arg("lease_epoch")),
            Cond("ownership_state", "=", "leased"),
        ),
        {
            **MOVED,
            **RELEASED,
            **entering("READY", detail=Arg("blocking_detail")),
            "attempt_state": "attempt_interrupted",
            "interrupt_cause": "lease_revoked",
            "lease_epoch": Add(1),
            **FULL_TIME_AGAIN,
        },
    ),
    UpdateMany(
        ATTEMPT,
        THIS_ATTEMPT,
        {
            "attempt_state": "suspended",
            "suspended_at_ms": Now(),
            "worker_instance_id": None,
            "lease_expires_at_ms": None,
            "lease_epoch": After("lease_epoch"),
            "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
        },
    ),
    lease_event("revoked", "lease_revoked"),
    Wake("ready", After("lane_id")),
)


def revoke(
    snapshot: Snapshot, args: RevokeLeaseArgs, label: str, seen_epoch: int | None = None
) -> Decision:
    """`seen_epoch` is the epoch this call first met; a lease granted since then is not the one it was asked to take."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    if execution.ownership_state == "lease_expired_reclaimable":
        return Return(AlreadySatisfied("already_expired"))
    if execution.ownership_state != "leased":
        return Return(AlreadySatisfied("no_active_lease"))
    if seen_epoch is not None and seen_epoch != execution.lease_epoch:
        return Return(AlreadySatisfied("epoch_moved"))
    if args.worker_instance_id and args.worker_instance_id != execution.current_worker_instance_id:
        return Return(AlreadySatisfied("different_worker_instance_id"))
    composite = (
        f"{label}:{execution.execution_id}:{execution.attempt_index}:{execution.lease_epoch}"
    )
    known = (
        str(execution.current_lease_id),
        str(lease_mark(execution.current_lease_id)),
        composite,
    )
    if args.expected_lease_id and str(args.expected_lease_id) not in known:
        return Return(AlreadySatisfied("lease_id_mismatch"))
    plan = REVOKE(
        **named(execution),
        lease_epoch=execution.lease_epoch,
        blocking_detail=f"lease revoked: {args.reason}",
    )
    return Commit(plan, Revoked(composite, str(execution.lease_epoch + 1)))


def mark_if_due(snapshot: Snapshot) -> Decision:
    """Never an error: the answer says what was found."""
    execution = snapshot.execution
    if execution is None:
        return Return(AlreadySatisfied("execution_not_found"))
    if execution.lifecycle_phase != "active":
        return Return(AlreadySatisfied("not_active"))
    if execution.ownership_state == "lease_expired_reclaimable":
        return Return(AlreadySatisfied("already_expired"))
    if execution.ownership_state == "lease_revoked":
        return Return(AlreadySatisfied("already_revoked"))
    if execution.ownership_state != "leased" or execution.lease_expires_at_ms is None:
        return Return(AlreadySatisfied("unowned"))
    if execution.lease_expires_at_ms > snapshot.now_ms:
        return Return(AlreadySatisfied("not_yet_expired"))
    return Commit(mark_expired(execution), MarkedExpired())


# ---- the cap on losses

_TOO_OFTEN: dict[str, Any] = {
    **MOVED,
    **RELEASED,
    **UNRESERVED,
    **ending("failed"),
    "attempt_state": "attempt_terminal",
    "failure_reason": "max_reclaims_exceeded",
    "terminal_at_ms": Now(),
    "closing_epoch": Arg("lease_epoch"),
    "closing_attempt_index": Arg("attempt_index"),
}
TOO_MANY_LOSSES = Form(
    "too_many_losses",
    Update(EXEC, (*UNCHANGED, LEASE_IS_OVER), _TOO_OFTEN),
    close_attempt("interrupted_reclaimed", "interrupted_reclaimed"),
    drop_grant(),
    lease_event("revoked", "max_reclaims_exceeded"),
    completion_event("failed"),
)


def reclaim_limit(execution: Execution, called: int | None = None) -> int:
    """The policy's limit when one was stored, else the caller's, else the engine's."""
    if execution.max_reclaim_count is not None:
        return execution.max_reclaim_count
    return NO_POLICY_RECLAIM_LIMIT if called is None else called


def _over_limit(execution: Execution, called: int | None = None) -> bool:
    return execution.lease_reclaim_count >= reclaim_limit(execution, called)


def _give_it_up(execution: Execution) -> Commit:
    plan = TOO_MANY_LOSSES(
        **named(execution),
        lease_epoch=execution.lease_epoch,
        attempt_index=execution.attempt_index,
    )
    return Commit(plan, ReclaimCapExceeded(execution.id, execution.lease_reclaim_count))


# ---- requeue after the grace

REQUEUE = Form(
    "requeue",
    Update(
        EXEC,
        (*UNCHANGED, Cond("ownership_state", "=", "lease_expired_reclaimable")),
        {
            **MOVED,
            **RELEASED,
            **entering("READY"),
            "attempt_state": "attempt_interrupted",
            **FULL_TIME_AGAIN,
        },
    ),
    UpdateMany(
        ATTEMPT,
        THIS_ATTEMPT,
        {
            "attempt_state": "suspended",
            "suspended_at_ms": Now(),
            "lease_expires_at_ms": None,
            "outcome": None,
            "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
        },
    ),
    Wake("ready", After("lane_id")),
)


def requeue(snapshot: Snapshot, grace_ms: int) -> Decision:
    """A lost execution nobody reclaimed within the grace goes back to its lane; its attempt continues there."""
    execution = snapshot.execution
    if (
        execution is None
        or execution.ownership_state != "lease_expired_reclaimable"
        or execution.lease_expired_at is None
    ):
        return Return("not_lost")
    if execution.lease_expired_at + grace_ms > snapshot.now_ms:
        return Return("not_yet_due")
    if snapshot.live_grant is not None:
        return Return("granted")
    if _over_limit(execution):
        return _give_it_up(execution)
    return Commit(REQUEUE(**named(execution)), "requeued")


# ---- reclaim


def _not_reclaimable(snapshot: Snapshot, execution: Execution) -> str | None:
    phase = canonical("lifecycle_phase", execution.lifecycle_phase)
    interrupted = (
        execution.attempt_state == "attempt_interrupted"
        and execution.eligibility_state == "eligible_now"
    )
    if (
        phase == "runnable"
        and interrupted
        and execution.interrupt_cause in ("lease_expired", "lease_revoked")
    ):
        return None
    if phase != "active":
        return f"lifecycle_phase={phase} (expected active)"
    if execution.ownership_state in ("lease_expired_reclaimable", "lease_revoked"):
        return None
    expires = execution.lease_expires_at_ms
    if execution.ownership_state == "leased" and expires is not None and expires <= snapshot.now_ms:
        return None
    return f"ownership_state={execution.ownership_state} (expected lease_expired_reclaimable | lease_revoked)"


def issue_reclaim_grant(snapshot: Snapshot, args: IssueGrantArgs, *, grant_id: str) -> Decision:
    """A lease that ran out unnoticed is marked first."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    detail = _not_reclaimable(snapshot, execution)
    if detail is not None:
        return Return(NotReclaimable(execution.id, detail))
    if execution.ownership_state == "leased":
        return Commit(mark_expired(execution), AGAIN)
    if _over_limit(execution):
        return _give_it_up(execution)
    if snapshot.live_grant is not None:
        return Reject(StateError(StateKind.GRANT_ALREADY_EXISTS))
    missing = missing_capabilities(execution, args.worker_capabilities)
    if missing:
        return Commit(
            mismatch_plan(execution),
            NotReclaimable(execution.id, f"capability_mismatch: {missing}"),
        )
    plan = grant_plan(execution, args, kind="reclaim", grant_id=grant_id)
    return Commit(plan, lambda applied: _reclaim_grant(execution, grant_id, applied))


def _reclaim_grant(execution: Execution, grant_id: str, applied: Applied) -> ReclaimGrant:
    return ReclaimGrant(
        execution.id,
        partition_tag(execution.partition_key),
        grant_id,
        applied.row[0],
        execution.lane_id,
    )


def claim_from_resume_grant(
    snapshot: Snapshot, token: ResumeToken, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """Takes the same attempt over under a higher epoch, or answers None while somebody holds it."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", token.grant.execution_id))
    if (
        is_ended(execution)
        or execution.lifecycle_phase == "suspended"
        or execution.current_attempt_id is None
    ):
        return Return(None)
    if snapshot.attempt is None:
        return Reject(NotFound("attempt"))
    if snapshot.lane_is_held:
        return Return(None)
    expires = execution.lease_expires_at_ms
    leased = execution.ownership_state == "leased"
    if leased and expires is not None and expires > snapshot.now_ms:
        return Return(None)
    if token.grant.expires_at_ms < snapshot.now_ms:
        return Reject(Contention(ContentionKind.CLAIM_GRANT_EXPIRED))
    if snapshot.live_grant is not None and snapshot.live_grant.worker_id != token.worker_id:
        return Reject(Contention(ContentionKind.INVALID_CLAIM_GRANT))
    lost = leased or execution.ownership_state == "lease_expired_reclaimable"
    if not lost and (
        execution.attempt_state != "attempt_interrupted"
        or execution.eligibility_state != "eligible_now"
    ):
        return Return(None)
    if lost and _over_limit(execution):
        return _give_it_up(execution)
    plan = one(
        RECLAIM_SAME,
        execution,
        lease_id=lease_id,
        attempt_id=attempt_id,
        worker_id=token.worker_id,
        instance=token.worker_instance_id,
        ttl_ms=token.lease_ttl_ms,
        timeout_ms=execution.attempt_timeout_ms if leased else None,
        lost=lost,
    )
    return Commit(plan)


RECLAIM = Form(
    "reclaim",
    Update(
        EXEC,
        UNCHANGED,
        {
            **acquired(Arg("lease_id"), Arg("attempt_id"), Before("attempt_timeout_ms")),
            "attempt_index": Before("total_attempt_count"),
            "total_attempt_count": Add(1),
            "lease_reclaim_count": Add(1),
        },
    ),
    UpdateMany(
        ATTEMPT,
        (*THIS_ROW, Cond("attempt_index", "=", Arg("old_attempt_index"))),
        {
            "attempt_state": "interrupted_reclaimed",
            "outcome": "interrupted_reclaimed",
            "failure_reason": Arg("reclaim_reason"),
            "terminal_at_ms": Now(),
            "lease_expires_at_ms": None,
        },
    ),
    Insert(
        ATTEMPT,
        {
            "partition_key": After("partition_key"),
            "execution_id": After("execution_id"),
            "attempt_index": After("attempt_index"),
            "attempt_id": After("current_attempt_id"),
            "attempt_type": "reclaim",
            **leased_attempt(),
            "created_at_ms": Now(),
            "started_at_ms": Now(),
            "reclaim_reason": Arg("reclaim_reason"),
            "previous_attempt_index": Arg("old_attempt_index"),
            "policy": Arg("attempt_policy"),
        },
    ),
    drop_grant(),
    granted_event("reclaimed"),
    *TIMERS,
    returning=CLAIMED,
)
DROP_EXPIRED_GRANT = Form(
    "drop_expired_grant",
    Delete(GRANT, (*KEY, Cond("expires_at_ms", "<", Now()))),
    Wake("ready", After("lane_id")),
)


def reclaim(
    snapshot: Snapshot, args: ReclaimExecutionArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """The lost attempt is closed and a new one starts under the grant's worker."""
    ident, grant, execution = args.execution_id, snapshot.grant, snapshot.execution
    if grant is None or grant.kind != "reclaim":
        return Return(GrantNotFound(ident))
    if grant.worker_id != args.worker_id:
        detail = f"reclaim_execution: grant worker_id={grant.worker_id} mismatches caller {args.worker_id}"
        return Reject(ValidationError(ValidationKind.INVALID_INPUT, detail))
    if snapshot.live_grant is None:
        return Commit(drop_expired(grant.partition_key, grant.execution_id), GrantNotFound(ident))
    if execution is None:
        return Reject(NotFound("execution", ident))
    not_now = _not_reclaimable(snapshot, execution)
    if not_now is not None:
        return Return(NotReclaimable(ident, f"{not_now}; exec transitioned after grant issuance"))
    if snapshot.lane_is_held:
        return Return(NotReclaimable(ident, f"lane {execution.lane_id} is held"))
    if execution.ownership_state == "leased":
        return Commit(mark_expired(execution), AGAIN)
    if _over_limit(execution, args.max_reclaim_count):
        return _give_it_up(execution)
    ownership = (
        execution.interrupt_cause
        if execution.ownership_state == "unowned"
        else execution.ownership_state
    )
    plan = RECLAIM(
        **named(execution),
        lease_id=lease_id,
        attempt_id=attempt_id,
        worker_id=args.worker_id,
        worker_instance_id=args.worker_instance_id,
        lease_ttl_ms=args.lease_ttl_ms,
        renew_within_ms=renew_within_ms(args.lease_ttl_ms),
        old_attempt_index=execution.attempt_index,
        reclaim_reason=f"lease_{_LOSS_WORDS.get(ownership or '', ownership)}",
        attempt_policy=policy_text(args.attempt_policy_json),
    )
    return Commit(plan)


_LOSS_WORDS = {"lease_expired": "lease_expired_reclaimable"}


def drop_expired(partition_key: int, execution_id: UUID) -> Plan:
    """Removes a grant that ran out, and only that: one issued meanwhile stays."""
    return DROP_EXPIRED_GRANT(partition_key=partition_key, execution_id=execution_id)
