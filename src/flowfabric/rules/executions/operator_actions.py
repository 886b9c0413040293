"""Moving work in the queue, and the operator's hand on it."""

from __future__ import annotations

import json
from typing import Any

from flowfabric.errors import (
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import INSTANCE_TAG_KEY
from flowfabric.model.execution import (
    MAX_TAGS,
    MAX_TAGS_BYTES,
    CancelExecutionArgs,
    Cancelled,
    Changed,
    Execution,
    stored_tags,
)
from flowfabric.model.state import OPERATOR_OVERRIDE
from flowfabric.plan import Add, After, Arg, Cond, Form, Now, Once, Pick, Step, Update, Wake
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.executions.create import clamp_priority
from flowfabric.rules.fragments import (
    EXEC,
    MOVED,
    MOVED_AT_ARG,
    MUTATED,
    NOT_WAITING,
    RELEASED,
    UNCHANGED,
    UNRESERVED,
    close_attempt,
    close_waits,
    completion_event,
    drop_grant,
    ending,
    held_event,
    lease_of,
    named,
    operator_event,
)
from flowfabric.rules.states import entering, is_ended

# ---- cancel

_ENDED_CANCELLED: dict[str, Any] = {
    **MOVED_AT_ARG,
    **RELEASED,
    **UNRESERVED,
    **ending("cancelled"),
    "delay_until_ms": None,
    "terminal_at_ms": Once(Arg("now")),
    "cancellation_reason": Once(Arg("reason")),
    "cancelled_by": Once(Arg("source")),
    "closing_epoch": Arg("lease_epoch"),
    "closing_attempt_index": Arg("attempt_index"),
}
_CANCEL_OPEN = {**_ENDED_CANCELLED, "attempt_state": "attempt_terminal", "lease_epoch": Add(1)}
_CLOSE_CANCELLED = close_attempt(
    "ended_cancelled",
    "cancelled",
    at=Arg("now"),
    failure_reason=Arg("attempt_reason"),
    worker_instance_id=None,
    lease_epoch=After("lease_epoch"),
)
_DONE_CANCELLED = completion_event("cancelled", at=Arg("now"))

_LEASE_OVER = held_event("revoked", "cancelled", at=Arg("now"))
_CANCEL_BETWEEN = {**_ENDED_CANCELLED, "attempt_state": "attempt_terminal"}


def _cancelling(name: str, changes: dict[str, Any], *steps: Step) -> Form:
    return Form(name, Update(EXEC, UNCHANGED, changes), *steps, _DONE_CANCELLED)


CANCEL_LEASED = _cancelling(
    "cancel_leased", _CANCEL_OPEN, _CLOSE_CANCELLED, drop_grant(), _LEASE_OVER
)
_CANCEL_WAIT = {**_CANCEL_OPEN, **NOT_WAITING}
_CLOSE_WAITS = (_CLOSE_CANCELLED, *close_waits("cancelled", Arg("now")), drop_grant())
CANCEL_INTERRUPTED = _cancelling("cancel_interrupted", _CANCEL_WAIT, *_CLOSE_WAITS)
CANCEL_PENDING = _cancelling("cancel_pending", _ENDED_CANCELLED, drop_grant())
CANCEL_BETWEEN = _cancelling("cancel_between_attempts", _CANCEL_BETWEEN, drop_grant())
_TOLD = {
    CANCEL_LEASED: CANCEL_LEASED,
    CANCEL_INTERRUPTED: _cancelling(
        "cancel_interrupted_member", _CANCEL_WAIT, *_CLOSE_WAITS, _LEASE_OVER
    ),
    CANCEL_PENDING: _cancelling(
        "cancel_pending_member", _ENDED_CANCELLED, drop_grant(), _LEASE_OVER
    ),
    CANCEL_BETWEEN: _cancelling(
        "cancel_member_between_attempts", _CANCEL_BETWEEN, drop_grant(), _LEASE_OVER
    ),
}


def cancel(
    snapshot: Snapshot, args: CancelExecutionArgs, *, by: str | None = None, told: bool = False
) -> Decision:
    """`by` is who is noted to have done it, if not the source. `told`: the end of a lease is told of even without one."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    if is_ended(execution):
        if execution.terminal_outcome == "cancelled":
            return Return(Cancelled(execution.id))
        detail = f"cancel_execution: execution_id={execution.id}: already terminal in state '{execution.public_state}'"
        return Reject(ValidationError(ValidationKind.INVALID_INPUT, detail, already_terminal=True))
    leased = execution.ownership_state == "leased"
    if leased and args.source != OPERATOR_OVERRIDE:
        stale = _stale(execution, args)
        if stale is not None:
            return Reject(stale)
    now = snapshot.now_ms if args.now is None else args.now
    values = {
        **named(execution),
        **lease_of(execution),
        "now": now,
        "reason": args.reason,
        "source": by or args.source,
        "lease_epoch": execution.lease_epoch,
        "attempt_index": execution.attempt_index,
    }
    if leased:
        form = CANCEL_LEASED
    elif execution.current_attempt_id is not None:
        form = CANCEL_INTERRUPTED
    else:
        form = CANCEL_BETWEEN if execution.total_attempt_count else CANCEL_PENDING
    if form in (CANCEL_LEASED, CANCEL_INTERRUPTED):
        values["attempt_reason"] = f"cancelled: {args.reason}"
    return Commit((_TOLD[form] if told else form)(**values), Cancelled(execution.id))


def _stale(execution: Execution, args: CancelExecutionArgs) -> EngineError | None:
    if args.lease_epoch is None:
        detail = (
            f"cancel_execution: execution_id={execution.id}: lease_epoch required when source != operator_override "
            "and execution is active"
        )
        return ValidationError(ValidationKind.INVALID_INPUT, detail)
    if args.lease_epoch != execution.lease_epoch or (
        args.lease_id is not None and args.lease_id != execution.current_lease_id
    ):
        return StateError(StateKind.STALE_LEASE)
    return None


# ---- priority and delay

CHANGE_PRIORITY = Form(
    "change_priority",
    Update(
        EXEC,
        UNCHANGED,
        {"version": Add(1), "last_mutation_at": Arg("now"), "priority": Arg("priority")},
    ),
    operator_event("priority_changed", Arg("details")),
)
_PROMOTE = {**MOVED, **entering("READY"), "delay_until_ms": None}
PROMOTE = Form(
    "promote",
    Update(
        EXEC,
        UNCHANGED,
        {**_PROMOTE, "last_mutation_at": Arg("now"), "last_transition_at": Arg("now")},
    ),
    Wake("ready", After("lane_id")),
)
SWEEP_DELAYED = Form(
    "sweep_delayed",
    Update(EXEC, (Cond("eligibility_state", "=", "not_eligible_until_time"),), _PROMOTE),
    Wake("ready", After("lane_id")),
    pick=Pick("delayed", upto=Now()),
    returning=("partition_key", "execution_id"),
)


def change_priority(snapshot: Snapshot, new_priority: int, now_ms: int | None) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    if execution.lifecycle_phase != "runnable" or execution.eligibility_state != "eligible_now":
        return Reject(Contention(ContentionKind.EXECUTION_NOT_ELIGIBLE))
    priority = clamp_priority(new_priority)
    details = json.dumps(
        {"old_priority": execution.priority, "new_priority": priority}, separators=(",", ":")
    )
    now = snapshot.now_ms if now_ms is None else now_ms
    plan = CHANGE_PRIORITY(**named(execution), priority=priority, details=details, now=now)
    return Commit(plan, Changed(execution.id))


def promote(snapshot: Snapshot, now_ms: int | None) -> Decision:
    """Never an error: the answer says what was found."""
    execution = snapshot.execution
    now = snapshot.now_ms if now_ms is None else now_ms
    if execution is None:
        return Return("not_found_cleaned")
    if execution.lifecycle_phase != "runnable":
        return Return("not_runnable_cleaned")
    if execution.eligibility_state != "not_eligible_until_time":
        return Return("not_delayed_cleaned")
    if execution.delay_until_ms is not None and execution.delay_until_ms > now:
        return Return("not_yet_due")
    return Commit(PROMOTE(**named(execution), now=now), "promoted")


# ---- tags

SET_TAGS = Form(
    "set_tags",
    Update(EXEC, UNCHANGED, {**MUTATED, "tags": Arg("tags"), "instance_tag": Arg("instance_tag")}),
)


def set_tags(snapshot: Snapshot, tags: dict[str, str]) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    merged = {**stored_tags(execution.tags, execution.id), **tags}
    if (
        len(merged) > MAX_TAGS
        or sum(len(k.encode()) + len(v.encode()) for k, v in merged.items()) > MAX_TAGS_BYTES
    ):
        return Reject(
            invalid(
                "tags",
                f"at most {MAX_TAGS} tags and {MAX_TAGS_BYTES} bytes in all, together with those it has",
            )
        )
    text = json.dumps(dict(sorted(merged.items())), separators=(",", ":"), ensure_ascii=False)
    instance_tag = merged.get(INSTANCE_TAG_KEY)
    plan = SET_TAGS(**named(execution), tags=text, instance_tag=instance_tag)
    return Commit(plan, len(tags))
