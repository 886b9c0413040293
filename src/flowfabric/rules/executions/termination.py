"""Ends that do not come from the holder of a lease, in any state of the execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowfabric import plan as p
from flowfabric.model.execution import Execution
from flowfabric.model.flow_links import Member
from flowfabric.rules import fragments as f

DEPENDENCY_IMPOSSIBLE = "dependency_impossible"
_STILL_LEASED = p.Cond("ownership_state", "=", "leased")


class Endings(NamedTuple):
    """The forms of one end: under a lease, with an open attempt, between attempts, before any."""

    leased: p.Form
    open: p.Form
    between: p.Form
    pending: p.Form

    def form(self, execution: Execution) -> p.Form:
        if execution.ownership_state == "leased":
            return self.leased
        if execution.current_attempt_id is not None:
            return self.open
        return self.between if execution.total_attempt_count else self.pending

    def plan(self, execution: Execution, reason: str, now: int, **more: str) -> p.Plan:
        lease = f.lease_of(execution)
        return self.form(execution).of(execution, **lease, reason=reason, now=now, **more)


def end_forms(
    names: tuple[str, str, str, str],
    ended: f.Columns,
    closing: Sequence[p.UpdateMany],
    revoked: p.Insert,
    done: Sequence[p.Insert],
    *,
    raised: f.Columns | None = None,
    guards: tuple[p.Guard, ...] = (),
) -> Endings:
    """`closing` closes attempt and waits. `raised`: for an open attempt. `guards`: for a lease."""
    leased, open_attempt, between, pending = names
    over: f.Columns = {**ended, "attempt_state": "attempt_terminal"}
    closed = {**over, **(raised or {})}

    def form(name: str, changes: f.Columns, *steps: p.Step) -> p.Form:
        return p.Form(name, p.Update(f.EXEC, f.UNCHANGED, changes), *steps, f.drop_grant(), *done)

    held = p.Update(f.EXEC, (*f.UNCHANGED, *guards), closed)
    return Endings(
        p.Form(leased, held, closing[0], f.drop_grant(), revoked, *done),
        form(open_attempt, {**closed, **f.NOT_WAITING}, *closing),
        form(between, over),
        form(pending, ended),
    )


def endings(
    name: str, outcome: str, *, event_kind: str | None = None, fence: tuple[p.Guard, ...] = ()
) -> Endings:
    """A failed or expired end. `event_kind`: of an operator event, which takes `details`.

    `fence` adds conditions on the lease.
    """
    reason, now = p.Arg("reason"), p.Arg("now")
    ended: f.Columns = {
        **f.ended(outcome, f.MOVED_AT_ARG),
        "delay_until_ms": None,
        "failure_reason": reason,
        "last_failure_message": reason,
        "terminal_at_ms": now,
        **f.CLOSED_STORED_LEASE,
    }
    done = [f.completion_event(outcome, at=now)]
    if event_kind is not None:
        done.append(f.operator_event(event_kind, p.Arg("details")))
    return end_forms(
        (f"{name}_leased", f"{name}_open", f"{name}_between_attempts", f"{name}_pending"),
        ended,
        (
            f.close_attempt("ended_failure", outcome, at=now, failure_reason=reason),
            *f.close_waits(p.Text((f"{outcome}:", reason)), now),
        ),
        f.held_event("revoked", outcome, at=now),
        done,
        guards=(_STILL_LEASED, *fence),
    )


SKIP = end_forms(
    ("skip_leased", "skip_interrupted", "skip_between_attempts", "skip_pending"),
    {
        **f.ended("skipped"),
        "delay_until_ms": None,
        "terminal_at_ms": p.Now(),
        **f.CLOSED_STORED_LEASE,
    },
    (
        f.close_attempt("ended_cancelled", "skipped", failure_reason=DEPENDENCY_IMPOSSIBLE),
        *f.close_waits(DEPENDENCY_IMPOSSIBLE),
    ),
    f.lease_event("revoked", DEPENDENCY_IMPOSSIBLE),
    [f.completion_event("skipped")],
)


def skip(child: Member) -> p.Plan:
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
