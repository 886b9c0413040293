"""The state of a deployment: lanes, timers, stalled executions, budgets, leases by worker."""

from __future__ import annotations

from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions import deployment
from flowfabric.errors import ValidationError
from flowfabric.model.deployment import STALLED_MS, BudgetUse, DeploymentStatus, LaneStatus
from flowfabric.testing import ManualClock
from tests.engine.budget_helpers import DAY_MS, budget, report
from tests.engine.helpers import TTL_MS, completed, create, running, worker
from tests.engine.suspend_helpers import park, seed


async def test_an_empty_database(engine: Engine, clock: ManualClock) -> None:
    found = await engine.read_deployment()
    assert structs.replace(found, counted_at=0) == DeploymentStatus(
        clock.now_ms, None, 0, [], [], [], [], [], {}
    )


async def test_lanes_have_their_state_and_the_age_of_their_oldest(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine, lane_id="idle")
    await create(engine, lane_id="mail", priority=0)
    clock.advance(5_000)
    await create(engine, lane_id="mail", priority=9)
    await engine.pause_lane("mail")
    found = await engine.read_deployment()
    assert found.lanes == [LaneStatus("idle", "active", 0), LaneStatus("mail", "paused", 5_000)]
    assert [(each.lane_id, each.public_state, each.count) for each in found.counts] == [
        ("idle", "completed", 1),
        ("mail", "waiting", 2),
    ]


async def test_overdue_timers_by_kind(engine: Engine, clock: ManualClock) -> None:
    due = clock.now_ms + 1_000
    await running(engine, worker(ttl_ms=2_000), lane_id="a")
    for _ in range(2):
        await create(engine, delay_until=due)
    await create(engine, execution_deadline_at=due + 500)
    assert (await engine.read_deployment()).timers == []
    clock.advance(31_000)
    found = (await engine.read_deployment()).timers
    assert {each.kind: (each.count, each.oldest_ms) for each in found} == {
        "delay": (2, 30_000),
        "lease": (1, 29_000),
        "deadline": (1, 29_500),
    }


async def test_counting_timers_stops_at_its_maximum(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "MAX_TIMERS", 2)
    for _ in range(3):
        await create(engine, delay_until=clock.now_ms + 1)
    clock.advance(2)
    (timers,) = (await engine.read_deployment()).timers
    assert timers.count == 2


async def test_what_has_not_moved_for_long_is_stalled(engine: Engine, clock: ManualClock) -> None:
    old = await create(engine, lane_id="slow", execution_kind="report")
    held, _ = await running(engine, worker(ttl_ms=1_000), lane_id="lost")
    clock.advance(1_000)
    await engine.mark_lease_expired_if_due(held)
    clock.advance(STALLED_MS - 1)
    await create(engine, lane_id="fresh")
    found = (await engine.read_deployment()).stalled
    assert [(each.execution_id, each.lane, each.task) for each in found] == [
        (old, "slow", "report")
    ]
    clock.advance(1)
    both = (await engine.read_deployment()).stalled
    assert {each.execution_id: each.public_state for each in both} == {
        old: "waiting",
        held: "active",
    }
    assert both[0].since_ms == clock.now_ms - STALLED_MS - 1_000


async def test_budgets_are_listed_with_the_fullest_first(
    engine: Engine, clock: ManualClock
) -> None:
    tokens = await budget(
        engine,
        {"tokens": 1_000},
        {"usd": 10},
        scope_type="name",
        scope_id="llm",
        reset_interval_ms=DAY_MS,
    )
    calls = await budget(engine, {"calls": 10})
    await budget(engine, {})
    await report(engine, tokens, tokens=250, usd=12)
    await report(engine, calls, calls=5)
    found = (await engine.read_deployment()).budgets
    resets = clock.now_ms + DAY_MS
    assert found == [
        BudgetUse(tokens, "llm", "usd", 12, 10, False, resets),
        BudgetUse(calls, "", "calls", 5, 10, True, None),
        BudgetUse(tokens, "llm", "tokens", 250, 1_000, True, resets),
    ]


async def test_leases_are_counted_by_worker(engine: Engine) -> None:
    for _ in range(2):
        await running(engine, worker(1))
    await running(engine, worker(2))
    await completed(engine)
    assert (await engine.read_deployment()).held == {"w1-i1": 2, "w2-i1": 1}


async def test_a_namespace_sees_its_own(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    for space, lane in (("theirs", "their-lane"), ("ours", "our-lane")):
        said = {"namespace": space, "lane_id": lane}
        await running(engine, worker(namespace=space, ttl_ms=1_000), **said)
        await create(engine, **said)
        await create(engine, delay_until=clock.now_ms + 1_000, **said)
        await budget(engine, {"usd": 5}, namespace=space)
    await park(engine, timeout_at=clock.now_ms + 1_000)
    clock.advance(STALLED_MS + TTL_MS)
    found = await engine.read_deployment("ours")
    assert found.namespace == "ours"
    assert [each.lane for each in found.lanes] == ["our-lane"]
    assert {each.namespace for each in found.counts} == {"ours"}
    assert {each.lane for each in found.stalled} == {"our-lane"}
    assert {each.kind: each.count for each in found.timers} == {"delay": 1, "lease": 1}
    assert len(found.budgets) == 1
    assert found.held == {"w1-i1": 1}
    everything = await engine.read_deployment()
    assert {each.kind: each.count for each in everything.timers} == {
        "delay": 2,
        "lease": 2,
        "suspension timeout": 1,
    }
    assert len(everything.budgets) == 2


async def test_a_namespace_must_be_one(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="namespace"):
        await engine.read_deployment("")


async def test_a_namespace_without_anything(engine: Engine, clock: ManualClock) -> None:
    await create(engine, namespace=f"n-{uuid4()}")
    clock.advance(STALLED_MS)
    found = await engine.read_deployment("empty")
    assert (found.counts, found.lanes, found.stalled, found.held) == ([], [], [], {})
