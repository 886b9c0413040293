"""Searches: calls of a bounded length to the server, and the rows that they find together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from flowfabric.store.port import AnyMatch, Condition, Find, Listed, Match, Row, columns_of
from flowfabric.store.schema import INDEXES, TABLES, Table
from flowfabric.store.valkey.encoding import decoded, decoders, stored
from flowfabric.store.valkey.lua_schema import serves
from flowfabric.store.valkey.requests import Request, behind, group_named

ENTRIES = 1_000
"""Entries of indexes that a call visits: it keeps every other caller of the server waiting."""
_PARTS = {"int": "int", "auto": "int", "uuid": "uuid", "uuidtext": "uuid"}

Ask = Callable[[Sequence[Request]], Awaitable[Sequence[Any]]]


async def find_all(ask: Ask, reads: Sequence[Find]) -> list[list[Row]]:
    """The rows of each search, as the first call and those that go on from it find them.

    A row that moves from an index that is read whole to one that is not is found in one of them:
    an index that one call read whole is read again with each call that goes on in another.
    """
    walks = [_Walk(read) for read in reads]
    while unfinished := [walk for walk in walks if not walk.is_over]:
        asked = unfinished + [walk for walk in walks if walk.is_read_again]
        entries = max(ENTRIES // len(asked), 1)
        answers = await ask([walk.request(entries) for walk in asked])
        for walk, answer in zip(asked, answers, strict=True):
            walk.take(answer)
    return [walk.rows() for walk in walks]


class _Walk:
    """How far a search has come in its index."""

    def __init__(self, read: Find) -> None:
        index = INDEXES[read.index]
        assert serves(index) != "groups", f"{read.index}: an index without entries of its own"
        self._read, self._index = read, index
        matched = (column for condition in read.matches for column in columns_of(condition))
        self._columns = tuple(dict.fromkeys((*read.columns, *read.by, *index.order, *matched)))
        self._decoders = decoders(TABLES[index.table], self._columns)
        self._at = {column: place for place, column in enumerate(self._columns)}
        self._hits: dict[Row, Row] = {}
        self._examined, self._calls = 0, 0
        self._last: Any = None
        self._cursor: Any = False
        self.is_over = read.examine is not None and read.examine <= 0

    @property
    def is_read_again(self) -> bool:
        return self.is_over and self._read.examine is None and self._calls == 1

    def request(self, entries: int) -> Request:
        read, table = self._read, TABLES[self._index.table]
        after = behind(self._index, read.after) if read.is_in_order else False
        missing = read.limit - len(self._hits) if read.is_in_order and read.limit > 0 else None
        left = None if read.examine is None else read.examine - self._examined
        return [
            "find",
            self._index.name,
            group_named(self._index, read.group),
            after,
            read.is_in_order and read.descending,
            [_condition(each, table) for each in read.matches],
            list(self._columns),
            False if missing is None else missing,
            False if left is None else left,
            entries,
            False if self.is_over else self._cursor,
        ]

    def take(self, answer: Sequence[Any]) -> None:
        (examined,), cursor, last, *hits = answer
        if self.is_over:
            self._add(hits)
            if cursor:
                self._calls += 1
            return
        self._calls += 1
        self._examined += int(examined)
        self._cursor = cursor
        self._last = last or self._last
        self._add(hits)
        is_full = self._read.is_in_order and 0 < self._read.limit <= len(self._hits)
        self.is_over = not cursor or is_full or self._examined == self._read.examine

    def _add(self, hits: Sequence[Any]) -> None:
        for hit in hits:
            row = decoded(hit, self._decoders)
            self._hits[self._place(row)] = row

    def rows(self) -> list[Row]:
        read = self._read
        places = sorted(filter(self._is_behind, self._hits), reverse=read.descending)
        found = [self._shown(self._hits[place], is_hit=True) for place in places[: read.limit]]
        if not self._last or self._examined != read.examine:
            return found
        return [*found, self._shown(decoded(self._last, self._decoders), is_hit=False)]

    def _place(self, row: Row) -> Row:
        return tuple(row[self._at[column]] for column in self._read.by)

    def _is_behind(self, place: Row) -> bool:
        after = self._read.after
        if after is None:
            return True
        return place < after if self._read.descending else place > after

    def _shown(self, row: Row, *, is_hit: bool) -> Row:
        return (is_hit, *(row[self._at[column]] for column in self._read.columns))


def _condition(condition: Condition, table: Table) -> list[Request]:
    match condition:
        case AnyMatch(matches=matches):
            return [_match(each, table) for each in matches]
        case Listed(column=column, index=name, group=group):
            index = INDEXES[name]
            assert index.order[0] == column, f"{name}: its order does not begin with {column}"
            part = _PARTS.get(table.kinds[column], "word")
            return [[column, "listed", name, group_named(index, group), part]]
        case Match():
            return [_match(condition, table)]


def _match(match: Match, table: Table) -> Request:
    is_number = table.kinds[match.column] in ("int", "auto")
    return [match.column, match.op, stored(match.value), is_number]
