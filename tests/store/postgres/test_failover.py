"""A URL of several hosts: the engine follows the one that writes; nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import TypeVar

import psycopg
import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.plan import Applied
from flowfabric.store.postgres import connections, leader
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.testing.postgres import PostgresServer
from flowfabric.verify.invariants import acknowledged_ends_stand, acknowledged_exist
from tests.engine.helpers import create, worker
from tests.replication import Replica, acknowledge_by_replica, both

from .helpers import OURS, lane, lanes, one, opened, plain, until, world

LISTENERS = """SELECT count(*) FROM pg_stat_activity WHERE application_name = 'flowfabric'
    AND (query ILIKE 'listen%' OR query LIKE '%pg_notify($1%')"""
T = TypeVar("T")
SESSIONS = f"SELECT pid {OURS}"
TTL_MS = 1_500
FENCE = "ALTER SYSTEM SET default_transaction_read_only = on"
UNFENCE = "ALTER SYSTEM RESET default_transaction_read_only"


# ---- a replica takes over


@pytest.fixture
def pair(
    own_server: PostgresServer, on_own_server: Options
) -> Iterator[tuple[PostgresServer, Replica]]:
    """A primary with a migrated database, and its synchronous replica."""
    with Replica(own_server) as replica:
        acknowledge_by_replica(own_server)
        yield own_server, replica
    own_server.stop()
    own_server.start()
    with psycopg.connect(own_server.url, autocommit=True) as db:
        db.execute("ALTER SYSTEM RESET ALL")
        db.execute("SELECT pg_reload_conf()")


@asynccontextmanager
async def process(url: str, loops: LoopSettings | None = None) -> AsyncIterator[Engine]:
    """An engine as one process has it, with the loops of its own."""
    engine = await PostgresBackend.connect(url, settings=Settings(lease_reclaim_grace_ms=0))
    engine.with_scanners(loops)
    try:
        yield engine
    finally:
        await engine.close()


class Load:
    """Creates and completes executions, and remembers what was acknowledged."""

    def __init__(self) -> None:
        self.created: set[ExecutionId] = set()
        self.completed: dict[ExecutionId, bytes | None] = {}
        self.stopping = False

    async def answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer, however often the call must be repeated."""
        while True:
            try:
                return await call()
            except EngineError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(0.05)

    async def create(self, engine: Engine) -> None:
        """A third of the executions are delayed, so that a timer must move them."""
        number = 0
        while not self.stopping:
            number += 1
            due = await self.answered(engine.store.now_ms) + 300 if number % 3 == 0 else None
            args = CreateExecutionArgs(
                execution_id=ExecutionId.solo("default"),
                input_payload=b"%d" % number,
                delay_until=due,
            )
            await self.answered(partial(engine.create_execution, args))
            self.created.add(args.execution_id)
            await asyncio.sleep(0.002)

    async def work(self, engine: Engine, number: int) -> None:
        while not self.stopping or len(self.completed) < len(self.created):
            try:
                claimed = await engine.claim_many(
                    "default", (), worker(number, TTL_MS, max_wait_ms=200), 4
                )
                for work in claimed:
                    await engine.complete(work.handle, work.input_payload)
                    self.completed[work.execution_id] = work.input_payload
            except EngineError as error:
                if not error.retryable and "lease" not in error.code:
                    raise
                await asyncio.sleep(0.02)

    async def follow(self, engine: Engine, ended: set[ExecutionId]) -> None:
        """Receives completions, from the last cursor on when the subscription breaks."""
        cursor = b""
        while True:
            try:
                async for event in await engine.subscribe_completion(cursor):
                    ended.add(event.execution_id)
                    cursor = event.cursor
            except EngineError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(0.05)


async def progress(load: Load, by: int = 20) -> float:
    """The time until so many more executions were completed."""
    began, before = time.monotonic(), len(load.completed)
    await until(lambda: len(load.completed) >= before + by)
    return time.monotonic() - began


@asynccontextmanager
async def under_load(engines: Sequence[Engine]) -> AsyncIterator[Load]:
    """Leaves when all that was created is completed."""
    load, ended = Load(), set[ExecutionId]()
    following = asyncio.create_task(load.follow(engines[-1], ended))
    async with asyncio.TaskGroup() as tasks:
        for number, engine in enumerate(engines):
            tasks.create_task(load.create(engine))
            for own in range(2):
                tasks.create_task(load.work(engine, 2 * number + own))
        await progress(load, 100)
        try:
            yield load
        finally:
            load.stopping = True
    await until(lambda: following.done() or ended >= load.completed.keys())
    following.cancel()
    await asyncio.wait({following})


async def check_nothing_is_lost(engine: Engine, load: Load) -> None:
    found = await world(engine)
    lost = [
        *acknowledged_exist(found, load.created),
        *acknowledged_ends_stand(found, load.completed),
    ]
    assert lost == [] and len(load.completed) >= len(load.created)


async def check_it_lives_on(server: PostgresServer, engines: Sequence[Engine]) -> None:
    """One engine leads, and all listen there again."""
    await until(lambda: [engine.loops.leads for engine in engines].count(True) == 1)
    await until(lambda: all(engine.store.notifier.is_listening for engine in engines))
    with plain(server.url_of("ff_own")) as db:
        await until(lambda: one(db, LISTENERS) == len(engines))
    heard = engines[1].store.notifier.received
    await create(engines[0])
    await until(lambda: engines[1].store.notifier.received > heard)


async def test_a_killed_primary_is_replaced_by_its_replica(
    pair: tuple[PostgresServer, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, replica = pair
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.2)
    url = both(primary, replica, "ff_own", "?target_session_attrs=read-write")
    async with process(url) as first, process(url) as second, asyncio.timeout(60):
        engines = (first, second)
        async with under_load(engines) as load:
            await asyncio.to_thread(primary.crash)
            await asyncio.to_thread(replica.promote)
            assert await progress(load) < 8
        await check_it_lives_on(replica, engines)
        await check_nothing_is_lost(first, load)


@pytest.mark.nightly
async def test_a_fenced_primary_is_left_while_it_runs(
    pair: tuple[PostgresServer, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, replica = pair
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.2)
    url = both(primary, replica, "ff_own")
    async with process(url) as first, process(url) as second, asyncio.timeout(60):
        engines = (first, second)
        async with under_load(engines) as load:
            with plain(primary.url) as db:
                db.execute(FENCE)
                db.execute("SELECT pg_reload_conf()")
            await asyncio.sleep(0.5)
            await asyncio.to_thread(replica.promote)
            assert await progress(load) < 8
        await check_it_lives_on(replica, engines)
        await check_nothing_is_lost(first, load)


# ---- a server that refuses writes


@contextmanager
def fenced(server: PostgresServer) -> Iterator[None]:
    def execute(change: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as db:
            db.execute(change)
            db.execute("SELECT pg_reload_conf()")

    execute(FENCE)
    try:
        yield
    finally:
        execute(UNFENCE)


async def test_a_refused_write_is_repeated_where_writes_are_taken(
    own_server: PostgresServer, on_own_server: Options
) -> None:
    options = structs.replace(
        on_own_server, url=both(own_server, own_server, "ff_own"), writers=1, readers=1
    )
    async with opened(options) as store:
        await store.commit(lane("a"))
        assert await lanes(store) == ["a"]
        await until(lambda: store.notifier.is_listening)
        with plain(on_own_server) as db:
            before = {row[0] for row in db.execute(SESSIONS).fetchall()}
            assert len(before) == 3, "a writer, a reader and the listener"
            commits = []
            with fenced(own_server):
                while store.notifier.is_listening:  # until the session knows
                    commits.append(asyncio.ensure_future(store.commit(lane(f"b{len(commits)}"))))
                    await asyncio.wait(commits[-1:], timeout=0.1)
                assert not commits[-1].done()
            assert all(isinstance(answer, Applied) for answer in await asyncio.gather(*commits))
            assert len(await lanes(store)) == 1 + len(commits)
            await until(lambda: store.notifier.is_listening)
            after = {row[0] for row in db.execute(SESSIONS).fetchall()}
            assert not after & before


async def commit_until_it_fails(store: PostgresStore) -> None:
    for number in count():
        await store.commit(lane(f"b{number}"))


async def test_no_host_that_takes_writes_is_a_retryable_error(
    own_server: PostgresServer, on_own_server: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RECONNECT_FOR_S", 0.2)
    options = structs.replace(on_own_server, url=both(own_server, own_server, "ff_own"))
    async with opened(options) as store:
        with fenced(own_server):
            with pytest.raises(TransportError) as caught:
                await commit_until_it_fails(store)
            assert caught.value.retryable and not caught.value.doubtful
            assert "127.0.0.1" in str(caught.value)
        assert isinstance(await store.commit(lane("a")), Applied)
