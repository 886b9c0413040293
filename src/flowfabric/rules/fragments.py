"""The parts that forms share: guards, column changes and events."""

from __future__ import annotations

import json

from flowfabric import plan as p
from flowfabric.model.bulk import Why
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS, OPERATOR_EVENTS
from flowfabric.model.execution import Execution
from flowfabric.model.state import FAILED_OUTCOMES
from flowfabric.model.waitpoint import OPEN_STATES
from flowfabric.model.worker import Routed
from flowfabric.rules.columns import by_args, by_row, from_row
from flowfabric.rules.states import entering

EXEC, ATTEMPT, GRANT, LANE = "ff_exec_core", "ff_attempt", "ff_claim_grant", "ff_lane_registry"
SUSPENSION, WAITPOINT, SIGNAL = "ff_suspension_current", "ff_waitpoint_pending", "ff_signal"

KEY = by_args("partition_key", "execution_id")
UNCHANGED = (*KEY, p.Cond("version", "=", p.Arg("version")))
LIVE_LEASE = (
    *KEY,
    *by_args("lease_epoch", "attempt_index"),
    p.Cond("current_lease_id", "=", p.Arg("lease_id")),
    p.Cond("current_worker_instance_id", "=", p.Arg("worker_instance_id")),
    p.Cond("lifecycle_phase", "=", "active"),
    p.Cond("ownership_state", "=", "leased"),
    p.Cond("lease_expires_at_ms", ">", p.Now()),
)
IN_TIME = p.AnyOf(
    (p.Cond("attempt_timeout_at_ms", "is null"), p.Cond("attempt_timeout_at_ms", ">", p.Now()))
)
HELD: tuple[p.Guard, ...] = (*LIVE_LEASE, IN_TIME)
LEASE_IS_OVER = p.AnyOf(
    (p.Cond("ownership_state", "!=", "leased"), p.Cond("lease_expires_at_ms", "<=", p.Now()))
)
THIS_ROW = by_row("partition_key", "execution_id")
THIS_ATTEMPT = (*THIS_ROW, p.Cond("attempt_index", "=", p.After("attempt_index")))

Columns = dict[str, object]
"""Columns and what a form writes there: constants, arguments and expressions of `plan`."""

MUTATED: Columns = {"version": p.Add(1), "last_mutation_at": p.Now()}
MOVED: Columns = {**MUTATED, "last_transition_at": p.Now()}
MOVED_AT_ARG: Columns = {
    "version": p.Add(1),
    "last_mutation_at": p.Arg("now"),
    "last_transition_at": p.Arg("now"),
}
RELEASED: Columns = dict.fromkeys(
    (
        "current_lease_id",
        "current_worker_id",
        "current_worker_instance_id",
        "lease_expires_at_ms",
        "lease_last_renewed_at",
        "lease_renewal_deadline",
        "lease_expired_at",
        "attempt_timeout_at_ms",
    )
)
TIMEOUT_RESET: Columns = {
    "attempt_timeout_at_ms": None,
    "attempt_timeout_remaining_ms": p.Before("attempt_timeout_ms"),
}
"""The attempt timeout counts the time run under one lease, so a lost lease restores it in full."""
NOT_WAITING: Columns = {"current_suspension_id": None, "current_waitpoint_id": None}
UNRESERVED: Columns = {"reserved_for": None, "reserved_until_ms": None}
CLOSED_LEASE: Columns = {
    "closing_epoch": p.Arg("lease_epoch"),
    "closing_attempt_index": p.Arg("attempt_index"),
}
CLOSED_STORED_LEASE: Columns = {
    "closing_epoch": p.Before("lease_epoch"),
    "closing_attempt_index": p.Before("attempt_index"),
}
TIME_KEPT: Columns = {"attempt_timeout_remaining_ms": p.Until("attempt_timeout_at_ms")}
_NOW = p.Now()


def ending(outcome: str) -> Columns:
    """The columns of an ended execution. Failed and expired ones have their own retention."""
    age = "failed_retention_ttl_ms" if outcome in FAILED_OUTCOMES else "retention_ttl_ms"
    return {"retain_until_ms": p.Now(p.Before(age)), **entering("ENDED", outcome=outcome)}


def ended(outcome: str, moved: Columns = MOVED) -> Columns:
    """The columns of an execution that ends in any state."""
    return {**moved, **RELEASED, **UNRESERVED, **ending(outcome)}


def interrupt(
    guard: tuple[p.Guard, ...], state: Columns, more: Columns, moved: Columns = MOVED
) -> p.Update:
    """The execution leaves its lease for another state, and its attempt is interrupted."""
    changes = {**moved, **RELEASED, **state, "attempt_state": "attempt_interrupted", **more}
    return p.Update(EXEC, guard, changes)


_SUBJECT: Columns = from_row("execution_id", "partition_key", "namespace", "instance_tag")


def _lease_event(
    kind: str, lease_id: object, worker_instance_id: object, at: p.Now | p.Arg, **more: str | None
) -> p.Insert:
    lease = {
        "lease_id": lease_id,
        "lease_epoch": p.After("lease_epoch"),
        "worker_instance_id": worker_instance_id,
    }
    return p.Emit(LEASE_EVENTS, kind, {**_SUBJECT, **lease, **more}, at)


def lease_event(kind: str, reason: str) -> p.Insert:
    """An event about the lease in the row before the change, which may release that lease."""
    lease, worker = p.Before("current_lease_id"), p.Before("current_worker_instance_id")
    return _lease_event(kind, lease, worker, _NOW, reason=reason)


def held_event(kind: str, reason: str | None = None, *, at: p.Now | p.Arg = _NOW) -> p.Insert:
    """An event about the lease the caller named, which the guard has compared with the row."""
    return _lease_event(kind, p.Arg("lease_id"), p.Arg("worker_instance_id"), at, reason=reason)


def granted_event(kind: str) -> p.Insert:
    """An event about the lease in the row after the change."""
    return _lease_event(
        kind, p.After("current_lease_id"), p.After("current_worker_instance_id"), _NOW
    )


def completion_event(outcome: str, *, at: p.Now | p.Arg = _NOW) -> p.Insert:
    subject = {**_SUBJECT, "flow_id": p.After("flow_id"), "committed_at_ms": p.Now()}
    return p.Emit(COMPLETION_EVENTS, outcome, subject, at)


def operator_event(kind: str, details: p.Arg) -> p.Insert:
    return p.Emit(OPERATOR_EVENTS, kind, {**_SUBJECT, "details": details}, p.Arg("now"))


def details(why: Why, **facts: object) -> str:
    """The details of an operator event: the facts, who asked for the change, and why."""
    asked = {"by": why.requested_by, "reason": why.reason, "job": why.job_id and str(why.job_id)}
    known = {name: text for name, text in asked.items() if text}
    return json.dumps({**facts, **known}, separators=(",", ":"), ensure_ascii=False)


def flow_event(kind: str, details: p.Arg, namespace: p.Arg) -> p.Insert:
    """An operator event about a flow; `execution_id` holds the id of the flow."""
    subject = {
        "execution_id": p.After("flow_id"),
        "partition_key": p.After("partition_key"),
        "namespace": namespace,
    }
    return p.Emit(OPERATOR_EVENTS, kind, {**subject, "details": details}, p.Arg("now"))


def close_attempt(
    state: str, outcome: str, *, at: p.Now | p.Arg = _NOW, **more: p.After | p.Arg | str | None
) -> p.UpdateMany:
    changes = {
        "attempt_state": state,
        "outcome": outcome,
        "terminal_at_ms": at,
        "lease_expires_at_ms": None,
        **more,
    }
    return p.UpdateMany(ATTEMPT, THIS_ATTEMPT, changes)


def suspend_attempt(
    lease: Columns | None = None, *, at: p.Now | p.Arg = _NOW, **more: p.After | None
) -> p.UpdateMany:
    """The attempt is interrupted and keeps the rest of its timeout."""
    changes = {
        "attempt_state": "suspended",
        "suspended_at_ms": at,
        **(lease or {}),
        "lease_expires_at_ms": None,
        **more,
        "attempt_timeout_remaining_ms": p.After("attempt_timeout_remaining_ms"),
    }
    return p.UpdateMany(ATTEMPT, THIS_ATTEMPT, changes)


def close_waits(
    reason: str | p.Text,
    at: p.Now | p.Arg = _NOW,
    states: tuple[str, ...] = OPEN_STATES,
    **more: object,
) -> tuple[p.UpdateMany, p.UpdateMany]:
    """Closes the open suspension, and its waitpoints that are in one of `states`."""
    closed = {"closed_at_ms": at, "close_reason": reason, "version": p.Add(1)}
    return (
        p.UpdateMany(SUSPENSION, (*THIS_ROW, p.Cond("closed_at_ms", "is null")), closed),
        p.UpdateMany(
            WAITPOINT,
            (*THIS_ROW, p.Cond("state", "in", states)),
            {"state": "closed", **closed, **more},
        ),
    )


def drop_grant() -> p.Delete:
    return p.Delete(GRANT, THIS_ROW)


def lease_of(execution: Execution) -> Columns:
    """The arguments of `held_event`, from a row whose version is guarded."""
    return {
        "lease_id": execution.current_lease_id,
        "worker_instance_id": execution.current_worker_instance_id,
    }


def named(execution: Execution | Routed) -> Columns:
    """The arguments of `UNCHANGED`: the key of a row and the version at which it was read."""
    return {
        "partition_key": execution.partition_key,
        "execution_id": execution.execution_id,
        "version": execution.version,
    }
