"""Reads from SQLite: statements, their parameters, and decoded rows."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from flowfabric.store.port import Count, Find, Get, GetAll, Read, Row, Scan, ScanAll, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import index_predicate
from flowfabric.store.sql.reads import (
    count_sql,
    events_sql,
    find_sql,
    scan_sql,
    select,
    tally_sql,
)
from flowfabric.store.sql.rows import RowDecoder
from flowfabric.store.sql.sqlite_codec import DECODERS, ENCODERS

MAX_KEYS = 256
COUNTED_AT_ONCE, MAX_PARTS = 20_000, 1_000
"""Rows of a part of a count, unless there are more parts than the maximum."""
WHOLE_GROUPS = 1_000
"""With a limit as large as this, the groups of a read are read whole, in one statement."""
Fetch = Callable[[sqlite3.Cursor], list[Row]]
decode_rows = RowDecoder(DECODERS)


class Parameters(list[object]):
    """Encoded values, numbered from ?1."""

    def __call__(self, table: Table, column: str, value: object) -> str:
        self.append(_encoder(table, column)(value))
        return f"?{len(self)}"

    def text(self, value: str) -> str:
        self.append(value)
        return f"?{len(self)}"

    def among(self, table: Table, column: str, values: Sequence[object]) -> str:
        return f"IN ({', '.join(self(table, column, value) for value in values)})"


def _encoder(table: Table, column: str) -> Callable[[object], object]:
    return ENCODERS.get(table.kinds[column], _unchanged)


def _unchanged(value: object) -> object:
    return value


def run_reads(
    db: sqlite3.Connection, reads: Sequence[Read], fetch: Fetch = sqlite3.Cursor.fetchall
) -> list[list[Row]]:
    """All of them on one snapshot."""
    is_one_statement = len(reads) == 1 and not isinstance(reads[0], Count)
    if is_one_statement or db.in_transaction:
        return [_read(db, read, fetch) for read in reads]
    db.execute("BEGIN")
    try:
        return [_read(db, read, fetch) for read in reads]
    finally:
        db.execute("COMMIT")


def _read(db: sqlite3.Connection, read: Read, fetch: Fetch) -> list[Row]:
    if isinstance(read, GetAll):
        table = TABLES[read.table]
        return _joined(db, table, table.key, read.keys, read.columns, "", fetch)
    if isinstance(read, ScanAll):
        index = INDEXES[read.index]
        table, predicate = TABLES[index.table], index_predicate(index, "t.")
        if read.limit < WHOLE_GROUPS:
            return _each_group(db, read, index, table, fetch)
        return _joined(db, table, index.group, read.groups, read.columns, predicate, fetch)
    values = Parameters()
    if isinstance(read, Count):
        return decode_rows(read.table, _counted(db, read, fetch), read.columns)
    if isinstance(read, Find):
        table = TABLES[INDEXES[read.index].table]
        rows = fetch(db.execute(find_sql(read, values, keeps_order=True), values))
        return decode_rows.found(table.name, rows, read.columns)
    if isinstance(read, Get):
        table, sql = TABLES[read.table], get_sql(read.table, read.columns)
        for column, value in zip(table.key, read.key, strict=True):
            values(table, column, value)
    else:
        table = TABLES[INDEXES[read.index].table]
        sql = tally_sql(read, values) if isinstance(read, Tally) else scan_sql(read, values)
    return decode_rows(table.name, fetch(db.execute(sql, values)), read.columns)


def _counted(db: sqlite3.Connection, read: Count, fetch: Fetch) -> list[Row]:
    """Part by part: SQLite sorts what it groups, and sorts many small parts faster than all."""
    first, last = db.execute(f"SELECT min(rowid), max(rowid) FROM {read.table}").fetchone()
    if first is None:
        return []
    size = max(COUNTED_AT_ONCE, (last - first) // MAX_PARTS)
    sql = count_sql(read, "rowid BETWEEN ?1 AND ?2")
    counts: Counter[Row] = Counter()
    for at in range(first, last + 1, size):
        for *values, count in fetch(db.execute(sql, (at, at + size - 1))):
            counts[tuple(values)] += count
    return [(*values, count) for values, count in counts.items()]


def _each_group(
    db: sqlite3.Connection, read: ScanAll, index: Index, table: Table, fetch: Fetch
) -> list[Row]:
    """One statement for each group, with one text for all of them."""
    sql = ""
    found: list[Row] = []
    for group in read.groups:
        values = Parameters()
        if not sql:
            named = dict(zip(index.group, group, strict=True))
            sql = scan_sql(Scan(index.name, named, limit=read.limit, columns=read.columns), values)
        else:
            for column, value in zip(index.group, group, strict=True):
                values(table, column, value)
        found += fetch(db.execute(sql, values))
    return decode_rows(table.name, found, read.columns)


@cache
def get_sql(table: str, columns: tuple[str, ...] = ()) -> str:
    named = " AND ".join(f"{k} = ?" for k in TABLES[table].key)
    return f"{select(TABLES[table], columns)} WHERE {named}"


def _joined(
    db: sqlite3.Connection,
    table: Table,
    names: tuple[str, ...],
    keys: Sequence[tuple[object, ...]],
    columns: tuple[str, ...],
    predicate: str,
    fetch: Fetch,
) -> list[Row]:
    """One statement for many keys: each statement costs a switch of the interpreter's lock.

    The number of keys is rounded up to a power of two, so that few texts are prepared.
    """
    encoders = [_encoder(table, name) for name in names]
    found: list[Row] = []
    for at in range(0, len(keys), MAX_KEYS):
        page = keys[at : at + MAX_KEYS]
        size = 1 << (len(page) - 1).bit_length()
        values = [encode(part) for key in page for encode, part in zip(encoders, key, strict=True)]
        values += [None] * (size * len(names) - len(values))
        found += fetch(db.execute(_joined_sql(table.name, names, size, columns, predicate), values))
    return decode_rows(table.name, found, columns)


@cache
def _joined_sql(
    table: str, names: tuple[str, ...], size: int, columns: tuple[str, ...], predicate: str
) -> str:
    """The cross join makes SQLite walk the keys and search the table."""
    rows = ", ".join([f"({', '.join('?' * len(names))})"] * size)
    tests = [*(f"t.{name} = k.{name}" for name in names), *([predicate] if predicate else [])]
    shown = ", ".join(f"t.{column}" for column in columns or TABLES[table].names)
    return (
        f"WITH k({', '.join(names)}) AS (VALUES {rows}) "
        f"SELECT {shown} FROM k CROSS JOIN {table} AS t ON {' AND '.join(tests)}"
    )


def events_after(db: sqlite3.Connection, channel: str, after: int, limit: int) -> list[Row]:
    sql = f"{events_sql(channel)}? ORDER BY event_id LIMIT ?"
    return decode_rows.events(channel, db.execute(sql, (after, limit)).fetchall())


def newest_event(db: sqlite3.Connection, channel: str) -> int:
    sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
    return int(db.execute(sql, (channel,)).fetchone()[0])


def dump_tables(db: sqlite3.Connection, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Whole tables on one snapshot."""
    begin = not db.in_transaction
    if begin:
        db.execute("BEGIN")
    try:
        return {
            table: decode_rows(table, db.execute(select(TABLES[table], ())).fetchall())
            for table in tables
        }
    finally:
        if begin:
            db.execute("COMMIT")
