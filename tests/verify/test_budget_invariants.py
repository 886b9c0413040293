"""Checks of budgets: a valid snapshot passes, planted violations are caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import (
    CreateBudgetArgs,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UpdateBudgetArgs,
)
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

LIMITED, FREE, LOWERED = UUID(int=1), UUID(int=2), UUID(int=3)
USAGE, LEDGER, POLICY = "ff_budget_usage", "ff_budget_usage_by_exec", "ff_budget_policy"
ONE, OTHER = ExecutionId.of(1, UUID(int=11)), ExecutionId.of(2, UUID(int=12))
Tables = dict[str, list[Any]]
Plant = Callable[[Tables], None]


async def sound() -> Tables:
    """A budget at its limit with two accounts, one without limits, one with lowered limits."""
    engine = Engine(MemoryStore(ManualClock()), seed=1)
    limits = {"dimensions": ["t", "z"], "hard_limits": [10, 0], "soft_limits": [5, 5]}
    await engine.create_budget(CreateBudgetArgs(budget_id=LIMITED, **limits))
    await engine.create_budget(CreateBudgetArgs(budget_id=FREE))
    await engine.create_budget(CreateBudgetArgs(budget_id=LOWERED, **limits))
    for budget in (LIMITED, FREE, LOWERED):
        for who, amount in ((ONE, 4), (OTHER, 3)):
            await engine.record_spend(
                RecordSpendArgs(
                    budget_id=budget, execution_id=who, deltas={"t": amount, "z": amount}
                )
            )
        await engine.report_usage_admin(
            budget, ReportUsageAdminArgs(dimensions=["t", "z"], deltas=[3, 90])
        )
        await engine.report_usage_admin(budget, ReportUsageAdminArgs(dimensions=["u"], deltas=[0]))
    lower = {"dimensions": ["t", "z"], "hard_limits": [6, 20], "soft_limits": [0, 0]}
    await engine.update_budget(UpdateBudgetArgs(budget_id=LOWERED, **lower))
    return {
        table: [list(row) for row in rows]
        for table, rows in (await engine.store.dump(TABLES_READ)).items()
    }


SOUND = asyncio.run(sound())


def put(table: str, column: str, value: Any, **key: Any) -> Plant:
    names = TABLES[table].names

    def plant(tables: Tables) -> None:
        found = [
            row for row in tables[table] if all(row[names.index(c)] == v for c, v in key.items())
        ]
        assert found
        found[0][names.index(column)] = value

    return plant


def unmade(tables: Tables) -> None:
    tables[USAGE] = [row for row in tables[USAGE] if row[:2] != [LIMITED, "t"]]


def usage(of: UUID, name: str, value: int) -> Plant:
    return put(USAGE, "current_value", value, budget_id=of, dimensions_key=name)


def account(of: UUID, value: int) -> Plant:
    return put(
        LEDGER, "delta_total", value, budget_id=of, dimensions_key="t", execution_id=ONE.uuid
    )


PLANTED: dict[str, tuple[Plant, UUID, str]] = {
    "one above the hard limit": (usage(LIMITED, "t", 11), LIMITED, "t: 11 used, the limit is 10"),
    "below nothing": (usage(LIMITED, "u", -1), LIMITED, "u: -1 used, the limit is none"),
    "below nothing without limits": (usage(FREE, "u", -1), FREE, "u: -1 used, the limit is none"),
    "above what was ever allowed": (usage(LOWERED, "t", 11), LOWERED, "t: 11 used, the limit is 6"),
    "more on accounts than was counted": (
        usage(LIMITED, "t", 6),
        LIMITED,
        "t: 7 charged, 6 used",
    ),
    "an account that grew by itself": (account(FREE, 8), FREE, "t: 11 charged, 10 used"),
    "accounts of what was never counted": (unmade, LIMITED, "t: 7 charged, 0 used"),
}


def violations(plant: Plant | None = None) -> list[tuple[str, str, str]]:
    tables = deepcopy(SOUND)
    if plant is not None:
        plant(tables)
    world = snapshot_of({table: [tuple(row) for row in rows] for table, rows in tables.items()})
    return [(v.invariant, v.subject, v.says) for v in check(world)]


def test_a_valid_snapshot_passes() -> None:
    assert violations() == []
    assert {tuple(row[:2]): row[3] for row in SOUND[USAGE]}[LIMITED, "t"] == 10


@pytest.mark.parametrize("name", PLANTED)
def test_each_violation_is_caught_and_named(name: str) -> None:
    plant, budget, says = PLANTED[name]
    assert violations(plant) == [("I13", str(budget), says)]


@pytest.mark.parametrize(
    "plant",
    [
        usage(LIMITED, "z", 10**9),
        usage(FREE, "t", 10**9),
        usage(LIMITED, "t", 7),
        usage(LOWERED, "z", 10**9),
    ],
)
def test_unusual_but_valid_states_pass(plant: Plant) -> None:
    assert violations(plant) == []
