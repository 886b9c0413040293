"""Lost answers are settled from the stored rows, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.testing import ManualClock
from tests import valkey
from tests.engine.helpers import LANE, TTL_MS, create, new_id, running, state, told, worker

from .helpers import engine_on, world
from .proxy import Lost, Proxy

BEFORE_OR_AFTER = pytest.mark.parametrize("how", ["statement", "answer"])


@asynccontextmanager
async def behind_a_proxy(clock: ManualClock) -> AsyncIterator[tuple[Proxy, Engine]]:
    options = valkey.new_store(clock).options
    async with (
        Proxy(options.port) as proxy,
        engine_on(structs.replace(options, port=proxy.port), clock) as engine,
    ):
        await engine.set_lane_state("default", "active")
        yield proxy, engine
        assert proxy.lost == 1


def args(ident: ExecutionId, **said: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(execution_id=ident, input_payload=b"in", **said)


@BEFORE_OR_AFTER
async def test_a_complete_is_settled(clock: ManualClock, how: Lost) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        ident, handle = await running(engine)
        proxy.lose(how)
        await engine.complete(handle, b"out")
        assert await engine.get_execution_result(ident) == b"out"
        assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


@BEFORE_OR_AFTER
@pytest.mark.parametrize("failure", [FailureClass.TRANSIENT, FailureClass.PERMANENT])
async def test_a_fail_is_settled(clock: ManualClock, how: Lost, failure: FailureClass) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        other, untouched = await running(engine)
        expected = await engine.fail(untouched, "boom", failure)
        ident, handle = await running(engine)
        proxy.lose(how)
        outcome = await engine.fail(handle, "boom", failure)
        assert type(outcome) is type(expected)
        assert await state(engine, ident) == await state(engine, other)
        assert await told(engine, ident) == await told(engine, other)
        await world(engine)


@BEFORE_OR_AFTER
async def test_giving_up_is_settled(clock: ManualClock, how: Lost) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        ident, handle = await running(engine)
        proxy.lose(how)
        await engine.cancel(handle, "enough")
        assert (await told(engine, ident))["DONE"] == ["cancelled"]
        await world(engine)


@BEFORE_OR_AFTER
async def test_a_renewal_is_doubtful_and_can_be_repeated(clock: ManualClock, how: Lost) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        ident, handle = await running(engine)
        proxy.lose(how)
        with pytest.raises(TransportError) as lost:
            await engine.renew(handle)
        assert lost.value.doubtful and lost.value.retryable
        await engine.renew(handle)
        await engine.complete(handle)
        assert await state(engine, ident) == "ENDED(success)"
        await world(engine)


@BEFORE_OR_AFTER
async def test_many_completions_are_settled(clock: ManualClock, how: Lost) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        held = [await running(engine) for _ in range(5)]
        proxy.lose(how)
        assert await engine.complete_many([(handle, b"out") for _, handle in held]) == [None] * 5
        for ident, _ in held:
            assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


@BEFORE_OR_AFTER
@pytest.mark.parametrize("key", [None, "once"])
async def test_a_creation_is_reported_as_created(
    clock: ManualClock, how: Lost, key: str | None
) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        ident = new_id()
        proxy.lose(how)
        assert isinstance(await engine.create_execution(args(ident, idempotency_key=key)), Created)
        assert isinstance(
            await engine.create_execution(args(ident, idempotency_key=key)), Duplicate
        )
        assert len((await world(engine)).executions) == 1


@BEFORE_OR_AFTER
async def test_a_bulk_of_creations_is_reported_as_created(clock: ManualClock, how: Lost) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        many = [args(new_id()) for _ in range(20)]
        proxy.lose(how)
        assert [type(made) for made in await engine.create_executions(many)] == [Created] * 20
        assert len((await world(engine)).executions) == 20


@BEFORE_OR_AFTER
async def test_completions_are_settled_and_claimed_rows_return(
    clock: ManualClock, how: Lost
) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        held = [await running(engine) for _ in range(3)]
        waiting = [await create(engine) for _ in range(2)]
        proxy.lose(how)
        ends = [(handle, b"out") for _, handle in held]
        answers = await engine.complete_and_claim(ends, LANE, (), worker(2), 2)
        assert answers == ([None] * 3, [])
        for ident, _ in held:
            assert (await told(engine, ident))["DONE"] == ["success"]
        lost = waiting if how == "answer" else []
        assert [await state(engine, each) for each in waiting].count("RUNNING") == len(lost)
        clock.advance(TTL_MS)
        for each in lost:
            await engine.mark_lease_expired_if_due(each)
            assert await engine.requeue_lost(each, grace_ms=0) == "requeued"
        works = await engine.claim_many(LANE, (), worker(3), 100)
        assert {work.execution_id for work in works} == set(waiting)
        await world(engine)


async def test_callers_of_one_batch_are_settled_individually(clock: ManualClock) -> None:
    async with behind_a_proxy(clock) as (proxy, engine):
        held = [await running(engine) for _ in range(12)]
        proxy.lose("answer")
        await asyncio.gather(*(engine.complete(handle, b"out") for _, handle in held))
        for ident, _ in held:
            assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


async def test_a_cancelled_caller_in_a_batch_does_not_affect_the_others(clock: ManualClock) -> None:
    options = valkey.new_store(clock).options
    async with engine_on(options, clock) as engine:
        held = [await running(engine) for _ in range(6)]
        calls = [asyncio.ensure_future(engine.complete(handle, b"out")) for _, handle in held]
        await asyncio.sleep(0)  # they wait for one batch
        calls[2].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers].count(asyncio.CancelledError) == 1
        assert isinstance(answers[2], asyncio.CancelledError)
        for at, (ident, _) in enumerate(held):
            assert at == 2 or (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)
