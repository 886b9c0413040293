"""The actions of a budget on an execution whose report it refuses."""

from __future__ import annotations

import json
from uuid import UUID

from flowfabric.model.budget import MAX_AMOUNT, HardBreach, HardLimitAction
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields
from flowfabric.plan import Add, After, Arg, Cond, Form, Guard, Now, Plan, Update
from flowfabric.rules import fragments as f
from flowfabric.rules.executions.termination import endings
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.states import entering, is_ended

BREACHED = "budget_breached"
INTERRUPTED = "budget"
"""The interrupt cause of an attempt whose report was refused."""
REFUSED = "refused:"
"""Prefix of what an execution is blocked on after a refused report. Only a reset, a release or new
limits unblock it, whatever room the budget has for smaller reports."""
_BREACH_EVENT = f.operator_event(BREACHED, Arg("details"))
_ALIVE = (
    Cond("current_lease_id", "=", Arg("lease_id")),
    Cond("lease_expires_at_ms", ">", Now()),
    f.IN_TIME,
)
OVERSPEND = endings("overspend", "failed", event_kind=BREACHED)
OVERSPEND_HELD = endings("overspend_held", "failed", event_kind=BREACHED, fence=_ALIVE).leased
STILL_HELD = Form("reporter_still_holds", Update(f.EXEC, f.HELD, {"lease_epoch": Add(0)}))
_BLOCKED = {
    **entering("BUDGET", detail=Arg("detail")),
    "blocked_on": Arg("blocked_on"),
}


def _hold_running(name: str, *fence: Guard) -> Form:
    return Form(
        name,
        f.interrupt(
            (*f.UNCHANGED, Cond("ownership_state", "=", "leased"), *fence),
            _BLOCKED,
            {"interrupt_cause": INTERRUPTED, "lease_epoch": Add(1), **f.TIME_KEPT},
            f.MOVED_AT_ARG,
        ),
        f.suspend_attempt(at=Arg("now"), lease_epoch=After("lease_epoch")),
        f.drop_grant(),
        f.held_event("revoked", "budget", at=Arg("now")),
        _BREACH_EVENT,
    )


HOLD_RUNNING = _hold_running("hold_running_for_budget")
HOLD_REPORTER = _hold_running("hold_reporter_for_budget", *_ALIVE)
HOLD_READY = Form(
    "hold_ready_for_budget",
    Update(
        f.EXEC,
        (*f.UNCHANGED, Cond("eligibility_state", "=", "eligible_now")),
        {**f.MOVED_AT_ARG, **f.UNRESERVED, **_BLOCKED},
    ),
    f.drop_grant(),
    _BREACH_EVENT,
)


def blocked_on_budget(budget: UUID | str) -> str:
    """The `blocked_on` of an execution that waits for a budget."""
    return f"budget:{budget}"


def blocked_on_refusal(budget: UUID | str) -> str:
    """The `blocked_on` of an execution whose report a budget has refused."""
    return f"{REFUSED}{budget}"


def detail(budget: UUID | str, dimension: str, used: int, limit: int) -> str:
    return f"budget {budget}: {dimension} {used}/{limit}"


def lease_is_held(execution: Execution | None, lease: HandleFields, now: int) -> bool:
    """The lease is live and its attempt has time left. A late report is only counted."""
    if execution is None or execution.ownership_state != "leased":
        return False
    ends = min(execution.lease_expires_at_ms or 0, execution.attempt_timeout_at_ms or MAX_AMOUNT)
    holder = (execution.current_lease_id, execution.current_worker_instance_id)
    return (
        ends > now
        and holder == (lease.lease_id, lease.worker_instance_id)
        and (execution.lease_epoch, execution.attempt_index)
        == (lease.lease_epoch, lease.attempt_index)
    )


def hold_lease(lease: HandleFields) -> Plan:
    """A plan that changes nothing, and is refused if the lease is not held at the commit."""
    return STILL_HELD(**held_by(lease))


def breach_plan(
    execution: Execution | None,
    action: str,
    budget: UUID,
    breach: HardBreach,
    now: int,
    lease: HandleFields | None = None,
) -> Plan | None:
    """The plan for the execution, if any. `lease` is that of the worker that reported."""
    if execution is None or is_ended(execution):
        return None
    if lease is not None and not lease_is_held(execution, lease, now):
        return None
    details = _details(budget, breach, action)
    values = {**f.named(execution), **f.lease_of(execution), "now": now, "details": details}
    if action == HardLimitAction.FAIL_EXECUTION:
        reason = f"budget_exceeded:{budget}:{breach.dimension}"
        if lease is None:
            return OVERSPEND.plan(execution, reason, now, details=details)
        return OVERSPEND_HELD(**values, reason=reason)
    if action != HardLimitAction.SUSPEND_EXECUTION:
        return None
    values |= {
        "detail": detail(budget, breach.dimension, breach.current_usage, breach.hard_limit),
        "blocked_on": blocked_on_refusal(budget),
    }
    if execution.ownership_state == "leased":
        return (HOLD_RUNNING if lease is None else HOLD_REPORTER)(**values)
    if execution.lifecycle_phase == "runnable" and execution.eligibility_state == "eligible_now":
        return HOLD_READY(**values)
    return None


def _details(budget: UUID, breach: HardBreach, action: str) -> str:
    details = {
        "budget_id": str(budget),
        "dimension": breach.dimension,
        "current_usage": breach.current_usage,
        "hard_limit": breach.hard_limit,
        "action": action,
    }
    return json.dumps(details, separators=(",", ":"), ensure_ascii=False)
