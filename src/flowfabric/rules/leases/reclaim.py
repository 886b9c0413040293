"""Taking over an execution whose lease was lost: reclaim grants and reclaims."""

from __future__ import annotations

from uuid import UUID

from flowfabric import errors
from flowfabric import plan as p
from flowfabric.ids import partition_tag
from flowfabric.model.execution import Execution
from flowfabric.model.lease import (
    GrantNotFound,
    IssueGrantArgs,
    NotReclaimable,
    ReclaimExecutionArgs,
    ReclaimGrant,
    ResumeToken,
)
from flowfabric.rules import fragments as f
from flowfabric.rules.claims.claims import RECLAIM_SAME, claim_plan
from flowfabric.rules.claims.grants import grant_plan, mismatch_plan, missing_capabilities
from flowfabric.rules.decision import DECIDE_AGAIN, Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.fence import mark_expired
from flowfabric.rules.leases import acquisition, expiry
from flowfabric.rules.states import canonical, is_ended


def _not_reclaimable(snapshot: Snapshot, execution: Execution) -> str | None:
    phase = canonical("lifecycle_phase", execution.lifecycle_phase)
    if (
        phase == "runnable"
        and _is_interrupted(execution)
        and execution.interrupt_cause in ("lease_expired", "lease_revoked")
    ):
        return None
    if phase != "active":
        return f"lifecycle_phase={phase} (expected active)"
    state, expires = execution.ownership_state, execution.lease_expires_at_ms
    if state in ("lease_expired_reclaimable", "lease_revoked"):
        return None
    if state == "leased" and expires is not None and expires <= snapshot.now_ms:
        return None
    return f"ownership_state={state} (expected lease_expired_reclaimable | lease_revoked)"


def _is_interrupted(execution: Execution) -> bool:
    return (
        execution.attempt_state == "attempt_interrupted"
        and execution.eligibility_state == "eligible_now"
    )


def issue_reclaim_grant(snapshot: Snapshot, args: IssueGrantArgs, *, grant_id: str) -> Decision:
    """An expired lease that is not marked yet is marked first."""
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution", args.execution_id))
    detail = _not_reclaimable(snapshot, execution)
    if detail is not None:
        return Return(NotReclaimable(execution.id, detail))
    if execution.ownership_state == "leased":
        return Commit(mark_expired(execution), DECIDE_AGAIN)
    if expiry.over_limit(execution):
        return expiry.fail_over_limit(execution)
    if snapshot.live_grant is not None:
        return Reject(errors.StateError(errors.StateKind.GRANT_ALREADY_EXISTS))
    missing = missing_capabilities(execution, args.worker_capabilities)
    if missing:
        detail = f"capability_mismatch: {missing}"
        return Commit(mismatch_plan(execution), NotReclaimable(execution.id, detail))

    def granted(applied: p.Applied) -> ReclaimGrant:
        tag = partition_tag(execution.partition_key)
        return ReclaimGrant(execution.id, tag, grant_id, applied.row[0], execution.lane_id)

    return Commit(grant_plan(execution, args, kind="reclaim", grant_id=grant_id), granted)


def claim_from_resume_grant(
    snapshot: Snapshot, token: ResumeToken, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """Continues the same attempt under a higher epoch. Answers None while its lease is live."""
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution", token.grant.execution_id))
    if (
        is_ended(execution)
        or execution.lifecycle_phase == "suspended"
        or execution.current_attempt_id is None
    ):
        return Return(None)
    if snapshot.attempt is None:
        return Reject(errors.NotFound("attempt"))
    if snapshot.lane_is_held:
        return Return(None)
    leased, expires = execution.ownership_state == "leased", execution.lease_expires_at_ms
    if leased and expires is not None and expires > snapshot.now_ms:
        return Return(None)
    if token.grant.expires_at_ms < snapshot.now_ms:
        return Reject(errors.Contention(errors.ContentionKind.CLAIM_GRANT_EXPIRED))
    if snapshot.is_granted_to_another(token.worker_id):
        return Reject(errors.Contention(errors.ContentionKind.INVALID_CLAIM_GRANT))
    lost = leased or execution.ownership_state == "lease_expired_reclaimable"
    if not lost and not _is_interrupted(execution):
        return Return(None)
    if lost and expiry.over_limit(execution):
        return expiry.fail_over_limit(execution)
    plan = claim_plan(
        RECLAIM_SAME,
        execution,
        token,
        lease_id,
        attempt_id,
        timeout_ms=execution.attempt_timeout_ms if leased else None,
        lost=lost,
    )
    return Commit(plan)


RECLAIM = p.Form(
    "reclaim",
    p.Update(
        f.EXEC,
        f.UNCHANGED,
        {
            **acquisition.acquired(
                p.Arg("lease_id"), p.Arg("attempt_id"), p.Before("attempt_timeout_ms")
            ),
            "attempt_index": p.Before("total_attempt_count"),
            "total_attempt_count": p.Add(1),
            "lease_reclaim_count": p.Add(1),
        },
    ),
    p.UpdateMany(
        f.ATTEMPT,
        (*f.THIS_ROW, p.Cond("attempt_index", "=", p.Arg("old_attempt_index"))),
        {
            "attempt_state": "interrupted_reclaimed",
            "outcome": "interrupted_reclaimed",
            "failure_reason": p.Arg("reclaim_reason"),
            "terminal_at_ms": p.Now(),
            "lease_expires_at_ms": None,
        },
    ),
    p.Insert(
        f.ATTEMPT,
        acquisition.new_attempt(
            "reclaim",
            {
                "reclaim_reason": p.Arg("reclaim_reason"),
                "previous_attempt_index": p.Arg("old_attempt_index"),
                "policy": p.Arg("attempt_policy"),
            },
        ),
    ),
    f.drop_grant(),
    f.granted_event("reclaimed"),
    *acquisition.TIMERS,
    returning=acquisition.CLAIMED,
)
DROP_EXPIRED_GRANT = p.Form(
    "drop_expired_grant",
    p.Delete(f.GRANT, (*f.KEY, p.Cond("expires_at_ms", "<", p.Now()))),
    p.Wake("ready", p.After("lane_id")),
)


def reclaim(
    snapshot: Snapshot, args: ReclaimExecutionArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """The lost attempt is closed and a new one starts under the worker of the grant."""
    ident, grant, execution = args.execution_id, snapshot.grant, snapshot.execution
    if grant is None or grant.kind != "reclaim":
        return Return(GrantNotFound(ident))
    if grant.worker_id != args.worker_id:
        detail = (
            f"reclaim_execution: grant worker_id={grant.worker_id} "
            f"mismatches caller {args.worker_id}"
        )
        return Reject(errors.bad_input(detail))
    if snapshot.live_grant is None:
        return Commit(drop_expired(grant.partition_key, grant.execution_id), GrantNotFound(ident))
    if execution is None:
        return Reject(errors.NotFound("execution", ident))
    not_now = _not_reclaimable(snapshot, execution)
    if not_now is not None:
        return Return(NotReclaimable(ident, f"{not_now}; exec transitioned after grant issuance"))
    if snapshot.lane_is_held:
        return Return(NotReclaimable(ident, f"lane {execution.lane_id} is held"))
    if execution.ownership_state == "leased":
        return Commit(mark_expired(execution), DECIDE_AGAIN)
    if expiry.over_limit(execution, args.max_reclaim_count):
        return expiry.fail_over_limit(execution)
    plan = RECLAIM(
        **f.named(execution),
        lease_id=lease_id,
        attempt_id=attempt_id,
        worker_id=args.worker_id,
        worker_instance_id=args.worker_instance_id,
        lease_ttl_ms=args.lease_ttl_ms,
        renew_within_ms=acquisition.renew_within_ms(args.lease_ttl_ms),
        old_attempt_index=execution.attempt_index,
        reclaim_reason=_reclaim_reason(execution),
        attempt_policy=acquisition.policy_text(args.attempt_policy_json),
    )
    return Commit(plan)


def _reclaim_reason(execution: Execution) -> str:
    unowned = execution.ownership_state == "unowned"
    lost = execution.interrupt_cause if unowned else execution.ownership_state
    return f"lease_{'lease_expired_reclaimable' if lost == 'lease_expired' else lost}"


def drop_expired(partition_key: int, execution_id: UUID) -> p.Plan:
    """Removes a grant that has expired. A grant issued in between stays."""
    return DROP_EXPIRED_GRANT(partition_key=partition_key, execution_id=execution_id)
