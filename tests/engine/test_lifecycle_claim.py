"""Claiming the best execution of a lane."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.execution import ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.lease import HandleKind, RevokeLeaseArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    TTL_MS,
    attempt,
    attempts,
    claim,
    completed,
    create,
    fields,
    grant_args,
    grant_count,
    new_id,
    parked,
    requeued,
    row,
    running,
    state,
    told,
    worker,
)

RETRY_NOW = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=2, backoff={"type": "fixed", "delay_ms": 0})
)


def needs(*tokens: str) -> dict[str, Any]:
    return {"routing_requirements": {"required_capabilities": list(tokens)}}


async def test_a_first_claim_leaves_every_column_as_documented(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    created = clock()
    clock.advance(10)
    handle = await claim(engine, worker(ttl_ms=1_001))
    held, found, tried = fields(handle), await row(engine, ident), await attempt(engine, ident)
    assert handle.kind is HandleKind.FRESH
    assert (held.execution_id, held.attempt_index, held.lease_epoch, held.lease_ttl_ms) == (
        ident,
        0,
        1,
        1_001,
    )
    assert (held.lane_id, held.worker_instance_id) == (LANE, "w1-i1")
    assert (held.lease_id, held.attempt_id) == (found.current_lease_id, found.current_attempt_id)
    assert await state(engine, ident) == "RUNNING"
    assert (found.current_worker_id, found.current_worker_instance_id, found.lease_epoch) == (
        "w1",
        "w1-i1",
        1,
    )
    assert found.created_at_ms == created
    assert found.started_at_ms == found.lease_acquired_at == found.lease_last_renewed_at == clock()
    assert (found.lease_expires_at_ms, found.lease_renewal_deadline) == (
        clock() + 1_001,
        clock() + 667,
    )
    assert (found.attempt_index, found.total_attempt_count) == (0, 1)
    assert (tried.attempt_type, tried.attempt_state, tried.lease_epoch, tried.outcome) == (
        "initial",
        "started",
        1,
        None,
    )
    assert (tried.worker_id, tried.worker_instance_id, tried.lease_id) == (
        "w1",
        "w1-i1",
        held.lease_id,
    )
    assert (tried.lease_expires_at_ms, tried.started_at_ms, tried.previous_attempt_index) == (
        clock() + 1_001,
        clock(),
        None,
    )
    assert (await told(engine, ident))["LEASE"] == ["acquired"]


async def test_an_empty_lane_gives_none(engine: Engine) -> None:
    await create(engine, lane_id="other")
    assert await engine.claim(LANE, (), worker()) is None
    assert await engine.claim_many(LANE, (), worker(), 5) == []


async def test_order_is_priority_then_age_then_id(engine: Engine, clock: ManualClock) -> None:
    late = await create(engine, priority=5, now=clock() + 5)
    first = await create(engine, priority=9, now=clock() + 9)
    twins = sorted(
        [await create(engine, priority=5), await create(engine, priority=5)], key=lambda i: i.uuid
    )
    last = await create(engine)
    found = await engine.claim_many(LANE, (), worker(), 10)
    assert [w.execution_id for w in found] == [first, *twins, late, last]


async def test_claim_many_takes_no_more_than_asked_and_hands_out_the_payload(
    engine: Engine,
) -> None:
    for n in range(4):
        await create(
            engine,
            priority=n,
            input_payload=bytes([n]),
            tags={"a.n": str(n)},
            execution_kind=f"k{n}",
        )
    found = await engine.claim_many(LANE, (), worker(), 3)
    assert [(w.input_payload, w.tags, w.execution_kind) for w in found] == [
        (bytes([n]), {"a.n": str(n)}, f"k{n}") for n in (3, 2, 1)
    ]
    assert [(w.attempt_index, w.lease_epoch) for w in found] == [(0, 1)] * 3
    assert len({fields(w.handle).lease_id for w in found}) == 3
    assert [fields(w.handle).execution_id for w in found] == [w.execution_id for w in found]
    assert len(await engine.claim_many(LANE, (), worker(), 3)) == 1


@pytest.mark.parametrize(
    ("offered", "wanted", "fits"),
    [
        ((), (), True),
        (("a",), (), True),
        ((), ("a",), False),
        (("a",), ("a", "b"), False),
        (("c", "b", "a"), ("a", "b"), True),
        (("A",), ("a",), False),
    ],
)
async def test_capabilities_must_cover_the_requirement(
    engine: Engine, offered: tuple[str, ...], wanted: tuple[str, ...], fits: bool
) -> None:
    await create(engine, policy=needs(*wanted))
    assert (await engine.claim(LANE, offered, worker()) is not None) is fits


async def test_a_grant_for_another_worker_is_passed_over_until_it_runs_out(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident, 2, 1_000))
    assert await engine.claim(LANE, (), worker(1)) is None
    clock.advance(1_000)
    assert await engine.claim(LANE, (), worker(1)) is None, "a grant holds to its last millisecond"
    clock.advance(1)
    assert fields(await claim(engine, worker(1))).execution_id == ident
    assert await grant_count(engine) == 0


async def test_a_claim_consumes_the_workers_own_grant(engine: Engine) -> None:
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident, 1))
    await claim(engine, worker(1))
    assert await grant_count(engine) == 0
    assert (await row(engine, ident)).reserved_for is None


# ---- what a claim continues


async def test_a_retry_is_a_new_attempt_with_its_lineage(engine: Engine) -> None:
    ident, handle = await running(engine, policy=RETRY_NOW)
    await engine.fail(handle, "boom")
    again = await claim(engine)
    first, second = await attempts(engine, ident)
    assert again.kind is HandleKind.FRESH
    assert (first.outcome, first.attempt_state) == ("retry", "ended_failure")
    assert (second.attempt_index, second.attempt_type, second.retry_reason) == (1, "retry", "boom")
    assert second.previous_attempt_index == 0
    found = await row(engine, ident)
    assert (found.attempt_index, found.total_attempt_count, found.pending_retry_reason) == (
        1,
        2,
        None,
    )
    assert (found.pending_previous_attempt_index, found.delay_until_ms) == (None, None)
    assert found.current_attempt_id == second.attempt_id != first.attempt_id


async def test_a_replay_reopens_the_same_attempt(engine: Engine) -> None:
    ident, first = await completed(engine)
    await engine.replay_execution(
        ReplayExecutionArgs(execution_id=ident, reason="again", requested_by="ops")
    )
    handle = await claim(engine)
    (tried,) = await attempts(engine, ident)
    assert handle.kind is HandleKind.FRESH
    assert (tried.attempt_index, tried.attempt_type, tried.attempt_state) == (
        0,
        "replay",
        "started",
    )
    assert (tried.replay_reason, tried.replay_requested_by, tried.replayed_from_attempt_index) == (
        "again",
        "ops",
        0,
    )
    assert (tried.outcome, tried.terminal_at_ms) == (None, None)
    assert fields(handle).attempt_id == tried.attempt_id != fields(first).attempt_id
    assert (await row(engine, ident)).total_attempt_count == 1


@pytest.mark.parametrize("how", ["revoked", "delayed", "lost"])
async def test_an_interrupted_attempt_continues_under_its_index(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    if how == "lost":
        ident, before = await requeued(engine, clock)
    else:
        ident, before = await running(engine)
        if how == "revoked":
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
        else:
            await engine.delay(before, clock())
            await engine.promote_delayed(ident)
    clock.advance(7)
    handle = await claim(engine, worker(2))
    (tried,) = await attempts(engine, ident)
    assert handle.kind is HandleKind.RESUMED
    assert fields(handle).attempt_id == fields(before).attempt_id
    assert (tried.attempt_type, tried.attempt_state, tried.resumed_at_ms) == (
        "initial",
        "started",
        clock(),
    )
    assert (tried.suspended_at_ms, tried.suspension_id, tried.worker_instance_id) == (
        None,
        None,
        "w2-i1",
    )
    found = await row(engine, ident)
    assert (found.interrupt_cause, found.blocking_detail) == (None, "")
    assert found.lease_reclaim_count == (1 if how == "lost" else 0)
    assert found.started_at_ms is not None and found.started_at_ms < clock()


# ---- waiting for work


async def test_a_waiting_claim_is_woken_by_a_create(engine: Engine) -> None:
    waiting = asyncio.create_task(engine.claim(LANE, (), worker(max_wait_ms=60_000)))
    await parked(engine, "ready", LANE)
    ident = await create(engine)
    handle = await asyncio.wait_for(waiting, 2)
    assert handle is not None and fields(handle).execution_id == ident


@pytest.mark.parametrize(
    "how", ["promote", "unblock", "revoke", "resume lane", "retry at once", "replay", "requeue"]
)
async def test_a_waiting_claim_is_woken_by_whatever_makes_work_ready(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    ident, handle = await running(engine, policy=RETRY_NOW)
    wake = {
        "promote": lambda: engine.promote_delayed(ident),
        "unblock": lambda: engine.unblock_execution(ident),
        "revoke": lambda: engine.revoke_lease(RevokeLeaseArgs(execution_id=ident)),
        "resume lane": lambda: engine.resume_lane(LANE),
        "retry at once": lambda: engine.fail(handle, "boom"),
        "replay": lambda: engine.replay_execution(ReplayExecutionArgs(execution_id=ident)),
        "requeue": lambda: engine.requeue_lost(ident, 0),
    }[how]
    if how == "promote":
        await engine.delay(handle, clock())
    elif how in ("unblock", "resume lane"):
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
        await (
            engine.block_route(ident, "paused_by_operator")
            if how == "unblock"
            else engine.pause_lane(LANE)
        )
    elif how == "replay":
        await engine.complete(handle)
    elif how == "requeue":
        clock.advance(TTL_MS)
        await engine.mark_lease_expired_if_due(ident)
    waiting = asyncio.create_task(engine.claim(LANE, (), worker(2, max_wait_ms=60_000)))
    await parked(engine, "ready", LANE)
    assert not waiting.done()
    await wake()
    assert await asyncio.wait_for(waiting, 2) is not None


async def test_a_waiting_claim_ends_empty_handed_when_its_time_is_up(engine: Engine) -> None:
    assert await engine.claim(LANE, (), worker(max_wait_ms=20)) is None
    assert engine.store.hub.waiters == {}


async def test_a_waiting_claim_that_is_cancelled_takes_nothing(engine: Engine) -> None:
    waiting = asyncio.create_task(engine.claim(LANE, (), worker(max_wait_ms=60_000)))
    await parked(engine, "ready", LANE)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    ident = await create(engine)
    assert engine.store.hub.waiters == {}
    assert fields(await claim(engine, worker(2))).execution_id == ident


async def test_a_changed_priority_changes_the_order(engine: Engine) -> None:
    await create(engine, priority=5)
    low = await create(engine)
    await engine.change_priority(ChangePriorityArgs(execution_id=low, new_priority=6))
    assert fields(await claim(engine)).execution_id == low


async def test_scan_eligible_lists_in_claim_order_and_by_partition(
    engine: Engine, clock: ManualClock
) -> None:
    low, high = await create(engine), await create(engine, priority=3)
    elsewhere = await create(engine, execution_id=new_id(7), priority=9)
    await create(engine, delay_until=clock() + 10)
    await create(engine, lane_id="other")
    assert await engine.scan_eligible_executions(LANE) == [elsewhere, high, low]
    assert await engine.scan_eligible_executions(LANE, 0) == [high, low]
    assert await engine.scan_eligible_executions(LANE, "{fp:7}") == [elsewhere]
    assert await engine.scan_eligible_executions(LANE, limit=1) == [elsewhere]
    assert await engine.scan_eligible_executions(LANE, limit=0) == []


async def test_scan_eligible_walks_over_many_pages(engine: Engine) -> None:
    for n in range(230):
        await create(engine, execution_id=new_id(n % 2), priority=n)
    found = await engine.scan_eligible_executions(LANE, 1, 1_000)
    assert len(found) == 115 and len(set(found)) == 115
