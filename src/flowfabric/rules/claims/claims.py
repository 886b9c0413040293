"""Claims: of the first execution of a lane, and of a particular one."""

from __future__ import annotations

from uuid import UUID

from flowfabric import errors
from flowfabric import plan as p
from flowfabric.model.execution import Execution
from flowfabric.model.lease import ClaimExecutionArgs, ClaimResumedArgs, HandleKind, ResumeToken
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot, refuse
from flowfabric.rules.leases import acquisition
from flowfabric.rules.states import canonical


def _attempt(policy: p.Arg | p.Before) -> p.Upsert:
    """A new attempt, or the continued one that was interrupted or replayed."""
    kind = p.When(
        p.Cond("attempt_state", "=", "pending_retry_attempt"),
        "retry",
        p.When(p.Cond("attempt_state", "=", "pending_replay_attempt"), "replay", "initial"),
    )
    pending: f.Columns = {
        "retry_reason": p.Before("pending_retry_reason"),
        "replay_reason": p.Before("pending_replay_reason"),
        "replay_requested_by": p.Before("pending_replay_requested_by"),
        "previous_attempt_index": p.Before("pending_previous_attempt_index"),
        "policy": policy,
    }
    resumed = {
        **acquisition.leased_attempt(),
        "attempt_id": p.After("current_attempt_id"),
        "started_at_ms": p.Once(p.Now()),
        "resumed_at_ms": p.Now(),
        "suspended_at_ms": None,
        "suspension_id": None,
        "outcome": None,
        "terminal_at_ms": None,
        "attempt_timeout_remaining_ms": None,
    }
    return p.Upsert(f.ATTEMPT, acquisition.new_attempt(kind, pending), resumed)


CLAIM = p.Form(
    "claim",
    p.Update(
        f.EXEC,
        (),
        {
            **acquisition.acquired(
                p.Fresh(),
                p.Once(p.Fresh()),
                p.When(
                    acquisition.NEW_ATTEMPT,
                    p.Before("attempt_timeout_ms"),
                    p.Before("attempt_timeout_remaining_ms"),
                ),
            ),
            "lease_reclaim_count": p.When(
                p.Cond("interrupt_cause", "=", "lease_expired"), p.Add(1), p.Add(0)
            ),
        },
    ),
    _attempt(p.Before("pending_attempt_policy")),
    f.drop_grant(),
    f.granted_event("acquired"),
    *acquisition.TIMERS,
    pick=p.Pick(
        "ready",
        group={**from_args("lane_id", "namespace"), "gate": ""},
        where=(
            p.Covered("required_capabilities", p.Arg("capabilities")),
            p.AnyOf(
                (
                    p.Cond("reserved_until_ms", "is null"),
                    p.Cond("reserved_until_ms", "<", p.Now()),
                    p.Cond("reserved_for", "=", p.Arg("worker_id")),
                )
            ),
            p.Absent(
                f.LANE,
                (
                    p.Cond("lane_id", "=", p.Arg("lane_id")),
                    p.Cond("state", "in", ("paused", "disabled")),
                ),
            ),
        ),
    ),
    returning=acquisition.CLAIMED,
)


def _claim_one(name: str, event: str, *guards: p.Guard) -> p.Form:
    """The claim of a particular execution, decided from its snapshot."""
    return p.Form(
        name,
        p.Update(
            f.EXEC,
            (*f.UNCHANGED, *guards),
            {
                **acquisition.acquired(p.Arg("lease_id"), p.Arg("attempt_id"), p.Arg("timeout_ms")),
                **from_args(
                    "lease_reclaim_count", "expired_epoch", "deadline_at_ms", "deadline_origin"
                ),
            },
        ),
        _attempt(p.Arg("attempt_policy")),
        f.drop_grant(),
        f.granted_event(event),
        *acquisition.TIMERS,
        p.Wake("deadline", at=p.After("deadline_at_ms")),
        returning=acquisition.CLAIMED,
    )


CLAIM_ONE = _claim_one("claim_one", "acquired")
RECLAIM_SAME = _claim_one("reclaim_same_attempt", "reclaimed", f.LEASE_IS_OVER)


def claim(
    *,
    lane: str,
    namespace: str,
    capabilities: tuple[str, ...],
    worker_id: str,
    instance: str,
    ttl_ms: int,
) -> p.Plan:
    return CLAIM(
        lane_id=lane,
        namespace=namespace,
        capabilities=capabilities,
        worker_id=worker_id,
        worker_instance_id=instance,
        lease_ttl_ms=ttl_ms,
        renew_within_ms=acquisition.renew_within_ms(ttl_ms),
    )


def kind_after(attempt_state: str) -> HandleKind:
    """The kind of handle that a claim from this attempt state returns."""
    return HandleKind.RESUMED if attempt_state == "attempt_interrupted" else HandleKind.FRESH


def time_used_ms(now_ms: int, timeout_ms: int | None, ends_at_ms: int | None) -> int:
    """The part of the attempt timeout that was used before this claim."""
    if timeout_ms is None or ends_at_ms is None:
        return 0
    return max(timeout_ms - (ends_at_ms - now_ms), 0)


def claim_execution(
    snapshot: Snapshot, args: ClaimExecutionArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution", args.execution_id))
    refused = _claimable(snapshot, execution) or _grant_for(snapshot, args.worker_id)
    if refused is not None:
        return refused
    plan = claim_plan(
        CLAIM_ONE,
        execution,
        args,
        lease_id,
        attempt_id,
        timeout_ms=args.attempt_timeout_ms,
        attempt_policy=acquisition.policy_text(args.attempt_policy_json),
        deadline_at_ms=args.execution_deadline_at,
    )
    return Commit(plan)


def _claimable(snapshot: Snapshot, execution: Execution) -> Reject | None:
    owner, attempt = execution.ownership_state, execution.attempt_state
    blocked = execution.eligibility_state != "eligible_now" or snapshot.lane_is_held
    return refuse(
        (owner == "leased", errors.ContentionKind.LEASE_CONFLICT),
        (execution.lifecycle_phase != "runnable", errors.ContentionKind.EXECUTION_NOT_LEASEABLE),
        (owner != "unowned", errors.ContentionKind.LEASE_CONFLICT),
        (blocked, errors.ContentionKind.EXECUTION_NOT_LEASEABLE),
        (attempt == "running_attempt", errors.ConflictKind.ACTIVE_ATTEMPT_EXISTS),
        (attempt == "attempt_interrupted", errors.ContentionKind.USE_CLAIM_RESUMED_EXECUTION),
    )


def _grant_for(snapshot: Snapshot, worker_id: str) -> Reject | None:
    grant = snapshot.grant
    theirs = grant is None or grant.kind != "claim" or grant.worker_id != worker_id
    return refuse(
        (theirs, errors.ContentionKind.INVALID_CLAIM_GRANT),
        (snapshot.live_grant is None, errors.ContentionKind.CLAIM_GRANT_EXPIRED),
    )


def claim_resumed(
    snapshot: Snapshot, args: ClaimResumedArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """Continues the interrupted attempt. No grant is needed; one of another worker refuses it."""
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution", args.execution_id))
    phase, attempt = execution.lifecycle_phase, execution.attempt_state
    blocked = execution.eligibility_state != "eligible_now" or snapshot.lane_is_held
    refused = refuse(
        (phase == "suspended", errors.ContentionKind.NOT_A_RESUMED_EXECUTION),
        (phase != "runnable", errors.ContentionKind.EXECUTION_NOT_LEASEABLE),
        (attempt != "attempt_interrupted", errors.ContentionKind.NOT_A_RESUMED_EXECUTION),
        (blocked, errors.ContentionKind.EXECUTION_NOT_LEASEABLE),
        (snapshot.is_granted_to_another(args.worker_id), errors.ContentionKind.INVALID_CLAIM_GRANT),
    )
    timeout_ms = args.remaining_attempt_timeout_ms
    return refused or Commit(
        claim_plan(CLAIM_ONE, execution, args, lease_id, attempt_id, timeout_ms=timeout_ms)
    )


def issue_grant_and_claim(
    snapshot: Snapshot, lane: str, ttl_ms: int, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """A claim by an operator, without a grant and whatever capabilities are required."""
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution"))
    if lane != execution.lane_id:
        detail = f"lane_mismatch: args.lane_id={lane} exec_core.lane_id={execution.lane_id}"
        return Reject(errors.invalid("lane_id", detail))
    operator = ClaimResumedArgs(
        execution_id=execution.id,
        worker_id="operator",
        worker_instance_id="operator",
        lease_ttl_ms=ttl_ms,
    )
    return _takeable(snapshot, execution) or Commit(
        claim_plan(CLAIM_ONE, execution, operator, lease_id, attempt_id)
    )


def _takeable(snapshot: Snapshot, execution: Execution) -> Reject | None:
    eligibility = canonical("eligibility_state", execution.eligibility_state)
    if execution.attempt_state == "attempt_interrupted":
        blocked = eligibility in ("blocked_by_dependencies", "not_eligible_until_time")
    else:
        blocked = eligibility != "eligible_now"
    return refuse(
        (execution.ownership_state != "unowned", errors.ContentionKind.LEASE_CONFLICT),
        (execution.lifecycle_phase != "runnable", errors.ContentionKind.EXECUTION_NOT_ELIGIBLE),
        (execution.attempt_state == "running_attempt", errors.ConflictKind.ACTIVE_ATTEMPT_EXISTS),
        (snapshot.live_grant is not None, errors.StateKind.GRANT_ALREADY_EXISTS),
        (blocked, errors.ContentionKind.EXECUTION_NOT_ELIGIBLE),
    )


def claim_plan(
    form: p.Form,
    execution: Execution,
    claimer: ClaimExecutionArgs | ClaimResumedArgs | ResumeToken,
    lease_id: UUID,
    attempt_id: UUID,
    *,
    timeout_ms: int | None = None,
    attempt_policy: str | None = None,
    lost: bool = False,
    deadline_at_ms: int | None = None,
) -> p.Plan:
    """`lost`: the lease being replaced has expired, marked or not."""
    new = execution.current_attempt_id is None
    new_id = new or execution.attempt_state == "pending_replay_attempt"
    stored = execution.attempt_timeout_ms if new else execution.attempt_timeout_remaining_ms
    losses = execution.lease_reclaim_count + (lost or execution.interrupt_cause == "lease_expired")
    return form(
        **f.named(execution),
        lease_id=lease_id,
        attempt_id=attempt_id if new_id else execution.current_attempt_id,
        worker_id=claimer.worker_id,
        worker_instance_id=claimer.worker_instance_id,
        lease_ttl_ms=claimer.lease_ttl_ms,
        renew_within_ms=acquisition.renew_within_ms(claimer.lease_ttl_ms),
        timeout_ms=timeout_ms or stored,
        lease_reclaim_count=int(losses),
        expired_epoch=execution.lease_epoch if lost else execution.expired_epoch,
        attempt_policy=attempt_policy or execution.pending_attempt_policy,
        deadline_at_ms=deadline_at_ms or execution.deadline_at_ms,
        deadline_origin="argument" if deadline_at_ms else execution.deadline_origin,
    )
