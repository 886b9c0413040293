"""The sides of a copy between databases, by URL, and the copy itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from flowfabric.connect.postgres import postgres_options
from flowfabric.connect.urls import is_http, is_postgres, is_server, is_valkey, sqlite_path
from flowfabric.connect.valkey import needs_libraries, valkey_options
from flowfabric.errors import ConfigError, FlowFabricError
from flowfabric.store import transfer
from flowfabric.store.schema import TABLES
from flowfabric.store.sqlite.transfer import SqliteSide
from flowfabric.store.sqlite.uri import parse_target
from flowfabric.store.transfer import Activity, Database, Destination, Pair, Report

if TYPE_CHECKING:
    from flowfabric.store.valkey.options import Options


class CopyRefused(FlowFabricError):
    """The copy did not begin, or its result differs; the text says what to do."""


class Copied(Struct, frozen=True):
    """`resumed`: rows that an earlier, interrupted copy had written."""

    rows: int
    resumed: int


async def copy_database(source_url: str, destination_url: str, report: Report) -> Copied:
    """Copies a paused deployment, verifies the copy, and continues after an interruption."""
    if _file_of(source_url) == _file_of(destination_url):
        raise ConfigError("DST: expected another database than SRC")
    async with open_source(source_url) as source, open_destination(destination_url) as destination:
        if (begun := await source.unfinished_source()) is not None:
            raise CopyRefused(f"{source.shown} is an unfinished copy of {begun}; copy that one")
        _check_paused(source.shown, await transfer.activity(source))
        await _begin(source, destination)
        pairs = await pairs_of(source, destination)
        resumed = sum(
            [await target.count(table) for _, target in pairs for table in TABLES.values()]
        )
        rows = await transfer.copy_tables(pairs, report)
        found = await transfer.differences(pairs, report)
        if found:
            raise CopyRefused(
                f"the copy differs from its source in {', '.join(found)}; "
                "the source was changed meanwhile: empty the destination and copy again"
            )
        _check_paused(source.shown, await transfer.activity(source))
        await destination.end()
        return Copied(rows, resumed)


async def _begin(source: Database, destination: Destination) -> None:
    _check_paused(destination.shown, await transfer.activity(destination), is_source=False)
    begun = await destination.unfinished_source()
    full = await transfer.tables_with_rows(destination)
    if begun is None:
        if full:
            raise CopyRefused(
                f"{destination.shown} has rows of its own in {', '.join(full)}; "
                "name an empty database"
            )
        await destination.begin(source.shown)
    elif begun != source.shown:
        raise CopyRefused(
            f"{destination.shown} has an unfinished copy of {begun}; "
            "continue that one, or name an empty database"
        )


def _check_paused(shown: str, active: Activity, *, is_source: bool = True) -> None:
    if not active or (not is_source and active.loops is None):
        return
    parts = []
    if active.leases:
        parts.append(f"executions are leased: {', '.join(active.leases)}")
    if active.workers:
        parts.append(f"workers are alive: {', '.join(active.workers)}")
    if active.loops:
        parts.append(f"background loops run in process {active.loops}")
    raise CopyRefused(
        f"{shown} is in use: {'; '.join(parts)}; stop workers and servers, wait until leases and "
        "registrations have expired, and copy again"
    )


async def pairs_of(source: Database, destination: Destination) -> list[Pair]:
    """What is copied to what: between two deployments on Valkey, each cell."""
    if not (is_valkey(source.shown) and is_valkey(destination.shown)):
        return [(source, destination)]
    from flowfabric.store.valkey.transfer import cell_pairs

    return await cell_pairs(source, destination)


@asynccontextmanager
async def open_source(url: str) -> AsyncIterator[Database]:
    side = await _open(url, is_new=False)
    try:
        yield side
    finally:
        await side.close()


@asynccontextmanager
async def open_destination(url: str) -> AsyncIterator[Destination]:
    """Creates the schema of a new database."""
    side = await _open(url, is_new=True)
    try:
        yield side
    finally:
        await side.close()


def _file_of(url: str) -> str:
    if is_valkey(url):
        return valkey_options(url).shown
    return url if is_server(url) or is_http(url) else parse_target(sqlite_path(url)).key


async def _open(url: str, *, is_new: bool) -> Destination:
    if is_http(url) or url == "memory://":
        raise ConfigError(
            "url: sqlite:///path, a path, postgresql://host/database or valkey://host/cell is "
            "accepted; a copy reads and writes databases that last"
        )
    if is_valkey(url):
        return await _open_valkey(valkey_options(url), is_new=is_new)
    if not is_postgres(url):
        return SqliteSide(parse_target(sqlite_path(url)), is_new=is_new)
    options = postgres_options(url)
    from flowfabric.store.postgres.transfer import PostgresSide

    return await PostgresSide.open(options, is_new=is_new)


async def _open_valkey(options: Options, *, is_new: bool) -> Destination:
    with needs_libraries():
        from flowfabric.store.valkey.transfer import ValkeySide
    return await ValkeySide.open(options, is_new=is_new)
