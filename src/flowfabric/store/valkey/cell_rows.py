"""The rows of one cell, as a copy reads and writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache

from flowfabric.errors import Corruption, TransportError
from flowfabric.plan import Arg, Form, Insert, Refused
from flowfabric.store.port import Read, Row
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.transfer import NUMBERED, Pages
from flowfabric.store.valkey.cells import Link
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.encoding import primary_key, values_of_key
from flowfabric.store.valkey.lua_schema import TABLE_CODES
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.store import ValkeyStore

WRITTEN_ROWS, WRITTEN_BYTES = 100, 1_048_576
"""A call ends at whichever comes first: it keeps every other caller of the server waiting."""


class CellRows:
    """`check` fails when the copy has lost its lock."""

    def __init__(
        self,
        options: Options,
        store: ValkeyStore,
        connection: Connection,
        check: Callable[[], None],
    ) -> None:
        self.options, self.store, self._connection, self._check = options, store, connection, check
        self._last: dict[str, bytes] = {}

    @classmethod
    async def at(cls, options: Options, link: Link, check: Callable[[], None]) -> CellRows:
        connection = (await link.shared()).near(options)
        return cls(options, ValkeyStore(options, link=link), connection, check)

    async def load(self, reads: Sequence[Read]) -> list[list[Row]]:
        return (await self.store.load(reads)).rows

    async def count(self, table: Table) -> int:
        return int(await self._connection.command("ZCARD", self.key(TABLE_CODES[table.name])))

    async def rows(self, table: Table, after: bytes | None) -> AsyncIterator[Row]:
        """The rows behind a key, in the order of keys."""
        try:
            async for rows in self.store.rows_of(table.name, table.names, after):
                for row in rows:
                    yield row
        except UnicodeDecodeError as error:
            raise Corruption(f"{table.name}: a text cannot be read ({error})") from error

    async def pages(self, table: Table, after: Row | None) -> AsyncIterator[list[Row]]:
        key = None if after is None else primary_key(table, after)
        async for page in paged(table, self.rows(table, key)):
            yield page

    async def last(self, table: Table) -> bytes | None:
        found = await self._connection.command(
            "ZRANGE", self.key(TABLE_CODES[table.name]), "-1", "-1"
        )
        return found[0] if found else None

    async def behind(self, table: Table) -> Row | None:
        last = await self.last(table)
        return None if last is None else values_of_key(table, last)

    async def numbers(self) -> dict[str, int]:
        found = {}
        for table in NUMBERED:
            found[table.name] = int(await self.text(f"N{TABLE_CODES[table.name]}") or 0)
        return found

    async def write(self, table: Table, rows: Sequence[Row]) -> int:
        """In calls, each of them whole: the last key is the position even between two of them.

        Left out is what the cell had before the first write of the table.
        """
        if table.name not in self._last:
            self._last[table.name] = await self.last(table) or b""
        had = self._last[table.name]
        left = [row for row in rows if key_of(table, row) > had] if had else rows
        form = copying(table.name)
        for part in _parts(left):
            self._check()
            plans = [form.given(dict(zip(table.names, row, strict=True))) for row in part]
            answer = await self.store.commit_together(plans)
            if isinstance(answer, Refused):
                row = part[answer.plan]
                key = {column: row[table.names.index(column)] for column in table.key}
                raise TransportError(
                    "valkey",
                    f"{self.options.shown}: {table.name} has a row {key} already: "
                    "something else writes",
                    backend_kind="protocol",
                )
        return len(left)

    async def finish(self, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            await self._connection.command("SET", self.key(f"N{TABLE_CODES[name]}"), str(number))

    async def close(self) -> None:
        await self.store.close()

    def key(self, name: str) -> str:
        return f"{self.options.prefix}:{name}"

    async def text(self, name: str) -> str | None:
        found = await self._connection.command("GET", self.key(name))
        return None if found is None else found.decode()


def key_of(table: Table, row: Row) -> bytes:
    return primary_key(table, [row[table.names.index(column)] for column in table.key])


async def paged(table: Table, rows: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
    pages = Pages(table)
    async for row in rows:
        page = pages.add((row,))
        if page is not None:
            yield page
    if rest := pages.rest():
        yield rest


@cache
def copying(table: str) -> Form:
    """Inserts a row as it is, with the number of an event."""
    row = {column: Arg(column) for column in TABLES[table].names}
    return Form(f"copy_{table}", Insert(table, row))


def _parts(rows: Sequence[Row]) -> list[list[Row]]:
    parts: list[list[Row]] = []
    room = 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str | bytes))
        if not parts or room < size or len(parts[-1]) == WRITTEN_ROWS:
            parts.append([])
            room = WRITTEN_BYTES
        parts[-1].append(row)
        room -= size
    return parts
