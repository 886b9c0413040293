"""Searches: rows of an index, page by page, and their conditions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from flowfabric.store.port import AnyMatch, Find, Match, Row, alternatives
from flowfabric.store.schema import INDEXES, TABLES
from flowfabric.store.valkey.encoding import group_of, position_of
from flowfabric.store.valkey.lua_schema import INDEX_CODES, serves

PAGE = 1_000


class Walked(Struct, frozen=True):
    """A page of an index."""

    index: str
    group: bytes | bool
    after: bytes | bool
    limit: int
    columns: tuple[str, ...]
    backwards: bool

    def request(self) -> list[Any]:
        code = INDEX_CODES[self.index]
        columns = list(self.columns)
        return ["scan", code, self.group, self.after, False, self.limit, columns, self.backwards]


async def find(walk: Callable[[Walked], Awaitable[list[Row]]], read: Find) -> list[Row]:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    matched = (each.column for match in read.matches for each in alternatives(match))
    columns = tuple(dict.fromkeys((*read.columns, *read.by, *index.order, *matched)))
    at = {column: place for place, column in enumerate(columns)}
    named = [read.group[c] for c in index.group] if read.group else []
    group: bytes | bool = group_of(table, index, named) if named or not index.group else False
    backwards = read.is_in_order and read.descending
    primary = serves(index) == "key"
    position: Sequence[Any] | None = read.after if read.is_in_order else None
    found: list[Row] = []
    examined = 0
    last: Row | None = None
    while examined < read.examine:
        after = False if position is None else position_of(table, index, position, primary=primary)
        size = min(PAGE, read.examine - examined)
        page = await walk(Walked(read.index, group, after, size, columns, backwards))
        examined += len(page)
        found += [row for row in page if _is_found(read, row, at)]
        if len(page) < size:
            last = None
            break
        last = page[-1]
        position = [last[at[c]] for c in index.order]
        if read.is_in_order and len(found) >= read.limit:
            break

    def place(row: Row) -> Row:
        return tuple(row[at[column]] for column in read.by)

    found.sort(key=place, reverse=read.descending)
    hits: list[Row] = [(True, *(row[at[c]] for c in read.columns)) for row in found[: read.limit]]
    if last is None or examined < read.examine:
        return hits
    return [*hits, (False, *(last[at[c]] for c in read.columns))]


def _is_found(read: Find, row: Row, at: dict[str, int]) -> bool:
    place = tuple(row[at[column]] for column in read.by)
    if read.after is not None and (place >= read.after if read.descending else place <= read.after):
        return False
    return all(_holds(match, row, at) for match in read.matches)


def _holds(match: Match | AnyMatch, row: Row, at: dict[str, int]) -> bool:
    return any(_is_met(each, row[at[each.column]]) for each in alternatives(match))


def _is_met(match: Match, value: Any) -> bool:
    if value is None:
        return False
    match match.op:
        case "starts":
            return str(value).startswith(match.value)
        case "contains":
            return match.value in str(value)
        case "in":
            return value in match.value
        case "=":
            return bool(value == match.value)
        case "<":
            return bool(value < match.value)
        case "<=":
            return bool(value <= match.value)
        case ">":
            return bool(value > match.value)
        case ">=":
            return bool(value >= match.value)
