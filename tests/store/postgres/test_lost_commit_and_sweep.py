"""Lost answers of complete-and-claim: completions are settled, claimed rows return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend, postgres_engine
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle, Work
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.testing import ManualClock
from tests.engine.helpers import LANE, TTL_MS, create, row, running, state, told, worker

from .helpers import plain, until_somebody_waits, world
from .proxy import Lost, Proxy

TURNS = "UPDATE ff_exec_core"
BEFORE_OR_AFTER = pytest.mark.parametrize("how", ["statement", "answer"])
Held = tuple[ExecutionId, Handle]


@asynccontextmanager
async def behind_a_proxy(
    options: Options, clock: ManualClock
) -> AsyncIterator[tuple[Proxy, PostgresBackend]]:
    async with Proxy(options.url) as proxy:
        engine = postgres_engine(
            await PostgresStore(structs.replace(options, url=proxy.url), clock=clock).open()
        )
        try:
            yield proxy, engine
            assert proxy.lost == 1
        finally:
            await engine.close()


async def turn(
    engine: PostgresBackend, held: Sequence[Held], n: int = 1
) -> tuple[list[Any], list[Work]]:
    return await engine.complete_and_claim(
        [(handle, b"out") for _, handle in held], LANE, (), worker(2), n
    )


async def check_ended(engine: PostgresBackend, held: Sequence[Held]) -> None:
    for ident, _ in held:
        assert await engine.get_execution_result(ident) == b"out"
        assert await told(engine, ident) == {
            "LEASE": ["acquired", "revoked"],
            "DONE": ["success"],
            "OPER": [],
        }


async def come_back(
    engine: PostgresBackend, clock: ManualClock, lost: Sequence[ExecutionId]
) -> None:
    """Their leases expire first; then each is done once."""
    assert await engine.claim_many(LANE, (), worker(3), 100) == []
    clock.advance(TTL_MS)
    for ident in lost:
        await engine.mark_lease_expired_if_due(ident)
        assert await engine.requeue_lost(ident, grace_ms=0) == "requeued"
    works = await engine.claim_many(LANE, (), worker(3), 100)
    assert {work.execution_id for work in works} == set(lost)
    for work in works:
        assert (work.lease_epoch, (await row(engine, work.execution_id)).lease_reclaim_count) == (
            2,
            1,
        )
    assert await engine.complete_many([(work.handle, b"late") for work in works]) == [None] * len(
        works
    )
    for ident in lost:
        assert (await told(engine, ident))["DONE"] == ["success"]
    await world(engine)


@BEFORE_OR_AFTER
async def test_completions_are_settled_and_claimed_rows_return(
    options: Options, clock: ManualClock, how: Lost
) -> None:
    async with behind_a_proxy(options, clock) as (proxy, engine):
        held = [await running(engine) for _ in range(3)]
        first, second, third = [await create(engine, priority=n) for n in (3, 2, 1)]
        proxy.lose(how, TURNS)
        assert await turn(engine, held, 2) == ([None] * 3, [])
        await check_ended(engine, held)
        lost = [first, second] if how == "answer" else []
        assert [await state(engine, ident) for ident in (first, second, third)].count(
            "RUNNING"
        ) == len(lost)
        left = await engine.claim_many(LANE, (), worker(2), 10)
        assert [work.execution_id for work in left] == ([third] if lost else [first, second, third])
        assert await engine.complete_many([(work.handle, b"out") for work in left]) == [None] * len(
            left
        )
        await come_back(engine, clock, lost)


@BEFORE_OR_AFTER
async def test_a_late_completion_is_not_mistaken_for_a_lost_one(
    options: Options, clock: ManualClock, how: Lost
) -> None:
    async with behind_a_proxy(options, clock) as (proxy, engine):
        late, good = await running(engine, worker(1, ttl_ms=1)), await running(engine)
        clock.advance(1)
        proxy.lose(how, TURNS)
        answers, works = await turn(engine, [late, good])
        assert (answers[1], works) == (None, [])
        assert getattr(answers[0], "doubtful", False), (
            "something else is found, and it may have come later"
        )
        assert (await told(engine, late[0]))["DONE"] == []
        await check_ended(engine, [good])
        await world(engine)


async def test_requests_of_one_batch_are_settled_individually(
    options: Options, clock: ManualClock
) -> None:
    async with behind_a_proxy(structs.replace(options, writers=1), clock) as (proxy, engine):
        held = [await running(engine) for _ in range(12)]
        waiting = [await create(engine) for _ in range(12)]
        proxy.lose("answer", TURNS)
        turns = await asyncio.gather(*(turn(engine, [each]) for each in held))
        assert [answers for answers, _ in turns] == [[None]] * 12
        works = [work for _, works in turns for work in works]
        assert len({work.execution_id for work in works}) == len(works) < 12
        await check_ended(engine, held)
        assert [await state(engine, ident) for ident in waiting] == ["RUNNING"] * 12
        assert await engine.complete_many([(work.handle, b"out") for work in works]) == [
            None
        ] * len(works)
        await come_back(engine, clock, sorted(set(waiting) - {work.execution_id for work in works}))


async def test_a_request_that_commits_later_is_settled(
    options: Options, clock: ManualClock
) -> None:
    """The connection was closed while the server waited for a lock; the server commits later."""
    async with behind_a_proxy(options, clock) as (proxy, engine):
        held = [await running(engine)]
        following = await create(engine)
        with plain(options, autocommit=False) as other, plain(options) as looking:
            other.execute(
                "SELECT FROM ff_exec_core WHERE execution_id = %s FOR UPDATE", (held[0][0].uuid,)
            )
            proxy.lose("patience", TURNS)
            turning = asyncio.ensure_future(turn(engine, held))
            await until_somebody_waits(looking, 2)
            assert await state(engine, following) == "READY"
            other.commit()
            assert await turning == ([None], [])
        await check_ended(engine, held)
        assert await state(engine, following) == "RUNNING"
        await come_back(engine, clock, [following])
