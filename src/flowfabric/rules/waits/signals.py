"""What ends a suspension: signals that complete its condition, an operator, or its timeout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import (
    EngineError,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.model.event import COMPLETION_EVENTS, SIGNAL_EVENTS
from flowfabric.model.execution import Execution
from flowfabric.model.state import PublicState
from flowfabric.model.waitpoint import (
    BOUND_STATES,
    ENGINE_SOURCES,
    OPEN_STATES,
    REJECTED,
    DeliverSignalArgs,
    Resumed,
    SignalAccepted,
    SignalDuplicate,
    Suspension,
    Waitpoint,
)
from flowfabric.plan import (
    Add,
    After,
    Arg,
    Cond,
    Delete,
    Emit,
    Form,
    Plan,
    Step,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.fragments import (
    EXEC,
    MOVED_AT_ARG,
    NOT_WAITING,
    SIGNAL,
    SUSPENSION,
    THIS_ROW,
    UNCHANGED,
    WAITPOINT,
    close_waits,
    named,
)
from flowfabric.rules.states import entering, is_ended
from flowfabric.rules.waits import conditions, payload_schema
from flowfabric.rules.waits.conditions import Arrived, judge
from flowfabric.rules.waits.waitpoints import signal_limit

DEDUP = "ff_signal_dedup"

# ---- forms

_SIGNAL_ROW = {
    column: Arg(column)
    for column in (
        "partition_key",
        "execution_id",
        "signal_id",
        "waitpoint_id",
        "waitpoint_key",
        "suspension_id",
        "attempt_index",
        "signal_name",
        "signal_category",
        "source_type",
        "source_identity",
        "correlation_id",
        "payload_encoding",
        "target_scope",
        "idempotency_key",
        "created_at_ms",
        "observed_effect",
        "matched",
        "payload",
        "comment",
        "link",
    )
} | {"accepted_at_ms": Arg("now")}
_SIGNAL_KEY = ("partition_key", "execution_id", "signal_id")
_RECORDED = Upsert(
    SIGNAL, _SIGNAL_ROW, {c: v for c, v in _SIGNAL_ROW.items() if c not in _SIGNAL_KEY}
)
_KNOWN_BY = {
    "execution_id": Arg("execution_id"),
    "signal_id": Arg("signal_id"),
    "expires_at_ms": Arg("dedup_until_ms"),
}
_KEPT_FROM_DOUBLES = Upsert(
    DEDUP,
    {**{c: Arg(c) for c in ("partition_key", "waitpoint_id", "idempotency_key")}, **_KNOWN_BY},
    _KNOWN_BY,
)
_TOLD = Emit(
    SIGNAL_EVENTS,
    "delivered",
    {
        "execution_id": Arg("execution_id"),
        "signal_id": Arg("signal_id"),
        "waitpoint_id": Arg("waitpoint_id"),
        "source_identity": Arg("source_identity"),
        "partition_key": Arg("partition_key"),
        "namespace": Arg("namespace"),
        "instance_tag": Arg("instance_tag"),
        "event_type": Arg("observed_effect"),
    },
    Arg("now"),
)
_WAITPOINT_KEY = (
    Cond("partition_key", "=", Arg("partition_key")),
    Cond("waitpoint_id", "=", Arg("waitpoint_id")),
)
_HEARD = {
    "signal_count": Add(1),
    "signals_trimmed": Arg("signals_trimmed"),
    "last_signal_at_ms": Arg("now"),
    "version": Add(1),
}
_ADDED = {
    "satisfied_set": Arg("satisfied_set"),
    "satisfier_signal_ids": Arg("satisfier_signal_ids"),
    "last_signal_at_ms": Arg("now"),
    "version": Add(1),
}
_STILL_SUSPENDED = (*UNCHANGED, Cond("lifecycle_phase", "=", "suspended"))


def _pair(name: str, *steps: Step | Wake) -> tuple[Form, Form]:
    """The form for a signal without a key, and for one with."""
    return Form(name, *steps), Form(f"{name}_once", *steps, _KEPT_FROM_DOUBLES)


BUFFER = _pair(
    "buffer_signal",
    Update(WAITPOINT, (*_WAITPOINT_KEY, Cond("version", "=", Arg("waitpoint_version"))), _HEARD),
    _RECORDED,
    _TOLD,
)
_COUNTED = UpdateMany(WAITPOINT, _WAITPOINT_KEY, _HEARD)
_MATCHED = UpdateMany(WAITPOINT, _WAITPOINT_KEY, {**_HEARD, "matched_signal_count": Add(1)})
# Whatever changes a suspension changes its execution too, so that the version of the one guards both.
_APPENDED = (
    Update(EXEC, _STILL_SUSPENDED, {"version": Add(1), "last_mutation_at": Arg("now")}),
    UpdateMany(SUSPENSION, THIS_ROW, _ADDED),
)
APPEND = _pair("append_signal", *_APPENDED, _COUNTED, _RECORDED, _TOLD)
APPEND_MATCHED = _pair("append_matched_signal", *_APPENDED, _MATCHED, _RECORDED, _TOLD)

_AWAKE: dict[str, Any] = {
    **MOVED_AT_ARG,
    **entering("READY", detail=Arg("blocking_detail")),
    **NOT_WAITING,
    **{
        c: Arg(c)
        for c in ("eligibility_state", "blocking_reason", "public_state", "delay_until_ms")
    },
}
_WOKEN = (Wake("ready", After("lane_id")), Wake("delayed", at=Arg("delay_until_ms")))
_RESUMABLE = Emit(
    COMPLETION_EVENTS,
    "resumable",
    {
        "execution_id": After("execution_id"),
        "partition_key": After("partition_key"),
        "namespace": After("namespace"),
        "instance_tag": After("instance_tag"),
        "committed_at_ms": Arg("now"),
    },
    Arg("now"),
)
_SATISFIED = {
    "state": "closed",
    "close_reason": "resumed",
    "satisfied_at_ms": Arg("now"),
    "closed_at_ms": Arg("now"),
    "version": Add(1),
}
# The waitpoint that was signalled and the others are changed apart: one statement changes a row once.
RESUME_BY_SIGNAL = _pair(
    "resume_by_signal",
    Update(EXEC, _STILL_SUSPENDED, _AWAKE),
    UpdateMany(
        SUSPENSION,
        THIS_ROW,
        {
            **_ADDED,
            "closed_at_ms": Arg("now"),
            "close_reason": "resumed",
            "closer_signal_id": Arg("signal_id"),
        },
    ),
    UpdateMany(WAITPOINT, _WAITPOINT_KEY, {**_HEARD, "matched_signal_count": Add(1), **_SATISFIED}),
    UpdateMany(
        WAITPOINT,
        (
            *THIS_ROW,
            Cond("state", "in", OPEN_STATES),
            Cond("suspension_id", "=", Arg("suspension_id")),
            Cond("waitpoint_id", "!=", Arg("waitpoint_id")),
        ),
        _SATISFIED,
    ),
    _RECORDED,
    _TOLD,
    _RESUMABLE,
    *_WOKEN,
)
RESUME = Form(
    "resume_execution",
    Update(EXEC, _STILL_SUSPENDED, _AWAKE),
    *close_waits("resumed", Arg("now"), BOUND_STATES, satisfied_at_ms=Arg("now")),
    *_WOKEN,
)
TRIM = Form(
    "trim_signal",
    Delete(
        SIGNAL,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("execution_id", "=", Arg("execution_id")),
            Cond("signal_id", "=", Arg("signal_id")),
        ),
    ),
)
STAMP_FAILURE = Form(
    "stamp_token_failure",
    Update(
        EXEC,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("execution_id", "=", Arg("execution_id")),
        ),
        {"last_hmac_validation_failed_at": Arg("now")},
    ),
)


# ---- delivering


class Delivery(Struct, frozen=True):
    """The execution, the waitpoint whose token was found right, the latest suspension, and what is known of earlier signals.

    `history` names signals and their waitpoints, oldest first, where there may be too many.
    """

    now_ms: int
    execution: Execution
    waitpoint: Waitpoint
    suspension: Suspension | None
    duplicate_of: UUID | None
    signals: int
    history: Sequence[tuple[UUID, UUID]] = ()
    link: str = ""


def deliver(around: Delivery, args: DeliverSignalArgs) -> Decision:
    """After authentication: duplicates first, then whether anybody listens, then what it does."""
    execution, waitpoint, suspension = around.execution, around.waitpoint, around.suspension
    if around.duplicate_of is not None:
        return Return(SignalDuplicate(around.duplicate_of))
    if is_ended(execution):
        return Reject(StateError(StateKind.TARGET_NOT_SIGNALABLE))
    pending = waitpoint.state == "pending"
    problem = _closed(around, pending=pending)
    if problem is not None:
        return Reject(problem)
    most = signal_limit(execution.policy, execution.id, args)
    if most and around.signals >= most:
        return Reject(ValidationError(ValidationKind.SIGNAL_LIMIT_EXCEEDED, f"at most {most}"))
    refused = _refused(around, args, pending=pending)
    if refused is not None:
        return Reject(refused)
    if pending:
        values = _recorded(around, args, "buffered_for_pending_waitpoint", matched=False)
        plan = _form(BUFFER, args)(**values, waitpoint_version=waitpoint.version)
        return Commit(
            plan,
            SignalAccepted(args.signal_id, "buffered_for_pending_waitpoint"),
            _trims(around, args),
        )
    assert suspension is not None
    return _judged(around, suspension, args)


def _closed(around: Delivery, *, pending: bool) -> EngineError | None:
    waitpoint, suspension = around.waitpoint, around.suspension
    if pending:
        expired = waitpoint.expires_at_ms is not None and waitpoint.expires_at_ms <= around.now_ms
        return StateError(StateKind.WAITPOINT_CLOSED) if expired else None
    if around.execution.lifecycle_phase != "suspended":
        return StateError(StateKind.TARGET_NOT_SIGNALABLE)
    listens = (
        suspension is not None
        and suspension.is_open
        and waitpoint.suspension_id == suspension.suspension_id
    )
    return (
        None if waitpoint.state == "active" and listens else StateError(StateKind.WAITPOINT_CLOSED)
    )


def _refused(around: Delivery, args: DeliverSignalArgs, *, pending: bool) -> EngineError | None:
    """A decision takes the names it decides between and no other; a rejection needs no payload."""
    name, schema = args.signal_name, around.waitpoint.payload_schema
    if pending:
        names = json.loads(around.waitpoint.required_signal_names)
    else:
        assert around.suspension is not None
        names = conditions.accepted_names(
            conditions.decode(around.suspension.condition), around.waitpoint.waitpoint_key
        )
    if names and name not in names:
        return ValidationError(
            ValidationKind.INVALID_INPUT,
            f"signal_name: one of {', '.join(names)}, got {name!r:.80}",
        )
    if schema is None or (args.payload is None and name == REJECTED and REJECTED in names):
        return None
    wrong = payload_schema.mismatch(schema, args.payload)
    return None if wrong is None else ValidationError(ValidationKind.INVALID_INPUT, wrong)


def check_source(args: DeliverSignalArgs) -> EngineError | None:
    """A token proves the right to answer, not to speak for the engine or an operator."""
    if args.source_type.strip().lower() not in ENGINE_SOURCES:
        return None
    said = f"source_type: any but {' and '.join(ENGINE_SOURCES)}, which the engine writes itself, got {args.source_type!r:.80}"
    return ValidationError(ValidationKind.INVALID_INPUT, said)


def _judged(around: Delivery, suspension: Suspension, args: DeliverSignalArgs) -> Decision:
    waitpoint, execution = around.waitpoint, around.execution
    satisfied = tuple(json.loads(suspension.satisfied_set))
    signal = Arrived(
        waitpoint.waitpoint_id,
        waitpoint.waitpoint_key,
        args.signal_id,
        args.signal_name,
        args.source_type,
        args.source_identity,
        around.link,
    )
    verdict = judge(conditions.decode(suspension.condition), satisfied, signal)
    satisfiers = json.loads(suspension.satisfier_signal_ids)
    if len(verdict.satisfied) > len(satisfied) and str(args.signal_id) not in satisfiers:
        satisfiers.append(str(args.signal_id))
    values = {
        **_recorded(around, args, verdict.effect, matched=verdict.matched),
        "version": execution.version,
        "satisfied_set": json.dumps(verdict.satisfied, ensure_ascii=False),
        "satisfier_signal_ids": json.dumps(satisfiers),
    }
    result = SignalAccepted(args.signal_id, verdict.effect)
    if not verdict.met:
        form = _form(APPEND_MATCHED if verdict.matched else APPEND, args)
        return Commit(form(**values), result, _trims(around, args))
    delay = args.resume_delay_ms if args.resume_delay_ms is not None else _policy_delay(suspension)
    woken = awake(delay, values["now"], f"resume delay {delay}ms after signal {args.signal_name}")
    plan = _form(RESUME_BY_SIGNAL, args)(**values, **woken)
    return Commit(plan, result, _trims(around, args))


def _form(pair: tuple[Form, Form], args: DeliverSignalArgs) -> Form:
    return pair[1 if args.idempotency_key and args.dedup_ttl_ms > 0 else 0]


def is_long(waitpoint: Waitpoint, most: int) -> bool:
    """Whether its history is worth trimming: not for each signal over the limit, but for an eighth of it at a time."""
    return 0 < most <= waitpoint.signal_count - waitpoint.signals_trimmed - most // 8


def surplus(around: Delivery, args: DeliverSignalArgs) -> list[UUID]:
    """The oldest of this waitpoint beyond the limit, counting the one that comes; what its condition counts stays."""
    suspension = around.suspension
    counted = set() if suspension is None else set(json.loads(suspension.satisfier_signal_ids))
    own = [
        signal
        for signal, at in around.history
        if at == around.waitpoint.waitpoint_id and signal != args.signal_id
    ]
    too_many = max(len(own) + 1 - args.signal_maxlen, 0) if around.history else 0
    return [signal for signal in own if str(signal) not in counted][:too_many]


def _trims(around: Delivery, args: DeliverSignalArgs) -> tuple[Plan, ...]:
    at, owner = around.execution.partition_key, around.execution.execution_id
    return tuple(
        TRIM(partition_key=at, execution_id=owner, signal_id=signal)
        for signal in surplus(around, args)
    )


def _policy_delay(suspension: Suspension) -> int:
    return int(json.loads(suspension.resume_policy).get("resume_delay_ms") or 0)


def awake(delay_ms: int, now: int, detail: str) -> dict[str, Any]:
    """Claimable at once, or after a delay."""
    vector = (
        entering("DELAYED", reason="waiting_for_resume_delay")
        if delay_ms > 0
        else entering("READY")
    )
    return {
        **{
            column: vector[column]
            for column in ("eligibility_state", "blocking_reason", "public_state")
        },
        "blocking_detail": detail if delay_ms > 0 else "",
        "delay_until_ms": now + delay_ms if delay_ms > 0 else None,
    }


def _recorded(
    around: Delivery, args: DeliverSignalArgs, effect: str, *, matched: bool
) -> dict[str, Any]:
    now = around.now_ms if args.now is None else args.now
    execution, waitpoint = around.execution, around.waitpoint
    return {
        "partition_key": execution.partition_key,
        "execution_id": execution.execution_id,
        "signal_id": args.signal_id,
        "waitpoint_id": waitpoint.waitpoint_id,
        "waitpoint_key": waitpoint.waitpoint_key,
        "suspension_id": waitpoint.suspension_id,
        "attempt_index": waitpoint.attempt_index,
        "signal_name": args.signal_name,
        "signal_category": args.signal_category,
        "source_type": args.source_type,
        "source_identity": args.source_identity,
        "correlation_id": args.correlation_id,
        "payload_encoding": args.payload_encoding or None,
        "target_scope": args.target_scope,
        "idempotency_key": args.idempotency_key or None,
        "created_at_ms": now if args.created_at is None else args.created_at,
        "observed_effect": effect,
        "matched": int(matched),
        "payload": args.payload,
        "comment": args.comment,
        "link": around.link,
        "namespace": execution.namespace,
        "instance_tag": execution.instance_tag,
        "dedup_until_ms": around.now_ms + args.dedup_ttl_ms,
        "signals_trimmed": waitpoint.signals_trimmed + len(surplus(around, args)),
        "now": now,
    }


# ---- by an operator


def resume(
    execution: Execution | None, suspension: Suspension | None, delay_ms: int, now: int
) -> Decision:
    if execution is None:
        return Reject(NotFound("execution"))
    if execution.lifecycle_phase != "suspended" or suspension is None or not suspension.is_open:
        return Reject(StateError(StateKind.EXECUTION_NOT_SUSPENDED))
    woken = awake(delay_ms, now, f"resume delay {delay_ms}ms")
    plan = RESUME(**named(execution), **woken, now=now)
    return Commit(plan, Resumed(PublicState(woken["public_state"])))


def stamp_failure(execution: Mapping[str, Any], now: int) -> Plan:
    return STAMP_FAILURE(**execution, now=now)


FORGET_KEY = Form(
    "forget_signal_key",
    Delete(
        DEDUP,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("waitpoint_id", "=", Arg("waitpoint_id")),
            Cond("idempotency_key", "=", Arg("idempotency_key")),
            Cond("expires_at_ms", "<=", Arg("now")),
        ),
    ),
)
FORGET_SUSPEND = Form(
    "forget_suspend_key",
    Delete(
        "ff_suspend_dedup",
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("idempotency_key", "=", Arg("idempotency_key")),
            Cond("expires_at_ms", "<=", Arg("now")),
        ),
    ),
)


def forget_key(row: Sequence[Any], now: int) -> Plan:
    return FORGET_KEY(partition_key=row[0], waitpoint_id=row[1], idempotency_key=row[2], now=now)


def forget_suspend(row: Sequence[Any], now: int) -> Plan:
    return FORGET_SUSPEND(partition_key=row[0], idempotency_key=row[1], now=now)
