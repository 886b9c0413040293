"""Clock steps and frozen leaders while several features depend on them."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.model.waitpoint import TimeoutBehavior
from flowfabric.testing import ManualClock
from tests.patience import patient
from tests.stories.process import Gate

from .flow_helpers import rows_of, states, submit
from .helpers import GRACE_MS, claim, create, dump, row, running, state, told
from .suspend_helpers import park, seed, sound

HOUR_MS = 3_600_000
LIMIT_MS = 100_000
POLICY = ExecutionPolicy(
    timeout_policy=TimeoutPolicy(attempt_timeout_ms=LIMIT_MS),
    retry_policy=RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": HOUR_MS}),
)


@pytest.mark.meets("clock_step", "suspend", "deadline")
@pytest.mark.meets("clock_step", "timeout", "reclaim", "deadline")
@pytest.mark.meets("clock_step", "delay", "deadline")
@pytest.mark.meets("clock_step", "timeout", "retry")
async def test_a_clock_that_leaps_over_everything_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    """A deadline that was leapt over ends what it is of, whatever was leapt over with it. A clock
    set back revives nothing.
    """
    await seed(engine)
    at = {"execution_deadline_at": clock() + 2 * HOUR_MS}
    behavior = {"timeout_at": clock() + HOUR_MS, "timeout_behavior": TimeoutBehavior.AUTO_RESUME}
    suspended = (await park(engine, made={"lane_id": "suspended", **at}, **behavior)).ident
    late, _ = await running(engine, lane_id="late", policy=POLICY, **at)
    delayed = await create(engine, lane_id="delayed", delay_until=clock() + HOUR_MS, **at)
    lost, zombie = await running(engine, lane_id="lost", policy=POLICY)
    retried, failed = await running(engine, lane_id="retried", policy=POLICY)
    await engine.fail(failed, "boom")

    clock.advance(3 * HOUR_MS)
    loops = Supervisor(engine)
    for _ in range(2):
        await loops.run_once()
    for ident in (suspended, late, delayed):
        assert await state(engine, ident) == "ENDED(expired)"
        assert [end for end in (await told(engine, ident))["DONE"] if end != "resumable"] == [
            "expired"
        ]
    assert (await state(engine, lost), await state(engine, retried)) == ("LOST", "READY")

    clock.advance(GRACE_MS)
    await loops.run_once()
    before = await dump(engine)
    clock.advance(-2 * HOUR_MS)
    for _ in range(2):
        await loops.run_once()
    for call in (engine.complete(zombie), engine.renew(zombie), engine.fail(zombie, "late")):
        with pytest.raises(EngineError):
            await call
    assert await dump(engine) == before
    again = await claim(engine, lane="lost")
    found = await row(engine, lost)
    assert (found.retry_count, found.attempt_timeout_at_ms) == (
        0,
        await engine.store.now_ms() + LIMIT_MS,
    )
    await engine.complete(again)
    await sound(engine)


@pytest.mark.meets("leader_change", "freeze", "flow", "cancel")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("write", [1, 2, 3])
async def test_a_leader_that_stood_still_among_the_cancels_of_a_flow(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, write: int, after: bool
) -> None:
    """Another leader finished them. What the first one was about to do is done already, and is not
    done twice.
    """
    monkeypatch.setattr("flowfabric.engine.flows.cancels.MAX_TOGETHER", 1)
    graph = await submit(engine, "a>d b c")
    held = await claim(engine, lane="b")

    async def dies(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core.cascade.members, "cancel", dies)
        with pytest.raises(asyncio.CancelledError):
            await engine.cancel_flow(graph.flow)
    clock.advance(30_000)
    gate = Gate(engine.store)
    leader, follower = Supervisor(Engine(gate)), Supervisor(engine)  # type: ignore[arg-type]
    gate.at(write, after=after)
    leading = asyncio.create_task(leader.run_once())
    async with patient(20):
        await gate.halted.wait()
    for _ in range(2):
        await follower.run_once()
    ended = await states(engine, graph)
    assert ended == dict.fromkeys("abcd", "ENDED(cancelled)")
    before = await engine.store.dump(["ff_exec_core", "ff_lease_event"])
    gate.thaw()
    async with patient(20):
        await leading
    assert await engine.store.dump(before) == before
    for name in graph.ids:
        assert (await told(engine, graph[name]))["DONE"] == ["cancelled"]
    assert (
        await rows_of(engine, "ff_cancel_backlog")
        == await rows_of(engine, "ff_cancel_backlog_member")
        == []
    )
    with pytest.raises(EngineError):
        await engine.complete(held)
    await sound(engine)
