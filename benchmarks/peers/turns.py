"""Systems take turns in rounds, each time on a fresh database of one durable server, so that a slow
moment hits them all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.peers.children import ask
from benchmarks.peers.protocol import Reply
from benchmarks.peers.systems import SYSTEMS, require
from flowfabric.testing.postgres import PostgresServer

if TYPE_CHECKING:
    import asyncpg

ROUNDS = 3
Turn = Callable[[str, str], Awaitable[Reply]]


async def take_turns(store: str, turn: Turn, rounds: int = ROUNDS) -> dict[str, list[Reply]]:
    """The replies of every system to `turn(system, url)`, one a round. Every second round goes
    backwards: what one leaves to be
    written back costs the next run.
    """
    if store != "postgres":
        raise SystemExit(
            f"this scenario compares systems on Postgres: --store postgres, not {store}"
        )
    require(SYSTEMS)
    replies: dict[str, list[Reply]] = {system: [] for system in SYSTEMS}
    with PostgresServer(_working_disk()) as server:
        for at in range(rounds):
            for system in reversed(SYSTEMS) if at % 2 else SYSTEMS:
                async with _fresh_database(server) as url:
                    await ask(system, "prepare", url)
                    replies[system].append(await turn(system, url))
    return replies


async def settle(url: str) -> None:
    """Statistics are fresh and nothing is left to write back, by any system."""
    async with _connected(url) as db:
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")


@asynccontextmanager
async def _fresh_database(server: PostgresServer) -> AsyncIterator[str]:
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
