"""A store and its server: forgotten functions, full memory, crashes, and other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flowfabric.connect import connect_store
from flowfabric.errors import ConfigError, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.leader import Election
from flowfabric.store.valkey.options import Options, options_of
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h
from flowfabric.testing.valkey import ValkeyServer
from tests import valkey
from tests.patience import patient


@asynccontextmanager
async def opened(options: Options, clock: ManualClock | None = None) -> AsyncIterator[ValkeyStore]:
    store = ValkeyStore(options, clock=clock)
    try:
        yield await store.open()
    finally:
        await store.close()


async def test_functions_that_the_server_forgot_are_loaded_again(clock: ManualClock) -> None:
    async with opened(valkey.new_store(clock).options, clock) as store:
        await h.put(store, h.execution(1))
        connection = await Connection.open(store.options)
        await connection.command("FUNCTION", "FLUSH", "SYNC")
        await h.put(store, h.execution(2))
        await connection.command("FUNCTION", "FLUSH", "SYNC")
        assert await h.count(store, h.EXEC) == 2
        await connection.close()


async def test_a_commit_wakes_another_store(clock: ManualClock) -> None:
    options = valkey.new_store(clock).options
    async with opened(options, clock) as one, opened(options, clock) as other:
        await h.put(one, h.execution(1))
        with other.hub.waiter(("taken", "lane")) as waiter:
            waiter.arm()
            async with patient(10):
                assert await one.sweep(h.take(), 1) == [(h.uid(1),)]
                assert await waiter.wait(None)


async def test_cells_of_a_server_do_not_see_each_other(clock: ManualClock) -> None:
    first, second = (valkey.new_store(clock).options for _ in range(2))
    async with opened(first, clock) as one, opened(second, clock) as other:
        await h.put(one, h.execution(1))
        assert (await h.count(one, h.EXEC), await h.count(other, h.EXEC)) == (1, 0)
        assert await other.sweep(h.take(), 1) == []


async def test_the_time_of_the_server_never_runs_back() -> None:
    options = valkey.new_store(ManualClock()).options
    async with opened(options) as store:
        await h.put(store, h.execution(1))
        before = await store.now_ms()
        connection = await Connection.open(options)
        ahead = before + 3_600_000
        await connection.command("SET", f"{options.prefix}:T", str(ahead))
        assert await store.now_ms() == ahead
        await h.put(store, h.execution(2))
        assert await store.now_ms() == ahead
        await connection.close()


async def test_a_full_server_refuses_and_writes_nothing(clock: ManualClock) -> None:
    with ValkeyServer("--maxmemory", "64mb") as server:
        async with opened(options_of(server.url), clock) as store:
            connection = await Connection.open(store.options)
            await h.put(store, h.execution(1))
            await connection.command("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(TransportError, match="memory is full") as refused:
                await store.commit(h.execution(2))
            assert refused.value.backend_kind == "full"
            await connection.command("CONFIG", "SET", "maxmemory", "0")
            assert await h.count(store, h.EXEC) == 1
            await connection.close()


async def test_an_evicting_server_is_not_opened() -> None:
    with (
        ValkeyServer("--maxmemory-policy", "allkeys-lru") as server,
        pytest.raises(ConfigError, match="noeviction"),
    ):
        await connect_store(server.url, loops=False)


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed() -> None:
    """The append file is written before each answer."""
    server = ValkeyServer("--appendonly", "yes", "--appendfsync", "always").start()
    try:
        engine = await connect_store(server.url, loops=False)
        assert engine.durability.startswith("full")
        made: list[ExecutionId] = []

        async def submit() -> None:
            while True:
                ident = ExecutionId.solo("default")
                await engine.create_execution(CreateExecutionArgs(execution_id=ident))
                made.append(ident)

        writers = [asyncio.create_task(submit()) for _ in range(8)]
        async with patient(30):
            while len(made) < 200:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        server.crash()
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        await engine.close()
        server.start()
        again = await connect_store(server.url, loops=False)
        for ident in made:
            assert await again.read_execution_state(ident) == "waiting"
        claimed = await again.claim_many("default", (), ClaimPolicy("w", "i", 30_000), 100)
        assert len(claimed) == 100
        await again.close()
    finally:
        server.stop()


async def test_one_process_leads_and_another_follows_when_it_resigns() -> None:
    options = valkey.new_store(ManualClock()).options
    first, second = Election(options), Election(options)
    async with patient(30):
        await first.won()
        waiting = asyncio.ensure_future(second.won())
        await asyncio.sleep(0)
        assert not waiting.done()
        await first.resign()
        await waiting
        await second.resign()
