"""Concurrent calls of next_due share a statement and get their own answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.connect import PostgresBackend
from flowfabric.engine.background import LoopSettings
from flowfabric.errors import TransportError
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.postgres.connections import Options
from tests.engine.helpers import create, registration, running, worker

from .helpers import engine_on, until

TIMED = 8


@asynccontextmanager
async def counted(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresBackend, list[Any]]]:
    """An engine, and every read it sends."""
    async with engine_on(options) as engine:
        await engine.server_time_ms()
        read, sent = engine.store.read, list[Any]()

        async def counting(work: Any) -> Any:
            sent.append(work)
            return await read(work)

        monkeypatch.setattr(engine.store, "read", counting)
        yield engine, sent


async def test_concurrent_calls_share_a_statement(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counted(options, monkeypatch) as (engine, sent):
        now = await engine.server_time_ms()
        await create(engine, delay_until=now + 60_000)
        await running(engine, worker(ttl_ms=50_000))
        await engine.register_worker(registration(liveness_ttl_ms=40_000))
        sent.clear()
        asked = ("delayed", "leased", "worker_expiry", "lost", "delayed")
        delayed, leased, silent, lost, again = await asyncio.gather(
            *(engine.store.next_due(index) for index in asked)
        )
        assert len(sent) == 1
        assert delayed == again == now + 60_000 and lost is None
        assert now + 50_000 <= (leased or 0) and now + 40_000 <= (silent or 0) < (leased or 0)


async def test_a_call_during_a_statement_gets_a_newer_answer(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counted(options, monkeypatch) as (engine, sent):
        store, through = engine.store, asyncio.Event()
        read = store.read

        async def late(work: Any) -> Any:
            answer = await read(work)
            await through.wait()
            return answer

        monkeypatch.setattr(store, "read", late)
        early = asyncio.ensure_future(store.next_due("delayed"))
        await until(lambda: sent)
        monkeypatch.setattr(store, "read", read)
        at = await engine.server_time_ms() + 60_000
        await create(engine, delay_until=at)
        assert await store.next_due("delayed") == at
        through.set()
        assert await early in (None, at)


async def test_a_cancelled_call_and_a_closed_store(options: Options) -> None:
    async with engine_on(options) as engine:
        first, second = (asyncio.ensure_future(engine.store.next_due("delayed")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is None and first.cancelled()
        await engine.store.close()
        for said in await asyncio.gather(
            *(engine.store.next_due("delayed") for _ in range(2)), return_exceptions=True
        ):
            assert isinstance(said, TransportError)


async def test_idle_loops_share_their_statements(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six rounds of all timed loops."""
    async with counted(options, monkeypatch) as (engine, sent):
        asked: list[str] = []
        next_due = engine.store.next_due

        def noted(index: str) -> Any:
            asked.append(index)
            return next_due(index)

        monkeypatch.setattr(engine.store, "next_due", noted)
        loops = Supervisor(engine, LoopSettings(*(200,) * 18))
        loops.loops = [loop for loop in loops.loops if loop.timed]
        assert len(loops.loops) >= TIMED
        loops.start()
        await until(lambda: len(asked) >= 6 * (len(loops.loops) + 2))
        await loops.stop(5)
        assert len(sent) <= len(asked) / 2
