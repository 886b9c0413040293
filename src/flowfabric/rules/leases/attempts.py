"""The calls of a holder that release its lease: complete, fail, delay and give up."""

from __future__ import annotations

from collections.abc import Callable

from flowfabric.model.attempt import (
    ATTEMPT_TIMEOUT,
    Delayed,
    FailOutcome,
    RetryScheduled,
    TerminalFailed,
)
from flowfabric.model.execution import Execution
from flowfabric.model.lease import BackendTag, Completed, HandleFields
from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Form,
    Guard,
    Now,
    Once,
    Plan,
    Step,
    Text,
    Until,
    Update,
    Wake,
)
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Reject, Return, Snapshot
from flowfabric.rules.fence import check_handle, closed_by, retry_scheduled_by
from flowfabric.rules.fragments import (
    CLOSED_BY_HOLDER,
    EXEC,
    HELD,
    MOVED,
    RELEASED,
    UNRESERVED,
    Columns,
    close_attempt,
    completion_event,
    drop_grant,
    ending,
    held_event,
    suspend_attempt,
)
from flowfabric.rules.states import entering

_FLOW = ("flow_id",)
"""Read at the end: the execution may have joined a flow after its claim."""
_TERMINAL: Columns = {"attempt_state": "attempt_terminal"}

COMPLETE = Form(
    "complete",
    Update(
        EXEC,
        HELD,
        {
            **MOVED,
            **RELEASED,
            **CLOSED_BY_HOLDER,
            **ending("success"),
            **_TERMINAL,
            **from_args("result", "result_encoding"),
        },
    ),
    close_attempt("ended_success", "success"),
    held_event("revoked", "completed"),
    completion_event("success"),
    returning=_FLOW,
)

_FAILED: Columns = {
    **MOVED,
    **RELEASED,
    "failure_reason": Arg("reason"),
    "last_failure_message": Arg("reason"),
}


def _close_failed(outcome: str) -> Step:
    reason, category = Arg("reason"), Arg("category")
    return close_attempt("ended_failure", outcome, failure_reason=reason, failure_category=category)


def _failing(name: str, outcome: str, **more: Arg) -> Form:
    changes = {**_FAILED, **CLOSED_BY_HOLDER, **ending(outcome), **_TERMINAL, **more}
    return Form(
        name,
        Update(EXEC, HELD, changes),
        _close_failed(outcome),
        held_event("revoked", outcome),
        completion_event(outcome),
        returning=_FLOW,
    )


FAIL_FOR_GOOD = _failing("fail_for_good", "failed")
FAIL_TIMED_OUT = _failing("fail_timed_out", "expired", failure_reason=Arg("category"))


def retry_forms(name: str, guard: tuple[Guard, ...]) -> tuple[Form, Form]:
    """The attempt is closed and the next one is due: after a delay, and at once."""
    retry: Columns = {
        **_FAILED,
        "attempt_state": "pending_retry_attempt",
        "retry_count": Add(1),
        "current_attempt_id": None,
        "pending_retry_reason": Arg("reason"),
        "pending_previous_attempt_index": Arg("attempt_index"),
        "pending_attempt_policy": Arg("next_policy"),
    }
    due = Now(Arg("delay_ms"))
    detail = Text(("retry backoff until ", due, Arg("because")))
    backoff = entering("DELAYED", reason="waiting_for_retry_backoff", detail=detail)

    def form(when: str, changes: Columns, wake: Wake) -> Form:
        return Form(
            f"{name}_{when}",
            Update(EXEC, guard, {**retry, **changes}),
            _close_failed("retry"),
            held_event("revoked", "retry"),
            wake,
            returning=("delay_until_ms", "total_attempt_count"),
        )

    return (
        form(
            "later", {**backoff, "delay_until_ms": due}, Wake("delayed", at=After("delay_until_ms"))
        ),
        form(
            "now", {**entering("READY"), "delay_until_ms": Now()}, Wake("ready", After("lane_id"))
        ),
    )


FAIL_RETRY_LATER, FAIL_RETRY_NOW = retry_forms("fail_retry", HELD)

DELAY = Form(
    "delay",
    Update(
        EXEC,
        HELD,
        {
            **MOVED,
            **RELEASED,
            **entering("DELAYED", detail=Arg("blocking_detail")),
            "attempt_state": "attempt_interrupted",
            "interrupt_cause": "delayed",
            "delay_until_ms": Arg("delay_until_ms"),
            "attempt_timeout_remaining_ms": Until("attempt_timeout_at_ms"),
        },
    ),
    suspend_attempt({"suspension_id": "worker_delay"}),
    held_event("revoked", "delayed"),
    Wake("delayed", at=After("delay_until_ms")),
)

GIVE_UP = Form(
    "give_up",
    Update(
        EXEC,
        HELD,
        {
            **MOVED,
            **RELEASED,
            **UNRESERVED,
            **ending("cancelled"),
            **_TERMINAL,
            "lease_epoch": Add(1),
            "terminal_at_ms": Now(),
            "cancellation_reason": Once(Arg("reason")),
            "cancelled_by": Once("worker"),
            "closing_epoch": Arg("lease_epoch"),
            "closing_attempt_index": Arg("attempt_index"),
        },
    ),
    close_attempt(
        "ended_cancelled",
        "cancelled",
        failure_reason=Arg("attempt_reason"),
        worker_instance_id=None,
        lease_epoch=After("lease_epoch"),
    ),
    drop_grant(),
    held_event("revoked", "cancelled"),
    completion_event("cancelled"),
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


def held_by(handle: HandleFields) -> Columns:
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


def complete(handle: HandleFields, result: bytes | None, encoding: str | None = None) -> Plan:
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
        form = FAIL_TIMED_OUT if category == ATTEMPT_TIMEOUT else FAIL_FOR_GOOD
        return Commit(form(**values), TerminalFailed())
    values["next_policy"] = next_policy
    return retry_plan(FAIL_RETRY_LATER, FAIL_RETRY_NOW, values, delay_ms)


def retry_plan(later: Form, at_once: Form, values: Columns, delay_ms: int) -> Commit:
    if delay_ms == 0:
        return Commit(at_once(**values), _scheduled)
    because = f" (attempt {values['attempt_index']} failed: {values['reason']})"
    return Commit(later(**values, delay_ms=delay_ms, because=because), _scheduled)


def _scheduled(applied: Applied) -> FailOutcome:
    delay_until, next_index = applied.row
    return RetryScheduled(delay_until, next_index)


def delay(handle: HandleFields, delay_until: int) -> Commit:
    plan = DELAY(
        **held_by(handle),
        delay_until_ms=delay_until,
        blocking_detail=f"delayed until {delay_until}",
    )
    return Commit(plan, Delayed(handle.execution_id))


def give_up(handle: HandleFields, reason: str) -> Plan:
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
        return Return(TerminalFailed())
    if outcome == "failed" and retry_scheduled_by(snapshot, handle):
        execution = snapshot.execution
        assert execution is not None
        due = execution.delay_until_ms or execution.last_transition_at  # promotion clears the delay
        return Return(RetryScheduled(due, execution.total_attempt_count))
    return None


def _timed_out(snapshot: Snapshot) -> bool:
    """A missed deadline expires an execution too, but not through a report of its holder."""
    return snapshot.execution is not None and snapshot.execution.failure_reason == ATTEMPT_TIMEOUT


_ANSWERS: dict[str, Callable[[HandleFields], Completed | TerminalFailed | None]] = {
    "success": lambda handle: Completed(handle.execution_id),
    "failed": lambda handle: TerminalFailed(),
    "cancelled": lambda handle: None,
}
