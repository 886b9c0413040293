"""Quotas are put right after whatever happened, and a healthy database is left as it is."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.quota import BlockForAdmissionArgs, CheckAdmissionArgs, Reconciled
from flowfabric.plan import Arg, Cond, Form, Update
from flowfabric.testing import ManualClock
from tests.conftest import make_engine

from .helpers import TTL_MS, create, dump, grant_args, new_id, running, state
from .limit_helpers import (
    WINDOW_MS,
    budget,
    held,
    quota,
    quota_lane,
    several,
    sound,
    table,
    take,
    window,
)

_REFILL = Form(
    "t_refill",
    Update(
        "ff_budget_usage",
        (Cond("budget_id", "=", Arg("budget_id")), Cond("dimensions_key", "=", "tokens")),
        {"current_value": Arg("used")},
    ),
)


async def refill(engine: Engine, budget_id: UUID, used: int = 0) -> None:
    await engine.store.commit(_REFILL(budget_id=budget_id, used=used))


async def test_a_healthy_database_is_left_alone(engine: Engine) -> None:
    await quota_lane(engine, cap=3, rate=3)
    spent = await budget(engine, used=10)
    await several(engine, 2)
    await create(engine, policy={"budget_ids": [str(spent)]}, lane_id="other")
    await take(engine, 2)
    assert await take(engine, lane="other") == []
    await engine.reconcile_quota_counters()
    before = await dump(engine)
    assert await engine.reconcile_quota_counters() == Reconciled()
    assert await engine.release_limited() == 0
    assert await dump(engine) == before


async def test_entries_go_when_they_are_a_window_old(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.limits.quota_maintenance.PAGE", 2)
    ident = await quota(engine)
    for dimension in ("a", "b", "default"):
        for _ in range(3):
            args = CheckAdmissionArgs(
                quota_policy_id=ident, execution_id=new_id(), dimension=dimension
            )
            await engine.check_admission(args)
    clock.advance(WINDOW_MS - 1)
    await engine.reconcile_quota_counters()
    assert len(await window(engine)) == 9
    clock.advance(1)
    assert (await engine.reconcile_quota_counters()).processed == 1
    assert await window(engine) == []


async def test_places_taken_by_hand_go_with_their_execution(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await quota(engine)
    ended, runs, granted, waits = (
        await create(engine),
        (await running(engine, lane_id="r"))[0],
        await create(engine),
        await create(engine),
    )
    unknown = new_id()
    for execution in (ended, runs, granted, waits, unknown):
        await engine.check_admission(
            CheckAdmissionArgs(quota_policy_id=ident, execution_id=execution)
        )
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ended))
    await engine.issue_claim_grant(grant_args(granted, ttl_ms=60_000))
    await engine.reconcile_quota_counters()
    assert len(await table(engine, "ff_quota_admitted")) == 5, (
        "what was just taken is about to be used"
    )
    assert (await table(engine, "ff_quota_policy"))[0]["active_concurrency"] == 5
    clock.advance(30_000)
    await engine.reconcile_quota_counters()
    left = {row["execution_id"] for row in await table(engine, "ff_quota_admitted")}
    assert left == {str(runs), str(granted), str(unknown)}
    assert (await table(engine, "ff_quota_policy"))[0]["active_concurrency"] == 3


async def test_executions_blocked_by_a_budget_continue_when_it_has_room(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.limits.quota_maintenance.RELEASE_PAGE", 3)
    one, two = await budget(engine, used=10), await budget(engine, used=10)
    waiting = await several(engine, 7, policy={"budget_ids": [str(one)]})
    both = await create(engine, policy={"budget_ids": [str(one), str(two)]})
    assert await take(engine, 10) == []
    assert await engine.release_limited() == 0
    await refill(engine, one)
    assert await engine.release_limited() == 7
    assert {await state(engine, ident) for ident in waiting} == {"READY"}
    assert await state(engine, both) == "BUDGET"
    assert len(await take(engine, 10)) == 7
    await sound(engine)


async def test_executions_blocked_by_a_quota_continue_as_far_as_it_has_room(engine: Engine) -> None:
    await quota_lane(engine, cap=2)
    (_, *waiting) = await several(engine, 6)
    (handle,) = await take(engine)
    for ident in waiting:
        await engine.block_execution_for_admission(
            BlockForAdmissionArgs(execution_id=ident, reason="waiting_for_quota")
        )
    assert await engine.release_limited() == 1
    await engine.complete(handle)
    assert await engine.release_limited(limit=1) == 1
    assert (
        sorted([await state(engine, ident) for ident in waiting]) == ["QUOTA"] * 3 + ["READY"] * 2
    )


async def test_one_paused_by_an_operator_is_not_touched(engine: Engine) -> None:
    ident = await create(engine)
    await engine.block_route(ident, "paused_by_operator")
    assert await engine.release_limited() == 0 and await state(engine, ident) == "OPBLOCK"


async def test_the_loops_do_it(engine: Engine, clock: ManualClock) -> None:
    ident = await quota_lane(engine, rate=5)
    await several(engine, 1)
    await take(engine)
    clock.advance(WINDOW_MS)
    loops = Supervisor(engine)
    await loops.run_once()
    assert await window(engine) == []
    assert {"quota_reconciler", "limit_releaser"} <= {loop.name for loop in loops.loops}
    assert ident


async def test_a_thousand_killed_holders_leave_no_place_behind(
    clock: ManualClock, tmp_path: Path
) -> None:
    """Workers die at every point of their work, in virtual time; whatever they held is free again
    by itself.
    """
    engine = make_engine("memory", clock, tmp_path)
    await quota_lane(engine, cap=5, rate=0)
    loops = Supervisor(engine)
    dice = random.Random(7)
    killed = done = 0
    await several(engine, 20)
    while killed < 1_000:
        for work in await engine.claim_many(
            "default", (), ClaimPolicy("w", f"w-{killed}", TTL_MS), 5
        ):
            fate = dice.random()
            if fate < 0.9:
                killed += 1  # and nobody hears of it again
                if fate < 0.3:
                    await engine.renew(work.handle)
            else:
                await engine.complete(work.handle)
                done += 1
                await several(engine, 1)
        assert await held(engine) <= 5
        granted = await engine.claim_for_worker("default", "g", "g-1", (), 1_000)
        assert await held(engine) + (type(granted).__name__ == "ClaimGrant") <= 5
        clock.advance(TTL_MS + 6_000)
        await loops.run_once()
    await engine.reconcile_quota_counters()
    assert await held(engine) == 0 and done > 0
    assert (await table(engine, "ff_quota_policy"))[0]["active_concurrency"] == 0
    assert len(await take(engine, 10)) == 5
    await sound(engine)


@pytest.mark.parametrize("kind", ["sqlite-file", "postgres"])
async def test_two_engines_on_one_database_stay_within_the_limits(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    one = make_engine(kind, clock, tmp_path)
    store: Any = one.store
    if kind == "postgres":
        from flowfabric.store.postgres.store import PostgresStore

        await store.open(check=False)
        two = Engine(await PostgresStore(store.options, clock=clock).open(check=False), seed=2)
    else:
        two = Engine(store, seed=2)
    try:
        await quota_lane(one, cap=7, rate=20)
        await several(one, 60)
        for _ in range(3):
            asking = [
                engine.claim("default", (), ClaimPolicy("w", f"w{n}", TTL_MS))
                for n in range(20)
                for engine in (one, two)
            ]
            handles = [handle for handle in await asyncio.gather(*asking) if handle is not None]
            assert await held(one) <= 7
            for at, handle in enumerate(handles):
                await (one, two)[at % 2].complete(handle)
            clock.advance(1)
        assert len(await window(one)) == 20
        assert await two.claim("default", (), ClaimPolicy("w", "w", TTL_MS)) is None
        await sound(one)
    finally:
        if kind == "postgres":
            await two.store.close()
        await one.close()
