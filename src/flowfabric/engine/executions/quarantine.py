"""Holds executions with an unreadable column, so that they do not block the rows behind them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.lease import HandleFields
from flowfabric.model.worker import Routed
from flowfabric.plan import Applied
from flowfabric.rules.claims.admission import Candidate
from flowfabric.rules.executions import quarantine
from flowfabric.store.port import Store

log = logging.getLogger("flowfabric.engine")
Waiting = TypeVar("Waiting", bound=Routed | Candidate | Execution)


async def readable_rows(
    store: Store, rows: list[Waiting], *, of_budgets: bool = False
) -> list[Waiting]:
    """The readable rows; the others are held, and logged by the process whose commit applied."""
    damaged = [(row, column) for row in rows if (column := _damage(row, of_budgets=of_budgets))]
    if not damaged:
        return rows
    now = await store.now_ms()
    answers = await store.commit_many(
        [
            quarantine.hold(row.partition_key, row.execution_id, row.version, column, now)
            for row, column in damaged
        ]
    )
    for (row, column), answer in zip(damaged, answers, strict=True):
        if isinstance(answer, Applied):
            _log_held(ExecutionId.of(row.partition_key, row.execution_id), column)
    held = {row.execution_id for row, _ in damaged}
    return [row for row in rows if row.execution_id not in held]


def _damage(row: Routed | Candidate | Execution, *, of_budgets: bool) -> str:
    found = quarantine.damaged_list(row)
    if found or not of_budgets or isinstance(row, Routed):
        return found
    return "budget_ids" if quarantine.unknown_budgets(row.budget_ids) else ""


async def hold_claimed(store: Store, damaged: Sequence[tuple[HandleFields, str]]) -> None:
    """Never fails: a lease that is not released expires, and the next claim holds the execution."""
    try:
        answers = await store.commit_many(
            [quarantine.hold_claimed(lease, column) for lease, column in damaged]
        )
    except EngineError:
        log.exception("unreadable executions could not be held", extra={"count": len(damaged)})
        return
    for (lease, column), answer in zip(damaged, answers, strict=True):
        if isinstance(answer, Applied):
            _log_held(lease.execution_id, column)


def _log_held(ident: ExecutionId, column: str) -> None:
    log.error(
        "execution cannot be read and is held until an operator repairs it",
        extra={"execution_id": str(ident), "column": column},
    )
