"""Loads budgets: limits, usage, idempotency keys of reports, and the ledgers of executions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.snapshots import behind, every
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import BudgetPolicy
from flowfabric.rules.limits.budget_forms import KEYS, LEDGER, POLICY, USAGE
from flowfabric.rules.limits.budgets import BudgetRows, Report
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, Store

MAX_ROWS = 10_000
T = TypeVar("T")


class Usage(Struct, frozen=True, gc=False):
    """The usage of one dimension: columns of `ff_budget_usage`."""

    dimensions_key: str
    current_value: int


class LedgerEntry(Struct, frozen=True, gc=False):
    """An amount on the ledger of an execution: columns of `ff_budget_usage_by_exec`."""

    partition_key: int
    execution_id: UUID
    budget_id: UUID
    dimensions_key: str
    delta_total: int


_USAGE_COLUMNS = Usage.__struct_fields__
LEDGER_COLUMNS = LedgerEntry.__struct_fields__


async def load_budget(store: Store, budget: UUID) -> BudgetRows:
    """A budget with the usage of all its dimensions, from one snapshot when they fit a page."""
    scan = usage_scan(budget)
    loaded = await store.load((Get(POLICY, (budget,)), scan))
    policies, page = loaded.rows
    usage = await with_rest(store, scan, page, Usage)
    used = {each.dimensions_key: each.current_value for each in usage}
    return BudgetRows(budget, loaded.now_ms, _policy(policies), used)


def usage_scan(budget: UUID) -> Scan:
    return Scan("usage_of", {"budget_id": budget}, limit=MAX_ROWS, columns=_USAGE_COLUMNS)


async def load_for_reports(store: Store, budget: UUID, reports: Sequence[Report]) -> BudgetRows:
    """A budget with the dimensions, keys and ledgers that these reports name."""
    names = list(dict.fromkeys(name for report in reports for name, _ in report.deltas))
    keys = list(dict.fromkeys(report.key for report in reports if report.key))
    charged = _ledger_keys(budget, reports)
    owners = list(dict.fromkeys(r.by.key for r in reports if r.by is not None))
    ledger = ("partition_key", "execution_id", "dimensions_key", "delta_total")
    usage = GetAll(USAGE, [(budget, name) for name in names], _USAGE_COLUMNS)
    reads: list[Read] = [Get(POLICY, (budget,)), usage]
    if keys:
        reads.append(GetAll(KEYS, [(budget, key) for key in keys], ("dedup_key", "expires_at_ms")))
    if charged:
        reads.append(GetAll(LEDGER, charged, ledger))
    if owners:
        reads.append(GetAll("ff_exec_core", owners, ("partition_key", "execution_id", "namespace")))
    loaded = await store.load(reads)
    rows = iter(loaded.rows)
    nothing: list[Row] = []
    return BudgetRows(
        budget,
        loaded.now_ms,
        _policy(next(rows)),
        dict(next(rows)),
        dict(next(rows) if keys else nothing),
        {
            (ExecutionId.of(at, who), name): total
            for at, who, name, total in (next(rows) if charged else nothing)
        },
        {
            ExecutionId.of(at, who): namespace
            for at, who, namespace in (next(rows) if owners else nothing)
        },
    )


def _ledger_keys(budget: UUID, reports: Sequence[Report]) -> list[tuple[int, UUID, str, UUID]]:
    charges = dict.fromkeys(
        (report.charged, name)
        for report in reports
        if report.charged is not None
        for name, _ in report.deltas
    )
    return [(who.partition_index, who.uuid, name, budget) for who, name in charges]


async def load_ledger(store: Store, who: ExecutionId) -> list[LedgerEntry]:
    """Everything on the ledger of an execution."""
    scan = Scan("ledger_of", who.owner, limit=MAX_ROWS, columns=LEDGER_COLUMNS)
    return await every(store, scan, LedgerEntry)


async def load_charges(store: Store, budget: UUID, who: ExecutionId) -> BudgetRows:
    """What the ledger of an execution has of a budget, with the usage of these dimensions."""
    charges = {
        (who, entry.dimensions_key): entry.delta_total
        for entry in await load_ledger(store, who)
        if entry.budget_id == budget
    }
    keys = [(budget, name) for _, name in charges]
    loaded = await store.load((GetAll(USAGE, keys, _USAGE_COLUMNS),))
    (usage,) = loaded.rows
    return BudgetRows(budget, loaded.now_ms, None, dict(usage), {}, charges)


async def with_rest(store: Store, scan: Scan, page: list[Row], kind: Callable[..., T]) -> list[T]:
    """The rows of a page that is loaded already, and of the pages after it."""
    found = list(starmap(kind, page))
    if len(page) < scan.limit:
        return found
    return found + await every(store, behind(scan, found[-1]), kind)


def _policy(rows: list[Row]) -> BudgetPolicy | None:
    return next(starmap(BudgetPolicy, rows), None)
