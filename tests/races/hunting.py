"""How a test stops statements half way, and asks the server whether they got into each
other's way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from flowfabric.ids import ExecutionId
from flowfabric.store.postgres.connections import Options

from .helpers import until


async def deadlocks(options: Options) -> int:
    """Sessions report what they met when they end, so this is asked after they were closed."""
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
    """Somebody holds one row, so that one that locks several stops half way. Call it to wait until
    so many have stopped.
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
