"""The server's clock in an engine: never ahead of the server, and never running back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from flowfabric.store.postgres.connections import Options

from .helpers import engine_on, one, plain

SERVER_NOW = "SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


async def test_the_clock_is_never_ahead_of_the_server(options: Options) -> None:
    for _ in range(5):
        async with engine_on(options) as engine:
            with plain(options) as db:
                for _ in range(50):
                    assert await engine.server_time_ms() <= one(db, SERVER_NOW)


async def test_the_clock_is_not_far_behind_and_does_not_run_back(options: Options) -> None:
    async with engine_on(options) as engine:
        with plain(options) as db:
            await engine.server_time_ms()
            engine.store.server_clock.expire()
            before = one(db, SERVER_NOW)
            first = await engine.server_time_ms()
            assert first >= before - 1_000
            engine.store.server_clock.expire()
            assert await engine.server_time_ms() >= first


async def test_concurrent_callers_share_one_read_of_the_clock(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine_on(options) as engine:
        await engine.server_time_ms()
        read, asked = engine.store.read, []

        async def counted(work: Any) -> Any:
            asked.append(work)
            return await read(work)

        monkeypatch.setattr(engine.store, "read", counted)
        engine.store.server_clock.expire()
        await asyncio.gather(*(engine.server_time_ms() for _ in range(16)))
        assert len(asked) == 1


@pytest.mark.parametrize("step_s", [600, -600])
async def test_a_step_of_the_local_clock_does_not_change_the_server_time(
    options: Options, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    """A sleep of a second that is counted from ten minutes ahead lasts ten minutes."""
    async with engine_on(options) as engine:
        with plain(options) as db:
            before = await engine.server_time_ms()
            real = time.time_ns
            monkeypatch.setattr(time, "time_ns", lambda: real() + step_s * 1_000_000_000)
            now = await engine.server_time_ms()
            assert before <= now <= one(db, SERVER_NOW)
