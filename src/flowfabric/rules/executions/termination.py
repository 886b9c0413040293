"""Ends that do not come from the holder of a lease, whatever the execution is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowfabric.model.execution import Execution
from flowfabric.model.flow_links import Member
from flowfabric.plan import (
    Arg,
    Before,
    Cond,
    Form,
    Guard,
    Insert,
    Now,
    Plan,
    Step,
    Text,
    Update,
    UpdateMany,
)
from flowfabric.rules.fragments import (
    EXEC,
    MOVED,
    MOVED_AT_ARG,
    NOT_WAITING,
    RELEASED,
    UNCHANGED,
    UNRESERVED,
    Columns,
    close_attempt,
    close_waits,
    completion_event,
    drop_grant,
    ending,
    held_event,
    lease_event,
    lease_of,
    named,
    operator_event,
)

DEPENDENCY_IMPOSSIBLE = "dependency_impossible"
_STILL_LEASED = Cond("ownership_state", "=", "leased")


class Endings(NamedTuple):
    """The forms of one end: under a lease, with an open attempt, between attempts, before any."""

    leased: Form
    open: Form
    between: Form
    pending: Form

    def form(self, execution: Execution) -> Form:
        if execution.ownership_state == "leased":
            return self.leased
        if execution.current_attempt_id is not None:
            return self.open
        return self.between if execution.total_attempt_count else self.pending

    def plan(self, execution: Execution, reason: str, now: int, **more: str) -> Plan:
        values = {**named(execution), **lease_of(execution), "reason": reason, "now": now, **more}
        return self.form(execution)(**values)


def end_forms(
    names: tuple[str, str, str, str],
    ended: Columns,
    closing: Sequence[UpdateMany],
    revoked: Insert,
    done: Sequence[Insert],
    *,
    raised: Columns | None = None,
    guards: tuple[Guard, ...] = (),
) -> Endings:
    """`closing` closes the attempt, then its waits. `raised`: written while an attempt is open.

    `guards` are added to those of a lease.
    """
    leased, open_attempt, between, pending = names
    over: Columns = {**ended, "attempt_state": "attempt_terminal"}
    closed = {**over, **(raised or {})}
    rest: tuple[Step, ...] = (drop_grant(), *done)
    return Endings(
        Form(
            leased,
            Update(EXEC, (*UNCHANGED, *guards), closed),
            closing[0],
            drop_grant(),
            revoked,
            *done,
        ),
        Form(open_attempt, Update(EXEC, UNCHANGED, {**closed, **NOT_WAITING}), *closing, *rest),
        Form(between, Update(EXEC, UNCHANGED, over), *rest),
        Form(pending, Update(EXEC, UNCHANGED, ended), *rest),
    )


def endings(
    name: str, outcome: str, *, event_kind: str | None = None, fence: tuple[Guard, ...] = ()
) -> Endings:
    """A failed or expired end. `event_kind`: of an operator event, which takes `details`.

    `fence` adds conditions on the lease.
    """
    reason, now = Arg("reason"), Arg("now")
    ended: Columns = {
        **MOVED_AT_ARG,
        **RELEASED,
        **UNRESERVED,
        **ending(outcome),
        "delay_until_ms": None,
        "failure_reason": reason,
        "last_failure_message": reason,
        "terminal_at_ms": now,
        "closing_epoch": Before("lease_epoch"),
        "closing_attempt_index": Before("attempt_index"),
    }
    done = [completion_event(outcome, at=now)]
    if event_kind is not None:
        done.append(operator_event(event_kind, Arg("details")))
    return end_forms(
        (f"{name}_leased", f"{name}_open", f"{name}_between_attempts", f"{name}_pending"),
        ended,
        (
            close_attempt("ended_failure", outcome, at=now, failure_reason=reason),
            *close_waits(Text((f"{outcome}:", reason)), now),
        ),
        held_event("revoked", outcome, at=now),
        done,
        guards=(_STILL_LEASED, *fence),
    )


SKIP = end_forms(
    ("skip_leased", "skip_interrupted", "skip_between_attempts", "skip_pending"),
    {
        **MOVED,
        **RELEASED,
        **UNRESERVED,
        **ending("skipped"),
        "delay_until_ms": None,
        "terminal_at_ms": Now(),
        "closing_epoch": Before("lease_epoch"),
        "closing_attempt_index": Before("attempt_index"),
    },
    (
        close_attempt("ended_cancelled", "skipped", failure_reason=DEPENDENCY_IMPOSSIBLE),
        *close_waits(DEPENDENCY_IMPOSSIBLE),
    ),
    lease_event("revoked", DEPENDENCY_IMPOSSIBLE),
    [completion_event("skipped")],
)


def skip(child: Member) -> Plan:
    """The epoch stays: the end of the execution is enough to refuse its holder."""
    if child.ownership_state == "leased":
        form = SKIP.leased
    elif child.attempt_state == "attempt_interrupted":
        form = SKIP.open
    else:
        form = SKIP.between if child.total_attempt_count else SKIP.pending
    return form(
        partition_key=child.partition_key,
        execution_id=child.execution_id,
        version=child.version,
    )
