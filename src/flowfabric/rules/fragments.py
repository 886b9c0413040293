"""The pieces forms are made of: who is guarded, what every change touches, which events tell of it."""

from __future__ import annotations

from typing import Any

from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS, OPERATOR_EVENTS
from flowfabric.model.execution import Execution
from flowfabric.model.state import FAILED_OUTCOMES
from flowfabric.model.waitpoint import OPEN_STATES
from flowfabric.model.worker import Routed
from flowfabric.plan import (
    Add,
    After,
    AnyOf,
    Arg,
    Before,
    Cond,
    Delete,
    Emit,
    Insert,
    Now,
    UpdateMany,
)
from flowfabric.rules.states import entering

EXEC, ATTEMPT, GRANT, LANE = "ff_exec_core", "ff_attempt", "ff_claim_grant", "ff_lane_registry"
SUSPENSION, WAITPOINT, SIGNAL = "ff_suspension_current", "ff_waitpoint_pending", "ff_signal"

KEY = (
    Cond("partition_key", "=", Arg("partition_key")),
    Cond("execution_id", "=", Arg("execution_id")),
)
UNCHANGED = (*KEY, Cond("version", "=", Arg("version")))
LIVE_LEASE = (
    *KEY,
    Cond("lease_epoch", "=", Arg("lease_epoch")),
    Cond("attempt_index", "=", Arg("attempt_index")),
    Cond("current_lease_id", "=", Arg("lease_id")),
    Cond("current_worker_instance_id", "=", Arg("worker_instance_id")),
    Cond("lifecycle_phase", "=", "active"),
    Cond("ownership_state", "=", "leased"),
    Cond("lease_expires_at_ms", ">", Now()),
)
IN_TIME = AnyOf(
    (Cond("attempt_timeout_at_ms", "is null"), Cond("attempt_timeout_at_ms", ">", Now()))
)
HELD = (*LIVE_LEASE, IN_TIME)
LEASE_IS_OVER = AnyOf(
    (Cond("ownership_state", "!=", "leased"), Cond("lease_expires_at_ms", "<=", Now()))
)
THIS_ROW = (
    Cond("partition_key", "=", After("partition_key")),
    Cond("execution_id", "=", After("execution_id")),
)
THIS_ATTEMPT = (*THIS_ROW, Cond("attempt_index", "=", After("attempt_index")))

MUTATED: dict[str, Any] = {"version": Add(1), "last_mutation_at": Now()}
MOVED: dict[str, Any] = {**MUTATED, "last_transition_at": Now()}
MOVED_AT_ARG: dict[str, Any] = {
    "version": Add(1),
    "last_mutation_at": Arg("now"),
    "last_transition_at": Arg("now"),
}
RELEASED: dict[str, Any] = dict.fromkeys(
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
FULL_TIME_AGAIN: dict[str, Any] = {
    "attempt_timeout_at_ms": None,
    "attempt_timeout_remaining_ms": Before("attempt_timeout_ms"),
}
"""The timeout counts time that is worked under one lease: with the lease, the time is lost."""
NOT_WAITING: dict[str, Any] = {"current_suspension_id": None, "current_waitpoint_id": None}
UNRESERVED: dict[str, Any] = {"reserved_for": None, "reserved_until_ms": None}
CLOSED_BY_HOLDER: dict[str, Any] = {
    "closing_epoch": Arg("lease_epoch"),
    "closing_attempt_index": Arg("attempt_index"),
    "terminal_at_ms": Now(),
}


def ending(outcome: str) -> dict[str, Any]:
    """The state of what ended, and how long it asked to be kept: what failed has an age of its own."""
    age = "failed_retention_ttl_ms" if outcome in FAILED_OUTCOMES else "retention_ttl_ms"
    return {"retain_until_ms": Now(Before(age)), **entering("ENDED", outcome=outcome)}


_ABOUT: dict[str, Any] = {
    "execution_id": After("execution_id"),
    "partition_key": After("partition_key"),
    "namespace": After("namespace"),
    "instance_tag": After("instance_tag"),
}


def lease_event(kind: str, reason: str | None = None, *, at: Any = Now()) -> Insert:  # noqa: B008
    """The lease as the row held it before: the change being told of may have let go of it."""
    return Emit(
        LEASE_EVENTS,
        kind,
        {
            **_ABOUT,
            "lease_id": Before("current_lease_id"),
            "lease_epoch": After("lease_epoch"),
            "worker_instance_id": Before("current_worker_instance_id"),
            "reason": reason,
        },
        at,
    )


def held_event(kind: str, reason: str | None = None, *, at: Any = Now()) -> Insert:  # noqa: B008
    """The lease as the caller knows it, where the guard says that it is right: so the row need not be read before it changes."""
    return Emit(
        LEASE_EVENTS,
        kind,
        {
            **_ABOUT,
            "lease_id": Arg("lease_id"),
            "lease_epoch": After("lease_epoch"),
            "worker_instance_id": Arg("worker_instance_id"),
            "reason": reason,
        },
        at,
    )


def granted_event(kind: str) -> Insert:
    """The lease the row holds now."""
    return Emit(
        LEASE_EVENTS,
        kind,
        {
            **_ABOUT,
            "lease_id": After("current_lease_id"),
            "lease_epoch": After("lease_epoch"),
            "worker_instance_id": After("current_worker_instance_id"),
        },
    )


def completion_event(outcome: str, *, at: Any = Now()) -> Insert:  # noqa: B008
    return Emit(
        COMPLETION_EVENTS,
        outcome,
        {**_ABOUT, "flow_id": After("flow_id"), "committed_at_ms": Now()},
        at,
    )


def operator_event(kind: str, details: Any) -> Insert:
    return Emit(OPERATOR_EVENTS, kind, {**_ABOUT, "details": details}, Arg("now"))


def flow_event(kind: str, details: Any, namespace: Any) -> Insert:
    """An operator's event about a flow: its id stands where an execution's would."""
    about = {
        "execution_id": After("flow_id"),
        "partition_key": After("partition_key"),
        "namespace": namespace,
    }
    return Emit(OPERATOR_EVENTS, kind, {**about, "details": details}, Arg("now"))


def close_attempt(phase: str, outcome: str, *, at: Any = Now(), **more: Any) -> UpdateMany:  # noqa: B008
    changes = {
        "attempt_state": phase,
        "outcome": outcome,
        "terminal_at_ms": at,
        "lease_expires_at_ms": None,
        **more,
    }
    return UpdateMany(ATTEMPT, THIS_ATTEMPT, changes)


def close_waits(
    reason: Any,
    at: Any = Now(),  # noqa: B008
    states: tuple[str, ...] = OPEN_STATES,
    **more: Any,
) -> tuple[UpdateMany, UpdateMany]:
    """Whatever an execution waited for is closed with it; `states`: of its waitpoints only these."""
    closed = {"closed_at_ms": at, "close_reason": reason, "version": Add(1)}
    return (
        UpdateMany(SUSPENSION, (*THIS_ROW, Cond("closed_at_ms", "is null")), closed),
        UpdateMany(
            WAITPOINT,
            (*THIS_ROW, Cond("state", "in", states)),
            {"state": "closed", **closed, **more},
        ),
    )


def drop_grant() -> Delete:
    return Delete(GRANT, THIS_ROW)


def lease_of(execution: Execution) -> dict[str, Any]:
    """The arguments of `held_event`, from a row whose version is guarded."""
    return {
        "lease_id": execution.current_lease_id,
        "worker_instance_id": execution.current_worker_instance_id,
    }


def named(execution: Execution | Routed) -> dict[str, Any]:
    """The arguments that name a row by its key and the version it was read at."""
    return {
        "partition_key": execution.partition_key,
        "execution_id": execution.execution_id,
        "version": execution.version,
    }
