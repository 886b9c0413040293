"""The calls of a holder that release its lease: complete, fail, delay and give up."""

from __future__ import annotations

from collections.abc import Callable

from flowfabric import plan as p
from flowfabric.model import attempt as model
from flowfabric.model.execution import Execution
from flowfabric.model.lease import BackendTag, Completed, HandleFields
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Reject, Return, Snapshot
from flowfabric.rules.fence import check_handle, closed_by, retry_scheduled_by
from flowfabric.rules.states import entering

_FLOW = ("flow_id",)
"""Read at the end: the execution may have joined a flow after its claim."""
_TERMINAL: f.Columns = {"attempt_state": "attempt_terminal"}
_CLOSED: f.Columns = {**f.CLOSED_LEASE, "terminal_at_ms": p.Now()}

COMPLETE = p.Form(
    "complete",
    p.Update(
        f.EXEC,
        f.HELD,
        {
            **f.MOVED,
            **f.RELEASED,
            **_CLOSED,
            **f.ending("success"),
            **_TERMINAL,
            **from_args("result", "result_encoding"),
        },
    ),
    f.close_attempt("ended_success", "success"),
    f.held_event("revoked", "completed"),
    f.completion_event("success"),
    returning=_FLOW,
)

_FAILED: f.Columns = {
    **f.MOVED,
    **f.RELEASED,
    "failure_reason": p.Arg("reason"),
    "last_failure_message": p.Arg("reason"),
}


def _close_failed(outcome: str) -> p.Step:
    reason, category = p.Arg("reason"), p.Arg("category")
    return f.close_attempt(
        "ended_failure", outcome, failure_reason=reason, failure_category=category
    )


def _failing(name: str, outcome: str, **more: p.Arg) -> p.Form:
    changes = {**_FAILED, **_CLOSED, **f.ending(outcome), **_TERMINAL, **more}
    return p.Form(
        name,
        p.Update(f.EXEC, f.HELD, changes),
        _close_failed(outcome),
        f.held_event("revoked", outcome),
        f.completion_event(outcome),
        returning=_FLOW,
    )


FAIL_FOR_GOOD = _failing("fail_for_good", "failed")
FAIL_TIMED_OUT = _failing("fail_timed_out", "expired", failure_reason=p.Arg("category"))


def retry_forms(name: str, guard: tuple[p.Guard, ...]) -> tuple[p.Form, p.Form]:
    """The attempt is closed and the next one is due: after a delay, and at once."""
    retry: f.Columns = {
        **_FAILED,
        "attempt_state": "pending_retry_attempt",
        "retry_count": p.Add(1),
        "current_attempt_id": None,
        "pending_retry_reason": p.Arg("reason"),
        "pending_previous_attempt_index": p.Arg("attempt_index"),
        "pending_attempt_policy": p.Arg("next_policy"),
    }
    due = p.Now(p.Arg("delay_ms"))
    detail = p.Text(("retry backoff until ", due, p.Arg("because")))
    backoff = entering("DELAYED", reason="waiting_for_retry_backoff", detail=detail)

    def form(when: str, changes: f.Columns, wake: p.Wake) -> p.Form:
        return p.Form(
            f"{name}_{when}",
            p.Update(f.EXEC, guard, {**retry, **changes}),
            _close_failed("retry"),
            f.held_event("revoked", "retry"),
            wake,
            returning=("delay_until_ms", "total_attempt_count"),
        )

    return (
        form(
            "later",
            {**backoff, "delay_until_ms": due},
            p.Wake("delayed", at=p.After("delay_until_ms")),
        ),
        form(
            "now",
            {**entering("READY"), "delay_until_ms": p.Now()},
            p.Wake("ready", p.After("lane_id")),
        ),
    )


FAIL_RETRY_LATER, FAIL_RETRY_NOW = retry_forms("fail_retry", f.HELD)

DELAY = p.Form(
    "delay",
    f.interrupt(
        f.HELD,
        entering("DELAYED", detail=p.Arg("blocking_detail")),
        {"interrupt_cause": "delayed", **from_args("delay_until_ms"), **f.TIME_KEPT},
    ),
    f.suspend_attempt({"suspension_id": "worker_delay"}),
    f.held_event("revoked", "delayed"),
    p.Wake("delayed", at=p.After("delay_until_ms")),
)

GIVE_UP = p.Form(
    "give_up",
    p.Update(
        f.EXEC,
        f.HELD,
        {
            **f.ended("cancelled"),
            **_TERMINAL,
            "lease_epoch": p.Add(1),
            "terminal_at_ms": p.Now(),
            "cancellation_reason": p.Once(p.Arg("reason")),
            "cancelled_by": p.Once("worker"),
            **f.CLOSED_LEASE,
        },
    ),
    f.close_attempt(
        "ended_cancelled",
        "cancelled",
        failure_reason=p.Arg("attempt_reason"),
        worker_instance_id=None,
        lease_epoch=p.After("lease_epoch"),
    ),
    f.drop_grant(),
    f.held_event("revoked", "cancelled"),
    f.completion_event("cancelled"),
    returning=_FLOW,
)


def holder(execution: Execution, tag: BackendTag, ttl_ms: int = 0) -> HandleFields:
    """The handle of the stored lease, for a caller that passed a fence or needs none."""
    assert execution.current_attempt_id is not None and execution.current_lease_id is not None
    return HandleFields(
        tag,
        execution.id,
        execution.attempt_index,
        execution.current_attempt_id,
        execution.current_lease_id,
        execution.lease_epoch,
        ttl_ms,
        execution.lane_id,
        execution.current_worker_instance_id or "",
    )


def held_by(handle: HandleFields) -> f.Columns:
    """The arguments of `HELD`."""
    ident = handle.execution_id
    return {
        "partition_key": ident.partition_index,
        "execution_id": ident.uuid,
        "attempt_index": handle.attempt_index,
        "lease_epoch": handle.lease_epoch,
        "lease_id": handle.lease_id,
        "worker_instance_id": handle.worker_instance_id,
    }


def complete(handle: HandleFields, result: bytes | None, encoding: str | None = None) -> p.Plan:
    values = held_by(handle)
    values["result"], values["result_encoding"] = result, encoding
    return COMPLETE.given(values)


def fail(
    handle: HandleFields,
    reason: str,
    category: str,
    delay_ms: int | None,
    next_policy: str | None = None,
) -> Commit:
    """`delay_ms` is the retry decision: None for no retry."""
    values = {**held_by(handle), "reason": reason, "category": category}
    if delay_ms is None:
        form = FAIL_TIMED_OUT if category == model.ATTEMPT_TIMEOUT else FAIL_FOR_GOOD
        return Commit(form(**values), model.TerminalFailed())
    values["next_policy"] = next_policy
    return retry_plan(FAIL_RETRY_LATER, FAIL_RETRY_NOW, values, delay_ms)


def retry_plan(later: p.Form, at_once: p.Form, values: f.Columns, delay_ms: int) -> Commit:
    if delay_ms == 0:
        return Commit(at_once(**values), _scheduled)
    because = f" (attempt {values['attempt_index']} failed: {values['reason']})"
    return Commit(later(**values, delay_ms=delay_ms, because=because), _scheduled)


def _scheduled(applied: p.Applied) -> model.FailOutcome:
    delay_until, next_index = applied.row
    return model.RetryScheduled(delay_until, next_index)


def delay(handle: HandleFields, delay_until: int) -> Commit:
    plan = DELAY(
        **held_by(handle),
        delay_until_ms=delay_until,
        blocking_detail=f"delayed until {delay_until}",
    )
    return Commit(plan, model.Delayed(handle.execution_id))


def give_up(handle: HandleFields, reason: str) -> p.Plan:
    return GIVE_UP(
        **held_by(handle),
        reason=reason,
        attempt_reason=f"cancelled: {reason}",
    )


def explain_refusal(
    snapshot: Snapshot, handle: HandleFields, outcome: str | None = None, *, marks: bool = True
) -> Return | Reject | None:
    """The answer of a refused call: its earlier success, the exact error, or None to try again."""
    return repeated(snapshot, handle, outcome) or check_handle(snapshot, handle, marks=marks)


def repeated(snapshot: Snapshot, handle: HandleFields, outcome: str | None) -> Return | None:
    """The answer to a call that was committed before and whose answer was lost."""
    if outcome is not None and closed_by(snapshot, handle, outcome):
        return Return(_ANSWERS[outcome](handle))
    if outcome == "failed" and closed_by(snapshot, handle, "expired") and _timed_out(snapshot):
        return Return(model.TerminalFailed())
    if outcome == "failed" and retry_scheduled_by(snapshot, handle):
        execution = snapshot.execution
        assert execution is not None
        due = execution.delay_until_ms or execution.last_transition_at  # promotion clears the delay
        return Return(model.RetryScheduled(due, execution.total_attempt_count))
    return None


def _timed_out(snapshot: Snapshot) -> bool:
    """A missed deadline expires an execution too, but not through a report of its holder."""
    return (
        snapshot.execution is not None
        and snapshot.execution.failure_reason == model.ATTEMPT_TIMEOUT
    )


_ANSWERS: dict[str, Callable[[HandleFields], Completed | model.TerminalFailed | None]] = {
    "success": lambda handle: Completed(handle.execution_id),
    "failed": lambda handle: model.TerminalFailed(),
    "cancelled": lambda handle: None,
}
