"""What the holder of a lease does with it: renew, report, complete, fail, delay, give up."""

from __future__ import annotations

from typing import Any

from flowfabric.model.attempt import (
    ATTEMPT_TIMEOUT,
    Delayed,
    FailOutcome,
    RetryScheduled,
    TerminalFailed,
)
from flowfabric.model.execution import Execution
from flowfabric.model.lease import BackendTag, Completed, HandleFields, LeaseRenewal
from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Form,
    Guard,
    Insert,
    Now,
    Once,
    Plan,
    Span,
    Text,
    Until,
    Update,
    UpdateMany,
    Wake,
)
from flowfabric.rules.claims.claims import renew_within_ms
from flowfabric.rules.decision import Commit, Reject, Return, Snapshot
from flowfabric.rules.fence import check_handle, closed_by, retry_scheduled_by
from flowfabric.rules.fragments import (
    ATTEMPT,
    CLOSED_BY_HOLDER,
    EXEC,
    HELD,
    MOVED,
    RELEASED,
    THIS_ATTEMPT,
    UNRESERVED,
    close_attempt,
    completion_event,
    drop_grant,
    ending,
    held_event,
)
from flowfabric.rules.states import entering


def _renewal(name: str, ttl: Any, renew_within: Any, *told: Insert) -> Form:
    return Form(
        name,
        Update(
            EXEC,
            HELD,
            {
                "lease_expires_at_ms": Now(ttl),
                "lease_last_renewed_at": Now(),
                "lease_renewal_deadline": Now(renew_within),
            },
        ),
        UpdateMany(ATTEMPT, THIS_ATTEMPT, {"lease_expires_at_ms": After("lease_expires_at_ms")}),
        *told,
        Wake("leased", at=After("lease_expires_at_ms")),
        returning=("lease_expires_at_ms", "lease_epoch"),
    )


_SINCE = "lease_last_renewed_at"
_AS_GRANTED = Span(_SINCE, "lease_expires_at_ms"), Span(_SINCE, "lease_renewal_deadline")
"""For as long as the lease was last granted for: what a handle says of that is not asked."""
_AS_SAID = Arg("lease_ttl_ms"), Arg("renew_within_ms")
RENEW = _renewal("renew", *_AS_GRANTED, held_event("renewed"))
RENEW_UNTOLD = _renewal("renew_untold", *_AS_GRANTED)
RENEW_FOR = _renewal("renew_for", *_AS_SAID, held_event("renewed"))
RENEW_FOR_UNTOLD = _renewal("renew_for_untold", *_AS_SAID)
_REPORTED: dict[str, Any] = {"progress_updated_at": Now(), "last_mutation_at": Now()}
PROGRESS = Form(
    "progress",
    Update(
        EXEC,
        HELD,
        {**_REPORTED, "progress_pct": Arg("percent"), "progress_message": Arg("message")},
    ),
)
PROGRESS_PERCENT = Form(
    "progress_percent", Update(EXEC, HELD, {**_REPORTED, "progress_pct": Arg("percent")})
)
PROGRESS_MESSAGE = Form(
    "progress_message", Update(EXEC, HELD, {**_REPORTED, "progress_message": Arg("message")})
)

ITS_FLOW = ("flow_id",)
"""What an end answers: in another process it may have joined a flow after its claim."""

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
            "attempt_state": "attempt_terminal",
            "result": Arg("result"),
            "result_encoding": Arg("result_encoding"),
        },
    ),
    close_attempt("ended_success", "success"),
    held_event("revoked", "completed"),
    completion_event("success"),
    returning=ITS_FLOW,
)

_FAILED: dict[str, Any] = {
    **MOVED,
    **RELEASED,
    "failure_reason": Arg("reason"),
    "last_failure_message": Arg("reason"),
}
_WHY: dict[str, Any] = {"failure_reason": Arg("reason"), "failure_category": Arg("category")}
_RETRY: dict[str, Any] = {
    **_FAILED,
    "attempt_state": "pending_retry_attempt",
    "retry_count": Add(1),
    "current_attempt_id": None,
    "pending_retry_reason": Arg("reason"),
    "pending_previous_attempt_index": Arg("attempt_index"),
    "pending_attempt_policy": Arg("next_policy"),
}
FAIL_FOR_GOOD = Form(
    "fail_for_good",
    Update(
        EXEC,
        HELD,
        {**_FAILED, **CLOSED_BY_HOLDER, **ending("failed"), "attempt_state": "attempt_terminal"},
    ),
    close_attempt("ended_failure", "failed", **_WHY),
    held_event("revoked", "failed"),
    completion_event("failed"),
    returning=ITS_FLOW,
)
FAIL_TIMED_OUT = Form(
    "fail_timed_out",
    Update(
        EXEC,
        HELD,
        {
            **_FAILED,
            **CLOSED_BY_HOLDER,
            **ending("expired"),
            "attempt_state": "attempt_terminal",
            "failure_reason": Arg("category"),
        },
    ),
    close_attempt("ended_failure", "expired", **_WHY),
    held_event("revoked", "expired"),
    completion_event("expired"),
    returning=ITS_FLOW,
)


def retry_forms(name: str, guard: tuple[Guard, ...]) -> tuple[Form, Form]:
    """The attempt is closed and another is due, after a while and at once."""
    close = close_attempt("ended_failure", "retry", **_WHY)
    told = held_event("revoked", "retry")
    backoff = Text(("retry backoff until ", Now(Arg("delay_ms")), Arg("because")))
    waiting = entering("DELAYED", reason="waiting_for_retry_backoff", detail=backoff)
    returning = ("delay_until_ms", "total_attempt_count")
    later = {**_RETRY, **waiting, "delay_until_ms": Now(Arg("delay_ms"))}
    at_once = {**_RETRY, **entering("READY"), "delay_until_ms": Now()}
    return (
        Form(
            f"{name}_later",
            Update(EXEC, guard, later),
            close,
            told,
            Wake("delayed", at=After("delay_until_ms")),
            returning=returning,
        ),
        Form(
            f"{name}_now",
            Update(EXEC, guard, at_once),
            close,
            told,
            Wake("ready", After("lane_id")),
            returning=returning,
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
    UpdateMany(
        ATTEMPT,
        THIS_ATTEMPT,
        {
            "attempt_state": "suspended",
            "suspended_at_ms": Now(),
            "suspension_id": "worker_delay",
            "lease_expires_at_ms": None,
            "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
        },
    ),
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
            "attempt_state": "attempt_terminal",
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
    returning=ITS_FLOW,
)


def holder(execution: Execution, tag: BackendTag, ttl_ms: int = 0) -> HandleFields:
    """The stored lease as if its holder had shown it; for callers who proved a fence or may do without one."""
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


def held_by(handle: HandleFields) -> dict[str, Any]:
    ident = handle.execution_id
    return {
        "partition_key": ident.partition_index,
        "execution_id": ident.uuid,
        "attempt_index": handle.attempt_index,
        "lease_epoch": handle.lease_epoch,
        "lease_id": handle.lease_id,
        "worker_instance_id": handle.worker_instance_id,
    }


def renew(handle: HandleFields, *, told: bool = True) -> Commit:
    """`told`: by a lease event."""
    plan = (RENEW if told else RENEW_UNTOLD)(**held_by(handle))
    return Commit(plan, lambda applied: LeaseRenewal(*applied.row))


def renew_for(handle: HandleFields, ttl_ms: int, *, told: bool = True) -> Plan:
    """For another time than before."""
    form, held = RENEW_FOR if told else RENEW_FOR_UNTOLD, held_by(handle)
    return form(
        **held,
        lease_ttl_ms=ttl_ms,
        renew_within_ms=renew_within_ms(ttl_ms),
    )


def progress(handle: HandleFields, percent: int | None, message: str | None) -> Plan:
    held = held_by(handle)
    if message is None:
        return PROGRESS_PERCENT(**held, percent=percent)
    if percent is None:
        return PROGRESS_MESSAGE(**held, message=message)
    return PROGRESS(**held, percent=percent, message=message)


def complete(handle: HandleFields, result: bytes | None, encoding: str | None = None) -> Plan:
    said = held_by(handle)
    said["result"], said["result_encoding"] = result, encoding
    return COMPLETE.given(said)


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
    return retry_plan(
        FAIL_RETRY_LATER, FAIL_RETRY_NOW, {**values, "next_policy": next_policy}, delay_ms
    )


def retry_plan(later: Form, at_once: Form, values: dict[str, Any], delay_ms: int) -> Commit:
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


# ---- why a holder's call did not go through


def explain(
    snapshot: Snapshot, handle: HandleFields, outcome: str | None = None, *, marks: bool = True
) -> Return | Reject | None:
    """The answer of a refused call: success when it had gone through before, the exact error, or None to try again."""
    return repeated(snapshot, handle, outcome) or check_handle(snapshot, handle, marks=marks)


def repeated(snapshot: Snapshot, handle: HandleFields, outcome: str | None) -> Return | None:
    """The answer to a call that went through before and whose answer got lost."""
    if outcome is not None and closed_by(snapshot, handle, outcome):
        return Return(_ANSWERS[outcome](handle))
    if outcome == "failed" and closed_by(snapshot, handle, "expired") and _timed_out(snapshot):
        return Return(TerminalFailed())
    if outcome == "failed" and retry_scheduled_by(snapshot, handle):
        execution = snapshot.execution
        assert execution is not None
        since = execution.last_transition_at  # once promoted, the delay itself is forgotten
        return Return(
            RetryScheduled(execution.delay_until_ms or since, execution.total_attempt_count)
        )
    return None


def _timed_out(snapshot: Snapshot) -> bool:
    """A missed deadline expires an execution too, but no report of its holder does that."""
    return snapshot.execution is not None and snapshot.execution.failure_reason == ATTEMPT_TIMEOUT


_ANSWERS: dict[str, Any] = {
    "success": lambda handle: Completed(handle.execution_id),
    "failed": lambda handle: TerminalFailed(),
    "cancelled": lambda handle: None,
}
