"""Becoming the owner: the claim of the best execution of a lane, and every claim of a particular one."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    StateError,
    StateKind,
    invalid,
)
from flowfabric.model.execution import Execution
from flowfabric.model.lease import ClaimExecutionArgs, ClaimResumedArgs, HandleKind
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
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    LANE,
    LEASE_IS_OVER,
    MOVED,
    UNCHANGED,
    UNRESERVED,
    drop_grant,
    granted_event,
    named,
)
from flowfabric.rules.states import canonical, entering

_STARTS_ANEW = Cond("current_attempt_id", "is null")
CLAIMED = (
    "partition_key",
    "execution_id",
    "attempt_index",
    "current_attempt_id",
    "current_lease_id",
    "lease_epoch",
    "lease_expires_at_ms",
    "lane_id",
    "retry_count",
    "policy",
    "execution_kind",
    "payload",
    "tags",
    Before("attempt_state"),
    "attempt_timeout_ms",
    "attempt_timeout_at_ms",
)


def acquired(lease_id: Any, attempt_id: Any, timeout: Any) -> dict[str, Any]:
    """What every new lease writes on the execution."""
    return {
        **MOVED,
        **UNRESERVED,
        **entering("RUNNING"),
        "attempt_state": "running_attempt",
        "lease_epoch": Add(1),
        "current_lease_id": lease_id,
        "current_attempt_id": attempt_id,
        "attempt_index": When(_STARTS_ANEW, Before("total_attempt_count"), Before("attempt_index")),
        "total_attempt_count": When(_STARTS_ANEW, Add(1), Add(0)),
        "current_worker_id": Arg("worker_id"),
        "current_worker_instance_id": Arg("worker_instance_id"),
        "started_at_ms": Once(Now()),
        "lease_acquired_at": Now(),
        "lease_last_renewed_at": Now(),
        "lease_expires_at_ms": Now(Arg("lease_ttl_ms")),
        "lease_renewal_deadline": Now(Arg("renew_within_ms")),
        "attempt_timeout_at_ms": Now(timeout),
        **dict.fromkeys(
            (
                "lease_expired_at",
                "attempt_timeout_remaining_ms",
                "interrupt_cause",
                "delay_until_ms",
                "pending_retry_reason",
                "pending_replay_reason",
                "pending_replay_requested_by",
                "pending_previous_attempt_index",
                "pending_attempt_policy",
                "blocked_on",
            )
        ),
    }


def leased_attempt() -> dict[str, Any]:
    """What every new lease writes on its attempt."""
    return {
        "attempt_state": "started",
        "worker_id": Arg("worker_id"),
        "worker_instance_id": Arg("worker_instance_id"),
        "lease_id": After("current_lease_id"),
        "lease_epoch": After("lease_epoch"),
        "lease_expires_at_ms": After("lease_expires_at_ms"),
        "attempt_timeout_at_ms": After("attempt_timeout_at_ms"),
    }


def _attempt(policy: Any) -> Upsert:
    """A new attempt, or the interrupted or replayed one going on."""
    kind = When(
        Cond("attempt_state", "=", "pending_retry_attempt"),
        "retry",
        When(Cond("attempt_state", "=", "pending_replay_attempt"), "replay", "initial"),
    )
    return Upsert(
        ATTEMPT,
        {
            "partition_key": After("partition_key"),
            "execution_id": After("execution_id"),
            "attempt_index": After("attempt_index"),
            "attempt_id": After("current_attempt_id"),
            "attempt_type": kind,
            **leased_attempt(),
            "created_at_ms": Now(),
            "started_at_ms": Now(),
            "retry_reason": Before("pending_retry_reason"),
            "replay_reason": Before("pending_replay_reason"),
            "replay_requested_by": Before("pending_replay_requested_by"),
            "previous_attempt_index": Before("pending_previous_attempt_index"),
            "policy": policy,
        },
        {
            **leased_attempt(),
            "attempt_id": After("current_attempt_id"),
            "started_at_ms": Once(Now()),
            "resumed_at_ms": Now(),
            **dict.fromkeys(
                (
                    "suspended_at_ms",
                    "suspension_id",
                    "outcome",
                    "terminal_at_ms",
                    "attempt_timeout_remaining_ms",
                )
            ),
        },
    )


TIMERS = (
    Wake("leased", at=After("lease_expires_at_ms")),
    Wake("attempt_timeout", at=After("attempt_timeout_at_ms")),
)

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
                    _STARTS_ANEW,
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
        group={"lane_id": Arg("lane_id"), "namespace": Arg("namespace"), "gate": ""},
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
                "lease_reclaim_count": Arg("lease_reclaim_count"),
                "expired_epoch": Arg("expired_epoch"),
                "deadline_at_ms": Arg("deadline_at_ms"),
                "deadline_origin": Arg("deadline_origin"),
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


def renew_within_ms(ttl_ms: int) -> int:
    return ttl_ms * 2 // 3


def kind_after(attempt_state: str) -> HandleKind:
    """What a claim of this state hands out."""
    return HandleKind.RESUMED if attempt_state == "attempt_interrupted" else HandleKind.FRESH


def time_used_ms(now_ms: int, timeout_ms: int | None, ends_at_ms: int | None) -> int:
    """How long a claimed attempt was run before it waited, as far as its timeout counts."""
    return (
        0
        if timeout_ms is None or ends_at_ms is None
        else max(timeout_ms - (ends_at_ms - now_ms), 0)
    )


def policy_text(text: str) -> str | None:
    """An attempt policy is kept only when it is a JSON object."""
    try:
        return text if text and isinstance(json.loads(text), dict) else None
    except ValueError:
        return None


def claim_execution(
    snapshot: Snapshot, args: ClaimExecutionArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    refused = _claimable(snapshot, execution) or _grant_for(snapshot, args.worker_id)
    if refused is not None:
        return Reject(refused)
    deadline: dict[str, Any] = {}
    if args.execution_deadline_at:
        deadline = {"deadline_at_ms": args.execution_deadline_at, "deadline_origin": "argument"}
    plan = one(
        CLAIM_ONE,
        execution,
        lease_id=lease_id,
        attempt_id=attempt_id,
        worker_id=args.worker_id,
        instance=args.worker_instance_id,
        ttl_ms=args.lease_ttl_ms,
        timeout_ms=args.attempt_timeout_ms,
        attempt_policy=policy_text(args.attempt_policy_json),
        **deadline,
    )
    return Commit(plan)


def _claimable(snapshot: Snapshot, execution: Execution) -> EngineError | None:
    if execution.ownership_state == "leased":
        return Contention(ContentionKind.LEASE_CONFLICT)
    if execution.lifecycle_phase != "runnable":
        return Contention(ContentionKind.EXECUTION_NOT_LEASEABLE)
    if execution.ownership_state != "unowned":
        return Contention(ContentionKind.LEASE_CONFLICT)
    if execution.eligibility_state != "eligible_now" or snapshot.lane_is_held:
        return Contention(ContentionKind.EXECUTION_NOT_LEASEABLE)
    if execution.attempt_state == "running_attempt":
        return Conflict(ConflictKind.ACTIVE_ATTEMPT_EXISTS)
    if execution.attempt_state == "attempt_interrupted":
        return Contention(ContentionKind.USE_CLAIM_RESUMED_EXECUTION)
    return None


def _grant_for(snapshot: Snapshot, worker_id: str) -> EngineError | None:
    grant = snapshot.grant
    if grant is None or grant.kind != "claim" or grant.worker_id != worker_id:
        return Contention(ContentionKind.INVALID_CLAIM_GRANT)
    return Contention(ContentionKind.CLAIM_GRANT_EXPIRED) if snapshot.live_grant is None else None


def claim_resumed(
    snapshot: Snapshot, args: ClaimResumedArgs, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """The interrupted attempt goes on. A grant is optional; one for somebody else stands in the way."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    if execution.lifecycle_phase == "suspended":
        return Reject(Contention(ContentionKind.NOT_A_RESUMED_EXECUTION))
    if execution.lifecycle_phase != "runnable":
        return Reject(Contention(ContentionKind.EXECUTION_NOT_LEASEABLE))
    if execution.attempt_state != "attempt_interrupted":
        return Reject(Contention(ContentionKind.NOT_A_RESUMED_EXECUTION))
    if execution.eligibility_state != "eligible_now" or snapshot.lane_is_held:
        return Reject(Contention(ContentionKind.EXECUTION_NOT_LEASEABLE))
    if snapshot.live_grant is not None and snapshot.live_grant.worker_id != args.worker_id:
        return Reject(Contention(ContentionKind.INVALID_CLAIM_GRANT))
    plan = one(
        CLAIM_ONE,
        execution,
        lease_id=lease_id,
        attempt_id=attempt_id,
        worker_id=args.worker_id,
        instance=args.worker_instance_id,
        ttl_ms=args.lease_ttl_ms,
        timeout_ms=args.remaining_attempt_timeout_ms,
    )
    return Commit(plan)


def issue_grant_and_claim(
    snapshot: Snapshot, lane: str, ttl_ms: int, *, lease_id: UUID, attempt_id: UUID
) -> Decision:
    """An operator takes one in a single step; capabilities are not asked for."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    if lane != execution.lane_id:
        return Reject(
            invalid(
                "lane_id",
                f"lane_mismatch: args.lane_id={lane} exec_core.lane_id={execution.lane_id}",
            )
        )
    refused = _takeable(snapshot, execution)
    if refused is not None:
        return Reject(refused)
    plan = one(
        CLAIM_ONE,
        execution,
        lease_id=lease_id,
        attempt_id=attempt_id,
        worker_id="operator",
        instance="operator",
        ttl_ms=ttl_ms,
        timeout_ms=None,
    )
    return Commit(plan)


def _takeable(snapshot: Snapshot, execution: Execution) -> EngineError | None:
    if execution.ownership_state != "unowned":
        return Contention(ContentionKind.LEASE_CONFLICT)
    if execution.lifecycle_phase != "runnable":
        return Contention(ContentionKind.EXECUTION_NOT_ELIGIBLE)
    if execution.attempt_state == "running_attempt":
        return Conflict(ConflictKind.ACTIVE_ATTEMPT_EXISTS)
    if snapshot.live_grant is not None:
        return StateError(StateKind.GRANT_ALREADY_EXISTS)
    eligibility = canonical("eligibility_state", execution.eligibility_state)
    if execution.attempt_state == "attempt_interrupted":
        blocked = eligibility in ("blocked_by_dependencies", "not_eligible_until_time")
    else:
        blocked = eligibility != "eligible_now"
    return Contention(ContentionKind.EXECUTION_NOT_ELIGIBLE) if blocked else None


def one(
    form: Form,
    execution: Execution,
    *,
    lease_id: UUID,
    attempt_id: UUID,
    worker_id: str,
    instance: str,
    ttl_ms: int,
    timeout_ms: int | None,
    attempt_policy: str | None = None,
    lost: bool = False,
    deadline_at_ms: int | None = None,
    deadline_origin: str | None = None,
) -> Plan:
    """`lost` says that the lease being replaced ran out, noticed or not."""
    new = execution.current_attempt_id is None
    anew = new or execution.attempt_state == "pending_replay_attempt"
    stored = execution.attempt_timeout_ms if new else execution.attempt_timeout_remaining_ms
    losses = execution.lease_reclaim_count + (lost or execution.interrupt_cause == "lease_expired")
    return form(
        **named(execution),
        lease_id=lease_id,
        attempt_id=attempt_id if anew else execution.current_attempt_id,
        worker_id=worker_id,
        worker_instance_id=instance,
        lease_ttl_ms=ttl_ms,
        renew_within_ms=renew_within_ms(ttl_ms),
        timeout_ms=timeout_ms or stored,
        lease_reclaim_count=int(losses),
        expired_epoch=execution.lease_epoch if lost else execution.expired_epoch,
        attempt_policy=attempt_policy or execution.pending_attempt_policy,
        deadline_at_ms=deadline_at_ms or execution.deadline_at_ms,
        deadline_origin=deadline_origin or execution.deadline_origin,
    )
