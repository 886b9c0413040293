"""What the refusal of a report does to the execution that it names, where its budget says so."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from flowfabric.model.budget import HardBreach, HardLimitAction
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields
from flowfabric.plan import Add, After, Arg, Cond, Form, Now, Plan, Until, Update, UpdateMany
from flowfabric.rules.executions.termination import endings
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    HELD,
    MOVED_AT_ARG,
    RELEASED,
    THIS_ATTEMPT,
    UNCHANGED,
    UNRESERVED,
    drop_grant,
    held_event,
    lease_of,
    named,
    operator_event,
)
from flowfabric.rules.states import entering, is_ended

BREACHED = "budget_breached"
INTERRUPTED = "budget"
"""Why an attempt was interrupted whose report had no room."""
REFUSED = "refused:"
"""Begins what an execution is blocked on whose report had no room: it goes on with a reset, a release or other limits, whatever
room there is for less."""
_TOLD = operator_event(BREACHED, Arg("details"))
_ALIVE = (Cond("current_lease_id", "=", Arg("lease_id")), Cond("lease_expires_at_ms", ">", Now()))
OVERSPEND = endings("overspend", "failed", told=BREACHED)
OVERSPEND_HELD = endings("overspend_held", "failed", told=BREACHED, fence=_ALIVE).leased
STILL_HELD = Form("reporter_still_holds", Update(EXEC, HELD, {"lease_epoch": Add(0)}))
_HELD_BACK = {
    **entering("BUDGET", detail=Arg("detail")),
    "blocked_on": Arg("blocked_on"),
}


def _hold_running(name: str, *fence: Cond) -> Form:
    return Form(
        name,
        Update(
            EXEC,
            (*UNCHANGED, Cond("ownership_state", "=", "leased"), *fence),
            {
                **MOVED_AT_ARG,
                **RELEASED,
                **_HELD_BACK,
                "attempt_state": "attempt_interrupted",
                "interrupt_cause": INTERRUPTED,
                "lease_epoch": Add(1),
                "attempt_timeout_remaining_ms": Until("attempt_timeout_at_ms"),
            },
        ),
        UpdateMany(
            ATTEMPT,
            THIS_ATTEMPT,
            {
                "attempt_state": "suspended",
                "suspended_at_ms": Arg("now"),
                "lease_expires_at_ms": None,
                "lease_epoch": After("lease_epoch"),
                "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
            },
        ),
        drop_grant(),
        held_event("revoked", "budget", at=Arg("now")),
        _TOLD,
    )


HOLD_RUNNING = _hold_running("hold_running_for_budget")
HOLD_REPORTER = _hold_running("hold_reporter_for_budget", *_ALIVE)
HOLD_READY = Form(
    "hold_ready_for_budget",
    Update(
        EXEC,
        (*UNCHANGED, Cond("eligibility_state", "=", "eligible_now")),
        {**MOVED_AT_ARG, **UNRESERVED, **_HELD_BACK},
    ),
    drop_grant(),
    _TOLD,
)


def waits_on(budget: UUID | str) -> str:
    """What an execution that waits for a budget is blocked on."""
    return f"budget:{budget}"


def refused_by(budget: UUID | str) -> str:
    """What an execution is blocked on whose report a budget refused."""
    return f"{REFUSED}{budget}"


def detail(budget: UUID | str, dimension: str, used: int, limit: int) -> str:
    return f"budget {budget}: {dimension} {used}/{limit}"


def holds(execution: Execution | None, lease: HandleFields, now: int) -> bool:
    """Whether this lease is the current, live one: a late report is counted and never acts."""
    if (
        execution is None
        or execution.ownership_state != "leased"
        or (execution.lease_expires_at_ms or 0) <= now
    ):
        return False
    stored = (
        execution.current_lease_id,
        execution.lease_epoch,
        execution.attempt_index,
        execution.current_worker_instance_id,
    )
    return stored == (
        lease.lease_id,
        lease.lease_epoch,
        lease.attempt_index,
        lease.worker_instance_id,
    )


def still_held(execution: Execution, lease: HandleFields) -> Plan:
    """Changes nothing; is refused when the lease does not hold at the commit."""
    return STILL_HELD(
        partition_key=execution.partition_key,
        execution_id=execution.execution_id,
        lease_epoch=lease.lease_epoch,
        attempt_index=lease.attempt_index,
        lease_id=lease.lease_id,
        worker_instance_id=lease.worker_instance_id,
    )


def consequence(
    execution: Execution | None,
    action: str,
    budget: UUID,
    breach: HardBreach,
    now: int,
    lease: HandleFields | None = None,
) -> Plan | None:
    """The plan for the execution itself; None where there is nothing to be done to it. `lease`: of the worker that reported."""
    if (
        execution is None
        or is_ended(execution)
        or (lease is not None and not holds(execution, lease, now))
    ):
        return None
    told = {"details": _details(budget, breach, action)}
    if action == HardLimitAction.FAIL_EXECUTION:
        reason = f"budget_exceeded:{budget}:{breach.dimension}"
        if lease is None:
            return OVERSPEND.plan(execution, reason, now, **told)
        return OVERSPEND_HELD(
            **named(execution),
            **lease_of(execution),
            reason=reason,
            now=now,
            **told,
        )
    if action != HardLimitAction.SUSPEND_EXECUTION:
        return None
    values: dict[str, Any] = {
        **named(execution),
        **lease_of(execution),
        **told,
        "now": now,
        "detail": detail(budget, breach.dimension, breach.current_usage, breach.hard_limit),
        "blocked_on": refused_by(budget),
    }
    if execution.ownership_state == "leased":
        return (HOLD_RUNNING if lease is None else HOLD_REPORTER)(**values)
    if execution.lifecycle_phase == "runnable" and execution.eligibility_state == "eligible_now":
        return HOLD_READY(**values)
    return None


def _details(budget: UUID, breach: HardBreach, action: str) -> str:
    said = {
        "budget_id": str(budget),
        "dimension": breach.dimension,
        "current_usage": breach.current_usage,
        "hard_limit": breach.hard_limit,
        "action": action,
    }
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)
