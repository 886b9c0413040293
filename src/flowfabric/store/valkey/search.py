"""Searches: requests to the server, page by page, and the rows that they find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from flowfabric.store.port import AnyMatch, Condition, Find, Listed, Match, Row, columns_of
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.valkey.encoding import group_of, position_of, stored
from flowfabric.store.valkey.lua_schema import serves
from flowfabric.store.valkey.requests import Request

PAGE = 1_000
"""A call keeps every other caller of the server waiting."""


class Found(Struct, frozen=True):
    """How many rows were examined, the last of them, and those that match."""

    examined: int
    last: Row | None
    hits: list[Row]


Ask = Callable[[str, Request, tuple[str, ...]], Awaitable[Found]]


async def find(ask: Ask, read: Find) -> list[Row]:
    index = INDEXES[read.index]
    matched = (column for condition in read.matches for column in columns_of(condition))
    columns = tuple(dict.fromkeys((*read.columns, *read.by, *index.order, *matched)))
    at = {column: place for place, column in enumerate(columns)}

    def place(row: Row) -> Row:
        return tuple(row[at[column]] for column in read.by)

    def is_behind(row: Row) -> bool:
        if read.after is None:
            return True
        return place(row) < read.after if read.descending else place(row) > read.after

    found = await (_in_order if read.is_in_order else _whole)(ask, read, columns, at)
    hits = sorted(filter(is_behind, found.hits), key=place, reverse=read.descending)
    rows: list[Row] = [(True, *(row[at[c]] for c in read.columns)) for row in hits[: read.limit]]
    if found.last is None or read.examine is None or found.examined < read.examine:
        return rows
    return [*rows, (False, *(found.last[at[c]] for c in read.columns))]


async def _whole(ask: Ask, read: Find, columns: tuple[str, ...], at: Mapping[str, int]) -> Found:
    """Every row up to the bound; the index has another order than the result."""
    return await ask(read.index, _request(read, columns, None, None, read.examine), columns)


async def _in_order(ask: Ask, read: Find, columns: tuple[str, ...], at: Mapping[str, int]) -> Found:
    """Page by page, until there are enough."""
    order = INDEXES[read.index].order
    position: Sequence[object] | None = read.after
    examined, hits, last = 0, list[Row](), None
    while True:
        size = PAGE if read.examine is None else min(PAGE, read.examine - examined)
        missing = read.limit - len(hits) if read.limit else None
        request = _request(read, columns, position, missing, size)
        page = await ask(read.index, request, columns)
        examined, hits, last = examined + page.examined, hits + page.hits, page.last or last
        is_over = page.examined < size or examined == read.examine
        is_full = 0 < read.limit <= len(hits)
        if is_over or is_full or page.last is None:
            return Found(examined, last, hits)
        position = [page.last[at[column]] for column in order]


def _request(
    read: Find,
    columns: Sequence[str],
    position: Sequence[object] | None,
    limit: int | None,
    examine: int | None,
) -> Request:
    index = INDEXES[read.index]
    table = TABLES[index.table]
    after: bytes | bool = False
    if position is not None:
        after = position_of(table, index, position, primary=serves(index) == "key")
    return [
        "find",
        index.name,
        _group(index, read.group),
        after,
        read.is_in_order and read.descending,
        [_condition(each, table) for each in read.matches],
        list(columns),
        limit if limit is not None else False,
        examine if examine is not None else False,
    ]


def _group(index: Index, named: Mapping[str, object]) -> bytes | bool:
    """False for all groups."""
    if index.group and not named:
        return False
    return group_of(TABLES[index.table], index, [named[column] for column in index.group])


def _condition(condition: Condition, table: Table) -> list[Request]:
    match condition:
        case AnyMatch(matches=matches):
            return [_match(each, table) for each in matches]
        case Listed(column=column, index=name, group=group):
            index = INDEXES[name]
            return [[column, "listed", name, _group(index, group)]]
        case Match():
            return [_match(condition, table)]


def _match(match: Match, table: Table) -> Request:
    is_number = table.kinds[match.column] in ("int", "auto")
    return [match.column, match.op, stored(match.value), is_number]
