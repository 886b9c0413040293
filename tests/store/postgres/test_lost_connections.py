"""The engine survives ended sessions, restarts and crashes; acknowledged work remains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.connect import PostgresBackend
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.errors import EngineError, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.store.postgres import connections, leader, notify
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.testing.postgres import PostgresServer
from flowfabric.verify.invariants import acknowledged_ends_stand, acknowledged_exist
from tests.engine.helpers import claim, create, running, state, told, worker
from tests.patience import patient

from .helpers import (
    OURS,
    engine_on,
    lane,
    lanes,
    one,
    opened,
    plain,
    until,
    until_somebody_waits,
    world,
)

JOBS, TTL_MS = 400, 400
SERVED = f"SELECT count(*) {OURS}"


def end_sessions(options: Options) -> int:
    """Ends FlowFabric's sessions on this database; returns their number."""
    with plain(options) as db:
        return len(db.execute(f"SELECT pg_terminate_backend(pid, 5000) {OURS}").fetchall())


async def until_noticed(store: PostgresStore) -> None:
    held = [link.current for link in store.connections if link.current is not None]
    await until(lambda: all(connection.is_closed() for connection in held))


async def test_idle_sessions_that_were_ended_are_replaced(options: Options) -> None:
    async with engine_on(options) as engine:
        ident, handle = await running(engine)
        assert end_sessions(options) >= 3, "a writer, a reader and the listener"
        await until_noticed(engine.store)
        await engine.complete(handle)
        assert await state(engine, ident) == "ENDED(success)"
        second = await create(engine)
        await engine.complete(await claim(engine))
        assert await state(engine, second) == "ENDED(success)"
        await world(engine)


async def test_an_unanswered_statement_times_out(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "COMMAND_TIMEOUT_S", 0.2)
    async with opened(options) as store:
        with plain(options, autocommit=False) as other:
            other.execute("LOCK TABLE ff_lane_registry")
            for waiting in (store.commit(lane("a")), store.dump(["ff_lane_registry"])):
                with pytest.raises(TransportError) as caught:
                    await waiting
                assert caught.value.doubtful and caught.value.retryable
        await store.commit(lane("a"))  # on a new connection
        await until(lambda: not any(link.timeout.is_armed for link in store.connections))
        assert await lanes(store) == ["a"], "and who has nothing to do is not late"


async def test_sessions_ended_behind_the_clients_back_are_replaced(options: Options) -> None:
    """The next statement uses the dead session before the event loop has noticed."""
    async with engine_on(options) as engine:
        ident, handle = await running(engine)
        end_sessions(options)
        await engine.complete(handle)
        end_sessions(options)
        assert await state(engine, ident) == "ENDED(success)"
        end_sessions(options)
        await create(engine)
        await world(engine)


async def test_a_session_ended_in_the_middle_of_a_completion_is_replaced(options: Options) -> None:
    async with engine_on(options) as engine:
        ident, handle = await running(engine)
        with plain(options, autocommit=False) as other, plain(options) as looking:
            other.execute("SELECT FROM ff_exec_core FOR UPDATE")
            completing = asyncio.ensure_future(engine.complete(handle, b"out"))
            await until_somebody_waits(looking)
            end_sessions(options)
            await until_somebody_waits(looking)
            other.commit()
            await completing
        assert (await told(engine, ident))["DONE"] == ["success"]
        await world(engine)


async def test_a_session_ended_in_the_middle_of_a_read_is_replaced(options: Options) -> None:
    async with opened(options) as store:
        await store.commit(lane("a"))
        with plain(options, autocommit=False) as other, plain(options) as looking:
            other.execute("LOCK TABLE ff_lane_registry IN ACCESS EXCLUSIVE MODE")
            asking = asyncio.ensure_future(lanes(store))
            await until_somebody_waits(looking)
            end_sessions(options)
            await until_somebody_waits(looking)
            other.rollback()
            assert await asking == ["a"]


async def test_closing_with_dead_sessions_is_quiet(options: Options) -> None:
    async with engine_on(options) as engine:
        await running(engine)
        end_sessions(options)
    with plain(options) as db:
        await until(lambda: one(db, SERVED) == 0)


async def test_an_engine_that_was_not_closed_cancels_nothing_when_it_is_collected(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(asyncio.all_tasks())
    engine = await PostgresBackend.connect(options.url)
    await until(lambda: engine.store.notifier.is_listening)
    notify = next(
        task
        for task in asyncio.all_tasks() - before
        if task.get_name() == "flowfabric-postgres-notifier"
    )
    armed: list[Any] = []
    with monkeypatch.context() as watched:
        watched.setattr(asyncio.get_running_loop(), "call_at", lambda *call: armed.append(call))
        notify.get_coro().close()
    assert not armed, "a timeout was armed on the task that happened to run"
    assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]
    notify.cancel()
    await engine.close()


# ---- the server goes away


@asynccontextmanager
async def working(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresBackend]:
    """An engine whose loops reclaim at once what a lost answer left leased."""
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.05)
    settings = Settings(lease_reclaim_grace_ms=0)
    engine = await PostgresBackend.connect(options.url, settings=settings)
    engine.with_scanners(LoopSettings(lease_expiry_ms=100))
    try:
        yield engine
    finally:
        await engine.close()


async def worked_off(
    engine: PostgresBackend, number: int, done: dict[ExecutionId, bytes | None]
) -> None:
    """A worker that retries retryable errors."""
    while len(done) < JOBS:
        try:
            for work in await engine.claim_many(
                "default", (), worker(number, TTL_MS, max_wait_ms=200), 4
            ):
                await engine.complete(work.handle, work.input_payload)
                done[work.execution_id] = work.input_payload
        except EngineError as error:
            if not error.retryable and "lease" not in error.code:
                raise
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("crash", [False, True], ids=["restart", "crash"])
async def test_the_engine_continues_after_a_restart_of_the_server(
    own_server: PostgresServer, on_own_server: Options, monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    async with working(on_own_server, monkeypatch) as engine, patient(40):
        many = [
            CreateExecutionArgs(execution_id=ExecutionId.solo("default"), input_payload=b"%d" % n)
            for n in range(JOBS)
        ]
        await engine.create_executions(many)
        done: dict[ExecutionId, bytes | None] = {}
        async with asyncio.TaskGroup() as workers:
            for number in range(3):
                workers.create_task(worked_off(engine, number, done))
            await until(lambda: len(done) >= JOBS // 6)
            await asyncio.to_thread(own_server.restart, crash=crash)
            assert len(done) < JOBS, "there was work left"
        found = await world(engine)
        assert [*acknowledged_exist(found, done), *acknowledged_ends_stand(found, done)] == []
        assert [e.terminal_outcome for e in found.executions.values()] == ["success"] * JOBS
        await until(lambda: engine.loops.leads)


async def test_the_listener_reconnects(
    own_server: PostgresServer,
    on_own_server: Options,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(notify, "FIRST_RETRY_S", 0.01)
    caplog.set_level("INFO", "flowfabric.postgres")
    async with engine_on(on_own_server) as here, engine_on(on_own_server) as there:
        await create(here)
        own_server.stop()
        try:
            await until(lambda: "TransportError" in [vars(r).get("reason") for r in caplog.records])
        finally:
            own_server.start()
        heard = there.store.notifier.received
        async with patient(20):
            while there.store.notifier.received == heard:
                await create(here)
                await asyncio.sleep(0.05)


async def test_an_unreachable_server_is_reported_and_found_again(
    own_server: PostgresServer, on_own_server: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RECONNECT_FOR_S", 0.1)
    async with engine_on(on_own_server) as engine:
        ident, handle = await running(engine)
        own_server.stop()
        try:
            await until_noticed(engine.store)
            for call in (engine.complete(handle), engine.ping(), claim(engine)):
                with pytest.raises(TransportError) as caught:
                    await call
                assert caught.value.retryable and not caught.value.doubtful, "nothing was sent"
        finally:
            own_server.start()
        await engine.complete(handle)
        assert await state(engine, ident) == "ENDED(success)"


async def test_a_call_during_an_outage_waits_for_the_server(
    own_server: PostgresServer, on_own_server: Options
) -> None:
    async with engine_on(on_own_server) as engine:
        ident, handle = await running(engine)
        own_server.stop()
        try:
            await until_noticed(engine.store)
            completing = asyncio.ensure_future(engine.complete(handle))
        finally:
            own_server.start()
        await completing
        assert await state(engine, ident) == "ENDED(success)"


async def test_a_connection_that_is_made_while_its_engine_closes_is_closed_too(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked, may_go_on = connections.connect, asyncio.Event(), asyncio.Event()
    made = []

    async def slow(*args: Any, **named: Any) -> Any:
        made.append(await real(*args, **named))
        asked.set()
        await may_go_on.wait()
        return made[-1]

    monkeypatch.setattr(connections, "connect", slow)
    links = connections.ConnectionPool(options, 1)

    async def read() -> None:
        async with links.lend():
            raise AssertionError("nothing is read on a closed engine")

    reading = asyncio.create_task(read())
    await asked.wait()
    await links.close()
    may_go_on.set()
    with pytest.raises(TransportError):
        await reading
    assert made[0].is_closed()
