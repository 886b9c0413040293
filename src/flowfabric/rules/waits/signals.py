"""Delivering a signal to a waitpoint, and resuming an execution by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.errors import (
    EngineError,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
    bad_input,
)
from flowfabric.model.execution import Execution
from flowfabric.model.state import PublicState
from flowfabric.model.waitpoint import (
    ENGINE_SOURCES,
    REJECTED,
    DeliverSignalArgs,
    Resumed,
    SignalAccepted,
    SignalDuplicate,
    Suspension,
    Waitpoint,
)
from flowfabric.plan import Form, Plan, Values
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.fragments import named
from flowfabric.rules.states import entering, is_ended
from flowfabric.rules.waits import conditions, payload_schema
from flowfabric.rules.waits import signal_forms as forms
from flowfabric.rules.waits.conditions import Arrived, judge
from flowfabric.rules.waits.waitpoints import signal_limit


class Delivery(Struct, frozen=True):
    """The execution, the waitpoint whose token was verified, and the latest suspension.

    `duplicate_of` is an earlier signal of the same key, `signals` the number of signals so far.
    `history` lists signals and their waitpoints, oldest first, when there may be too many.
    """

    now_ms: int
    execution: Execution
    waitpoint: Waitpoint
    suspension: Suspension | None
    duplicate_of: UUID | None
    signals: int
    history: Sequence[tuple[UUID, UUID]] = ()
    link: str = ""


def deliver(snapshot: Delivery, args: DeliverSignalArgs) -> Decision:
    """Decides about an authenticated signal: duplicate, then closed waitpoint, then its effect."""
    execution, waitpoint, suspension = snapshot.execution, snapshot.waitpoint, snapshot.suspension
    if snapshot.duplicate_of is not None:
        return Return(SignalDuplicate(snapshot.duplicate_of))
    if is_ended(execution):
        return Reject(StateError(StateKind.TARGET_NOT_SIGNALABLE))
    pending = waitpoint.state == "pending"
    problem = _closed(snapshot, pending=pending)
    if problem is not None:
        return Reject(problem)
    most = signal_limit(execution.policy, execution.id, args)
    if most and snapshot.signals >= most:
        return Reject(ValidationError(ValidationKind.SIGNAL_LIMIT_EXCEEDED, f"at most {most}"))
    refused = _refused(snapshot, args, pending=pending)
    if refused is not None:
        return Reject(refused)
    if pending:
        values = _recorded(snapshot, args, "buffered_for_pending_waitpoint", matched=False)
        plan = _form(forms.BUFFER, args)(**values, waitpoint_version=waitpoint.version)
        result = SignalAccepted(args.signal_id, "buffered_for_pending_waitpoint")
        return Commit(plan, result, _trims(snapshot, args))
    assert suspension is not None
    return _judged(snapshot, suspension, args)


def _closed(snapshot: Delivery, *, pending: bool) -> EngineError | None:
    waitpoint, suspension = snapshot.waitpoint, snapshot.suspension
    if pending:
        expired = waitpoint.expires_at_ms is not None and waitpoint.expires_at_ms <= snapshot.now_ms
        return StateError(StateKind.WAITPOINT_CLOSED) if expired else None
    if snapshot.execution.lifecycle_phase != "suspended":
        return StateError(StateKind.TARGET_NOT_SIGNALABLE)
    is_open = (
        waitpoint.state == "active"
        and suspension is not None
        and suspension.is_open
        and waitpoint.suspension_id == suspension.suspension_id
    )
    return None if is_open else StateError(StateKind.WAITPOINT_CLOSED)


def _refused(snapshot: Delivery, args: DeliverSignalArgs, *, pending: bool) -> EngineError | None:
    """Checks name and payload: a vote takes only its names, and a rejection needs no payload."""
    name, schema = args.signal_name, snapshot.waitpoint.payload_schema
    if pending:
        names = json.loads(snapshot.waitpoint.required_signal_names)
    else:
        assert snapshot.suspension is not None
        names = conditions.accepted_names(
            conditions.decode(snapshot.suspension.condition), snapshot.waitpoint.waitpoint_key
        )
    if names and name not in names:
        return bad_input(f"signal_name: one of {', '.join(names)}, got {name!r:.80}")
    if schema is None or (args.payload is None and name == REJECTED and REJECTED in names):
        return None
    wrong = payload_schema.mismatch(schema, args.payload)
    return None if wrong is None else bad_input(wrong)


def check_source(args: DeliverSignalArgs) -> EngineError | None:
    """A token entitles to signal, not to sign as the engine or an operator."""
    if args.source_type.strip().lower() not in ENGINE_SOURCES:
        return None
    reserved = " and ".join(ENGINE_SOURCES)
    return bad_input(f"source_type: any except {reserved}, got {args.source_type!r:.80}")


def _judged(snapshot: Delivery, suspension: Suspension, args: DeliverSignalArgs) -> Decision:
    waitpoint = snapshot.waitpoint
    satisfied = tuple(json.loads(suspension.satisfied_set))
    signal = Arrived(
        waitpoint.waitpoint_id,
        waitpoint.waitpoint_key,
        args.signal_id,
        args.signal_name,
        args.source_type,
        args.source_identity,
        snapshot.link,
    )
    verdict = judge(conditions.decode(suspension.condition), satisfied, signal)
    satisfiers = json.loads(suspension.satisfier_signal_ids)
    if len(verdict.satisfied) > len(satisfied) and str(args.signal_id) not in satisfiers:
        satisfiers.append(str(args.signal_id))
    values = {
        **_recorded(snapshot, args, verdict.effect, matched=verdict.matched),
        "satisfied_set": json.dumps(verdict.satisfied, ensure_ascii=False),
        "satisfier_signal_ids": json.dumps(satisfiers),
    }
    result = SignalAccepted(args.signal_id, verdict.effect)
    if not verdict.met:
        form = _form(forms.APPEND_MATCHED if verdict.matched else forms.APPEND, args)
        return Commit(form(**values), result, _trims(snapshot, args))
    delay = args.resume_delay_ms if args.resume_delay_ms is not None else _policy_delay(suspension)
    detail = f"resume delay {delay}ms after signal {args.signal_name}"
    columns = awake(delay, _now(snapshot, args), detail)
    plan = _form(forms.RESUME_BY_SIGNAL, args)(**values, **columns)
    return Commit(plan, result, _trims(snapshot, args))


def _form(pair: tuple[Form, Form], args: DeliverSignalArgs) -> Form:
    return pair[1 if args.idempotency_key and args.dedup_ttl_ms > 0 else 0]


def is_long(waitpoint: Waitpoint, most: int) -> bool:
    """Whether the history is to be trimmed, which is done for an eighth of the limit at a time."""
    return 0 < most <= waitpoint.signal_count - waitpoint.signals_trimmed - most // 8


def surplus(snapshot: Delivery, args: DeliverSignalArgs) -> list[UUID]:
    """The waitpoint's oldest signals beyond the limit, except those that its condition counts."""
    suspension = snapshot.suspension
    counted = set() if suspension is None else set(json.loads(suspension.satisfier_signal_ids))
    own = [
        signal
        for signal, at in snapshot.history
        if at == snapshot.waitpoint.waitpoint_id and signal != args.signal_id
    ]
    too_many = max(len(own) + 1 - args.signal_maxlen, 0) if snapshot.history else 0
    return [signal for signal in own if str(signal) not in counted][:too_many]


def _trims(snapshot: Delivery, args: DeliverSignalArgs) -> tuple[Plan, ...]:
    at, owner = snapshot.execution.partition_key, snapshot.execution.execution_id
    gone = surplus(snapshot, args)
    return tuple(
        forms.TRIM(partition_key=at, execution_id=owner, signal_id=signal) for signal in gone
    )


def _policy_delay(suspension: Suspension) -> int:
    return int(json.loads(suspension.resume_policy).get("resume_delay_ms") or 0)


def _now(snapshot: Delivery, args: DeliverSignalArgs) -> int:
    return snapshot.now_ms if args.now is None else args.now


def awake(delay_ms: int, now: int, detail: str) -> dict[str, object]:
    """The columns of a resumed execution: claimable at once, or after a delay."""
    delayed = delay_ms > 0
    reason = {"reason": "waiting_for_resume_delay"} if delayed else {}
    vector = entering("DELAYED" if delayed else "READY", **reason)
    return {
        **{c: vector[c] for c in ("eligibility_state", "blocking_reason", "public_state")},
        "blocking_detail": detail if delayed else "",
        "delay_until_ms": now + delay_ms if delayed else None,
    }


def _recorded(
    snapshot: Delivery, args: DeliverSignalArgs, effect: str, *, matched: bool
) -> dict[str, object]:
    now, execution, waitpoint = _now(snapshot, args), snapshot.execution, snapshot.waitpoint
    return {
        **structs.asdict(args),
        **named(execution),
        "waitpoint_key": waitpoint.waitpoint_key,
        "suspension_id": waitpoint.suspension_id,
        "attempt_index": waitpoint.attempt_index,
        "payload_encoding": args.payload_encoding or None,
        "idempotency_key": args.idempotency_key or None,
        "created_at_ms": now if args.created_at is None else args.created_at,
        "observed_effect": effect,
        "matched": int(matched),
        "link": snapshot.link,
        "namespace": execution.namespace,
        "instance_tag": execution.instance_tag,
        "dedup_until_ms": snapshot.now_ms + args.dedup_ttl_ms,
        "signals_trimmed": waitpoint.signals_trimmed + len(surplus(snapshot, args)),
        "now": now,
    }


def resume(
    execution: Execution | None, suspension: Suspension | None, delay_ms: int, now: int
) -> Decision:
    """Resumes an execution by an operator's request."""
    if execution is None:
        return Reject(NotFound("execution"))
    if execution.lifecycle_phase != "suspended" or suspension is None or not suspension.is_open:
        return Reject(StateError(StateKind.EXECUTION_NOT_SUSPENDED))
    columns = awake(delay_ms, now, f"resume delay {delay_ms}ms")
    plan = forms.RESUME(**named(execution), **columns, now=now)
    return Commit(plan, Resumed(PublicState(str(columns["public_state"]))))


def stamp_failure(execution: Values, now: int) -> Plan:
    return forms.STAMP_FAILURE(**execution, now=now)


def forget_key(row: Sequence[object], now: int) -> Plan:
    return forms.FORGET_KEY(
        partition_key=row[0], waitpoint_id=row[1], idempotency_key=row[2], now=now
    )


def forget_suspend(row: Sequence[object], now: int) -> Plan:
    return forms.FORGET_SUSPEND(partition_key=row[0], idempotency_key=row[1], now=now)
