"""Queue depths and overdue timers."""

from __future__ import annotations

from uuid import uuid4

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions import queue_stats
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.flow import GraphEdge, SubmitFlowArgs
from flowfabric.model.queue_stats import LaneLoad
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.testing import ManualClock

from .helpers import LANE, TTL_MS, claim, completed, create, registration, running, worker
from .suspend_helpers import park, seed


async def load(engine: Engine, lane: str = LANE) -> LaneLoad:
    return next(each for each in (await engine.census()).lanes if each.lane == lane)


async def test_an_empty_database_counts_nothing(engine: Engine) -> None:
    found = await engine.census()
    assert (found.lanes, found.workers, found.cancel_backlog) == ((), {}, 0)


async def test_executions_are_counted_by_lane_and_state_until_they_end(
    engine: Engine, clock: ManualClock
) -> None:
    await completed(engine)
    for _ in range(3):
        await create(engine)
    await claim(engine)
    await create(engine, delay_until=clock() + 60_000)
    await create(engine, lane_id="other")
    assert await load(engine) == LaneLoad(LANE, {"waiting": 2, "active": 1, "delayed": 1})
    assert await load(engine, "other") == LaneLoad("other", {"waiting": 1})


async def test_lost_executions_are_active_and_cancelled_ones_are_not_counted(
    engine: Engine, clock: ManualClock
) -> None:
    await running(engine)
    ident = await create(engine)
    clock.advance(TTL_MS + 1)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident, reason="enough"))
    assert (await load(engine)).states == {"active": 1}


async def test_members_of_a_flow_wait_for_others(engine: Engine) -> None:
    flow = uuid4()
    first, second = (ExecutionId.for_flow(flow) for _ in range(2))
    nodes = [CreateExecutionArgs(execution_id=ident) for ident in (first, second)]
    await engine.submit_flow(
        SubmitFlowArgs(flow_id=flow, nodes=nodes, edges=[GraphEdge(first, second)])
    )
    assert (await load(engine)).states == {"waiting": 1, "waiting_children": 1}


async def test_suspended_executions_are_counted_in_their_lane(engine: Engine) -> None:
    await seed(engine)
    await park(engine)
    assert (await load(engine)).states == {"suspended": 1}


async def test_executions_under_a_quota_count_in_their_lane(engine: Engine) -> None:
    quota = uuid4()
    await engine.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1))
    await engine.attach_limit("quota", quota, "lane", LANE)
    for _ in range(3):
        await create(engine)
    await claim(engine)
    assert (await load(engine)).states == {"waiting": 2, "active": 1}


async def test_the_oldest_waits_since_it_became_claimable(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, delay_until=clock() + 60_000)
    clock.advance(60_000)
    await engine.promote_delayed(ident)
    clock.advance(5_000)
    assert (await load(engine)).oldest_ready_ms == 5_000


async def test_the_oldest_is_found_behind_higher_priorities(
    engine: Engine, clock: ManualClock
) -> None:
    await create(engine, priority=0)
    clock.advance(7_000)
    for _ in range(queue_stats.FRONT + 3):
        await create(engine, priority=5)
    assert (await load(engine)).oldest_ready_ms == 7_000


async def test_every_execution_that_has_not_ended_is_counted(
    engine: Engine, clock: ManualClock
) -> None:
    """However many there are, and whatever holds them back."""
    many = 10_500
    delayed_until = clock() + 60_000
    for at in range(0, many, 500):
        await engine.create_executions(
            [
                CreateExecutionArgs(
                    execution_id=ExecutionId.solo(LANE),
                    lane_id=LANE,
                    delay_until=delayed_until if n % 50 == 0 else None,
                )
                for n in range(at, at + 500)
            ]
        )
    for reason in ("paused_by_operator", "paused_by_policy", "waiting_for_capable_worker"):
        await engine.block_route(await create(engine), reason)
    await engine.block_route(await create(engine), "waiting_for_quota")
    states = {"waiting": many - many // 50 + 3, "delayed": many // 50, "rate_limited": 1}
    assert (await load(engine)).states == states


async def test_expired_workers_are_not_counted(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration("a"))
    await engine.register_worker(registration("b", liveness_ttl_ms=1_000))
    assert (await engine.census()).workers == {"default": 2}
    clock.advance(1_000)
    assert (await engine.census()).workers == {"default": 1}


async def test_the_age_of_the_oldest_overdue_timer(engine: Engine, clock: ManualClock) -> None:
    assert await engine.oldest_overdue_ms() == 0
    due = clock.now_ms + 1_000
    await running(engine, worker(ttl_ms=2_000))
    await create(engine, delay_until=due)
    await create(engine, execution_deadline_at=due + 500)
    assert await engine.oldest_overdue_ms() == 0
    clock.advance(31_000)
    assert await engine.oldest_overdue_ms() == 30_000 == (await engine.census()).oldest_overdue_ms
    await Supervisor(engine).run_once()
    assert await engine.oldest_overdue_ms() == 0
