"""Reads: any number of keys and index ranges in one statement, so on one snapshot and in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll, Tally
from flowfabric.store.postgres.executor import DECODERS, Session
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import PG_TYPES, index_order, index_predicate, whole_order

MAX_READS = 200


async def run_reads(session: Session, reads: Sequence[Read]) -> list[list[Row]]:
    rows: list[list[Row]] = []
    for at in range(0, len(reads), MAX_READS):
        rows += await _run_some(session, reads[at : at + MAX_READS])
    return rows


async def _run_some(session: Session, reads: Sequence[Read]) -> list[list[Row]]:
    if not reads:
        return []
    params: list[Any] = []
    parts = [_select(read, params) for read in reads]
    if len(parts) == 1:
        return [_decoded(reads[0], await session.fetch(parts[0], *params))]
    answer = (
        await session.fetch(
            "SELECT " + ", ".join(f"ARRAY(SELECT x FROM ({part}) AS x)" for part in parts), *params
        )
    )[0]
    return [_decoded(read, found) for read, found in zip(reads, answer, strict=True)]


def _select(read: Read, params: list[Any]) -> str:
    if isinstance(read, Get):
        table = TABLES[read.table]
        tests = [
            f"{k} = {_param(params, table, k, v)}" for k, v in zip(table.key, read.key, strict=True)
        ]
        return f"SELECT {', '.join(read.columns or table.names)} FROM {table.name} WHERE {' AND '.join(tests)}"
    if isinstance(read, GetAll):
        table = TABLES[read.table]
        named = " AND ".join(f"{k} = k.{k}" for k in table.key)
        one = f"SELECT {', '.join(read.columns or table.names)} FROM {table.name} WHERE {named} LIMIT 1"
        return _for_each(table, table.key, read.keys, one, params)
    if isinstance(read, ScanAll):
        index = INDEXES[read.index]
        table = TABLES[index.table]
        tests = [index_predicate(index)] if index.where else []
        tests += [f"{c} = k.{c}" for c in index.group]
        some = f"SELECT {', '.join(read.columns or table.names)} FROM {table.name} WHERE {' AND '.join(tests)}"
        limited = f"{some} ORDER BY {index_order(index)} LIMIT {max(read.limit, 0):d}"
        return _for_each(table, index.group, read.groups, limited, params)
    return tally_sql(read, params) if isinstance(read, Tally) else scan_sql(read, params)


def _for_each(
    table: Table,
    names: tuple[str, ...],
    keys: Sequence[tuple[Any, ...]],
    one: str,
    params: list[Any],
) -> str:
    """The same text for any number of keys; a limit inside keeps the planner to one look at the index per key."""
    arrays = []
    for column, values in zip(
        names, zip(*keys, strict=True) if keys else [()] * len(names), strict=True
    ):
        params.append(
            [str(value) for value in values] if table.kinds[column] == "uuidtext" else list(values)
        )
        arrays.append(f"${len(params)}::{PG_TYPES[table.kinds[column]]}[]")
    return f"SELECT x.* FROM unnest({', '.join(arrays)}) AS k({', '.join(names)}) CROSS JOIN LATERAL ({one}) AS x"


def scan_sql(read: Scan, params: list[Any]) -> str:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {_param(params, table, c, read.group[c])}" for c in index.group]
    if read.upto is not None:
        assert index.order[0] not in index.descending, (
            f"{index.name}: a bound is for ascending indexes"
        )
        tests.append(f"{index.order[0]} <= {_param(params, table, index.order[0], read.upto)}")
    if read.after is not None:
        tests.append(_after(index, table, read.after, params))
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    columns = ", ".join(read.columns or table.names)
    return f"SELECT {columns} FROM {table.name}{where} ORDER BY {index_order(index)} LIMIT {max(read.limit, 0):d}"


def tally_sql(read: Tally, params: list[Any]) -> str:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {_param(params, table, c, value)}" for c, value in read.group.items()]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    shown = ", ".join(read.columns)
    some = f"SELECT {shown} FROM {table.name}{where} ORDER BY {whole_order(index)} LIMIT {max(read.limit, 0):d}"
    return f"SELECT {shown}, count(*) FROM ({some}) AS y GROUP BY {shown}"


def _after(index: Index, table: Table, position: tuple[Any, ...], params: list[Any]) -> str:
    """Strictly behind a position; the first column is also bounded by itself, so that the index is entered there."""
    values = [_param(params, table, c, v) for c, v in zip(index.order, position, strict=True)]
    if not index.descending:
        return f"({', '.join(index.order)}) > ({', '.join(values)})"
    branches = []
    for at, column in enumerate(index.order):
        same = [f"{c} = {v}" for c, v in zip(index.order[:at], values, strict=False)]
        beyond = "<" if column in index.descending else ">"
        branches.append("(" + " AND ".join([*same, f"{column} {beyond} {values[at]}"]) + ")")
    first = index.order[0]
    edge = "<=" if first in index.descending else ">="
    return f"{first} {edge} {values[0]} AND ({' OR '.join(branches)})"


def _param(params: list[Any], table: Table, column: str, value: Any) -> str:
    kind = table.kinds[column]
    params.append(str(value) if kind == "uuidtext" else value)
    return f"${len(params)}::{PG_TYPES[kind]}"


def _decoded(read: Read, rows: Iterable[Any]) -> list[Row]:
    table = TABLES[read.table if isinstance(read, Get | GetAll) else INDEXES[read.index].table]
    return decode_rows(table.name, rows, read.columns)


@cache
def _decoders(table: str, columns: tuple[str, ...]) -> tuple[tuple[int, Any], ...]:
    kinds = TABLES[table].kinds
    return tuple((at, DECODERS[kinds[c]]) for at, c in enumerate(columns) if kinds[c] in DECODERS)


def decode_rows(
    table: str, rows: Iterable[Any], columns: tuple[str, ...] = (), width: int | None = None
) -> list[Row]:
    """Rows may carry more than the columns named; `width` cuts them."""
    decoders = _decoders(table, columns or TABLES[table].names)
    decoded = []
    for row in rows:
        values = list(row) if width is None else list(row)[:width]
        for at, decode in decoders:
            values[at] = decode(values[at])
        decoded.append(tuple(values))
    return decoded
