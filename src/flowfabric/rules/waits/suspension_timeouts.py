"""What happens to an execution when its suspension times out."""

from __future__ import annotations

from uuid import UUID

from flowfabric.model.execution import Execution
from flowfabric.model.waitpoint import BOUND_STATES, Suspension, TimeoutBehavior
from flowfabric.plan import Add, Arg, Cond, Form, Insert, Update, UpdateMany, Wake
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Decision, Return
from flowfabric.rules.states import entering

_STILL = (*f.UNCHANGED, Cond("lifecycle_phase", "=", "suspended"))


def _ending(name: str, outcome: str, attempt: str, reason: str) -> Form:
    changes: dict[str, object] = {
        **f.MOVED_AT_ARG,
        **f.RELEASED,
        **f.UNRESERVED,
        **f.NOT_WAITING,
        **f.ending(outcome),
        "attempt_state": "attempt_terminal",
        "failure_reason": f"suspension_timeout:{name}",
        "terminal_at_ms": Arg("now"),
        **f.CLOSED_STORED_LEASE,
    }
    return Form(
        f"suspension_timeout_{name}",
        Update(f.EXEC, _STILL, changes),
        f.close_attempt(
            attempt, outcome, at=Arg("now"), failure_reason=f"suspension_timeout:{name}"
        ),
        *f.close_waits(reason, Arg("now")),
        f.drop_grant(),
        f.completion_event(outcome, at=Arg("now")),
    )


TIMEOUT_FAIL = _ending("fail", "failed", "ended_failure", "timed_out_fail")
TIMEOUT_CANCEL = _ending("cancel", "cancelled", "ended_cancelled", "timed_out_cancel")
TIMEOUT_EXPIRE = _ending("expire", "expired", "ended_failure", "timed_out_expire")
TIMEOUT_RESUME = Form(
    "suspension_timeout_resume",
    Update(
        f.EXEC,
        _STILL,
        {**f.MOVED_AT_ARG, **f.NOT_WAITING, **entering("READY"), "delay_until_ms": None},
    ),
    *f.close_waits("timed_out_auto_resume", Arg("now"), BOUND_STATES),
    Insert(
        f.SIGNAL,
        {
            **from_args(
                "partition_key",
                "execution_id",
                "signal_id",
                "waitpoint_id",
                "suspension_id",
                "attempt_index",
            ),
            "signal_name": "timeout",
            "signal_category": "system",
            "source_type": "engine",
            "source_identity": "suspension_timeout",
            "created_at_ms": Arg("now"),
            "accepted_at_ms": Arg("now"),
            "observed_effect": "timed_out_auto_resume",
            "matched": 1,
        },
    ),
    Wake("ready", Arg("lane_id")),
)
TIMEOUT_ESCALATE = Form(
    "suspension_timeout_escalate",
    Update(
        f.EXEC,
        _STILL,
        {
            **f.MOVED_AT_ARG,
            **entering("SUSPENDED", reason="paused_by_operator", detail=Arg("blocking_detail")),
        },
    ),
    UpdateMany(
        f.SUSPENSION,
        (*f.THIS_ROW, Cond("closed_at_ms", "is null")),
        {
            "reason_code": "waiting_for_operator_review",
            "timeout_at_ms": None,
            "timeout_behavior": None,
            "version": Add(1),
        },
    ),
)
_ENDINGS = {
    TimeoutBehavior.CANCEL.value: (TIMEOUT_CANCEL, "cancelled"),
    TimeoutBehavior.EXPIRE.value: (TIMEOUT_EXPIRE, "expired"),
}


def expire(
    execution: Execution | None, suspension: Suspension | None, now: int, signal_id: UUID
) -> Decision:
    """Applies the timeout behavior. Never an error: the result says what was found or done."""
    if execution is None:
        return Return("not_found_cleaned")
    if execution.lifecycle_phase != "suspended":
        return Return("not_suspended_cleaned")
    if suspension is None or not suspension.is_open:
        return Return("no_active_suspension_cleaned")
    if suspension.timeout_at_ms is None or suspension.timeout_at_ms > now:
        return Return("not_yet_due")
    values = {**f.named(execution), "now": now}
    behavior = suspension.timeout_behavior or TimeoutBehavior.FAIL.value
    if behavior in (TimeoutBehavior.AUTO_RESUME.value, "auto_resume"):
        plan = TIMEOUT_RESUME(
            **values,
            signal_id=signal_id,
            waitpoint_id=suspension.primary_waitpoint_id or signal_id,
            suspension_id=suspension.suspension_id,
            attempt_index=suspension.attempt_index,
            lane_id=execution.lane_id,
        )
        return Commit(plan, "auto_resumed")
    if behavior == TimeoutBehavior.ESCALATE.value:
        detail = f"suspension escalated: timeout at {suspension.timeout_at_ms}"
        return Commit(TIMEOUT_ESCALATE(**values, blocking_detail=detail), "escalated")
    form, result = _ENDINGS.get(behavior, (TIMEOUT_FAIL, "failed"))
    return Commit(form(**values), result)
