"""Executions with an unreadable column are held with the reason, so they do not block a lane."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from flowfabric.model.execution import UNREADABLE
from flowfabric.model.lease import HandleFields
from flowfabric.plan import Arg, Form, Plan
from flowfabric.rules import fragments as f
from flowfabric.rules.claims.grants import BLOCK
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.states import entering

QUARANTINED = "quarantined"
QUARANTINE_HELD = Form(
    "quarantine_held",
    f.interrupt(
        f.HELD,
        entering("OPBLOCK", detail=Arg("detail")),
        {"interrupt_cause": QUARANTINED, **f.TIME_KEPT},
    ),
    f.suspend_attempt(),
    f.drop_grant(),
    f.held_event("revoked", QUARANTINED),
)


def damaged_list(row: object) -> str:
    """The first unreadable list of a row, or the empty text."""
    columns = ("required_capabilities", "budget_ids")
    return next((column for column in columns if getattr(row, column, ()) == UNREADABLE), "")


def unknown_budgets(budgets: Iterable[str]) -> set[str]:
    """The budgets that are not ids."""
    return {budget for budget in budgets if not _is_uuid(budget)}


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def detail(column: str) -> str:
    return f"{QUARANTINED}: {column} cannot be read"


def hold(partition: int, execution_id: UUID, version: int, column: str, now: int) -> Plan:
    """Holds an execution that waits to be claimed."""
    named = {"partition_key": partition, "execution_id": execution_id, "version": version}
    return BLOCK["paused_by_operator"](**named, detail=detail(column), blocked_on=None, now=now)


def hold_claimed(lease: HandleFields, column: str) -> Plan:
    """Holds an execution that has just been claimed, and releases its lease."""
    return QUARANTINE_HELD(**held_by(lease), detail=detail(column))
