"""Checks of quotas: a valid snapshot passes, planted violations are caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.quota import CheckAdmissionArgs, CreateQuotaPolicyArgs
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

QUOTA = UUID(int=500)
IDS = [ExecutionId.of(1, UUID(int=n)) for n in range(1, 7)]
CORE, POLICY, WINDOW, SLOTS = (
    "ff_exec_core",
    "ff_quota_policy",
    "ff_quota_window",
    "ff_quota_admitted",
)
Tables = dict[str, list[Any]]
Plant = Callable[[Tables], None]


async def make() -> Tables:
    """Two run, one ended, one holds a place by hand, the rest wait."""
    clock = ManualClock()
    engine = Engine(MemoryStore(clock))
    await engine.create_quota_policy(
        CreateQuotaPolicyArgs(
            quota_policy_id=QUOTA, window_seconds=10, max_requests_per_window=4, max_concurrent=3
        )
    )
    await engine.attach_limit("quota", QUOTA, "lane", "default")
    for ident in IDS:
        await engine.create_execution(CreateExecutionArgs(execution_id=ident))
    first, *_ = await engine.claim_many("default", (), ClaimPolicy("w", "w-1", 3_600_000), 3)
    await engine.complete(first.handle)
    await engine.check_admission(CheckAdmissionArgs(quota_policy_id=QUOTA, execution_id=IDS[5]))
    clock.advance(500_000)
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ExecutionId.of(1, UUID(int=50)), lane_id="free")
    )
    return await engine.store.dump(TABLES_READ)


@pytest.fixture(scope="module")
def sound() -> Tables:
    return asyncio.run(make())


def change(table: str, row: int, **columns: Any) -> Plant:
    def plant(tables: Tables) -> None:
        names = TABLES[table].names
        found = dict(zip(names, tables[table][row], strict=True))
        tables[table][row] = tuple({**found, **columns}.values())

    return plant


def add(table: str, row: tuple[Any, ...]) -> Plant:
    return lambda tables: tables[table].append(row)


def clear(table: str) -> Plant:
    return lambda tables: tables[table].clear()


def test_a_valid_snapshot_passes(sound: Tables) -> None:
    assert check(snapshot_of(sound)) == []


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (change(POLICY, 0, active_concurrency_cap=2), "3 slots in use, the cap is 2"),
        (
            add(SLOTS, (QUOTA, str(ExecutionId.of(0, UUID(int=9))), 0, None)),
            "4 slots in use, the cap is 3",
        ),
        (add(SLOTS, (QUOTA, str(IDS[0]), 0, None)), "ended, but holds a slot"),
        (change(POLICY, 0, max_requests_per_window=3), "more than 3 were admitted within 10000 ms"),
        (change(CORE, 3, gate=""), "is in the queue ''"),
        (
            change(CORE, 3, budget_ids=("x",), quota_policy_id=None, gate="budget"),
            "does not list the gate 'budget'",
        ),
        (clear("ff_lane_gate"), "does not list the gate"),
    ],
)
def test_each_violation_is_caught(sound: Tables, plant: Plant, says: str) -> None:
    tables = deepcopy(sound)
    plant(tables)
    found = check(snapshot_of(tables))
    assert found and {violation.invariant for violation in found} == {"I14"}
    assert any(says in violation.says for violation in found)


def test_entries_exactly_a_window_apart_are_fine(sound: Tables) -> None:
    tables = deepcopy(sound)
    tables[WINDOW] = [
        (QUOTA, "default", at, UUID(int=at + 1)) for at in (0, 1, 2, 3, 10_000, 10_001)
    ]
    assert check(snapshot_of(tables)) == []
    tables[WINDOW].append((QUOTA, "default", 9_999, UUID(int=7)))
    assert [violation.invariant for violation in check(snapshot_of(tables))] == ["I14"]
    tables[WINDOW] = [(QUOTA, "other", at, UUID(int=at + 1)) for at in range(9)]
    assert check(snapshot_of(tables)) == []


def test_lowered_limits_apply_to_later_starts(sound: Tables) -> None:
    """Three hold a place and four were admitted, all of them at 0, when more was allowed."""
    tables = deepcopy(sound)
    at = max(row[TABLES[WINDOW].names.index("admitted_at_ms")] for row in tables[WINDOW])
    change(POLICY, 0, active_concurrency_cap=1, max_requests_per_window=1, changed_at_ms=at)(tables)
    assert check(snapshot_of(tables)) == []
    change(POLICY, 0, changed_at_ms=at - 1)(tables)
    assert {violation.says.split(" ", 1)[1] for violation in check(snapshot_of(tables))} == {
        "slots in use, the cap is 1",
        "than 1 were admitted within 10000 ms",
    }
