"""Rows in dictionaries, indexes in sorted lists, and an undo log for one transaction."""

from __future__ import annotations

import bisect
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from flowfabric.store.memory.evaluate import TESTS, Key, Record
from flowfabric.store.schema import INDEXES, TABLES, Index, Table

Found = tuple[Key, Record]
Entries = list[tuple[Key, Key]]
"""Order and key of each row of one group of an index, sorted."""


class MemoryTables:
    def __init__(self) -> None:
        self.rows: dict[str, dict[Key, Record]] = {name: {} for name in TABLES}
        self.last_event = {name: 0 for name, table in TABLES.items() if table.is_numbered}
        self._committed_events = dict(self.last_event)
        self._entries: dict[str, dict[Key, Entries]] = {name: {} for name in INDEXES}
        self._undo: list[tuple[Table, Key, Record | None]] = []
        self._indexes_of = {t: [i for i in INDEXES.values() if i.table == t] for t in TABLES}
        self._grouped = {
            t: [i for i in indexes if i.group and not i.where]
            for t, indexes in self._indexes_of.items()
        }

    # ---- writing

    def next_number(self, table: Table) -> int:
        """The next number of an outbox; 0 for any other table."""
        if not table.is_numbered:
            return 0
        self.last_event[table.name] += 1
        return self.last_event[table.name]

    def put(self, table: Table, key: Key, row: Record | None) -> None:
        """Writes a row, or deletes it when it is None."""
        self._undo.append((table, key, self.rows[table.name].get(key)))
        self._write(table, key, row)

    def commit(self) -> None:
        self._undo.clear()
        self._committed_events = dict(self.last_event)

    def roll_back(self) -> None:
        while self._undo:
            self._write(*self._undo.pop())
        self.last_event.update(self._committed_events)

    def _write(self, table: Table, key: Key, row: Record | None) -> None:
        rows = self.rows[table.name]
        before = rows.get(key)
        for index in self._indexes_of[table.name]:
            old, new = _entry(index, before), _entry(index, row)
            if old == new:
                continue
            if old is not None:
                entries = self._entries[index.name][old[0]]
                del entries[bisect.bisect_left(entries, (old[1], key))]
            if new is not None:
                bisect.insort(self._entries[index.name].setdefault(new[0], []), (new[1], key))
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    # ---- reading

    def index_for(self, table: Table, columns: Container[str]) -> Index | None:
        """An index over all rows of a table whose group consists of these columns only."""
        candidates = self._grouped[table.name]
        return next((i for i in candidates if all(c in columns for c in i.group)), None)

    def by_ids(self, index: Index, group: Mapping[str, Any], ids: Iterable[Any]) -> Iterator[Found]:
        """Rows of one group by their ids, in order, without a walk of the whole group."""
        rows = self.rows[index.table]
        keys = ((*(group[c] for c in index.group), ident) for ident in sorted(ids))
        return ((key, rows[key]) for key in keys if key in rows)

    def walk(
        self,
        index: Index,
        group: Mapping[str, Any],
        after: Key | None = None,
        upto: int | None = None,
    ) -> Iterator[Found]:
        """Rows of one group in order, after the position `after`, up to a bound on the first
        column.
        """
        entries = self._entries[index.name].get(tuple(group[c] for c in index.group), [])
        start = 0
        if upto is not None:
            index.bound_column()
        if after is not None:
            mark = tuple(_signed(index, c, v) for c, v in zip(index.order, after, strict=True))
            start = bisect.bisect_right(entries, mark, key=lambda entry: entry[0])
        rows = self.rows[index.table]
        for at in range(start, len(entries)):
            order, key = entries[at]
            if upto is not None and order[0] > upto:
                return
            yield key, rows[key]

    def walk_back(
        self, index: Index, group: Mapping[str, Any], before: Key | None
    ) -> Iterator[Found]:
        """Rows of one group of an ascending index from its end, or from before a position."""
        entries = self._entries[index.name].get(tuple(group[c] for c in index.group), [])
        end = len(entries)
        if before is not None:
            end = bisect.bisect_left(entries, before, key=lambda entry: entry[0])
        rows = self.rows[index.table]
        return ((key, rows[key]) for _, key in entries[:end][::-1])

    def groups(self, index: Index) -> list[Mapping[str, Any]]:
        return [
            dict(zip(index.group, group, strict=True))
            for group in sorted(self._entries[index.name])
        ]

    def first(self, index: Index) -> int | None:
        """The lowest value of an index's first column."""
        lists = self._entries[index.name].values()
        first = min((entries[0][0][0] for entries in lists if entries), default=None)
        return None if first is None else int(_signed(index, index.order[0], first))


def _entry(index: Index, row: Record | None) -> tuple[Key, Key] | None:
    if row is None or not all(TESTS[c.op](row[c.column], c.value) for c in index.where):
        return None
    order = tuple(_signed(index, c, row[c]) for c in index.order)
    return tuple(row[c] for c in index.group), order


def _signed(index: Index, column: str, value: Any) -> Any:
    return -value if column in index.descending else value
