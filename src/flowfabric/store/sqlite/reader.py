"""Reads: declared indexes and keys as SELECTs, and rows as tuples of domain values."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import index_order, index_predicate, whole_order
from flowfabric.store.sql.sqlite_expr import ENCODERS
from flowfabric.store.sql.sqlite_plan import decode_list, decode_uuid

MOST_KEYS = 256
WHOLE_GROUPS = 1_000


Fetch = Callable[[sqlite3.Cursor], list[Row]]


def run_reads(
    db: sqlite3.Connection, reads: Sequence[Read], fetch: Fetch = sqlite3.Cursor.fetchall
) -> list[list[Row]]:
    """All of them on one snapshot."""
    if len(reads) == 1 or db.in_transaction:
        return [_read(db, read, fetch) for read in reads]
    db.execute("BEGIN")
    try:
        return [_read(db, read, fetch) for read in reads]
    finally:
        db.execute("COMMIT")


def _read(db: sqlite3.Connection, read: Read, fetch: Fetch) -> list[Row]:
    if isinstance(read, GetAll):
        return _joined(
            db, TABLES[read.table], TABLES[read.table].key, read.keys, read.columns, "", fetch
        )
    if isinstance(read, ScanAll):
        index = INDEXES[read.index]
        if read.limit < WHOLE_GROUPS:
            return [row for scan in read.scans() for row in _read(db, scan, fetch)]
        return _joined(
            db,
            TABLES[index.table],
            index.group,
            read.groups,
            read.columns,
            index_predicate(index, "t."),
            fetch,
        )
    if isinstance(read, Get):
        table = TABLES[read.table]
        sql = get_sql(read.table, read.columns)
        params = [_encode(table, k, v) for k, v in zip(table.key, read.key, strict=True)]
    else:
        if read.limit <= 0:
            return []
        table = TABLES[INDEXES[read.index].table]
        sql, params = tally_sql(read) if isinstance(read, Tally) else scan_sql(read)
    return decode_rows(table, fetch(db.execute(sql, params)), read.columns)


def _same(value: Any) -> Any:
    return value


def _joined(
    db: sqlite3.Connection,
    table: Table,
    names: tuple[str, ...],
    keys: Sequence[tuple[Any, ...]],
    columns: tuple[str, ...],
    predicate: str,
    fetch: Fetch,
) -> list[Row]:
    """One statement for many keys: each one sent costs a fight for the interpreter's lock. Lengths are rounded up to few."""
    encode = [ENCODERS.get(table.kinds[name], _same) for name in names]
    found: list[Row] = []
    for at in range(0, len(keys), MOST_KEYS):
        some = keys[at : at + MOST_KEYS]
        size = 1 << (len(some) - 1).bit_length()
        values = [make(part) for key in some for make, part in zip(encode, key, strict=True)]
        values += [None] * (size * len(names) - len(values))
        found += fetch(db.execute(_joined_sql(table.name, names, size, columns, predicate), values))
    return decode_rows(table, found, columns)


@cache
def _joined_sql(
    table: str, names: tuple[str, ...], size: int, columns: tuple[str, ...], predicate: str
) -> str:
    """A cross join, so that it is the keys that are walked and the table that is searched."""
    rows = ", ".join([f"({', '.join('?' * len(names))})"] * size)
    wanted = " AND ".join(
        [f"t.{name} = k.{name}" for name in names] + ([predicate] if predicate else [])
    )
    shown = ", ".join(f"t.{column}" for column in columns or TABLES[table].names)
    return f"WITH k({', '.join(names)}) AS (VALUES {rows}) SELECT {shown} FROM k CROSS JOIN {table} AS t ON {wanted}"


def _encode(table: Table, column: str, value: Any) -> Any:
    encode = ENCODERS.get(table.kinds[column])
    return value if encode is None else encode(value)


@cache
def get_sql(table: str, columns: tuple[str, ...] = ()) -> str:
    named = " AND ".join(f"{k} = ?" for k in TABLES[table].key)
    return f"SELECT {', '.join(columns or TABLES[table].names)} FROM {table} WHERE {named}"


def scan_sql(read: Scan) -> tuple[str, list[Any]]:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    params: list[Any] = []
    for column in index.group:
        tests.append(f"{column} = ?")
        params.append(_encode(table, column, read.group[column]))
    if read.upto is not None:
        assert index.order[0] not in index.descending, (
            f"{index.name}: a bound is for ascending indexes"
        )
        tests.append(f"{index.order[0]} <= ?")
        params.append(read.upto)
    if read.after is not None:
        test, more = _after(index, table, read.after)
        tests.append(test)
        params += more
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    columns = ", ".join(read.columns or table.names)
    return (
        f"SELECT {columns} FROM {table.name}{where} ORDER BY {index_order(index)} LIMIT {read.limit:d}",
        params,
    )


def tally_sql(read: Tally) -> tuple[str, list[Any]]:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{column} = ?" for column in read.group]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    shown = ", ".join(read.columns)
    some = f"SELECT {shown} FROM {table.name}{where} ORDER BY {whole_order(index)} LIMIT {read.limit:d}"
    params = [_encode(table, column, value) for column, value in read.group.items()]
    return f"SELECT {shown}, count(*) FROM ({some}) GROUP BY {shown}", params


def _after(index: Index, table: Table, position: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Strictly behind a position. The first column is also bounded by itself, so that the index is entered there."""
    values = [_encode(table, c, v) for c, v in zip(index.order, position, strict=True)]
    branches, params = [], []
    for at, column in enumerate(index.order):
        same = [f"{c} = ?" for c in index.order[:at]]
        beyond = "<" if column in index.descending else ">"
        branches.append("(" + " AND ".join([*same, f"{column} {beyond} ?"]) + ")")
        params += values[: at + 1]
    first = index.order[0]
    edge = "<=" if first in index.descending else ">="
    return f"{first} {edge} ? AND ({' OR '.join(branches)})", [values[0], *params]


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "uuid": decode_uuid,
    "uuidtext": lambda raw: None if raw is None else UUID(raw),
    "list": decode_list,
}


@cache
def _decoders(table: str, columns: tuple[str, ...]) -> tuple[tuple[int, Callable[[Any], Any]], ...]:
    kinds = TABLES[table].kinds
    return tuple((at, _DECODERS[kinds[c]]) for at, c in enumerate(columns) if kinds[c] in _DECODERS)


def decode_rows(table: Table, rows: list[Row], columns: tuple[str, ...] = ()) -> list[Row]:
    decoders = _decoders(table.name, columns or table.names)
    if not decoders:
        return rows
    decoded = []
    for row in rows:
        values = list(row)
        for at, decode in decoders:
            values[at] = decode(values[at])
        decoded.append(tuple(values))
    return decoded


@cache
def events_sql(channel: str) -> str:
    return f"SELECT {', '.join(TABLES[channel].names)} FROM {channel} WHERE event_id > ? ORDER BY event_id LIMIT ?"


def events_after(db: sqlite3.Connection, channel: str, after: int, limit: int) -> list[Row]:
    """A row that cannot be read comes as it is stored: it must not hold up those behind it."""
    rows, table = db.execute(events_sql(channel), (after, limit)).fetchall(), TABLES[channel]
    try:
        return decode_rows(table, rows)
    except (ValueError, TypeError, AttributeError):
        return [_decoded_or_not(table, row) for row in rows]


def newest_event(db: sqlite3.Connection, channel: str) -> int:
    return int(
        db.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (channel,)
        ).fetchone()[0]
    )


def _decoded_or_not(table: Table, row: Row) -> Row:
    try:
        return decode_rows(table, [row])[0]
    except (ValueError, TypeError, AttributeError):
        return row


def dump_tables(db: sqlite3.Connection, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Whole tables on one snapshot."""
    fresh = not db.in_transaction
    if fresh:
        db.execute("BEGIN")
    try:
        wanted = {t: f"SELECT {', '.join(TABLES[t].names)} FROM {t}" for t in tables}
        return {t: decode_rows(TABLES[t], db.execute(sql).fetchall()) for t, sql in wanted.items()}
    finally:
        if fresh:
            db.execute("COMMIT")
