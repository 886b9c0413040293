"""Suspending an attempt until a condition holds: checks, waitpoints, and buffered signals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric import errors
from flowfabric.ids import ExecutionId
from flowfabric.model import waitpoint as model
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import stored_policy
from flowfabric.model.state import TimeoutBehavior
from flowfabric.plan import Plan
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.waits import conditions
from flowfabric.rules.waits import suspend_forms as forms
from flowfabric.rules.waits.conditions import Arrived, judge
from flowfabric.rules.waits.waitpoints import BIND_WAITPOINT, bind

_BLOCKED_BY = {
    "waiting_for_approval": "waiting_for_approval",
    "waiting_for_callback": "waiting_for_callback",
    "waiting_for_tool_result": "waiting_for_tool_result",
    "waiting_for_operator_review": "paused_by_operator",
    "manual_pause": "paused_by_operator",
    "paused_by_policy": "paused_by_policy",
    "paused_by_budget": "waiting_for_budget",
}


def check_args(args: model.SuspendArgs, now_ms: int) -> errors.EngineError | None:
    """Checks the arguments alone, in the documented order."""
    if not args.waitpoints:
        return errors.bad_input("waitpoints_empty")
    primary, condition = args.waitpoints[0], args.resume_condition
    if (
        isinstance(primary, model.FreshWaitpoint)
        and isinstance(condition, model.Single)
        and key_of(primary) != condition.waitpoint_key
    ):
        return errors.bad_input("waitpoint_key_mismatch")
    problem = _check_bindings(args)
    if problem is not None:
        return problem
    if isinstance(condition, model.TimeoutOnly) and args.timeout_at is None:
        return errors.bad_input("timeout_only_without_deadline")
    if isinstance(condition, model.Single) and condition.name == "":
        return errors.bad_input("resume_condition: empty signal name (use Wildcard instead)")
    now = now_ms if args.now is None else args.now
    if args.timeout_at is not None and args.timeout_at + model.LATE_TIMEOUT_MS < now:
        return errors.bad_input("timeout_at_in_past")
    try:
        conditions.check_shape(condition)
    except errors.ValidationError as error:
        return error
    return None


def timed(args: model.SuspendArgs, execution: Execution, now_ms: int) -> model.SuspendArgs:
    """Takes the timeout from the execution's policy when the arguments have none."""
    policy = stored_policy(execution.policy, execution.id)
    default = None if policy is None else policy.suspension_policy
    if args.timeout_at is not None or default is None or default.default_timeout_ms is None:
        return args
    at = (now_ms if args.now is None else args.now) + default.default_timeout_ms
    return structs.replace(
        args, timeout_at=at, timeout_behavior=TimeoutBehavior(default.timeout_behavior)
    )


def _check_bindings(args: model.SuspendArgs) -> errors.EngineError | None:
    if len(args.waitpoints) == 1:
        return None
    for at, binding in enumerate(args.waitpoints[1:], 1):
        where = f"at waitpoints[{at}]"
        if not isinstance(binding, model.FreshWaitpoint):
            return errors.bad_input(f"additional_waitpoint_binding_must_be_fresh {where}")
        if not binding.waitpoint_key:
            return errors.bad_input(f"additional_waitpoint_binding_empty_key {where}")
    is_fresh = isinstance(args.waitpoints[0], model.FreshWaitpoint)
    bound = [key_of(each) for each in args.waitpoints if isinstance(each, model.FreshWaitpoint)]
    wanted = conditions.referenced(args.resume_condition)
    missing = next((key for key in wanted if key not in bound), None)
    if missing is not None and is_fresh:
        return errors.bad_input(f"referenced_waitpoint_key_missing_binding: {missing}")
    extra = next((key for key in bound if key not in wanted), None)
    if extra is not None:
        return errors.bad_input(f"extra_binding_not_referenced_by_condition: {extra}")
    return None if is_fresh else errors.bad_input("use_pending_with_extras_unsupported")


def key_of(binding: model.FreshWaitpoint) -> str:
    return binding.waitpoint_key or f"wpk:{binding.waitpoint_id}"


def dedup_key(execution: UUID, key: str) -> str:
    return f"{execution}:{key}"


def dedup_ms(timeout_at: int | None, now: int) -> int:
    """How long the outcome of a suspend is kept under its key."""
    if timeout_at is None:
        return model.LONGEST_SUSPEND_DEDUP_MS
    wanted = max(timeout_at - now, 0) + model.SUSPEND_DEDUP_MARGIN_MS
    return min(wanted, model.LONGEST_SUSPEND_DEDUP_MS)


class SuspendSnapshot(Struct, frozen=True):
    """The latest suspension, the waitpoints, and the signals of a pending one, oldest first."""

    now_ms: int
    suspension: model.Suspension | None
    waitpoints: Mapping[UUID, model.Waitpoint]
    signals: Sequence[model.Signal] = ()


def check_stored(
    snapshot: SuspendSnapshot, fields: HandleFields, args: model.SuspendArgs
) -> errors.EngineError | None:
    """Checks the arguments against the stored suspension and waitpoints; these checks come last."""
    if snapshot.suspension is not None and snapshot.suspension.is_open:
        return errors.StateError(errors.StateKind.ALREADY_SUSPENDED)
    taken: set[UUID] = set()
    for binding in args.waitpoints:
        stored = snapshot.waitpoints.get(binding.waitpoint_id)
        if isinstance(binding, model.FreshWaitpoint):
            in_use = stored is not None and (
                stored.is_open or stored.execution_id != fields.execution_id.uuid
            )
            if in_use or binding.waitpoint_id in taken:
                return errors.Conflict(
                    errors.ConflictKind.WAITPOINT_ALREADY_EXISTS, str(binding.waitpoint_id)
                )
            taken.add(binding.waitpoint_id)
            continue
        problem = _check_pending(stored, snapshot.now_ms, fields, args)
        if problem is not None:
            return problem
    return None


def _check_pending(
    stored: model.Waitpoint | None, now_ms: int, fields: HandleFields, args: model.SuspendArgs
) -> errors.EngineError | None:
    if stored is None:
        return errors.Contention(errors.ContentionKind.WAITPOINT_NOT_FOUND)
    if stored.state != "pending":
        return errors.StateError(errors.StateKind.WAITPOINT_NOT_PENDING)
    if (
        stored.execution_id != fields.execution_id.uuid
        or stored.attempt_index > fields.attempt_index
    ):
        return errors.ValidationError(errors.ValidationKind.INVALID_WAITPOINT_FOR_EXECUTION)
    if stored.expires_at_ms is not None and stored.expires_at_ms <= now_ms:
        return errors.StateError(errors.StateKind.PENDING_WAITPOINT_EXPIRED)
    if not stored.token_digest:
        return errors.ValidationError(errors.ValidationKind.WAITPOINT_NOT_TOKEN_BOUND)
    condition = args.resume_condition
    if isinstance(condition, model.Single) and condition.waitpoint_key != stored.waitpoint_key:
        return errors.bad_input("waitpoint_key_mismatch")
    return None


class ConditionState(Struct, frozen=True):
    """What a condition has got from signals so far."""

    satisfied: tuple[str, ...] = ()
    satisfiers: tuple[UUID, ...] = ()
    met: bool = False


def replay(args: model.SuspendArgs, signals: Sequence[model.Signal]) -> ConditionState:
    """Applies the signals that are buffered on a pending waitpoint."""
    state = ConditionState()
    for signal in signals:
        if state.met:
            break
        arrived = Arrived(*(getattr(signal, field) for field in Arrived.__struct_fields__))
        verdict = judge(args.resume_condition, state.satisfied, arrived)
        counted = len(verdict.satisfied) > len(state.satisfied)
        satisfiers = (*state.satisfiers, signal.signal_id) if counted else state.satisfiers
        state = ConditionState(verdict.satisfied, satisfiers, verdict.met)
    return state


def suspend(
    fields: HandleFields,
    args: model.SuspendArgs,
    snapshot: SuspendSnapshot,
    bound: Sequence[model.BoundWaitpoint],
    state: ConditionState,
    kid: str,
) -> list[Plan]:
    """The execution under its fence, then each waitpoint. A single new waitpoint shares the plan.

    `bound` are the waitpoints with their tokens, in the order of the arguments.
    """
    now = snapshot.now_ms if args.now is None else args.now
    primary = bound[0].waitpoint_id
    reason = str(args.reason_code)
    values = {
        **held_by(fields),
        "now": now,
        "blocking_reason": _BLOCKED_BY.get(reason, "waiting_for_signal"),
        "blocking_detail": f"suspended: waitpoint {primary} awaiting {reason}",
        "suspension_id": args.suspension_id,
        "suspension_text": str(args.suspension_id),
        "primary_waitpoint_id": primary,
        "timeout_at_ms": args.timeout_at,
        "timeout_behavior": str(args.timeout_behavior) if args.timeout_at is not None else None,
        "reason_code": reason,
        "condition": conditions.encode(args.resume_condition),
        "satisfied_set": json.dumps(state.satisfied, ensure_ascii=False),
        "satisfier_signal_ids": json.dumps([str(one) for one in state.satisfiers]),
        "requested_by": args.requested_by,
        "resume_policy": encode_policy(args.resume_policy),
        "continuation_metadata_pointer": args.continuation_metadata_pointer,
    }
    binds = [*_binds(fields, args, snapshot, bound, now, kid)]
    if len(binds) == 1 and binds[0].form is BIND_WAITPOINT:
        new = dict(zip(BIND_WAITPOINT.args, binds[0].values, strict=True))
        return [forms.SUSPEND_ON_NEW(**{**values, **new})]
    return [forms.SUSPEND(**values), *binds]


def _binds(
    fields: HandleFields,
    args: model.SuspendArgs,
    snapshot: SuspendSnapshot,
    bound: Sequence[model.BoundWaitpoint],
    now: int,
    kid: str,
) -> Iterator[Plan]:
    buffered = bool(snapshot.signals)
    for binding, waitpoint in zip(args.waitpoints, bound, strict=True):
        stored = snapshot.waitpoints.get(binding.waitpoint_id)
        yield from bind(fields, args, binding, waitpoint, stored, now, kid, buffered=buffered)


def encode_policy(policy: model.ResumePolicy) -> str:
    return json.dumps(structs.asdict(policy), separators=(",", ":"))


def remember(
    ident: ExecutionId, key: str, outcome: str, now: int, keep_ms: int, *, known: bool
) -> Plan:
    """Stores the outcome of a suspend under its key. `known`: an expired row has the key."""
    values = {
        "partition_key": ident.partition_index,
        "idempotency_key": dedup_key(ident.uuid, key),
        "outcome_json": outcome,
        "now": now,
        "expires_at_ms": now + keep_ms,
    }
    if known:
        return forms.REMEMBER_SUSPEND_AGAIN(**values)
    return forms.REMEMBER_SUSPEND(**values, execution_id=ident.uuid)
