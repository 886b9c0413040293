"""Claims: of the first execution of a lane, and of a particular one."""

from __future__ import annotations

from uuid import UUID

from flowfabric.errors import (
    ConflictKind,
    ContentionKind,
    NotFound,
    StateKind,
    invalid,
)
from flowfabric.model.execution import Execution
from flowfabric.model.lease import ClaimExecutionArgs, ClaimResumedArgs, HandleKind, ResumeToken
from flowfabric.plan import (
    Absent,
    Add,
    After,
    AnyOf,
    Arg,
    Before,
    Cond,
    Covered,
    Form,
    Fresh,
    Guard,
    Now,
    Once,
    Pick,
    Plan,
    Update,
    Upsert,
    Wake,
    When,
)
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot, refuse
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    LANE,
    LEASE_IS_OVER,
    UNCHANGED,
    Columns,
    drop_grant,
    granted_event,
    named,
)
from flowfabric.rules.leases.acquisition import (
    CLAIMED,
    NEW_ATTEMPT,
    TIMERS,
    acquired,
    leased_attempt,
    new_attempt,
    policy_text,
    renew_within_ms,
)
from flowfabric.rules.states import canonical


def _attempt(policy: Arg | Before) -> Upsert:
    """A new attempt, or the continued one that was interrupted or replayed."""
    kind = When(
        Cond("attempt_state", "=", "pending_retry_attempt"),
        "retry",
        When(Cond("attempt_state", "=", "pending_replay_attempt"), "replay", "initial"),
    )
    pending: Columns = {
        "retry_reason": Before("pending_retry_reason"),
        "replay_reason": Before("pending_replay_reason"),
        "replay_requested_by": Before("pending_replay_requested_by"),
        "previous_attempt_index": Before("pending_previous_attempt_index"),
        "policy": policy,
    }
    resumed = {
        **leased_attempt(),
        "attempt_id": After("current_attempt_id"),
        "started_at_ms": Once(Now()),
        "resumed_at_ms": Now(),
        "suspended_at_ms": None,
        "suspension_id": None,
        "outcome": None,
        "terminal_at_ms": None,
        "attempt_timeout_remaining_ms": None,
    }
    return Upsert(ATTEMPT, new_attempt(kind, pending), resumed)


CLAIM = Form(
    "claim",
    Update(
        EXEC,
        (),
        {
            **acquired(
                Fresh(),
                Once(Fresh()),
                When(
                    NEW_ATTEMPT,
                    Before("attempt_timeout_ms"),
                    Before("attempt_timeout_remaining_ms"),
                ),
            ),
            "lease_reclaim_count": When(
                Cond("interrupt_cause", "=", "lease_expired"), Add(1), Add(0)
            ),
        },
    ),
    _attempt(Before("pending_attempt_policy")),
    drop_grant(),
    granted_event("acquired"),
    *TIMERS,
    pick=Pick(
        "ready",
        group={**from_args("lane_id", "namespace"), "gate": ""},
        where=(
            Covered("required_capabilities", Arg("capabilities")),
            AnyOf(
                (
                    Cond("reserved_until_ms", "is null"),
                    Cond("reserved_until_ms", "<", Now()),
                    Cond("reserved_for", "=", Arg("worker_id")),
                )
            ),
            Absent(
                LANE,
                (Cond("lane_id", "=", Arg("lane_id")), Cond("state", "in", ("paused", "disabled"))),
            ),
        ),
    ),
    returning=CLAIMED,
)


def _claim_one(name: str, event: str, *guards: Guard) -> Form:
    """The claim of a particular execution, decided from its snapshot."""
    return Form(
        name,
        Update(
            EXEC,
            (*UNCHANGED, *guards),
            {
                **acquired(Arg("lease_id"), Arg("attempt_id"), Arg("timeout_ms")),
                **from_args(
                    "lease_reclaim_count", "expired_epoch", "deadline_at_ms", "deadline_origin"
                ),
            },
        ),
        _attempt(Arg("attempt_policy")),
        drop_grant(),
        granted_event(event),
        *TIMERS,
        Wake("deadline", at=After("deadline_at_ms")),
        returning=CLAIMED,
    )


CLAIM_ONE = _claim_one("claim_one", "acquired")
RECLAIM_SAME = _claim_one("reclaim_same_attempt", "reclaimed", LEASE_IS_OVER)


def claim(
    *,
    lane: str,
    namespace: str,
    capabilities: tuple[str, ...],
    worker_id: str,
    instance: str,
    ttl_ms: int,
) -> Plan:
    return CLAIM(
        lane_id=lane,
        namespace=namespace,
        capabilities=capabilities,
        worker_id=worker_id,
        worker_instance_id=instance,
        lease_ttl_ms=ttl_ms,
        renew_within_ms=renew_within_ms(ttl_ms),
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
        return Reject(NotFound("execution", args.execution_id))
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
        attempt_policy=policy_text(args.attempt_policy_json),
        deadline_at_ms=args.execution_deadline_at,
    )
    return Commit(plan)


def _claimable(snapshot: Snapshot, execution: Execution) -> Reject | None:
    owner, attempt = execution.ownership_state, execution.attempt_state
    blocked = execution.eligibility_state != "eligible_now" or snapshot.lane_is_held
    return refuse(
        (owner == "leased", ContentionKind.LEASE_CONFLICT),
        (execution.lifecycle_phase != "runnable", ContentionKind.EXECUTION_NOT_LEASEABLE),
        (owner != "unowned", ContentionKind.LEASE_CONFLICT),
        (blocked, ContentionKind.EXECUTION_NOT_LEASEABLE),
        (attempt == "running_attempt", ConflictKind.ACTIVE_ATTEMPT_EXISTS),
        (attempt == "attempt_interrupted", ContentionKind.USE_CLAIM_RESUMED_EXECUTION),
    )


def _grant_for(snapshot: Snapshot, worker_id: str) -> Reject | None:
    grant = snapshot.grant
    theirs = grant is None or grant.kind != "claim" or grant.worker_id != worker_id
    return refuse(
        (theirs, ContentionKind.INVALID_CLAIM_GRANT),
        (snapshot.live_grant is None, ContentionKind.CLAIM_GRANT_EXPIRED),
    )


def claim_resumed(
    snapshot: Snapshot, args: ClaimResumedArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """Continues the interrupted attempt. No grant is needed; one of another worker refuses it."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    phase, attempt = execution.lifecycle_phase, execution.attempt_state
    blocked = execution.eligibility_state != "eligible_now" or snapshot.lane_is_held
    refused = refuse(
        (phase == "suspended", ContentionKind.NOT_A_RESUMED_EXECUTION),
        (phase != "runnable", ContentionKind.EXECUTION_NOT_LEASEABLE),
        (attempt != "attempt_interrupted", ContentionKind.NOT_A_RESUMED_EXECUTION),
        (blocked, ContentionKind.EXECUTION_NOT_LEASEABLE),
        (snapshot.is_granted_to_another(args.worker_id), ContentionKind.INVALID_CLAIM_GRANT),
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
        return Reject(NotFound("execution"))
    if lane != execution.lane_id:
        detail = f"lane_mismatch: args.lane_id={lane} exec_core.lane_id={execution.lane_id}"
        return Reject(invalid("lane_id", detail))
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
        (execution.ownership_state != "unowned", ContentionKind.LEASE_CONFLICT),
        (execution.lifecycle_phase != "runnable", ContentionKind.EXECUTION_NOT_ELIGIBLE),
        (execution.attempt_state == "running_attempt", ConflictKind.ACTIVE_ATTEMPT_EXISTS),
        (snapshot.live_grant is not None, StateKind.GRANT_ALREADY_EXISTS),
        (blocked, ContentionKind.EXECUTION_NOT_ELIGIBLE),
    )


def claim_plan(
    form: Form,
    execution: Execution,
    claimer: ClaimExecutionArgs | ClaimResumedArgs | ResumeToken,
    lease_id: UUID,
    attempt_id: UUID,
    *,
    timeout_ms: int | None = None,
    attempt_policy: str | None = None,
    lost: bool = False,
    deadline_at_ms: int | None = None,
) -> Plan:
    """`lost`: the lease being replaced has expired, marked or not."""
    new = execution.current_attempt_id is None
    new_id = new or execution.attempt_state == "pending_replay_attempt"
    stored = execution.attempt_timeout_ms if new else execution.attempt_timeout_remaining_ms
    losses = execution.lease_reclaim_count + (lost or execution.interrupt_cause == "lease_expired")
    return form(
        **named(execution),
        lease_id=lease_id,
        attempt_id=attempt_id if new_id else execution.current_attempt_id,
        worker_id=claimer.worker_id,
        worker_instance_id=claimer.worker_instance_id,
        lease_ttl_ms=claimer.lease_ttl_ms,
        renew_within_ms=renew_within_ms(claimer.lease_ttl_ms),
        timeout_ms=timeout_ms or stored,
        lease_reclaim_count=int(losses),
        expired_epoch=execution.lease_epoch if lost else execution.expired_epoch,
        attempt_policy=attempt_policy or execution.pending_attempt_policy,
        deadline_at_ms=deadline_at_ms or execution.deadline_at_ms,
        deadline_origin="argument" if deadline_at_ms else execution.deadline_origin,
    )
