"""Searches in memory: rows of an index that match, among a bounded number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any

from flowfabric.store.memory.evaluate import TESTS, Key, Record
from flowfabric.store.memory.tables import MemoryTables
from flowfabric.store.port import AnyMatch, Condition, Find, Listed, Match, Row
from flowfabric.store.schema import INDEXES

Test = Callable[[Record], bool]


def find(tables: MemoryTables, read: Find) -> list[Row]:
    def place(row: Record) -> Key:
        return tuple(row[column] for column in read.by)

    def is_behind(row: Record) -> bool:
        if read.after is None:
            return True
        return place(row) < read.after if read.descending else place(row) > read.after

    tests = [is_behind, *(_test_of(tables, condition) for condition in read.matches)]
    examined = list(islice(_walked(tables, read), read.examine))
    found = [row for row in examined if all(test(row) for test in tests)]
    found.sort(key=place, reverse=read.descending)
    hits = [(True, *(row[c] for c in read.columns)) for row in found[: read.limit]]
    if read.examine is None or len(examined) < read.examine:
        return hits
    return [*hits, (False, *(examined[-1][c] for c in read.columns))]


def _walked(tables: MemoryTables, read: Find) -> Iterable[Record]:
    index = INDEXES[read.index]
    if read.is_in_order:
        walk = tables.walk_back if read.descending else tables.walk
        return (row for _, row in walk(index, read.group, read.after))
    groups = [read.group] if read.group else tables.groups(index)
    walks = chain.from_iterable(tables.walk(index, group) for group in groups)
    return (row for _, row in walks)


def _test_of(tables: MemoryTables, condition: Condition) -> Test:
    if isinstance(condition, Listed):
        column = condition.column
        walked = tables.walk(INDEXES[condition.index], condition.group)
        values = {row[column] for _, row in walked}
        return lambda row: row[column] in values
    if isinstance(condition, AnyMatch):
        tests = [_compares(each) for each in condition.matches]
        return lambda row: any(test(row) for test in tests)
    return _compares(condition)


def _compares(match: Match) -> Test:
    def test(row: Record) -> bool:
        return row[match.column] is not None and _is_met(match, row[match.column])

    return test


def _is_met(match: Match, value: Any) -> bool:
    if match.op == "starts":
        return str(value).startswith(match.value)
    if match.op == "contains":
        return match.value in str(value)
    return TESTS[match.op](value, match.value)
