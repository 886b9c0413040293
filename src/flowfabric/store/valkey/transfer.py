"""One side of a copy in Valkey: the base cell, and the cells of the other namespaces."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from flowfabric.errors import EngineError, TransportError
from flowfabric.store.owners import BASE, Owners, is_of_all
from flowfabric.store.port import Read, Row
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.transfer import Database, Destination, Pair
from flowfabric.store.valkey.cell_rows import CellRows, paged
from flowfabric.store.valkey.cells import Link, Registry, cell_of
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.encoding import primary_key, values_of_key
from flowfabric.store.valkey.gathered import gathered, gathered_numbers, spread
from flowfabric.store.valkey.leader import GIVE, TAKE
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.unfinished import mark_of, unfinished_source

LOCK_S = 3.0
ASK_EVERY_S = 0.5


class ValkeySide:
    """Two copies into one deployment exclude each other by a key with an expiry, which is in the
    base cell as the mark of an unfinished copy is: the other cells are reached through it.
    """

    def __init__(self, options: Options, link: Link, shared: Connection, *, is_new: bool) -> None:
        self.shown, self._is_new = options.shown, is_new
        self._options, self._link, self._connection = options, link, shared
        self._registry = Registry(options, link)
        self._lock = _Lock(options, shared)
        self._owners = Owners()
        self._of_all: dict[str, list[Row]] = {}
        self.cells: dict[str, CellRows] = {}

    @classmethod
    async def open(cls, options: Options, *, is_new: bool) -> ValkeySide:
        link = Link(options)
        try:
            side = cls(options, link, await link.shared(), is_new=is_new)
        except BaseException:
            await link.close()
            raise
        try:
            base = await side._open(BASE)
            await base.store.open(is_whole=False)
            if is_new:
                await side._lock.take()
            for namespace in await side._registry.names():
                await side._open(namespace)
        except BaseException:
            await side.close()
            raise
        return side

    async def _open(self, namespace: str) -> CellRows:
        if namespace not in self.cells:
            at = self._options if namespace == BASE else cell_of(self._options, namespace)
            self.cells[namespace] = await CellRows.at(at, self._link, self._lock.check)
        return self.cells[namespace]

    async def now_ms(self) -> int:
        return await self.cells[BASE].store.now_ms()

    async def load(self, reads: Sequence[Read]) -> list[list[Row]]:
        """The rows of one cell after those of another."""
        found: list[list[Row]] = [[] for _ in reads]
        for cell in self.cells.values():
            for rows, more in zip(found, await cell.load(reads), strict=True):
                rows += more
        return found

    async def loops_holder(self) -> str | None:
        return await self.cells[BASE].text("leader")

    async def count(self, table: Table) -> int:
        if is_of_all(table):
            return sum([len(page) async for page in self.pages(table, None)])
        return sum([await cell.count(table) for cell in self.cells.values()])

    async def pages(self, table: Table, after: Row | None) -> AsyncIterator[list[Row]]:
        async for page in paged(table, self._rows(table, after)):
            yield page

    def _rows(self, table: Table, after: Row | None) -> AsyncIterator[Row]:
        cells = list(self.cells.values())
        key = None if after is None else primary_key(table, after)
        if len(cells) == 1:
            return cells[0].rows(table, key)
        if self._is_new:
            return spread(cells, table, key)
        return gathered(cells, table, after)

    async def last_key(self, table: Table) -> Row | None:
        found = [await cell.last(table) for cell in self.cells.values()]
        last = max((key for key in found if key is not None), default=None)
        return None if last is None else values_of_key(table, last)

    async def numbers(self) -> dict[str, int]:
        """Where the cells of a destination differ, the lowest."""
        cells = list(self.cells.values())
        if len(cells) > 1 and not self._is_new:
            return await gathered_numbers(cells)
        found = [await cell.numbers() for cell in cells]
        return {name: min(each[name] for each in found) for name in found[0]}

    async def unfinished_source(self) -> str | None:
        return await unfinished_source(self._connection, self._options)

    async def begin(self, source: str) -> None:
        await self._connection.command("SET", mark_of(self._options), source)

    async def behind(self, table: Table) -> Row | None:
        """Cells end at different keys, and owners are learned from all rows."""
        return None

    async def write(self, table: Table, rows: Sequence[Row]) -> int:
        """To the cells of their namespaces. The last key of a cell is its position."""
        placed = [(row, self._owners.note(table, row)) for row in rows]
        for namespace in dict.fromkeys(space for _, space in placed):
            if namespace is not None:
                await self.cell(namespace)
        shared = [row for row, namespace in placed if namespace is None]
        self._of_all.setdefault(table.name, []).extend(shared)
        parts: dict[str, list[tuple[Row, str | None]]] = {}
        for row, space in placed:
            for namespace in self.cells if space is None else (space,):
                part = self._owners.part(table, row, namespace, space)
                if part is not None:
                    parts.setdefault(namespace, []).append((part, space))
        written = 0
        for namespace, mine in parts.items():
            left = await self.cells[namespace].write(table, [row for row, _ in mine])
            missing = mine[len(mine) - left :]
            written += sum(namespace in (BASE, space) for _, space in missing)
        return written

    async def cell(self, namespace: str) -> CellRows:
        """Registered before its first row, and with the rows that every cell has."""
        if namespace not in self.cells:
            await self._registry.add(namespace)
            cell = await self._open(namespace)
            for name, rows in self._of_all.items():
                parts = (self._owners.part(TABLES[name], row, namespace, None) for row in rows)
                await cell.write(TABLES[name], [part for part in parts if part is not None])
        return self.cells[namespace]

    async def finish(self, numbers: Mapping[str, int]) -> None:
        for cell in self.cells.values():
            await cell.finish(numbers)

    async def end(self) -> None:
        await self._connection.command("DEL", mark_of(self._options))

    async def close(self) -> None:
        await self._lock.give()
        for cell in self.cells.values():
            await cell.close()
        await self._link.close()


async def cell_pairs(source: Database, destination: Destination) -> list[Pair]:
    """Between two deployments on Valkey each cell is copied as it is, with its numbers."""
    assert isinstance(source, ValkeySide)
    assert isinstance(destination, ValkeySide)
    return [(cell, await destination.cell(name)) for name, cell in source.cells.items()]


class _Lock:
    """The key of a copy that was killed expires after a few seconds, which the next one waits."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._key, self._connection = f"{options.prefix}:copy", connection
        self._shown, self._me = options.shown, secrets.token_hex(8)
        self._task: asyncio.Task[None] | None = None
        self._is_lost = False

    async def take(self) -> None:
        until = time.monotonic() + LOCK_S + 2 * ASK_EVERY_S
        while not await self._ask():
            if time.monotonic() >= until:
                raise TransportError(
                    "valkey", f"{self._shown}: another copy of this database is running"
                )
            await asyncio.sleep(ASK_EVERY_S)
        self._task = asyncio.create_task(self._keep(), name="flowfabric-valkey-copy")

    def check(self) -> None:
        if self._is_lost:
            raise TransportError(
                "valkey", f"{self._shown}: another copy has taken this database over"
            )

    async def give(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        with suppress(EngineError):
            await self._connection.command("EVAL", GIVE, "1", self._key, self._me)

    async def _ask(self) -> bool:
        expiry = str(int(LOCK_S * 1_000))
        return bool(
            await self._connection.command("EVAL", TAKE, "1", self._key, self._me, expiry) == 1
        )

    async def _keep(self) -> None:
        while not self._is_lost:
            await asyncio.sleep(ASK_EVERY_S)
            with suppress(EngineError):
                self._is_lost = not await self._ask()
