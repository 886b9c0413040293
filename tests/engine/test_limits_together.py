"""Limits from end to end: attached, applied to a claim, explained, and detached."""

from __future__ import annotations

from uuid import uuid4

from flowfabric import (
    ClaimPolicy,
    CreateBudgetArgs,
    CreateExecutionArgs,
    CreateQuotaPolicyArgs,
    HardLimitAction,
    ReportUsageAdminArgs,
    UsageDimensions,
    UsageOk,
)
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.explanation import Why

from .suspend_helpers import sound

WORKER = ClaimPolicy("w", "w-1", 30_000)


async def reasons(engine: Engine, ident: ExecutionId) -> list[Why]:
    return [reason.code for reason in (await engine.explain_execution(ident)).reasons]


async def test_a_full_quota_is_explained_and_skipped(engine: Engine) -> None:
    quota, lane = uuid4(), "calls"
    await engine.create_quota_policy(
        CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1, window_seconds=60)
    )
    await engine.attach_limit("quota", quota, "lane", lane)
    idents = [ExecutionId.solo(lane) for _ in range(2)]
    for ident in idents:
        await engine.create_execution(CreateExecutionArgs(execution_id=ident, lane_id=lane))
    (work,) = await engine.claim_many(lane, (), WORKER, 5)
    (other,) = [ident for ident in idents if ident != work.execution_id]
    assert await reasons(engine, other) == [Why.WAITING_FOR_QUOTA]
    await engine.complete(work.handle)
    assert Why.WAITING_FOR_QUOTA not in await reasons(engine, other)
    assert [again.execution_id for again in await engine.claim_many(lane, (), WORKER, 5)] == [other]
    await sound(engine)


async def test_a_spent_budget_holds_back_until_it_starts_anew(engine: Engine) -> None:
    budget, ident = uuid4(), ExecutionId.solo("default")
    await engine.create_budget(
        CreateBudgetArgs(budget_id=budget, dimensions=["t"], hard_limits=[1], soft_limits=[0])
    )
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ident, policy={"budget_ids": [str(budget)]})
    )
    assert (
        await engine.report_usage_admin(budget, ReportUsageAdminArgs(dimensions=["t"], deltas=[1]))
        == UsageOk()
    )
    assert await reasons(engine, ident) == [Why.WAITING_FOR_BUDGET], (
        "already before anybody asks for it"
    )
    assert await engine.claim_many("default", (), WORKER, 5) == []
    assert await engine.read_execution_state(ident) == "rate_limited"
    assert await reasons(engine, ident) == [Why.WAITING_FOR_BUDGET]
    await engine.reset_budget(budget)
    assert [work.execution_id for work in await engine.claim_many("default", (), WORKER, 5)] == [
        ident
    ]
    await sound(engine)


async def test_one_held_for_a_refused_report_waits_for_a_reset_however_much_room_there_is_for_less(
    engine: Engine,
) -> None:
    budget, ident = uuid4(), ExecutionId.solo("default")
    args = CreateBudgetArgs(
        budget_id=budget,
        dimensions=["t"],
        hard_limits=[10],
        soft_limits=[0],
        on_hard_limit=HardLimitAction.SUSPEND_EXECUTION,
    )
    await engine.create_budget(args)
    await engine.create_execution(CreateExecutionArgs(execution_id=ident))
    (work,) = await engine.claim_many("default", (), WORKER, 1)
    await engine.report_usage(work.handle, budget, UsageDimensions(custom={"t": 11}))
    assert await engine.release_limited() == 0 and await engine.release_overlooked() == 0
    assert await engine.read_execution_state(ident) == "rate_limited"
    await engine.reset_budget(budget)
    assert await engine.read_execution_state(ident) == "waiting"
    await sound(engine)
