"""Engines for tests on every backend, each empty and under the test's own clock."""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flowfabric.connect import (
    memory_engine,
    migrate_postgres,
    postgres_engine,
    postgres_options,
    sqlite_engine,
    valkey_engine,
)
from flowfabric.engine.engine import Engine
from flowfabric.store.clock import Clock
from flowfabric.store.schema import TABLES
from flowfabric.store.sqlite.registry import open_store
from flowfabric.testing.postgres import SERVER_URL, PostgresServer, find_binaries
from flowfabric.testing.valkey import SERVER_URL as VALKEY_URL
from flowfabric.testing.valkey import find_server

if TYPE_CHECKING:
    import asyncpg

    from flowfabric.store.valkey.options import Options as ValkeyOptions
    from flowfabric.testing.cells import Cells

BACKENDS = ("memory", "sqlite", "postgres", "valkey")
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Database:
    """One database for the tests of this process.

    It is on the server of FF_TEST_POSTGRES_URL, or on a server of its own.
    """

    def __init__(self) -> None:
        self._server = None if os.environ.get(SERVER_URL) else PostgresServer(settings=FAST).start()
        self._home = os.environ[SERVER_URL] if self._server is None else self._server.url
        self._name = f"ff_test_{os.getpid()}"
        before, mark, query = self._home.partition("?")
        self.url = f"{before.rpartition('/')[0]}/{self._name}{mark}{query}"
        try:
            self._at(self._home, f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")
            self._at(self._home, f"CREATE DATABASE {self._name} ENCODING 'UTF8' TEMPLATE template0")
            asyncio.run(migrate_postgres(self.url))
        except BaseException:
            self._stop()
            raise

    def empty(self) -> None:
        """Deletes all rows and restarts the sequences at one."""
        wipe = [f"DELETE FROM {table}" for table in TABLES]  # noqa: S608 - our own names
        numbered = [table for table in TABLES.values() if table.columns[0].kind == "auto"]
        wipe += [
            f"ALTER TABLE {table.name} ALTER COLUMN {table.key[0]} RESTART" for table in numbered
        ]
        self._at(self.url, ";".join(wipe))

    def close(self) -> None:
        if self._server is None:
            self._at(self._home, f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")
        self._stop()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def _at(self, url: str, sql: str) -> None:
        asyncio.run(_executed(url, sql))


async def _executed(url: str, sql: str) -> None:
    from flowfabric.store.postgres import connections

    connection: asyncpg.Connection = await connections.connect(postgres_options(url))
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


def missing(backend: str) -> str | None:
    """Why this machine cannot test on the backend; None if it can.

    A server of FF_TEST_POSTGRES_URL or FF_TEST_VALKEY_URL that does not answer is an error, not a
    reason to skip.
    """
    if backend == "valkey":
        return _missing_valkey()
    if backend != "postgres":
        return None
    if find_spec("asyncpg") is None:
        return "postgres needs one more library: pip install 'flowfabric[postgres]'"
    if os.environ.get(SERVER_URL):
        return None
    try:
        find_binaries()
    except RuntimeError as error:
        return str(error)
    return None


def _missing_valkey() -> str | None:
    if find_spec("glide") is None or find_spec("msgpack") is None:
        return "valkey needs two more libraries: pip install 'flowfabric[valkey]'"
    if os.environ.get(VALKEY_URL):
        return None
    try:
        find_server()
    except RuntimeError as error:
        return str(error)
    return None


def new_cells() -> Cells:
    from flowfabric.testing.cells import Cells

    return Cells()


def valkey_cell_engine(options: ValkeyOptions, clock: Clock) -> Engine:
    """An engine on a cell that is empty."""
    from flowfabric.testing.cells import ReopeningStore

    return valkey_engine(ReopeningStore(options, clock=clock))


def new_engine(backend: str, clock: Clock, folder: Path, url: str | None) -> Engine:
    """An empty engine. `url` is that of an empty Postgres database."""
    if backend == "memory":
        return memory_engine(clock)
    if backend == "sqlite":
        return sqlite_engine(open_store(str(folder / "ff.db"), clock=clock, synchronous="NORMAL"))
    from flowfabric.testing.reopening_store import ReopeningStore

    assert url is not None
    return postgres_engine(ReopeningStore(postgres_options(url), clock=clock))
