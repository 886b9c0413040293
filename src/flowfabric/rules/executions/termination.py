"""Ending an execution from outside its lease, whatever it is doing."""

from __future__ import annotations

from typing import Any, NamedTuple

from flowfabric.model.execution import Execution
from flowfabric.plan import Arg, Before, Cond, Form, Plan, Text, Update
from flowfabric.rules.fragments import (
    EXEC,
    MOVED_AT_ARG,
    NOT_WAITING,
    RELEASED,
    UNCHANGED,
    UNRESERVED,
    close_attempt,
    close_waits,
    completion_event,
    drop_grant,
    ending,
    held_event,
    lease_of,
    named,
    operator_event,
)

_STILL_LEASED = Cond("ownership_state", "=", "leased")


class Endings(NamedTuple):
    """The same end for one that is leased, that has an open attempt, that never had one, and that is between two."""

    leased: Form
    open: Form
    pending: Form
    between: Form

    def plan(self, execution: Execution, reason: str, now: int, **more: Any) -> Plan:
        values = {**named(execution), **lease_of(execution), "reason": reason, "now": now, **more}
        if execution.ownership_state == "leased":
            form = self.leased
        elif execution.current_attempt_id is not None:
            form = self.open
        else:
            form = self.between if execution.total_attempt_count else self.pending
        return form(**values)


def endings(
    name: str, outcome: str, *, told: str | None = None, fence: tuple[Cond, ...] = ()
) -> Endings:
    """`told`: operators hear of it by an event of this kind, with `details`. `fence`: what else must hold of a lease."""
    ended: dict[str, Any] = {
        **MOVED_AT_ARG,
        **RELEASED,
        **UNRESERVED,
        **ending(outcome),
        "delay_until_ms": None,
        "failure_reason": Arg("reason"),
        "last_failure_message": Arg("reason"),
        "terminal_at_ms": Arg("now"),
        "closing_epoch": Before("lease_epoch"),
        "closing_attempt_index": Before("attempt_index"),
    }
    over = {**ended, "attempt_state": "attempt_terminal"}
    close = close_attempt("ended_failure", outcome, at=Arg("now"), failure_reason=Arg("reason"))
    done = [
        completion_event(outcome, at=Arg("now")),
        *([operator_event(told, Arg("details"))] if told else []),
    ]
    waits = close_waits(Text((f"{outcome}:", Arg("reason"))), Arg("now"))
    return Endings(
        Form(
            f"{name}_leased",
            Update(EXEC, (*UNCHANGED, _STILL_LEASED, *fence), over),
            close,
            drop_grant(),
            held_event("revoked", outcome, at=Arg("now")),
            *done,
        ),
        Form(
            f"{name}_open",
            Update(EXEC, UNCHANGED, {**over, **NOT_WAITING}),
            close,
            *waits,
            drop_grant(),
            *done,
        ),
        Form(f"{name}_pending", Update(EXEC, UNCHANGED, ended), drop_grant(), *done),
        Form(f"{name}_between_attempts", Update(EXEC, UNCHANGED, over), drop_grant(), *done),
    )
