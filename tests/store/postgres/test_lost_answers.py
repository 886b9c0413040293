"""Lost answers are settled from the stored rows, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate
from flowfabric.store.postgres.connections import Options
from tests.engine.helpers import claim, new_id, running, state, told
from tests.patience import patient

from .helpers import engine_on, plain, until_somebody_waits, world
from .proxy import Lost, Proxy

CREATES, CHANGES = "INSERT INTO ff_exec_core", "UPDATE ff_exec_core"
BEFORE_OR_AFTER = pytest.mark.parametrize("how", ["statement", "answer"])


@asynccontextmanager
async def behind_a_proxy(options: Options) -> AsyncIterator[tuple[Proxy, PostgresBackend]]:
    async with (
        Proxy(options.url) as proxy,
        engine_on(structs.replace(options, url=proxy.url)) as engine,
    ):
        yield proxy, engine
        assert proxy.lost == 1


def args(ident: ExecutionId, **said: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(execution_id=ident, input_payload=b"in", **said)


@BEFORE_OR_AFTER
async def test_a_complete_is_settled(options: Options, how: Lost) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident, handle = await running(engine)
        proxy.lose(how, CHANGES)
        await engine.complete(handle, b"out")
        assert await engine.get_execution_result(ident) == b"out"
        assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


@BEFORE_OR_AFTER
@pytest.mark.parametrize("failure", [FailureClass.TRANSIENT, FailureClass.PERMANENT])
async def test_a_fail_is_settled(options: Options, how: Lost, failure: FailureClass) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        other, untouched = await running(engine)
        expected = await engine.fail(untouched, "boom", failure)
        ident, handle = await running(engine)
        proxy.lose(how, CHANGES)
        outcome = await engine.fail(handle, "boom", failure)
        assert type(outcome) is type(expected)
        assert await state(engine, ident) == await state(engine, other)
        assert await told(engine, ident) == await told(engine, other)
        assert (await world(engine)).executions[
            (ident.partition_index, ident.uuid)
        ].retry_count <= 1


@BEFORE_OR_AFTER
async def test_giving_up_is_settled(options: Options, how: Lost) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident, handle = await running(engine)
        proxy.lose(how, CHANGES)
        await engine.cancel(handle, "enough")
        assert (await told(engine, ident))["DONE"] == ["cancelled"]
        await world(engine)


@BEFORE_OR_AFTER
async def test_a_renewal_is_doubtful_and_can_be_repeated(options: Options, how: Lost) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident, handle = await running(engine)
        proxy.lose(how, CHANGES)
        with pytest.raises(TransportError) as lost:
            await engine.renew(handle)
        assert lost.value.doubtful and lost.value.retryable
        await engine.renew(handle)
        await engine.complete(handle)
        assert await state(engine, ident) == "ENDED(success)"
        await world(engine)


@BEFORE_OR_AFTER
async def test_many_completions_are_settled(options: Options, how: Lost) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        held = [await running(engine) for _ in range(5)]
        proxy.lose(how, CHANGES)
        assert await engine.complete_many([(handle, b"out") for _, handle in held]) == [None] * 5
        for ident, _ in held:
            assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


@BEFORE_OR_AFTER
@pytest.mark.parametrize("key", [None, "once"])
async def test_a_creation_is_reported_as_created(
    options: Options, how: Lost, key: str | None
) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident = new_id()
        await engine.set_lane_state("default", "active")
        proxy.lose(how, CREATES)
        assert isinstance(await engine.create_execution(args(ident, idempotency_key=key)), Created)
        assert isinstance(
            await engine.create_execution(args(ident, idempotency_key=key)), Duplicate
        )
        assert len((await world(engine)).executions) == 1


@BEFORE_OR_AFTER
async def test_a_creation_whose_commit_was_lost_is_reported_as_created(
    options: Options, how: Lost
) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        await engine.set_lane_state("default", "active")
        proxy.lose(how, "COMMIT")
        assert isinstance(
            await engine.create_execution(args(new_id(), idempotency_key="once")), Created
        )
        await world(engine)


@BEFORE_OR_AFTER
async def test_a_bulk_of_creations_is_reported_as_created(options: Options, how: Lost) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        many = [args(new_id()) for _ in range(20)]
        await engine.set_lane_state("default", "active")
        proxy.lose(how, CREATES)
        assert [type(made) for made in await engine.create_executions(many)] == [Created] * 20
        assert len((await world(engine)).executions) == 20


@pytest.mark.parametrize("key", [None, "once"])
async def test_a_creation_that_commits_later_is_reported_as_created(
    options: Options, key: str | None
) -> None:
    """The connection was closed while the server waited for a lock; the server commits later."""
    async with behind_a_proxy(structs.replace(options, writers=1)) as (proxy, engine):
        first = await engine.create_execution(args(new_id(), idempotency_key=key and "before"))
        assert isinstance(first, Created), "and its statement is prepared"
        with plain(options, autocommit=False) as other, plain(options) as looking:
            other.execute("LOCK TABLE ff_exec_core IN SHARE MODE")
            proxy.lose("patience", CREATES)
            creating = asyncio.ensure_future(
                engine.create_execution(args(new_id(), idempotency_key=key))
            )
            await until_somebody_waits(looking, 2)
            other.commit()
            assert isinstance(await creating, Created)
        assert len((await world(engine)).executions) == 2


async def test_a_completion_that_commits_later_is_settled(options: Options) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident, handle = await running(engine)
        with plain(options, autocommit=False) as other, plain(options) as looking:
            other.execute("SELECT FROM ff_exec_core FOR UPDATE")
            proxy.lose("patience", CHANGES)
            completing = asyncio.ensure_future(engine.complete(handle, b"out"))
            await until_somebody_waits(looking, 2)
            other.commit()
            await completing
        assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


async def test_a_claim_whose_answer_was_lost_leaves_a_lease_that_expires(options: Options) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident, handle = await running(engine)
        await engine.complete(handle)
        made = new_id()
        await engine.create_execution(args(made))
        proxy.lose("answer", CHANGES)
        with pytest.raises(TransportError) as caught:
            await claim(engine)
        assert caught.value.doubtful and caught.value.retryable
        assert await state(engine, made) == "RUNNING"
        assert await state(engine, ident) == "ENDED(success)"
        await world(engine)


@pytest.mark.parametrize("call", ["read", "subscribe"])
async def test_a_read_is_repeated(options: Options, call: str) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        ident, handle = await running(engine)
        if call == "read":
            proxy.lose("answer", "FROM ff_exec_core")
            assert await state(engine, ident) == "RUNNING"
        else:
            stream = await engine.subscribe_completion()
            await engine.complete(handle)
            proxy.lose("answer", "FROM ff_completion_event")
            async with patient(10):
                assert (await anext(stream)).execution_id == ident


async def test_callers_of_one_batch_are_settled_individually(options: Options) -> None:
    async with behind_a_proxy(options) as (proxy, engine):
        held = [await running(engine) for _ in range(12)]
        proxy.lose("answer", CHANGES)
        await asyncio.gather(*(engine.complete(handle, b"out") for _, handle in held))
        found = await world(engine)
        assert [len(events) for events in found.completions.values()] == [1] * 12
