"""Reads as SELECTs, in the SQL that both dialects share."""

from __future__ import annotations

from typing import Any, Protocol

from flowfabric.store.port import (
    AnyMatch,
    Count,
    Find,
    Match,
    Scan,
    ScanAll,
    Tally,
    alternatives,
)
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import index_order, index_predicate, whole_order


class Parameter(Protocol):
    """Registers a value as the next parameter, and returns its placeholder."""

    def __call__(self, table: Table, column: str, value: Any) -> str: ...

    def text(self, value: str) -> str: ...


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


def find_sql(read: Find, parameter: Parameter) -> str:
    """The examined rows once, then those that match and the last of them."""
    index = INDEXES[read.index]
    table = TABLES[index.table]
    backwards = Index("", index.table, read.by, descending=read.by if read.descending else ())
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {parameter(table, c, read.group[c])}" for c in index.group]
    wanted: list[str] = []
    if read.after is not None:
        behind = _behind(backwards, table, read.after, parameter)
        (tests if read.is_in_order else wanted).append(behind)
    wanted += [_matching(match, table, parameter) for match in read.matches]
    walk = index_order(backwards if read.is_in_order else index)
    some = _limited(f"{select(table, _all_of(read))}{_where(tests)}", walk, read.examine)
    rows = f"{', '.join(read.columns)} FROM examined"
    found = _limited(
        f"SELECT true AS hit, {rows}{_where(wanted)}", index_order(backwards), read.limit
    )
    last = f"SELECT false AS hit, {rows} ORDER BY {walk} LIMIT 1 OFFSET {read.examine - 1:d}"
    return (
        f"WITH examined AS MATERIALIZED ({some}) "
        f"SELECT * FROM ({found}) AS f UNION ALL SELECT * FROM ({last}) AS l"
    )


def _all_of(read: Find) -> tuple[str, ...]:
    index = INDEXES[read.index]
    matched = (each.column for match in read.matches for each in alternatives(match))
    return tuple(dict.fromkeys((*read.columns, *read.by, *index.order, *matched)))


def _matching(match: Match | AnyMatch, table: Table, parameter: Parameter) -> str:
    if isinstance(match, AnyMatch):
        return f"({' OR '.join(_matching(each, table, parameter) for each in match.matches)})"
    column, value = match.column, match.value
    if match.op == "in":
        same = [f"{column} = {parameter(table, column, each)}" for each in value]
        return f"({' OR '.join(same)})"
    if match.op == "starts":
        return f"substr({column}, 1, {len(value):d}) = {parameter.text(value)}"
    if match.op == "contains":
        text = f"CAST({column} AS text)"
        return f"replace({text}, {parameter.text(value)}, '') != {text}"
    return f"{column} {match.op} {parameter(table, column, value)}"


def count_sql(read: Count) -> str:
    shown = ", ".join(read.columns)
    return f"SELECT {shown}, count(*) FROM {read.table} GROUP BY {shown}"


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
    """Strictly after a position. A bound on the first column makes the index start there."""

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
