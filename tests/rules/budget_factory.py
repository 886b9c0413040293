"""Budgets for rule tests: a policy, its usage, and a memory store with both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from flowfabric.ids import ExecutionId
from flowfabric.model.budget import BudgetPolicy, Limits
from flowfabric.plan import Answer, Applied, Arg, Form, Insert, Plan
from flowfabric.rules.limits.budget_forms import KEYS, LEDGER, POLICY, USAGE
from flowfabric.rules.limits.budgets import BudgetRows, Charge, Report
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing.clock import ManualClock

from .factory import IDENT, NOW, run

BUDGET = UUID(int=0xB0D6E7)
OTHER = ExecutionId.of(3, UUID("018f0000-0000-7000-8000-000000000009"))
SEEDS = {
    t: Form(f"seed_{t}", Insert(t, {c: Arg(c) for c in TABLES[t].names}))
    for t in (POLICY, USAGE, KEYS, LEDGER)
}


def policy(
    hard: Mapping[str, int] | None = None,
    soft: Mapping[str, int] | None = None,
    *,
    columns: Any = (),
    **said: Any,
) -> BudgetPolicy:
    limits = Limits(dict(hard or {}), dict(soft or {}), **said)
    row: dict[str, Any] = {
        **{c.name: c.default for c in TABLES[POLICY].columns},
        "budget_id": BUDGET,
        "policy_json": msgspec.json.encode(limits).decode(),
        "created_at_ms": NOW - 1_000,
        "updated_at_ms": NOW - 1_000,
        **dict(columns),
    }
    return BudgetPolicy(**row)


def books(
    of: BudgetPolicy | None,
    usage: Mapping[str, int] | None = None,
    keys: Mapping[str, int] | None = None,
    charges: Mapping[Charge, int] | None = None,
) -> BudgetRows:
    return BudgetRows(BUDGET, NOW, of, dict(usage or {}), dict(keys or {}), dict(charges or {}))


def report(
    key: str | None = None,
    charged: ExecutionId | None = None,
    by: ExecutionId | None = None,
    **deltas: int,
) -> Report:
    return Report(tuple(sorted(deltas.items())), key, charged, by)


def seeded(known: BudgetRows, clock: ManualClock | None = None) -> MemoryStore:
    """A store with these rows."""
    store = MemoryStore(clock or ManualClock(NOW))
    rows: list[tuple[str, dict[str, Any]]] = []
    if known.policy is not None:
        rows.append((POLICY, msgspec.structs.asdict(known.policy)))
    for name, value in known.usage.items():
        rows.append((USAGE, _row(USAGE, dimensions_key=name, current_value=value)))
    for key, until in known.keys.items():
        rows.append((KEYS, _row(KEYS, dedup_key=key, applied_at_ms=0, expires_at_ms=until)))
    for (who, name), total in known.charges.items():
        of = {
            "partition_key": who.partition_index,
            "execution_id": who.uuid,
            "dimensions_key": name,
            "delta_total": total,
        }
        rows.append((LEDGER, _row(LEDGER, **of)))
    for table, row in rows:
        assert isinstance(run(store.commit(SEEDS[table](**row))), Applied)
    return store


def _row(table: str, **columns: Any) -> dict[str, Any]:
    return {**{c.name: c.default for c in TABLES[table].columns}, "budget_id": BUDGET, **columns}


def commit(store: MemoryStore, plans: list[Plan]) -> Answer:
    return run(store.commit_together(plans))


def rows(store: MemoryStore, table: str) -> list[dict[str, Any]]:
    found = run(store.dump([table]))[table]
    return [dict(zip(TABLES[table].names, row, strict=True)) for row in found]


def usage(store: MemoryStore) -> dict[str, int]:
    return {row["dimensions_key"]: row["current_value"] for row in rows(store, USAGE)}


def ledger(store: MemoryStore) -> dict[tuple[ExecutionId, str], int]:
    found = rows(store, LEDGER)
    return {
        (ExecutionId.of(r["partition_key"], r["execution_id"]), r["dimensions_key"]): r[
            "delta_total"
        ]
        for r in found
    }


def keys(store: MemoryStore) -> dict[str, dict[str, Any]]:
    return {row["dedup_key"]: row for row in rows(store, KEYS)}


def stored_policy(store: MemoryStore) -> BudgetPolicy:
    (row,) = rows(store, POLICY)
    return BudgetPolicy(**row)


__all__ = ["BUDGET", "IDENT", "NOW", "OTHER"]
