"""Copies every declared table of one database to another, row for row, and compares them.

Rows go in the order of their keys, and each page is one transaction. The destination's last key of
a table is therefore the position of an interrupted copy: there is no other progress to store.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, Protocol
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.errors import Corruption, Unavailable
from flowfabric.model.execution import UNREADABLE
from flowfabric.store.port import Read, Row, Scan
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.sql.reads import select

PAGE_ROWS, PAGE_BYTES = 1_000, 4 * 1_048_576
"""A page ends at whichever comes first."""
FETCH_ROWS = 32
MARK = "ff_copy_progress"
MARK_DDL = f"CREATE TABLE IF NOT EXISTS {MARK} (source text NOT NULL)"
SHOWN = 10
NO_ID = UUID(int=0)
NUMBERED = tuple(table for table in TABLES.values() if table.is_numbered)
_encode = msgspec.msgpack.Encoder().encode


class Source(Protocol):
    """Rows that are copied. No other process uses them meanwhile."""

    async def count(self, table: Table) -> int: ...

    def pages(self, table: Table, after: Row | None) -> AsyncIterator[list[Row]]:
        """The rows behind a key, in the order of keys."""

    async def numbers(self) -> dict[str, int]:
        """The last number that each table of events has drawn."""


class Target(Source, Protocol):
    async def behind(self, table: Table) -> Row | None:
        """The key behind which rows are missing. None: `write` leaves out those that are there."""

    async def write(self, table: Table, rows: Sequence[Row]) -> int:
        """All of the rows, or none; how many were missing. Over several cells, all of a cell."""

    async def finish(self, numbers: Mapping[str, int]) -> None:
        """Continues the numbers of events."""


class Database(Source, Protocol):
    """One side of a copy."""

    @property
    def shown(self) -> str:
        """Names the database without a password."""

    async def now_ms(self) -> int: ...

    async def load(self, reads: Sequence[Read]) -> list[list[Row]]: ...

    async def loops_holder(self) -> str | None:
        """The process that runs the loops of this database, if one does."""

    async def last_key(self, table: Table) -> Row | None: ...

    async def unfinished_source(self) -> str | None:
        """The source of the copy that has begun here and not ended."""

    async def close(self) -> None: ...


class Destination(Database, Target, Protocol):
    async def begin(self, source: str) -> None: ...

    async def end(self) -> None:
        """Ends the copy: the database may be used."""


Pair = tuple[Source, Target]


class Step(Struct, frozen=True):
    """How far a copy has come, in rows of all tables."""

    phase: Literal["copy", "verify"]
    table: str
    done: int
    total: int


class Activity(Struct, frozen=True):
    """What still uses a database; each list has at most `SHOWN` entries, and `more` if cut off."""

    leases: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    loops: str | None = None

    def __bool__(self) -> bool:
        return bool(self.leases or self.workers or self.loops)


class TableState(Struct, frozen=True):
    """The number of rows, and a digest of them in the order of their keys."""

    rows: int
    digest: str


Report = Callable[[Step], None]


def unfinished(shown: str, source: str, whole: str) -> Unavailable:
    """The error for a database that a copy or an import has not ended. `whole` is what to drop."""
    return Unavailable(
        f"unfinished copy: {shown} has only a part of {source}; run the same `flowfabric copy` or "
        f"`flowfabric import` again to continue, or drop {whole} to begin again"
    )


async def activity(database: Database) -> Activity:
    now = await database.now_ms()
    leased, workers = await database.load(
        (
            Scan(
                "leased",
                after=(now, NO_ID),
                limit=SHOWN + 1,
                columns=("execution_id", "current_worker_instance_id"),
            ),
            Scan(
                "worker_expiry",
                after=(now, "", ""),
                limit=SHOWN + 1,
                columns=("namespace", "worker_instance_id"),
            ),
        )
    )
    return Activity(
        _shown([f"{ident} (held by {holder})" for ident, holder in leased]),
        _shown([f"{worker} (namespace {space})" for space, worker in workers]),
        await database.loops_holder(),
    )


async def tables_with_rows(database: Database) -> list[str]:
    return [name for name, table in TABLES.items() if await database.last_key(table) is not None]


async def copy_tables(pairs: Sequence[Pair], report: Report) -> int:
    """Copies what the targets lack, and continues their numbers; how many rows were copied."""
    total, done, copied = await _rows_of(pairs), 0, 0
    for source, target in pairs:
        for name, table in TABLES.items():
            after = await target.behind(table)
            done += await target.count(table)
            report(Step("copy", name, done, total))
            async for page in source.pages(table, after):
                written = await target.write(table, page)
                copied += written
                done += written
                report(Step("copy", name, done, total))
        await target.finish(await source.numbers())
    return copied


async def differences(pairs: Sequence[Pair], report: Report) -> list[str]:
    """The tables whose rows differ, and the tables of events whose numbers do not continue."""
    total = 2 * await _rows_of(pairs)
    found, done = [], 0
    for pair in pairs:
        for name, table in TABLES.items():
            states = []
            for side in pair:
                state = await state_of(side, table)
                states.append(state)
                done += state.rows
                report(Step("verify", name, done, max(total, done)))
            if states[0] != states[1]:
                found.append(f"{name} ({states[0].rows} rows, {states[1].rows} in the destination)")
        numbers, continued = [await side.numbers() for side in pair]
        found += [
            f"{name} (its numbers continue after {continued[name]}, not after {numbers[name]})"
            for name in numbers
            if numbers[name] != continued[name]
        ]
    return found


async def _rows_of(pairs: Sequence[Pair]) -> int:
    counts = [await source.count(table) for source, _ in pairs for table in TABLES.values()]
    return sum(counts)


async def state_of(database: Source, table: Table) -> TableState:
    rows, digest = 0, hashlib.sha256()
    async for page in database.pages(table, None):
        for row in page:
            digest.update(_encode(row))
        rows += len(page)
    return TableState(rows, digest.hexdigest())


def page_sql(table: Table, after: Sequence[str]) -> str:
    """The rows behind a key; `after`: the parameters of the key, if there is one."""
    key = ", ".join(table.key)
    behind = f" WHERE ({key}) > ({', '.join(after)})" if after else ""
    return f"{select(table, ())}{behind} ORDER BY {key}"


def last_key_sql(table: Table) -> str:
    order = ", ".join(f"{column} DESC" for column in table.key)
    return f"{select(table, table.key)} ORDER BY {order} LIMIT 1"


def count_sql(table: Table) -> str:
    return f"SELECT count(*) FROM {table.name}"  # noqa: S608 - the name of a declared table


class Pages:
    """Collects rows into pages of bounded size."""

    def __init__(self, table: Table) -> None:
        self._table, self._rows, self._bytes = table, list[Row](), 0

    def add(self, rows: Sequence[Row]) -> list[Row] | None:
        """A page, when it is full."""
        for row in rows:
            _check_readable(self._table, row)
        self._rows += rows
        self._bytes += sum(_size(row) for row in rows)
        if len(self._rows) < PAGE_ROWS and self._bytes < PAGE_BYTES:
            return None
        return self.rest()

    def rest(self) -> list[Row]:
        rows, self._rows, self._bytes = self._rows, [], 0
        return rows


def _size(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, str | bytes))


def _check_readable(table: Table, row: Row) -> None:
    """A damaged list has no value that could be copied."""
    for column, value in zip(table.names, row, strict=True):
        if value is UNREADABLE:
            key = dict(zip(table.names, row, strict=True))
            shown = ", ".join(f"{name} {key[name]}" for name in table.key)
            raise Corruption(f"{table.name}: {column} of {shown} cannot be read")


def _shown(items: list[str]) -> tuple[str, ...]:
    return (*items[:SHOWN], "more") if len(items) > SHOWN else tuple(items)
