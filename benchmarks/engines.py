"""Engines to measure, opened on fresh storage."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import asyncpg

from benchmarks.raw import PAYLOAD, RawLives
from benchmarks.raw_postgres import RawPostgresLives
from benchmarks.raw_valkey import RawValkeyLives
from benchmarks.valkey import new_server
from flowfabric import (
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    PostgresBackend,
    Settings,
    SqliteBackend,
    memory_engine,
)
from flowfabric.connect import ValkeyBackend, migrate_postgres
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.testing.postgres import PostgresServer

LANE = "bench"
BULK = 1_000
SERVERS = ("postgres", "valkey")
"""Stores that several processes share."""


class Rival(Protocol):
    """The raw limit: the same rows without rules."""

    async def lives(self, n: int) -> float: ...

    async def one_by_one(self, n: int) -> list[float]: ...

    async def close(self) -> None: ...


OpenRival = Callable[[], Awaitable[Rival | None]]


@asynccontextmanager
async def opened(
    store: str, settings: Settings | None = None
) -> AsyncIterator[tuple[Engine, OpenRival]]:
    """A fresh engine, and how to open its raw rival on the same storage."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    async with AsyncExitStack() as stack:
        if store == "postgres":
            server = stack.enter_context(PostgresServer())
            engine: Engine = await PostgresBackend.connect(
                await new_database(server, "engine"), migrate=True, settings=settings
            )
            opening: OpenRival = partial(_raw_postgres, server)
        elif store == "valkey":
            cells = stack.enter_context(new_server())
            connected = await ValkeyBackend.connect(cells.url, settings=settings)
            stack.push_async_callback(connected.close)
            engine = connected.cells.base
            opening = partial(RawValkeyLives.open, cells.port)
        else:
            path = Path(
                stack.enter_context(TemporaryDirectory(prefix="flowfabric-bench-", dir="."))
            )
            engine = (
                memory_engine(settings=settings)
                if store == "memory"
                else await SqliteBackend.new(str(path / "engine.db"), dev=True, settings=settings)
            )
            opening = partial(_raw_sqlite, path / "raw.db" if store == "sqlite" else None)
        stack.push_async_callback(engine.close)
        yield engine, opening


@asynccontextmanager
async def served(store: str, settings: dict[str, str] | None = None) -> AsyncIterator[str]:
    """The URL of an empty database on a server that several processes may use."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    if store == "valkey":
        with new_server() as cells:
            yield cells.url
    else:
        with PostgresServer(settings=settings) as server:
            url = await new_database(server, "engine")
            await migrate_postgres(url)
            yield url


async def new_database(server: PostgresServer, name: str) -> str:
    connection = await asyncpg.connect(server.url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    return server.url_of(name)


async def _raw_postgres(server: PostgresServer) -> Rival:
    return await RawPostgresLives.open(await new_database(server, "raw"))


async def _raw_sqlite(path: Path | None) -> Rival | None:
    return None if path is None else RawLives(path)


def creations(n: int, namespace: str = "default") -> list[CreateExecutionArgs]:
    return [
        CreateExecutionArgs(
            execution_id=ExecutionId.solo(LANE),
            lane_id=LANE,
            namespace=namespace,
            execution_kind="bench",
            input_payload=PAYLOAD,
        )
        for _ in range(n)
    ]


async def fill(engine: LocalEngineProtocol, n: int) -> None:
    for at in range(0, n, BULK):
        await engine.create_executions(creations(min(BULK, n - at)))
