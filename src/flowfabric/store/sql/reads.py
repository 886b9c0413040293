"""Reads as SELECTs, in the SQL that both dialects share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowfabric.store.port import Scan, ScanAll, Tally
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import index_order, index_predicate, whole_order

Parameter = Callable[[Table, str, Any], str]
"""Registers the value of a column as the next parameter; the text that stands for it."""


def select(table: Table, columns: tuple[str, ...]) -> str:
    return f"SELECT {', '.join(columns or table.names)} FROM {table.name}"


def scan_sql(read: Scan, parameter: Parameter, *, row_values: bool = False) -> str:
    """`row_values` compares a position as `(a, b) > (x, y)` where the index only ascends."""
    index = INDEXES[read.index]
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {parameter(table, c, read.group[c])}" for c in index.group]
    if read.upto is not None:
        column = index.bound_column()
        tests.append(f"{column} <= {parameter(table, column, read.upto)}")
    if read.after is not None:
        ascending = row_values and not index.descending
        behind = _behind_row if ascending else _behind
        tests.append(behind(index, table, read.after, parameter))
    return _limited(f"{select(table, read.columns)}{_where(tests)}", index_order(index), read.limit)


def each_group_sql(read: ScanAll) -> str:
    """The first rows of the group that the row `k` names."""
    index = INDEXES[read.index]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = k.{c}" for c in index.group]
    rows = f"{select(TABLES[index.table], read.columns)} WHERE {' AND '.join(tests)}"
    return _limited(rows, index_order(index), read.limit)


def tally_sql(read: Tally, parameter: Parameter) -> str:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {parameter(table, c, value)}" for c, value in read.group.items()]
    shown = ", ".join(read.columns)
    rows = f"{select(table, read.columns)}{_where(tests)}"
    some = _limited(rows, whole_order(index), read.limit)
    return f"SELECT {shown}, count(*) FROM ({some}) AS y GROUP BY {shown}"


def events_sql(channel: str, more: str = "") -> str:
    return f"SELECT {', '.join(TABLES[channel].names)}{more} FROM {channel} WHERE event_id > "


def _where(tests: list[str]) -> str:
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _limited(rows: str, order: str, limit: int) -> str:
    return f"{rows} ORDER BY {order} LIMIT {max(limit, 0):d}"


def _behind_row(index: Index, table: Table, position: tuple[Any, ...], parameter: Parameter) -> str:
    values = [parameter(table, c, v) for c, v in zip(index.order, position, strict=True)]
    return f"({', '.join(index.order)}) > ({', '.join(values)})"


def _behind(index: Index, table: Table, position: tuple[Any, ...], parameter: Parameter) -> str:
    """Strictly behind a position. A bound on the first column makes the index start there."""

    def test(column: str, how: str) -> str:
        return f"{column} {how} {parameter(table, column, values[column])}"

    values = dict(zip(index.order, position, strict=True))
    first = index.order[0]
    edge = test(first, "<=" if first in index.descending else ">=")
    branches = []
    for at, column in enumerate(index.order):
        same = [test(c, "=") for c in index.order[:at]]
        beyond = test(column, "<" if column in index.descending else ">")
        branches.append(f"({' AND '.join([*same, beyond])})")
    return f"{edge} AND ({' OR '.join(branches)})"
