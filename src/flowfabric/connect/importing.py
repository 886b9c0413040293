"""Imports a SQLite database of the Rust FlowFabric into a new database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from uuid import UUID

from msgspec import Struct

from flowfabric.connect.transfer import CopyRefused, open_destination
from flowfabric.connect.urls import sqlite_path
from flowfabric.errors import ConfigError
from flowfabric.rules.imports.importer import import_rows
from flowfabric.rules.imports.original import Imported, Note, Original
from flowfabric.store import transfer
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.sqlite.errors import SQLITE_ERRORS
from flowfabric.store.sqlite.opening import cannot_read, connect_read_only, has_table
from flowfabric.store.sqlite.read_only import require_file
from flowfabric.store.sqlite.uri import parse_target
from flowfabric.store.transfer import PAGE_ROWS, Destination, Report, Step

FOREIGN = "_sqlx_migrations"


class ImportReport(Struct, frozen=True):
    """The rows of each table that were written, and everything that differs from the original."""

    rows: dict[str, int]
    notes: list[Note]


async def import_original(source: str, destination_url: str, report: Report) -> ImportReport:
    """Imports every row that this schema can hold; the report names the others."""
    made = import_rows(await asyncio.to_thread(read_original, source))
    name = f"import of {parse_target(sqlite_path(source)).key}"
    async with open_destination(destination_url) as destination:
        await _begin(destination, name)
        rows = await _write(destination, made, report)
        await destination.finish(_numbers(made))
        await destination.end()
    return ImportReport(rows, made.notes)


def read_original(source: str) -> Original:
    target = require_file(parse_target(sqlite_path(source)))
    try:
        with closing(connect_read_only(target)) as db:
            if not has_table(db, FOREIGN):
                raise ConfigError(
                    f"{target.shown}: not a database of the Rust FlowFabric (no table {FOREIGN}); "
                    "`flowfabric copy` moves databases of this one"
                )
            return Original({name: _rows(db, name) for name in _tables(db)})
    except SQLITE_ERRORS as error:
        raise cannot_read(error, target) from error


def _tables(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [str(name) for (name,) in found.fetchall()]


def _rows(db: sqlite3.Connection, table: str) -> list[dict[str, object]]:
    quoted = table.replace('"', '""')
    found = db.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - a name from the file, quoted
    names = [column[0] for column in found.description]
    rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    return sorted(rows, key=_event_number)


def _event_number(row: dict[str, object]) -> int:
    number = row.get("event_id")
    return number if isinstance(number, int) else 0


async def _begin(destination: Destination, name: str) -> None:
    begun = await destination.unfinished_source()
    if begun is not None and begun != name:
        raise CopyRefused(f"{destination.shown} has an unfinished {begun}; name an empty database")
    if begun is None:
        full = await transfer.tables_with_rows(destination)
        if full:
            raise CopyRefused(
                f"{destination.shown} has rows of its own in {', '.join(full)}; "
                "name an empty database"
            )
        await destination.begin(name)


async def _write(destination: Destination, made: Imported, report: Report) -> dict[str, int]:
    total, done, counts = sum(map(len, made.rows.values())), 0, {}
    for name, table in TABLES.items():
        rows = sorted(
            (whole_row(table, row) for row in made.rows.get(name, ())), key=_key_of(table)
        )
        counts[name] = len(rows)
        last = await destination.behind(table)
        key = _key_of(table)
        left = [row for row in rows if last is None or key(row) > last]
        done += len(rows) - len(left)
        for at in range(0, len(left), PAGE_ROWS):
            page = left[at : at + PAGE_ROWS]
            await destination.write(table, page)
            done += len(page)
            report(Step("copy", name, done, total))
    return {name: count for name, count in counts.items() if count}


def whole_row(table: Table, row: dict[str, object]) -> Row:
    """All columns; those that the import does not name have their default."""
    values = []
    for column in table.columns:
        value = row.get(column.name)
        if value is None and not column.null:
            value = () if column.kind == "list" else column.default
        values.append(value)
    return tuple(values)


class _key_of:  # noqa: N801 - used as a function
    """The key of a row of a table."""

    def __init__(self, table: Table) -> None:
        self._at = [table.names.index(column) for column in table.key]

    def __call__(self, row: Row) -> tuple[int | str | UUID, ...]:
        return tuple(row[at] for at in self._at)


def _numbers(made: Imported) -> dict[str, int]:
    found = {}
    for table in transfer.NUMBERED:
        ids: Sequence[int] = [row[table.key[0]] for row in made.rows.get(table.name, ())]
        found[table.name] = max(ids, default=0)
    return found
