"""Rows of a SQL database as tuples of domain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, overload

from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES

Decoder = Callable[[Any], object]


class SqlRow(Protocol):
    """A row as the driver returns it: a tuple, or a record that behaves like one."""

    @overload
    def __getitem__(self, at: int, /) -> Any: ...
    @overload
    def __getitem__(self, at: slice, /) -> tuple[Any, ...]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


SqlRows = Sequence[SqlRow]
_UNREADABLE = (ValueError, TypeError, AttributeError)


class RowDecoder:
    """Decodes the columns whose kind has a decoder."""

    def __init__(self, decoders: Mapping[str, Decoder]) -> None:
        @cache
        def positions(table: str, columns: tuple[str, ...]) -> tuple[tuple[int, Decoder], ...]:
            kinds = [TABLES[table].kinds[column] for column in columns or TABLES[table].names]
            return tuple((at, decoders[k]) for at, k in enumerate(kinds) if k in decoders)

        self._positions = positions

    def __call__(
        self, table: str, rows: Iterable[SqlRow], columns: tuple[str, ...] = ()
    ) -> list[Row]:
        positions = self._positions(table, columns)
        if not positions:
            return list(map(tuple, rows))
        decoded = []
        for row in rows:
            values = list(row)
            for at, decode in positions:
                values[at] = decode(values[at])
            decoded.append(tuple(values))
        return decoded

    def found(self, table: str, rows: SqlRows, columns: tuple[str, ...]) -> list[Row]:
        """Rows that start with a flag."""
        decoded = self(table, [row[1:] for row in rows], columns)
        return [(bool(row[0]), *rest) for row, rest in zip(rows, decoded, strict=True)]

    def events(self, channel: str, rows: SqlRows) -> list[Row]:
        """An unreadable row is returned as it is stored, so that it does not hold up the others."""
        try:
            return self(channel, rows)
        except _UNREADABLE:
            return [self._event(channel, row) for row in rows]

    def _event(self, channel: str, row: SqlRow) -> Row:
        try:
            return self(channel, [row])[0]
        except _UNREADABLE:
            return tuple(row)
