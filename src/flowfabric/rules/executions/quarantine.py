"""Executions of which a column cannot be read: held back with the reason, so that they do not stand in the way of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from flowfabric.model.execution import UNREADABLE
from flowfabric.model.lease import HandleFields
from flowfabric.plan import After, Arg, Form, Now, Plan, Until, Update, UpdateMany
from flowfabric.rules.claims.grants import BLOCK
from flowfabric.rules.fragments import (
    ATTEMPT,
    EXEC,
    HELD,
    MOVED,
    RELEASED,
    THIS_ATTEMPT,
    drop_grant,
    held_event,
)
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.states import entering

QUARANTINED = "quarantined"
QUARANTINE_HELD = Form(
    "quarantine_held",
    Update(
        EXEC,
        HELD,
        {
            **MOVED,
            **RELEASED,
            **entering("OPBLOCK", detail=Arg("detail")),
            "attempt_state": "attempt_interrupted",
            "interrupt_cause": QUARANTINED,
            "attempt_timeout_remaining_ms": Until("attempt_timeout_at_ms"),
        },
    ),
    UpdateMany(
        ATTEMPT,
        THIS_ATTEMPT,
        {
            "attempt_state": "suspended",
            "suspended_at_ms": Now(),
            "lease_expires_at_ms": None,
            "attempt_timeout_remaining_ms": After("attempt_timeout_remaining_ms"),
        },
    ),
    drop_grant(),
    held_event("revoked", QUARANTINED),
)


def damaged_list(row: Any) -> str:
    """The first list of a row that cannot be read; empty when there is none."""
    columns = ("required_capabilities", "budget_ids")
    return next((column for column in columns if getattr(row, column, ()) == UNREADABLE), "")


def unknown_budgets(budgets: Iterable[str]) -> set[str]:
    """Those that are no ids."""
    return {budget for budget in budgets if not _is_uuid(budget)}


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def detail(column: str) -> str:
    return f"{QUARANTINED}: {column} cannot be read"


def hold(partition: int, execution_id: UUID, version: int, column: str, now: int) -> Plan:
    """One that waits to be claimed."""
    named = {"partition_key": partition, "execution_id": execution_id, "version": version}
    return BLOCK["paused_by_operator"](**named, detail=detail(column), blocked_on=None, now=now)


def hold_claimed(lease: HandleFields, column: str) -> Plan:
    """One that has just been leased: its lease is given up."""
    return QUARANTINE_HELD(**held_by(lease), detail=detail(column))
