"""A report counts for a lease that was granted, and acts only while that lease holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric import Engine
from flowfabric.codec.handle import decode_handle, encode_handle
from flowfabric.errors import ContentionKind, NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.budget import HardBreach, UsageDimensions
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.lease import Handle, RevokeLeaseArgs
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.plan import Answer, Plan
from flowfabric.testing import ManualClock

from .budget_helpers import DAY_MS, OK, budget, report, usage
from .flow_helpers import hold, states, submit
from .helpers import LANE, claim, refused, requeued, running, state
from .suspend_helpers import claim_resumed, park_held, seed, signal

actions = pytest.mark.parametrize(
    "action", ["fail_execution", "suspend_execution", "cancel_flow_pending"]
)


def forged(engine: Engine, handle: Handle, **said: Any) -> Handle:
    return Handle(
        handle.backend,
        handle.kind,
        encode_handle(structs.replace(decode_handle(handle, engine.store.tag), **said)),
    )


@actions
@pytest.mark.meets("budget_action", "reclaim")
async def test_a_late_report_is_counted_and_never_acts(
    engine: Engine, clock: ManualClock, action: str
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=action)
    who, zombie = await requeued(engine, clock)
    owner = await claim(engine)
    engine.parts.leases.clear()
    assert await engine.report_usage(zombie, ident, UsageDimensions(custom={"t": 9})) == OK
    assert await engine.report_usage(zombie, ident, UsageDimensions(custom={"t": 2})) == HardBreach(
        "t", 9, 10
    )
    assert await state(engine, who) == "RUNNING"
    await engine.renew(owner)
    assert await usage(engine, ident) == {"t": 9}


@actions
async def test_a_forged_lease_is_refused_and_nothing_is_counted(
    engine: Engine, action: str
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=action)
    assert await report(engine, ident, t=9) == OK
    who, handle = await running(engine)
    for said in (
        {"lease_id": uuid4()},
        {"lease_id": uuid4(), "lease_epoch": 0},
        {"lease_id": uuid4(), "attempt_index": 7},
    ):
        for amount in (1, 2):
            used = engine.report_usage(
                forged(engine, handle, **said), ident, UsageDimensions(custom={"t": amount})
            )
            await refused(used, ContentionKind.LEASE_CONFLICT)
    assert await usage(engine, ident) == {"t": 9}
    assert await state(engine, who) == "RUNNING"


@actions
async def test_a_granted_lease_under_another_epoch_never_acts(engine: Engine, action: str) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=action)
    assert await report(engine, ident, t=9) == OK
    who, handle = await running(engine)
    used = engine.report_usage(
        forged(engine, handle, lease_epoch=0), ident, UsageDimensions(custom={"t": 2})
    )
    assert await used == HardBreach("t", 9, 10)
    assert await state(engine, who) == "RUNNING"


@actions
@pytest.mark.meets("budget_action", "timeout", "flow")
async def test_a_report_after_the_limit_of_the_attempt_never_acts(
    engine: Engine, clock: ManualClock, action: str
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=action)
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=4_000))
    graph = await submit(engine, "a b", nodes={"a": {"policy": policy}})
    handle = await hold(engine, graph, "a")
    clock.advance(4_000)
    assert await engine.report_usage(handle, ident, UsageDimensions(custom={"t": 9})) == OK
    assert await engine.report_usage(handle, ident, UsageDimensions(custom={"t": 2})) == HardBreach(
        "t", 9, 10
    )
    assert (await states(engine, graph), await usage(engine, ident)) == (
        {"a": "RUNNING", "b": "READY"},
        {"t": 9},
    )


# ---- every way to lose a lease and to be run again

Lose = Callable[[Engine, ManualClock, ExecutionId, Handle], Awaitable[None]]


async def by_retry(engine: Engine, clock: ManualClock, who: ExecutionId, handle: Handle) -> None:
    outcome = await engine.fail(handle, "boom")
    assert isinstance(outcome, RetryScheduled)
    clock.advance(outcome.delay_until - clock())
    await engine.promote_delayed(who)


async def by_suspend(engine: Engine, clock: ManualClock, who: ExecutionId, handle: Handle) -> None:
    await seed(engine)
    await signal(engine, await park_held(engine, who, handle))


async def by_replay(engine: Engine, clock: ManualClock, who: ExecutionId, handle: Handle) -> None:
    await engine.cancel_execution(CancelExecutionArgs(execution_id=who))
    await engine.replay_execution(ReplayExecutionArgs(execution_id=who))


async def by_revoke(engine: Engine, clock: ManualClock, who: ExecutionId, handle: Handle) -> None:
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=who))


async def by_delay(engine: Engine, clock: ManualClock, who: ExecutionId, handle: Handle) -> None:
    await engine.delay(handle, clock() + 10)
    clock.advance(10)
    await engine.promote_delayed(who)


async def by_timeout(engine: Engine, clock: ManualClock, who: ExecutionId, handle: Handle) -> None:
    clock.advance(5_000)
    await engine.expire_execution(who, ExpirePhase.ATTEMPT_TIMEOUT)
    clock.advance(60_000)
    await engine.promote_delayed(who)


@actions
@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(by_retry, marks=pytest.mark.meets("budget_action", "retry")),
        pytest.param(by_suspend, marks=pytest.mark.meets("budget_action", "suspend")),
        pytest.param(by_replay, marks=pytest.mark.meets("budget_action", "cancel", "replay")),
        pytest.param(by_revoke, marks=pytest.mark.meets("budget_action", "revoke")),
        pytest.param(by_delay, marks=pytest.mark.meets("budget_action", "delay")),
        pytest.param(by_timeout, marks=pytest.mark.meets("budget_action", "timeout", "retry")),
    ],
)
async def test_the_report_of_an_earlier_lease(
    engine: Engine, clock: ManualClock, action: str, lose: Lose
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=action)
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=4_000))
    who, first = await running(engine, policy=policy)
    await lose(engine, clock, who, first)
    engine.parts.leases.clear()
    if lose is by_suspend:
        await claim_resumed(engine, who)
    else:
        await claim(engine)
    assert await state(engine, who) == "RUNNING"
    assert await engine.report_usage(first, ident, UsageDimensions(custom={"t": 9})) == OK
    assert await engine.report_usage(first, ident, UsageDimensions(custom={"t": 2})) == HardBreach(
        "t", 9, 10
    )
    assert (await state(engine, who), await usage(engine, ident)) == ("RUNNING", {"t": 9})


@pytest.mark.meets("budget_action", "flow")
async def test_a_late_report_cancels_nothing_of_the_flow(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await budget(engine, {"t": 1}, on_hard_limit="cancel_flow_pending")
    graph = await submit(engine, "a b")
    handle = await hold(engine, graph, "a")
    used = UsageDimensions(custom={"t": 2})
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=graph["a"]))
    assert await engine.report_usage(handle, ident, used) == HardBreach("t", 0, 1)
    assert "ENDED(cancelled)" not in (await states(engine, graph)).values()
    held = await hold(engine, graph, "a")
    assert await engine.report_usage(held, ident, used) == HardBreach(
        "t", 0, 1, "cancel_flow_pending"
    )
    assert (await states(engine, graph))["b"] == "ENDED(cancelled)"


@pytest.mark.meets("budget_action", "retention")
async def test_the_report_for_a_removed_execution_is_refused(
    engine: Engine, clock: ManualClock
) -> None:
    """What a budget ended is kept as what failed. Then another may have its id, and a late breach
    does nothing to that one.
    """
    ident = await budget(engine, {"t": 10}, on_hard_limit="fail_execution")
    who, handle = await running(engine)
    assert await engine.report_usage(handle, ident, UsageDimensions(custom={"t": 1})) == OK
    assert await engine.report_usage(
        handle, ident, UsageDimensions(custom={"t": 10})
    ) == HardBreach("t", 1, 10, "fail_execution")
    assert await state(engine, who) == "ENDED(failed)"
    clock.advance(7 * DAY_MS - 1)
    assert await engine.trim_retention(LANE) == 0
    clock.advance(1)
    assert await engine.trim_retention(LANE) == 1
    late = UsageDimensions(custom={"t": 10})
    engine.parts.leases.clear()
    with pytest.raises(NotFound):
        await engine.report_usage(handle, ident, late)
    await running(engine, execution_id=who)
    await refused(engine.report_usage(handle, ident, late), ContentionKind.LEASE_CONFLICT)
    assert (await state(engine, who), await usage(engine, ident)) == ("RUNNING", {"t": 1})


@pytest.mark.meets("budget_action", "flow", "revoke")
async def test_a_lease_lost_just_before_the_cancel_of_the_flow(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident = await budget(engine, {"t": 1}, on_hard_limit="cancel_flow_pending")
    graph = await submit(engine, "a b")
    handle = await hold(engine, graph, "a")
    honest, second, met = engine.store.commit_together, Engine(engine.store, seed=2), []

    async def overtaken(plans: Sequence[Plan]) -> Answer:
        if not met and any(plan.form.name == "reporter_still_holds" for plan in plans):
            met.append(await second.revoke_lease(RevokeLeaseArgs(execution_id=graph["a"])))
        return await honest(plans)

    monkeypatch.setattr(engine.store, "commit_together", overtaken)
    assert await engine.report_usage(handle, ident, UsageDimensions(custom={"t": 2})) == HardBreach(
        "t", 0, 1
    )
    assert met and "ENDED(cancelled)" not in (await states(engine, graph)).values()
