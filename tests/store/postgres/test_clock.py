"""The server's clock as an engine carries it: never ahead of the server, and never running back."""

from __future__ import annotations

from flowfabric.store.postgres.connections import Options

from .helpers import engine_on, one, plain

SERVER_NOW = "SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


async def test_it_is_never_ahead_of_the_server(options: Options) -> None:
    for _ in range(5):
        async with engine_on(options) as engine:
            with plain(options) as db:
                for _ in range(50):
                    assert await engine.server_time_ms() <= one(db, SERVER_NOW)


async def test_it_is_not_far_behind_and_does_not_run_back(options: Options) -> None:
    async with engine_on(options) as engine:
        with plain(options) as db:
            await engine.server_time_ms()
            engine.store._offset_until = float("-inf")
            before = one(db, SERVER_NOW)
            first = await engine.server_time_ms()
            assert first >= before - 1_000
            engine.store._offset_until = float("-inf")
            assert await engine.server_time_ms() >= first
