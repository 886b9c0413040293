"""Engines with their own connections report against one budget: the sum is exact and never above
the limit.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.budget import (
    CreateBudgetArgs,
    HardBreach,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UsageOk,
    UsageResult,
)
from flowfabric.store.sqlite.registry import open_store
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .helpers import Place, engines, ident, sound_world

BUDGET = UUID(int=77)
CALLERS, EACH = 16, 625


def limited(**hard: int) -> CreateBudgetArgs:
    return CreateBudgetArgs(
        budget_id=BUDGET,
        dimensions=list(hard),
        hard_limits=list(hard.values()),
        soft_limits=[0] * len(hard),
    )


async def report(engine: Engine, key: str | None = None, **deltas: int) -> UsageResult:
    args = ReportUsageAdminArgs(
        dimensions=list(deltas), deltas=list(deltas.values()), dedup_key=key
    )
    return await engine.report_usage_admin(BUDGET, args)


async def spend(engine: Engine, number: int, key: str = "", **deltas: int) -> UsageResult:
    args = RecordSpendArgs(
        budget_id=BUDGET, execution_id=ident(number), deltas=deltas, idempotency_key=key
    )
    return await engine.record_spend(args)


async def test_callers_of_two_engines_share_a_limit(place: Place) -> None:
    limit = 7_000
    async with engines(place, 2) as several:
        await several[0].create_budget(limited(a=limit))

        async def caller(number: int) -> int:
            done = [await report(several[number % 2], f"{number}-{at}", a=1) for at in range(EACH)]
            return sum(isinstance(each, UsageOk) for each in done)

        counted = await asyncio.gather(*(caller(n) for n in range(CALLERS)))
        assert sum(counted) == limit
        shown = await several[1].get_budget_status(BUDGET)
        assert (shown.usage, shown.breach_count) == ({"a": limit}, CALLERS * EACH - limit)
        await sound_world(several[0])


async def test_fifty_reports_of_five_engines_against_thirty(place: Place) -> None:
    async with engines(place, 5) as several:
        await several[0].create_budget(limited(a=30))
        done = await asyncio.gather(*(report(several[n % 5], a=1) for n in range(50)))
        assert Counter(map(type, done)) == {UsageOk: 30, HardBreach: 20}
        assert (await several[0].get_budget_status(BUDGET)).usage == {"a": 30}


async def test_one_key_on_five_engines_counts_once(place: Place) -> None:
    async with engines(place, 5) as several:
        await several[0].create_budget(limited(a=30))
        done = await asyncio.gather(*(spend(several[n % 5], n, "k", a=1) for n in range(50)))
        assert sum(isinstance(each, UsageOk) for each in done) == 1
        world = await sound_world(several[0])
        assert (world.usage, world.accounts) == ({(BUDGET, "a"): 1}, {(BUDGET, "a"): 1})


async def test_dimensions_in_any_order_never_deadlock_and_add_up(place: Place) -> None:
    names = ("a", "b", "c", "d")
    async with engines(place, 4) as several:
        await several[0].create_budget(limited(**dict.fromkeys(names, 150)))

        async def caller(number: int) -> Counter[str]:
            counted: Counter[str] = Counter()
            for at in range(40):
                chosen = {name: 1 for n, name in enumerate(names) if (number + at) >> n & 1}
                if isinstance(await spend(several[number % 4], at % 5, **chosen), UsageOk):
                    counted.update(chosen)
            return counted

        counted = sum(await asyncio.gather(*(caller(n) for n in range(16))), Counter())
        world = await sound_world(several[0])
        assert {name: world.usage[BUDGET, name] for name in names} == dict(counted)
        assert {name: world.accounts[BUDGET, name] for name in names} == dict(counted)


@pytest.mark.parametrize("resets", [True, False])
async def test_spending_among_releases_and_resets(place: Place, resets: bool) -> None:
    """The accounts add up to the usage after any mixture of them."""
    async with engines(place, 3) as several:
        await several[0].create_budget(limited(a=10_000, b=10_000))
        for number in range(4):
            await spend(several[0], number, a=1, b=1)

        async def spending(number: int) -> None:
            for at in range(40):
                await spend(several[number % 3], at % 4, f"{number}-{at}", a=1, b=2)

        async def taking_back(number: int) -> None:
            for at in range(15):
                if resets and at % 3 == 0 and number == 0:
                    await several[number % 3].reset_budget(BUDGET)
                else:
                    await several[number % 3].release_budget(BUDGET, ident(at % 4))

        await asyncio.gather(*(spending(n) for n in range(6)), *(taking_back(n) for n in range(3)))
        world = await sound_world(several[0])
        assert world.usage == {**dict.fromkeys(world.usage, 0), **world.accounts}
        for number in range(4):
            await several[1].release_budget(BUDGET, ident(number))
        assert set((await sound_world(several[0])).usage.values()) == {0}


# ---- SQLite: two processes, since within one all engines share a store

LIMIT = 4_000


async def _work(path: str, side: int) -> int:
    engine = Engine(open_store(path), seed=side)
    try:

        async def caller(number: int) -> int:
            done = [await report(engine, f"{side}-{number}-{at}", a=1) for at in range(EACH)]
            return sum(isinstance(each, UsageOk) for each in done)

        return sum(await asyncio.gather(*(caller(n) for n in range(CALLERS // 4))))
    finally:
        await engine.close()


async def test_two_processes_share_a_limit(tmp_path: Path) -> None:
    path = str(tmp_path / "ff.db")
    engine = Engine(open_store(path), seed=9)
    try:
        await engine.create_budget(limited(a=LIMIT))
        command = [sys.executable, "-m", __name__, path]
        other = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        here = await _work(path, 1)
        said, _ = await other.communicate()
        assert other.returncode == 0
        assert here + int(said) == LIMIT
        shown = await engine.get_budget_status(BUDGET)
        assert (shown.usage, shown.breach_count) == ({"a": LIMIT}, CALLERS // 2 * EACH - LIMIT)
        assert [str(v) for v in check(snapshot_of(await engine.store.dump(TABLES_READ)))] == []
    finally:
        await engine.close()


if __name__ == "__main__":
    print(asyncio.run(_work(sys.argv[1], 2)))
