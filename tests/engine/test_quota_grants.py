"""Grants and starts of one execution under limits: each is admitted once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, ErrorClass, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    ClaimGrant,
    ClaimResumedArgs,
    NoWork,
    ReclaimExecutionArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.testing import ManualClock

from .helpers import TTL_MS, create, dump, grant_args, lost, refused, running, state
from .limit_helpers import WINDOW_MS, budget, held, quota, quota_lane, several, sound, take, window

BUSY, RATE = ContentionKind.CONCURRENCY_LIMIT_EXCEEDED, ContentionKind.RATE_LIMIT_EXCEEDED


async def started(engine: Engine, ident: ExecutionId, number: int = 1) -> Any:
    return await engine.claim_execution(
        ClaimExecutionArgs(
            execution_id=ident,
            worker_id=f"w{number}",
            worker_instance_id=f"w{number}-i1",
            lease_ttl_ms=TTL_MS,
        )
    )


async def test_a_grant_holds_the_slot_and_its_claim_takes_no_second(engine: Engine) -> None:
    await quota_lane(engine, cap=1, rate=5)
    first, second = await several(engine, 2)
    await engine.issue_claim_grant(grant_args(first))
    error = await refused(engine.issue_claim_grant(grant_args(second, 2)), BUSY)
    assert "concurrency cap 1" in str(error) and error.retryable
    assert await take(engine, number=3) == [], "and no claim of another passes it"
    await started(engine, first)
    assert len(await window(engine)) == 1
    await refused(engine.issue_claim_grant(grant_args(second, 2)), BUSY)
    await sound(engine)


async def test_an_expired_grant_returns_its_slot_and_its_entry(
    engine: Engine, clock: ManualClock
) -> None:
    await quota_lane(engine, cap=1, rate=1)
    _, second = await several(engine, 2)
    assert isinstance(
        await engine.claim_for_worker("default", "w1", "w1-i1", (), 5_000), ClaimGrant
    )
    clock.advance(5_000)
    await refused(engine.issue_claim_grant(grant_args(second, 2)), RATE)
    clock.advance(1)
    await engine.drop_expired_grants()
    assert await window(engine) == []
    assert len(await take(engine, 5)) == 1
    assert await window(engine) == [clock.now_ms]


async def test_a_rate_refusal_names_the_time_to_wait(engine: Engine, clock: ManualClock) -> None:
    await quota_lane(engine, rate=1)
    first, second = await several(engine, 2)
    await engine.issue_claim_grant(grant_args(first, ttl_ms=1))
    clock.advance(1_000)
    before = await dump(engine)
    error = await refused(engine.issue_claim_grant(grant_args(second)), RATE)
    assert getattr(error, "facts")["retry_after_ms"] == str(WINDOW_MS - 1_000)  # noqa: B009
    assert "rate limit 1/1 per 60s window" in str(error)
    assert await dump(engine) == before
    clock.advance(WINDOW_MS - 1_000)
    await engine.issue_claim_grant(grant_args(second))


async def test_a_closed_quota_refuses_by_name(engine: Engine, clock: ManualClock) -> None:
    ident = await quota_lane(engine)
    first = await create(engine)
    await engine.close_quota(ident, clock.now_ms + 500)
    error = await refused(engine.issue_claim_grant(grant_args(first)), RATE)
    assert "closed until" in str(error)


async def test_a_spent_budget_refuses_and_a_scheduler_skips_the_execution(engine: Engine) -> None:
    spent = await budget(engine, used=11)
    first = await create(engine, priority=9, policy={"budget_ids": [str(spent)]})
    error = await refused(engine.issue_claim_grant(grant_args(first)), StateKind.BUDGET_EXCEEDED)
    assert error.error_class is ErrorClass.COOPERATIVE and f"budget {spent}: tokens 11/10" in str(
        error
    )
    behind = await create(engine)
    granted = await engine.claim_for_worker("default", "w1", "w1-i1", (), 5_000)
    assert isinstance(granted, ClaimGrant) and granted.execution_id == behind
    assert await state(engine, first) == "BUDGET"


async def test_limits_apply_to_operators(engine: Engine) -> None:
    await quota_lane(engine, cap=1)
    first, second = await several(engine, 2)
    await engine.issue_grant_and_claim(first, "default", 1_000)
    await refused(engine.issue_grant_and_claim(second, "default", 1_000), BUSY)


async def test_continuing_an_interrupted_attempt_is_an_admission(engine: Engine) -> None:
    await quota_lane(engine, cap=1)
    ident, _ = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    other = await create(engine, priority=9)
    assert len(await take(engine)) == 1 and await state(engine, other) == "RUNNING"
    args = ClaimResumedArgs(
        execution_id=ident, worker_id="w1", worker_instance_id="w1-i1", lease_ttl_ms=TTL_MS
    )
    await refused(engine.claim_resumed_execution(args), BUSY)


@pytest.mark.meets("quota", "reclaim")
async def test_taking_a_lost_attempt_over_is_an_admission(
    engine: Engine, clock: ManualClock
) -> None:
    await quota_lane(engine, cap=1, rate=3)
    ident, _ = await lost(engine, clock)
    await engine.issue_reclaim_grant(grant_args(ident))
    assert len(await window(engine)) == 2
    await several(engine, 1, priority=9)
    assert await take(engine) == [], "its grant holds the place"
    await engine.reclaim_execution(
        ReclaimExecutionArgs(
            execution_id=ident, worker_id="w1", worker_instance_id="w1-i1", lease_ttl_ms=TTL_MS
        )
    )
    assert len(await window(engine)) == 2 and await held(engine) == 1
    clock.advance(TTL_MS)
    token = ResumeToken(
        ResumeGrant(ident, "{fp:0}", "g", clock.now_ms + 5, "default"), "w2", "w2-i1", TTL_MS
    )
    assert await engine.claim_from_resume_grant(token) is not None, (
        "its own place is the one it takes"
    )
    assert len(await window(engine)) == 3
    await sound(engine)


async def test_a_scheduler_skips_a_full_gate(engine: Engine) -> None:
    full = await quota(engine, cap=1)
    await several(engine, 5, priority=9, policy={"quota_policy_id": str(full)})
    plain = await several(engine, 2)
    found = [await engine.claim_for_worker("default", f"w{n}", "i", (), 5_000) for n in range(4)]
    assert [getattr(grant, "execution_id", None) for grant in found[1:3]] == plain
    assert isinstance(found[0], ClaimGrant) and isinstance(found[3], NoWork)
    assert len(await engine.scan_eligible_executions("default")) == 7


@pytest.mark.parametrize("cap", [1, 7])
async def test_of_fifty_grants_at_once_exactly_the_cap_are_issued(engine: Engine, cap: int) -> None:
    await quota_lane(engine, cap=cap)
    made = await several(engine, 50)
    said = await asyncio.gather(
        *(engine.issue_claim_grant(grant_args(i)) for i in made), return_exceptions=True
    )
    assert sum(not isinstance(each, Exception) for each in said) == cap
    assert {getattr(each, "kind", BUSY) for each in said} == {BUSY}


async def test_grants_and_claims_at_once_stay_within_the_cap(engine: Engine) -> None:
    await quota_lane(engine, cap=9)
    made = await several(engine, 40)
    grants = (engine.issue_claim_grant(grant_args(i)) for i in made[:20])
    said = await asyncio.gather(
        *grants, *(take(engine, 2, number=n) for n in range(2, 12)), return_exceptions=True
    )
    granted = sum(not isinstance(each, Exception) for each in said[:20])
    taken = sum(len(each) for each in said[20:] if isinstance(each, list))
    assert granted + taken == 9
