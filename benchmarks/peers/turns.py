"""Systems take turns in rounds, each time on an empty database of one durable server, so that a
slow moment hits them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.peers.children import ask
from benchmarks.peers.protocol import Reply
from benchmarks.peers.systems import require, systems_of
from benchmarks.valkey import new_server
from flowfabric.testing.postgres import PostgresServer
from flowfabric.testing.valkey import ValkeyServer

if TYPE_CHECKING:
    import asyncpg
    import redis.asyncio

ROUNDS = 3
REWRITE_POLL_S = 0.02
Turn = Callable[[str, str], Awaitable[Reply]]


async def take_turns(store: str, turn: Turn, rounds: int = ROUNDS) -> dict[str, list[Reply]]:
    """The replies of every system to `turn(system, url)`, one a round. Every second round goes
    backwards: what one leaves to be
    written back costs the next run.
    """
    systems = systems_of(store)
    require(store)
    replies: dict[str, list[Reply]] = {system: [] for system in systems}
    with _server(store) as server:
        for at in range(rounds):
            for system in reversed(systems) if at % 2 else systems:
                async with _fresh_database(server) as url:
                    await ask(system, "prepare", url)
                    replies[system].append(await turn(system, url))
    return replies


async def settle(url: str) -> None:
    """Statistics are fresh and nothing is left to write back, by any system."""
    if url.startswith("valkey://"):
        await _rewritten(url)
        return
    async with _connected(url) as db:
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")


def _server(store: str) -> PostgresServer | ValkeyServer:
    return new_server() if store == "valkey" else PostgresServer(_working_disk())


def _fresh_database(server: PostgresServer | ValkeyServer) -> AbstractAsyncContextManager[str]:
    return _emptied(server) if isinstance(server, ValkeyServer) else _created(server)


@asynccontextmanager
async def _emptied(server: ValkeyServer) -> AsyncIterator[str]:
    """The systems need a database with number 0; it is the name of our cell as well."""
    import redis.asyncio

    url = server.url_of("0")
    async with redis.asyncio.Redis(port=server.port) as db:
        await db.flushall()
    await _rewritten(url)
    yield url


async def _rewritten(url: str) -> None:
    """The append file is as short as it can be, and no rewrite of it runs during a turn."""
    import redis.asyncio

    async with redis.asyncio.Redis.from_url(url.replace("valkey://", "redis://")) as db:
        await db.bgrewriteaof()
        while await _is_rewriting(db):  # noqa: ASYNC110
            await asyncio.sleep(REWRITE_POLL_S)


async def _is_rewriting(db: redis.asyncio.Redis) -> bool:
    state = await db.info("persistence")
    return bool(state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"])


@asynccontextmanager
async def _created(server: PostgresServer) -> AsyncIterator[str]:
    name = f"bench_{uuid4().hex}"
    async with _connected(server.url) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
        yield server.url_of(name)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """The driver is imported late, because another scenario weighs this very process."""
    import asyncpg

    db = await asyncpg.connect(url)
    try:
        yield db
    finally:
        await db.close()


def _working_disk() -> Path:
    """Not the folder for temporary files, which may be in memory."""
    return Path.cwd()
