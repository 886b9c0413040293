"""Reads as SELECTs, in the SQL that both dialects share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from flowfabric.store.port import (
    AnyMatch,
    Condition,
    Count,
    Find,
    Listed,
    Scan,
    ScanAll,
    Tally,
    columns_of,
)
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.sql.ddl import index_name, index_order, index_predicate, whole_order

_UNBOUNDED = 2**63 - 1


class Parameter(Protocol):
    """Registers a value as the next parameter, and returns its placeholder."""

    def __call__(self, table: Table, column: str, value: Any) -> str: ...

    def text(self, value: str) -> str: ...

    def among(self, table: Table, column: str, values: Sequence[Any]) -> str:
        """The comparison with any of the values."""


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
    tests = _group_tests(index, read.group, parameter)
    shown = ", ".join(read.columns)
    rows = f"{select(table, read.columns)}{_where(tests)}"
    some = _limited(rows, whole_order(index), read.limit)
    return f"SELECT {shown}, count(*) FROM ({some}) AS y GROUP BY {shown}"


def find_sql(read: Find, parameter: Parameter, *, keeps_order: bool = False) -> str:
    """The first matches among the examined rows, then the last of the examined rows.

    The inner limit keeps the planner from moving the conditions into the walk. `keeps_order`: the
    dialect is SQLite's. It returns rows in the order of a subquery, and would sort them again if
    asked to; it is told which index to walk, since it may take another with the same columns.
    """
    index = INDEXES[read.index]
    table = TABLES[index.table]
    result = Index("", index.table, read.by, descending=read.by if read.descending else ())
    tests = _group_tests(index, read.group, parameter)
    wanted: list[str] = []
    if read.after is not None:
        behind = _behind(result, table, read.after, parameter)
        (tests if read.is_in_order else wanted).append(behind)
    wanted += [_holds(condition, table, parameter) for condition in read.matches]
    walk = index_order(result) if read.is_in_order else whole_order(index)
    named = f" INDEXED BY {index_name(index)}" if keeps_order and index.is_created else ""
    walked = f"FROM {table.name}{named}{_where(tests)} ORDER BY {walk}"
    bound = f" LIMIT {_UNBOUNDED if read.examine is None else read.examine:d}"
    shown = ", ".join(read.columns)
    order = "" if keeps_order and read.is_in_order else f" ORDER BY {index_order(result)}"
    found = (
        f"SELECT true AS hit, {shown} FROM (SELECT {', '.join(_read_by(read))} {walked}{bound})"
        f" AS e{_where(wanted)}{order} LIMIT {max(read.limit, 0):d}"
    )
    if read.examine is None:
        return found
    last = f"SELECT false AS hit, {shown} {walked} LIMIT 1 OFFSET {read.examine - 1:d}"
    if read.is_in_order:
        by = ", ".join(read.by)
        place = f"({by}) = (SELECT {by} {walked} LIMIT 1 OFFSET {read.examine - 1:d})"
        last = f"SELECT false AS hit, {shown} FROM {table.name}{named}{_where([*tests, place])}"
    return f"SELECT * FROM ({found}) AS f UNION ALL SELECT * FROM ({last}) AS l"


def _read_by(read: Find) -> tuple[str, ...]:
    compared = (column for condition in read.matches for column in columns_of(condition))
    return tuple(dict.fromkeys((*read.columns, *read.by, *compared)))


def _group_tests(index: Index, group: Mapping[str, Any], parameter: Parameter) -> list[str]:
    table = TABLES[index.table]
    tests = [index_predicate(index)] if index.where else []
    return tests + [f"{c} = {parameter(table, c, value)}" for c, value in group.items()]


def _holds(condition: Condition, table: Table, parameter: Parameter) -> str:
    if isinstance(condition, AnyMatch):
        return f"({' OR '.join(_holds(each, table, parameter) for each in condition.matches)})"
    column = condition.column
    if isinstance(condition, Listed):
        index = INDEXES[condition.index]
        tests = _group_tests(index, condition.group, parameter)
        return f"{column} IN ({select(TABLES[index.table], (column,))}{_where(tests)})"
    value = condition.value
    if condition.op == "in":
        return f"{column} {parameter.among(table, column, value)}"
    if condition.op == "starts":
        return f"substr({column}, 1, {len(value):d}) = {parameter.text(value)}"
    if condition.op == "contains":
        text = f"CAST({column} AS text)"
        return f"replace({text}, {parameter.text(value)}, '') != {text}"
    return f"{column} {condition.op} {parameter(table, column, value)}"


def count_sql(read: Count, part: str = "") -> str:
    """`part`: a condition on the rows that are counted."""
    shown = ", ".join(read.columns)
    where = _where([part] if part else [])
    return f"SELECT {shown}, count(*) FROM {read.table}{where} GROUP BY {shown}"


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
