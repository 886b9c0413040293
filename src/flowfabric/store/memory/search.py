"""Searches in memory: rows of an index that match, among a bounded number."""

from __future__ import annotations

from itertools import islice
from typing import Any

from flowfabric.store.memory.evaluate import TESTS, Key, Record
from flowfabric.store.memory.tables import MemoryTables
from flowfabric.store.port import AnyMatch, Find, Match, Row, alternatives
from flowfabric.store.schema import INDEXES


def find(tables: MemoryTables, read: Find) -> list[Row]:
    def place(row: Record) -> Key:
        return tuple(row[column] for column in read.by)

    def is_behind(row: Record) -> bool:
        if read.after is None:
            return True
        return place(row) < read.after if read.descending else place(row) > read.after

    index = INDEXES[read.index]
    if read.is_in_order and read.descending:
        walked = tables.walk_back(index, read.group, read.after)
    else:
        walked = tables.walk(index, read.group, read.after if read.is_in_order else None)
    examined = [row for _, row in islice(walked, read.examine)]
    found = [row for row in examined if is_behind(row) and _all_hold(read, row)]
    found.sort(key=place, reverse=read.descending)
    hits = [(True, *(row[c] for c in read.columns)) for row in found[: read.limit]]
    if len(examined) < read.examine:
        return hits
    return [*hits, (False, *(examined[-1][c] for c in read.columns))]


def _all_hold(read: Find, row: Record) -> bool:
    return all(_holds(match, row) for match in read.matches)


def _holds(match: Match | AnyMatch, row: Record) -> bool:
    return any(_is_met(each, row[each.column]) for each in alternatives(match))


def _is_met(match: Match, value: Any) -> bool:
    if match.op == "starts":
        return value is not None and str(value).startswith(match.value)
    if match.op == "contains":
        return value is not None and match.value in str(value)
    return TESTS[match.op](value, match.value)
