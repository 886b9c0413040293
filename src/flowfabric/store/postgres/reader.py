"""Reads from Postgres: any number of keys and index ranges in one statement and snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowfabric.store.port import Count, Find, Get, GetAll, Read, Row, ScanAll, Tally
from flowfabric.store.postgres.codec import DECODERS
from flowfabric.store.postgres.executor import Session
from flowfabric.store.schema import INDEXES, TABLES, Table
from flowfabric.store.sql.ddl import PG_TYPES
from flowfabric.store.sql.reads import (
    count_sql,
    each_group_sql,
    find_sql,
    scan_sql,
    select,
    tally_sql,
)
from flowfabric.store.sql.rows import RowDecoder, SqlRows

MAX_READS = 200
decode_rows = RowDecoder(DECODERS)


class Parameters(list[object]):
    """Values, numbered from $1."""

    def __call__(self, table: Table, column: str, value: object) -> str:
        self.append(value)
        return f"${len(self)}::{PG_TYPES[table.kinds[column]]}"

    def text(self, value: str) -> str:
        self.append(value)
        return f"${len(self)}::text"

    def among(self, table: Table, column: str, values: Sequence[object]) -> str:
        return f"= ANY({self.array(table, column, values)})"

    def array(self, table: Table, column: str, values: Sequence[object]) -> str:
        self.append(list(values))
        return f"${len(self)}::{PG_TYPES[table.kinds[column]]}[]"


async def run_reads(session: Session, reads: Sequence[Read]) -> list[list[Row]]:
    rows: list[list[Row]] = []
    for at in range(0, len(reads), MAX_READS):
        rows += await _run_page(session, reads[at : at + MAX_READS])
    return rows


async def _run_page(session: Session, reads: Sequence[Read]) -> list[list[Row]]:
    values = Parameters()
    parts = [_select(read, values) for read in reads]
    if len(parts) == 1:
        return [_decoded(reads[0], await session.fetch(parts[0], *values))]
    arrays = ", ".join(f"ARRAY(SELECT x FROM ({part}) AS x)" for part in parts)
    answer = (await session.fetch(f"SELECT {arrays}", *values))[0]
    return [_decoded(read, rows) for read, rows in zip(reads, answer, strict=True)]


def _select(read: Read, values: Parameters) -> str:
    if isinstance(read, Get):
        table = TABLES[read.table]
        key = zip(table.key, read.key, strict=True)
        tests = " AND ".join(f"{column} = {values(table, column, value)}" for column, value in key)
        return f"{select(table, read.columns)} WHERE {tests}"
    if isinstance(read, GetAll):
        table = TABLES[read.table]
        tests = " AND ".join(f"{k} = k.{k}" for k in table.key)
        row = f"{select(table, read.columns)} WHERE {tests} LIMIT 1"
        return _for_each(table, table.key, read.keys, row, values)
    if isinstance(read, ScanAll):
        index = INDEXES[read.index]
        rows = each_group_sql(read)
        return _for_each(TABLES[index.table], index.group, read.groups, rows, values)
    if isinstance(read, Tally):
        return tally_sql(read, values)
    if isinstance(read, Find):
        return find_sql(read, values)
    if isinstance(read, Count):
        return count_sql(read)
    return scan_sql(read, values, row_values=True)


def _for_each(
    table: Table,
    names: tuple[str, ...],
    keys: Sequence[tuple[Any, ...]],
    rows: str,
    values: Parameters,
) -> str:
    """The same text for any number of keys.

    The limit inside `rows` makes the planner look each key up in the index.
    """
    columns = zip(*keys, strict=True) if keys else [()] * len(names)
    arrays = [values.array(table, name, c) for name, c in zip(names, columns, strict=True)]
    return (
        f"SELECT x.* FROM unnest({', '.join(arrays)}) AS k({', '.join(names)}) "
        f"CROSS JOIN LATERAL ({rows}) AS x"
    )


def _decoded(read: Read, rows: SqlRows) -> list[Row]:
    table = INDEXES[read.index].table if hasattr(read, "index") else read.table
    if isinstance(read, Find):
        return decode_rows.found(table, rows, read.columns)
    return decode_rows(table, rows, read.columns)
