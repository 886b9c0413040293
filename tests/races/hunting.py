"""Stops statements midway, and asks the server for deadlocks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from flowfabric.ids import ExecutionId
from flowfabric.store.postgres.connections import Options

from .helpers import until


async def deadlocks(options: Options) -> int:
    """Sessions report their statistics at their end, so call this after they are closed."""
    db = await asyncpg.connect(options.url)
    try:
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
            "pid <> pg_backend_pid()"
        )
        await until(lambda: db.fetchval(f"SELECT ({others}) = 0"))
        return int(
            await db.fetchval(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
        )
    finally:
        await db.close()


@asynccontextmanager
async def gate(
    options: Options, table: str, who: ExecutionId
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Locks one row, so that a statement that locks several stops midway. Call it to wait until so
    many have stopped.
    """
    db = await asyncpg.connect(options.url)
    watcher = await asyncpg.connect(options.url)
    waiting = (
        "SELECT count(*) >= $1 FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event_type = 'Lock'"
    )

    async def stopped(count: int) -> None:
        await until(lambda: watcher.fetchval(waiting, count))

    try:
        async with db.transaction():
            await db.execute(f"SELECT 1 FROM {table} WHERE execution_id = $1 FOR UPDATE", who.uuid)
            yield stopped
    finally:
        await db.close()
        await watcher.close()
