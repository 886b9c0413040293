"""Ending an execution whose dependencies can no longer be met."""

from __future__ import annotations

from typing import Any

from flowfabric.model.flow_links import Member
from flowfabric.plan import Before, Form, Now, Plan, Update
from flowfabric.rules.fragments import (
    EXEC,
    MOVED,
    NOT_WAITING,
    RELEASED,
    UNCHANGED,
    UNRESERVED,
    close_attempt,
    close_waits,
    completion_event,
    drop_grant,
    ending,
    lease_event,
)

REASON = "dependency_impossible"
_SKIPPED: dict[str, Any] = {
    **MOVED,
    **RELEASED,
    **UNRESERVED,
    **ending("skipped"),
    "delay_until_ms": None,
    "terminal_at_ms": Now(),
    "closing_epoch": Before("lease_epoch"),
    "closing_attempt_index": Before("attempt_index"),
}
_SKIPPED_OPEN = {**_SKIPPED, "attempt_state": "attempt_terminal"}
_CLOSED = close_attempt("ended_cancelled", "skipped", failure_reason=REASON)
_TOLD = completion_event("skipped")

SKIP_LEASED = Form(
    "skip_leased",
    Update(EXEC, UNCHANGED, _SKIPPED_OPEN),
    _CLOSED,
    drop_grant(),
    lease_event("revoked", REASON),
    _TOLD,
)
SKIP_INTERRUPTED = Form(
    "skip_interrupted",
    Update(EXEC, UNCHANGED, {**_SKIPPED_OPEN, **NOT_WAITING}),
    _CLOSED,
    *close_waits(REASON),
    drop_grant(),
    _TOLD,
)
SKIP_BETWEEN = Form(
    "skip_between_attempts", Update(EXEC, UNCHANGED, _SKIPPED_OPEN), drop_grant(), _TOLD
)
SKIP_PENDING = Form("skip_pending", Update(EXEC, UNCHANGED, _SKIPPED), drop_grant(), _TOLD)


def skip(child: Member) -> Plan:
    """The epoch stays: that it is over is the fence of whoever still works on it."""
    if child.ownership_state == "leased":
        form = SKIP_LEASED
    elif child.attempt_state == "attempt_interrupted":
        form = SKIP_INTERRUPTED
    else:
        form = SKIP_BETWEEN if child.total_attempt_count else SKIP_PENDING
    return form(
        partition_key=child.partition_key,
        execution_id=child.execution_id,
        version=child.version,
    )
