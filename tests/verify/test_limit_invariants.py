"""Checks of limits and namespaces: planted violations are caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import CreateBudgetArgs, HardLimitAction, RecordSpendArgs
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

BUDGET, SPENT, QUOTA = UUID(int=1), UUID(int=2), UUID(int=3)
ONE, HELD = ExecutionId.of(1, UUID(int=11)), ExecutionId.of(1, UUID(int=12))
CORE, BUDGETS, QUOTAS, SCOPES = (
    "ff_exec_core",
    "ff_budget_policy",
    "ff_quota_policy",
    "ff_limit_scope",
)
Tables = dict[str, list[Any]]
Plant = Callable[[Tables], None]


async def make() -> Tables:
    """One is under a budget and a quota and has spent, another is held by a budget that it is not
    attached to.
    """
    engine = Engine(MemoryStore(ManualClock()))
    limits = {"dimensions": ["t"], "hard_limits": [9], "soft_limits": [0]}
    await engine.create_budget(CreateBudgetArgs(budget_id=BUDGET, namespace="a", **limits))
    held = {"on_hard_limit": HardLimitAction.SUSPEND_EXECUTION, **limits}
    await engine.create_budget(CreateBudgetArgs(budget_id=SPENT, namespace="a", **held))
    await engine.create_quota_policy(
        CreateQuotaPolicyArgs(quota_policy_id=QUOTA, namespace="a", max_concurrent=1)
    )
    await engine.attach_limit("quota", QUOTA, "namespace", "a")
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ONE, namespace="a", policy={"budget_ids": [str(BUDGET)]})
    )
    await engine.create_execution(CreateExecutionArgs(execution_id=HELD, namespace="a"))
    await engine.record_spend(RecordSpendArgs(budget_id=BUDGET, execution_id=ONE, deltas={"t": 1}))
    await engine.record_spend(RecordSpendArgs(budget_id=SPENT, execution_id=HELD, deltas={"t": 10}))
    return await engine.store.dump(TABLES_READ)


SOUND = asyncio.run(make())


def change(table: str, column: str, value: Any, **key: Any) -> Plant:
    names = TABLES[table].names

    def plant(tables: Tables) -> None:
        (at,) = [
            at
            for at, row in enumerate(tables[table])
            if all(row[names.index(c)] == v for c, v in key.items())
        ]
        found = dict(zip(names, tables[table][at], strict=True))
        tables[table][at] = tuple({**found, column: value}.values())

    return plant


def found(plant: Plant | None = None) -> list[tuple[str, str, str]]:
    tables = deepcopy(SOUND)
    if plant is not None:
        plant(tables)
    return [(v.invariant, v.subject, v.says) for v in check(snapshot_of(tables))]


def test_a_valid_snapshot_passes() -> None:
    assert found() == []


QUOTA_OF_B = f"under quota {QUOTA} of 'b'"
PLANTED: dict[str, tuple[Plant, set[tuple[str, str]]]] = {
    "a budget of another": (
        change(BUDGETS, "namespace", "b", budget_id=BUDGET),
        {
            (str(ONE), f"of 'a', under budget {BUDGET} of 'b'"),
            (str(ONE), f"of 'a', reported to budget {BUDGET} of 'b'"),
        },
    ),
    "held by a budget of another": (
        change(BUDGETS, "namespace", "b", budget_id=SPENT),
        {
            (str(HELD), f"of 'a', under budget {SPENT} of 'b'"),
            (str(HELD), f"of 'a', reported to budget {SPENT} of 'b'"),
        },
    ),
    "a quota of another": (
        change(QUOTAS, "namespace", "b"),
        {
            (str(ONE), f"of 'a', {QUOTA_OF_B}"),
            (str(HELD), f"of 'a', {QUOTA_OF_B}"),
            (f"quota {QUOTA}", "of 'b', attached to namespace 'a' of 'a'"),
        },
    ),
    "attached to another namespace": (
        change(SCOPES, "scope_id", "b"),
        {(f"quota {QUOTA}", "of 'a', attached to namespace 'b' of 'a'")},
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_violation_is_caught_and_named(name: str) -> None:
    plant, told = PLANTED[name]
    assert {(subject.removeprefix("execution "), says) for _, subject, says in found(plant)} == told
    assert {invariant for invariant, _, _ in found(plant)} == {"I12"}
