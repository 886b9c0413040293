"""Parking an attempt until a condition holds: pending waitpoints, suspending, and what had arrived before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import stored_policy
from flowfabric.model.state import TimeoutBehavior
from flowfabric.model.waitpoint import (
    LATE_TIMEOUT_MS,
    LONGEST_SUSPEND_DEDUP_MS,
    SUSPEND_DEDUP_MARGIN_MS,
    BoundWaitpoint,
    FreshWaitpoint,
    ResumePolicy,
    Signal,
    Single,
    SuspendArgs,
    Suspension,
    TimeoutOnly,
    UsePending,
    Waitpoint,
)
from flowfabric.plan import (
    Add,
    After,
    Arg,
    Cond,
    Form,
    Insert,
    Plan,
    Until,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    HELD,
    MOVED,
    RELEASED,
    SUSPENSION,
    THIS_ATTEMPT,
    drop_grant,
    held_event,
)
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.states import entering
from flowfabric.rules.waits import conditions
from flowfabric.rules.waits.conditions import Arrived, judge
from flowfabric.rules.waits.waitpoints import BIND_WAITPOINT, BOUND, bind

SUSPEND_DEDUP = "ff_suspend_dedup"
_BLOCKED_BY = {
    "waiting_for_approval": "waiting_for_approval",
    "waiting_for_callback": "waiting_for_callback",
    "waiting_for_tool_result": "waiting_for_tool_result",
    "waiting_for_operator_review": "paused_by_operator",
    "manual_pause": "paused_by_operator",
    "paused_by_policy": "paused_by_policy",
    "paused_by_budget": "waiting_for_budget",
}

# ---- forms

_SUSPENSION_ROW: dict[str, Any] = {
    "partition_key": After("partition_key"),
    "execution_id": After("execution_id"),
    "suspended_at_ms": Arg("now"),
    **{
        column: Arg(column)
        for column in (
            "suspension_id",
            "timeout_at_ms",
            "reason_code",
            "condition",
            "satisfied_set",
            "timeout_behavior",
            "attempt_index",
            "requested_by",
            "resume_policy",
            "continuation_metadata_pointer",
            "primary_waitpoint_id",
            "satisfier_signal_ids",
        )
    },
    "last_signal_at_ms": None,
    "closer_signal_id": None,
    "closed_at_ms": None,
    "close_reason": None,
}
_SUSPENDED = (
    Update(
        EXEC,
        HELD,
        {
            **MOVED,
            **RELEASED,
            **entering("SUSPENDED", detail=Arg("blocking_detail")),
            "blocking_reason": Arg("blocking_reason"),
            "attempt_state": "attempt_interrupted",
            "interrupt_cause": "suspended",
            "lease_epoch": Add(1),
            "attempt_timeout_remaining_ms": Until("attempt_timeout_at_ms"),
            "current_suspension_id": Arg("suspension_id"),
            "current_waitpoint_id": Arg("primary_waitpoint_id"),
        },
    ),
    UpdateMany(
        ATTEMPT,
        THIS_ATTEMPT,
        {
            "attempt_state": "suspended",
            "suspended_at_ms": Arg("now"),
            "suspension_id": Arg("suspension_text"),
            "lease_expires_at_ms": None,
            "lease_epoch": After("lease_epoch"),
            "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
        },
    ),
    Upsert(
        SUSPENSION,
        {**_SUSPENSION_ROW, "version": 0},
        {
            **{
                c: v
                for c, v in _SUSPENSION_ROW.items()
                if c not in ("partition_key", "execution_id")
            },
            "version": Add(1),
        },
    ),
    drop_grant(),
    held_event("revoked", "suspended"),
    Wake("suspension_timeout", at=Arg("timeout_at_ms")),
)
SUSPEND = Form("suspend", *_SUSPENDED)
SUSPEND_ON_NEW = Form("suspend_on_new_waitpoint", *_SUSPENDED, BOUND)
_DEDUP = {
    c: Arg(c)
    for c in ("partition_key", "idempotency_key", "execution_id", "outcome_json", "expires_at_ms")
}
REMEMBER_SUSPEND = Form(
    "remember_suspend", Insert(SUSPEND_DEDUP, {**_DEDUP, "created_at_ms": Arg("now")})
)
REMEMBER_SUSPEND_AGAIN = Form(
    "remember_suspend_again",
    Update(
        SUSPEND_DEDUP,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("idempotency_key", "=", Arg("idempotency_key")),
        ),
        {
            "outcome_json": Arg("outcome_json"),
            "created_at_ms": Arg("now"),
            "expires_at_ms": Arg("expires_at_ms"),
        },
    ),
)


# ---- arguments


def check_args(args: SuspendArgs, now_ms: int) -> EngineError | None:
    """What can be said about a suspend without looking at anything stored, in the documented order."""
    if not args.waitpoints:
        return conditions.refused("waitpoints_empty")
    primary, condition = args.waitpoints[0], args.resume_condition
    if (
        isinstance(primary, FreshWaitpoint)
        and isinstance(condition, Single)
        and key_of(primary) != condition.waitpoint_key
    ):
        return conditions.refused("waitpoint_key_mismatch")
    problem = _check_bindings(args)
    if problem is not None:
        return problem
    if isinstance(condition, TimeoutOnly) and args.timeout_at is None:
        return conditions.refused("timeout_only_without_deadline")
    if isinstance(condition, Single) and condition.name == "":
        return conditions.refused("resume_condition: empty signal name (use Wildcard instead)")
    if args.timeout_at is not None and args.timeout_at + LATE_TIMEOUT_MS < (
        now_ms if args.now is None else args.now
    ):
        return conditions.refused("timeout_at_in_past")
    try:
        conditions.check_shape(condition)
    except ValidationError as error:
        return error
    return None


def timed(args: SuspendArgs, execution: Execution, now_ms: int) -> SuspendArgs:
    """With the timeout of the execution's policy, where the suspension names none."""
    policy = stored_policy(execution.policy, execution.id)
    stated = None if policy is None else policy.suspension_policy
    if args.timeout_at is not None or stated is None or stated.default_timeout_ms is None:
        return args
    at = (now_ms if args.now is None else args.now) + stated.default_timeout_ms
    return structs.replace(
        args, timeout_at=at, timeout_behavior=TimeoutBehavior(stated.timeout_behavior)
    )


def _check_bindings(args: SuspendArgs) -> EngineError | None:
    if len(args.waitpoints) == 1:
        return None
    for at, binding in enumerate(args.waitpoints[1:], 1):
        if not isinstance(binding, FreshWaitpoint):
            return conditions.refused(
                f"additional_waitpoint_binding_must_be_fresh at waitpoints[{at}]"
            )
        if not binding.waitpoint_key:
            return conditions.refused(f"additional_waitpoint_binding_empty_key at waitpoints[{at}]")
    bound = [key_of(binding) for binding in args.waitpoints if isinstance(binding, FreshWaitpoint)]
    wanted = conditions.referenced(args.resume_condition)
    missing = next((key for key in wanted if key not in bound), None)
    if missing is not None and isinstance(args.waitpoints[0], FreshWaitpoint):
        return conditions.refused(f"referenced_waitpoint_key_missing_binding: {missing}")
    extra = next((key for key in bound if key not in wanted), None)
    if extra is not None:
        return conditions.refused(f"extra_binding_not_referenced_by_condition: {extra}")
    if isinstance(args.waitpoints[0], UsePending):
        return conditions.refused("use_pending_with_extras_unsupported")
    return None


def key_of(binding: FreshWaitpoint) -> str:
    return binding.waitpoint_key or f"wpk:{binding.waitpoint_id}"


def dedup_key(execution: UUID, key: str) -> str:
    return f"{execution}:{key}"


def dedup_ms(timeout_at: int | None, now: int) -> int:
    """How long the outcome of a suspend is remembered."""
    if timeout_at is None:
        return LONGEST_SUSPEND_DEDUP_MS
    return min(max(timeout_at - now, 0) + SUSPEND_DEDUP_MARGIN_MS, LONGEST_SUSPEND_DEDUP_MS)


# ---- suspending


class Around(Struct, frozen=True):
    """The latest suspension, the waitpoints named, and what arrived on a pending one, oldest first."""

    now_ms: int
    suspension: Suspension | None
    waitpoints: Mapping[UUID, Waitpoint]
    signals: Sequence[Signal] = ()


def check_stored(around: Around, fields: HandleFields, args: SuspendArgs) -> EngineError | None:
    """The last checks: what is there already."""
    if around.suspension is not None and around.suspension.is_open:
        return StateError(StateKind.ALREADY_SUSPENDED)
    taken: set[UUID] = set()
    for binding in args.waitpoints:
        stored = around.waitpoints.get(binding.waitpoint_id)
        if isinstance(binding, FreshWaitpoint):
            in_use = stored is not None and (
                stored.is_open or stored.execution_id != fields.execution_id.uuid
            )
            if in_use or binding.waitpoint_id in taken:
                return Conflict(ConflictKind.WAITPOINT_ALREADY_EXISTS, str(binding.waitpoint_id))
            taken.add(binding.waitpoint_id)
            continue
        problem = _check_pending(stored, around.now_ms, fields, args)
        if problem is not None:
            return problem
    return None


def _check_pending(
    stored: Waitpoint | None, now_ms: int, fields: HandleFields, args: SuspendArgs
) -> EngineError | None:
    if stored is None:
        return Contention(ContentionKind.WAITPOINT_NOT_FOUND)
    if stored.state != "pending":
        return StateError(StateKind.WAITPOINT_NOT_PENDING)
    if (
        stored.execution_id != fields.execution_id.uuid
        or stored.attempt_index > fields.attempt_index
    ):
        return ValidationError(ValidationKind.INVALID_WAITPOINT_FOR_EXECUTION)
    if stored.expires_at_ms is not None and stored.expires_at_ms <= now_ms:
        return StateError(StateKind.PENDING_WAITPOINT_EXPIRED)
    if not stored.token_digest:
        return ValidationError(ValidationKind.WAITPOINT_NOT_TOKEN_BOUND)
    condition = args.resume_condition
    if isinstance(condition, Single) and condition.waitpoint_key != stored.waitpoint_key:
        return conditions.refused("waitpoint_key_mismatch")
    return None


class Replayed(Struct, frozen=True):
    """What had arrived on a pending waitpoint makes of a condition."""

    satisfied: tuple[str, ...] = ()
    satisfiers: tuple[UUID, ...] = ()
    met: bool = False


def replay(args: SuspendArgs, signals: Sequence[Signal]) -> Replayed:
    found = Replayed()
    for signal in signals:
        if found.met:
            break
        verdict = judge(args.resume_condition, found.satisfied, arrived(signal))
        counted = len(verdict.satisfied) > len(found.satisfied)
        satisfiers = (*found.satisfiers, signal.signal_id) if counted else found.satisfiers
        found = structs.replace(
            found, satisfied=verdict.satisfied, satisfiers=satisfiers, met=verdict.met
        )
    return found


def arrived(signal: Signal) -> Arrived:
    return Arrived(
        signal.waitpoint_id,
        signal.waitpoint_key,
        signal.signal_id,
        signal.signal_name,
        signal.source_type,
        signal.source_identity,
        signal.link,
    )


def suspend(
    fields: HandleFields,
    args: SuspendArgs,
    around: Around,
    bound: Sequence[BoundWaitpoint],
    found: Replayed,
    kid: str,
) -> list[Plan]:
    """The execution under its fence, then each waitpoint; a single new one goes in the same plan.

    `bound` are the waitpoints with their tokens, in order.
    """
    now = around.now_ms if args.now is None else args.now
    reason = str(args.reason_code)
    values = {
        **held_by(fields),
        "now": now,
        "blocking_reason": _BLOCKED_BY.get(reason, "waiting_for_signal"),
        "blocking_detail": f"suspended: waitpoint {bound[0].waitpoint_id} awaiting {reason}",
        "suspension_id": args.suspension_id,
        "suspension_text": str(args.suspension_id),
        "primary_waitpoint_id": bound[0].waitpoint_id,
        "timeout_at_ms": args.timeout_at,
        "timeout_behavior": str(args.timeout_behavior) if args.timeout_at is not None else None,
        "reason_code": reason,
        "condition": conditions.encode(args.resume_condition),
        "satisfied_set": json.dumps(found.satisfied, ensure_ascii=False),
        "satisfier_signal_ids": json.dumps([str(one) for one in found.satisfiers]),
        "requested_by": args.requested_by,
        "resume_policy": encode_policy(args.resume_policy),
        "continuation_metadata_pointer": args.continuation_metadata_pointer,
    }
    binds: list[Plan] = []
    for binding, waitpoint in zip(args.waitpoints, bound, strict=True):
        binds += bind(
            fields,
            args,
            binding,
            waitpoint,
            around.waitpoints.get(binding.waitpoint_id),
            now,
            kid,
            buffered=bool(around.signals),
        )
    if len(binds) == 1 and binds[0].form is BIND_WAITPOINT:
        return [
            SUSPEND_ON_NEW(
                **{**values, **dict(zip(BIND_WAITPOINT.args, binds[0].values, strict=True))}
            )
        ]
    return [SUSPEND(**values), *binds]


def encode_policy(policy: ResumePolicy) -> str:
    return json.dumps(structs.asdict(policy), separators=(",", ":"))


def remember(
    ident: ExecutionId, key: str, outcome: str, now: int, keep_ms: int, *, known: bool
) -> Plan:
    """The outcome of a suspend, for whoever asks again under the same key. `known`: an outdated one is in the way."""
    values = {
        "partition_key": ident.partition_index,
        "idempotency_key": dedup_key(ident.uuid, key),
        "outcome_json": outcome,
        "now": now,
        "expires_at_ms": now + keep_ms,
    }
    if known:
        return REMEMBER_SUSPEND_AGAIN(**values)
    return REMEMBER_SUSPEND(**values, execution_id=ident.uuid)
