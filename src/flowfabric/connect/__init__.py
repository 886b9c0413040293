"""From a URL to an engine. The only package that knows the concrete stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flowfabric.connect.memory import MemoryBackend, memory_engine
from flowfabric.connect.postgres import (
    POSTGRES_LOOPS,
    PostgresBackend,
    migrate_postgres,
    migration_script,
    postgres_engine,
    postgres_options,
)
from flowfabric.connect.sqlite import SqliteBackend, migrate_sqlite, sqlite_engine
from flowfabric.connect.urls import (
    check_settings,
    is_http,
    is_in_memory,
    is_postgres,
    is_server,
    is_valkey,
    sqlite_path,
)
from flowfabric.connect.valkey import ValkeyBackend, valkey_engine, valkey_options
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.cells.pool import dump_cells
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.model.signing_key import Seeded
from flowfabric.store.clock import system_clock
from flowfabric.store.port import Row
from flowfabric.store.sqlite.errors import SQLITE_ERRORS, read_tolerantly
from flowfabric.store.sqlite.opening import cannot_read, connect_read_only
from flowfabric.store.sqlite.read_only import ReadOnlySqlite, require_file
from flowfabric.store.sqlite.reader import dump_tables
from flowfabric.store.sqlite.uri import parse_target

if TYPE_CHECKING:
    from flowfabric.store.postgres.connections import Options

__all__ = [
    "POSTGRES_LOOPS",
    "MemoryBackend",
    "PostgresBackend",
    "SqliteBackend",
    "ValkeyBackend",
    "connect",
    "connect_store",
    "ensure_signing_key",
    "index_faults",
    "is_http",
    "is_in_memory",
    "is_postgres",
    "is_server",
    "is_valkey",
    "look_at",
    "look_at_store",
    "memory_engine",
    "migrate_postgres",
    "migrate_sqlite",
    "migration_script",
    "postgres_engine",
    "postgres_options",
    "read_tables",
    "sqlite_engine",
    "sqlite_path",
    "valkey_engine",
    "valkey_options",
]


def read_tables(url: str, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Whole tables of a live or closed database, on one snapshot, without writing to it."""
    if is_postgres(url):
        return asyncio.run(_read_postgres(postgres_options(url), tables))
    if is_valkey(url):
        return asyncio.run(_read_valkey(url, tables))
    target = require_file(parse_target(sqlite_path(url)))
    try:
        db = connect_read_only(target)
        try:
            return read_tolerantly(db, lambda found: dump_tables(found, tables))
        finally:
            db.close()
    except SQLITE_ERRORS as error:
        raise cannot_read(error, target) from error


async def _read_postgres(options: Options, tables: Iterable[str]) -> dict[str, list[Row]]:
    from flowfabric.store.postgres.store import PostgresStore

    store = await PostgresStore(options).open()
    try:
        return await store.dump(tables)
    finally:
        await store.close()


async def _read_valkey(url: str, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Of all cells: a number of an event may occur in each of them."""
    engine = await ValkeyBackend.connect(url)
    try:
        return await dump_cells(engine.cells, tables)
    finally:
        await engine.close()


def index_faults(url: str) -> list[tuple[str, str]] | None:
    """What is wrong with the indexes of a store that keeps its own, and where. None when the
    database keeps them.
    """
    if not is_valkey(url):
        return None
    options = valkey_options(url)
    from flowfabric.store.valkey.audit import audit_cells

    return [(fault.subject, fault.says) for fault in asyncio.run(audit_cells(options))]


async def connect(
    url: str,
    *,
    dev: bool = False,
    loops: bool | LoopSettings = True,
    settings: Settings | None = None,
    **tuning: Any,
) -> EngineProtocol:
    """`memory://`, `sqlite:///file.db`, a plain path, `postgresql://host/database` or
    `valkey://host/cell`, with background loops running.

    `http://host:port` is the engine of a server, which has its own loops; it takes a `token`.

    The loops move executions that wait for a time: retries, delays, expired leases, deadlines,
    retention. One process
    is enough; `loops=False` leaves them to another.
    """
    if isinstance(url, str) and is_http(url):
        return _remote(url, **tuning)
    return await connect_store(url, dev=dev, loops=loops, settings=settings, **tuning)


async def connect_store(
    url: str,
    *,
    dev: bool = False,
    loops: bool | LoopSettings = True,
    settings: Settings | None = None,
    **tuning: Any,
) -> LocalEngineProtocol:
    """As `connect`, for a store: the answer has the operations that HTTP does not carry."""
    _check_store_url(url, "memory://, ")
    engine: LocalEngineProtocol
    if url == "memory://":
        engine = memory_engine(tuning.get("clock", system_clock), settings)
    elif is_postgres(url):
        engine = await PostgresBackend.connect(url, settings=settings, **tuning)
    elif is_valkey(url):
        engine = await ValkeyBackend.connect(url, settings=settings, **tuning)
    else:
        engine = await SqliteBackend.new(sqlite_path(url), dev=dev, settings=settings, **tuning)
    if loops:
        engine.with_scanners(loops if isinstance(loops, LoopSettings) else None)
    return engine


async def ensure_signing_key(engine: LocalEngineProtocol, kid: str, secret_hex: str) -> bool:
    """A store without a key for waitpoint tokens gets this one. False when it signs with another,
    which is kept.
    """
    current = (await engine.list_waitpoint_hmac_kids()).current_kid
    if current is not None and current != kid:
        return False
    told = await engine.seed_waitpoint_hmac_secret(kid, secret_hex)
    return isinstance(told, Seeded) or told.same_secret


def _check_store_url(url: object, further: str = "") -> None:
    if not isinstance(url, str) or not url or is_http(url):
        raise ConfigError(
            f"url: {further}sqlite:///path, a file path, postgresql://host/database or "
            "valkey://host/cell is accepted"
        )


def _remote(url: str, *, token: str | None = None, **unknown: object) -> EngineProtocol:
    check_settings("server", unknown, {"token"})
    from flowfabric.remote.engine import RemoteEngine

    return RemoteEngine(url, token)


async def look_at(url: str, token: str | None = None) -> EngineProtocol:
    """As `look_at_store`; `http://host:port` is the engine of a server, with its token."""
    if isinstance(url, str) and is_http(url):
        return _remote(url, token=token)
    return await look_at_store(url)


async def look_at_store(url: str) -> LocalEngineProtocol:
    """An engine for reads of an existing database: it creates, migrates and starts nothing. Close
    it; do not enter it.

    On Postgres it is `connect(url, loops=False)`, which leaves the schema alone until the engine is
    entered.
    """
    _check_store_url(url)
    if is_server(url):
        return await connect_store(url, loops=False)
    if url == "memory://":
        raise ConfigError(
            "url: memory:// is visible to its own process only; "
            "use sqlite:///path, postgresql://host/database or valkey://host/cell"
        )
    return Engine(ReadOnlySqlite(parse_target(sqlite_path(url))))
