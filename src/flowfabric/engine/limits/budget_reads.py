"""Reading a budget: its limits, what is used of it, known keys, and what is on whose account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.budget import BudgetPolicy
from flowfabric.rules.limits.budget_forms import KEYS, LEDGER, POLICY, USAGE
from flowfabric.rules.limits.budgets import BudgetRows, Report
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, Store

MAX_ROWS = 10_000
_USED = ("dimensions_key", "current_value")


async def read_books(
    store: Store, budget: UUID, reports: Sequence[Report] | None = None
) -> BudgetRows:
    """A budget with what its reports name: their dimensions and keys, and the accounts they go on. Without any, all it counts."""
    if reports is None:
        return await _all_books(store, budget)
    names = list(dict.fromkeys(name for report in reports for name, _ in report.deltas))
    keys = list(dict.fromkeys(report.key for report in reports if report.key))
    charged = [
        (who, name)
        for report in reports
        if (who := report.charged) is not None
        for name, _ in report.deltas
    ]
    accounts = list(dict.fromkeys(charged))
    reporters = list(dict.fromkeys(report.by for report in reports if report.by is not None))
    reads: list[Read] = [
        Get(POLICY, (budget,)),
        GetAll(USAGE, [(budget, name) for name in names], _USED),
    ]
    if keys:
        reads.append(GetAll(KEYS, [(budget, key) for key in keys], ("dedup_key", "expires_at_ms")))
    if accounts:
        wanted = [(who.partition_index, who.uuid, name, budget) for who, name in accounts]
        reads.append(
            GetAll(
                LEDGER, wanted, ("partition_key", "execution_id", "dimensions_key", "delta_total")
            )
        )
    if reporters:
        owners = [(who.partition_index, who.uuid) for who in reporters]
        reads.append(GetAll("ff_exec_core", owners, ("partition_key", "execution_id", "namespace")))
    loaded = await store.load(reads)
    rows = iter(loaded.rows)
    return BudgetRows(
        budget,
        loaded.now_ms,
        _policy(next(rows)),
        dict(next(rows)),
        dict(next(rows)) if keys else {},
        {(ExecutionId.of(at, who), name): total for at, who, name, total in next(rows)}
        if accounts
        else {},
        {ExecutionId.of(at, who): namespace for at, who, namespace in next(rows)}
        if reporters
        else {},
    )


async def _all_books(store: Store, budget: UUID) -> BudgetRows:
    """At one moment, as long as its dimensions fit a page."""
    scan = Scan("usage_of", {"budget_id": budget}, limit=MAX_ROWS, columns=_USED)
    loaded = await store.load((Get(POLICY, (budget,)), scan))
    usage = await with_rest(store, scan, loaded.rows[1], lambda row: (row[0],))
    return BudgetRows(budget, loaded.now_ms, _policy(loaded.rows[0]), dict(usage))


async def read_account(store: Store, budget: UUID, who: ExecutionId) -> BudgetRows:
    """What is on the account of an execution, and the counters it is part of."""
    charges = {
        (who, name): total for of, name, total in await read_ledger(store, who) if of == budget
    }
    loaded = await store.load((GetAll(USAGE, [(budget, name) for _, name in charges], _USED),))
    return BudgetRows(budget, loaded.now_ms, None, dict(loaded.rows[0]), {}, charges)


async def read_ledger(store: Store, who: ExecutionId) -> list[Row]:
    """Budget, dimension and amount of everything on an account."""
    owner = {"partition_key": who.partition_index, "execution_id": who.uuid}
    scan = Scan(
        "ledger_of", owner, limit=MAX_ROWS, columns=("budget_id", "dimensions_key", "delta_total")
    )
    return await with_rest(
        store, scan, (await store.load((scan,))).rows[0], lambda row: (row[1], row[0])
    )


async def with_rest(
    store: Store, scan: Scan, page: list[Row], position: Callable[[Row], tuple[Any, ...]]
) -> list[Row]:
    """A page, and those after it while they are full."""
    found = list(page)
    while len(page) == scan.limit:
        more = Scan(
            scan.index, scan.group, position(page[-1]), limit=scan.limit, columns=scan.columns
        )
        page = (await store.load((more,))).rows[0]
        found += page
    return found


def _policy(rows: list[Row]) -> BudgetPolicy | None:
    return BudgetPolicy(*rows[0]) if rows else None
