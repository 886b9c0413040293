"""What the tests of budgets share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import (
    BudgetCreated,
    BudgetStatus,
    CreateBudgetArgs,
    HardBreach,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    SoftBreach,
    UsageAlreadyApplied,
    UsageOk,
    UsageResult,
)
from flowfabric.store.schema import TABLES
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

OK, AGAIN = UsageOk(), UsageAlreadyApplied()
POLICY, USAGE, KEYS, LEDGER = (
    "ff_budget_policy",
    "ff_budget_usage",
    "ff_budget_usage_dedup",
    "ff_budget_usage_by_exec",
)
DAY_MS = 86_400_000


async def budget(
    engine: Engine,
    hard: Mapping[str, int] | None = None,
    soft: Mapping[str, int] | None = None,
    **said: Any,
) -> UUID:
    """A new budget with these limits."""
    names = list(dict.fromkeys([*(hard or {}), *(soft or {})]))
    limits = {
        "hard_limits": [(hard or {}).get(name, 0) for name in names],
        "soft_limits": [(soft or {}).get(name, 0) for name in names],
    }
    ident = said.pop("budget_id", None) or uuid4()
    args = CreateBudgetArgs(budget_id=ident, dimensions=names, **limits, **said)
    assert await engine.create_budget(args) == BudgetCreated(ident)
    return ident


async def report(engine: Engine, to: UUID, key: str | None = None, **deltas: int) -> UsageResult:
    args = ReportUsageAdminArgs(
        dimensions=list(deltas), deltas=list(deltas.values()), dedup_key=key
    )
    return await engine.report_usage_admin(to, args)


async def spend(
    engine: Engine, of: UUID, who: ExecutionId, key: str = "", **deltas: int
) -> UsageResult:
    return await engine.record_spend(
        RecordSpendArgs(budget_id=of, execution_id=who, deltas=deltas, idempotency_key=key)
    )


async def usage(engine: Engine, of: UUID) -> dict[str, int]:
    return {
        row["dimensions_key"]: row["current_value"]
        for row in await rows(engine, USAGE)
        if row["budget_id"] == of
    }


async def account(engine: Engine, who: ExecutionId, of: UUID) -> dict[str, int]:
    return (await engine.read_budget_ledger(who)).get(of, {})


async def rows(engine: Engine, table: str) -> list[dict[str, Any]]:
    found = (await engine.store.dump([table]))[table]
    return [dict(zip(TABLES[table].names, row, strict=True)) for row in found]


async def status(engine: Engine, of: UUID) -> BudgetStatus:
    return await engine.get_budget_status(of)


async def sound(engine: Engine) -> None:
    assert [str(v) for v in check(snapshot_of(await engine.store.dump(TABLES_READ)))] == []


def hard(dimension: str, used: int, limit: int, action: str | None = None) -> HardBreach:
    return HardBreach(dimension, used, limit, action)


def soft(dimension: str, used: int, limit: int) -> SoftBreach:
    return SoftBreach(dimension, used, limit)
