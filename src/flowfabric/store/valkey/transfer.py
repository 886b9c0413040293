"""One side of a copy in a cell of Valkey."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import cache

from flowfabric.errors import ConfigError, Corruption, EngineError, TransportError
from flowfabric.plan import Arg, Form, Insert, Refused
from flowfabric.store.port import Read, Row
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.transfer import NUMBERED, Pages
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.encoding import primary_key, values_of_key
from flowfabric.store.valkey.leader import GIVE, TAKE
from flowfabric.store.valkey.lua_schema import TABLE_CODES
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.store.valkey.unfinished import mark_of, unfinished_source

WRITTEN_ROWS, WRITTEN_BYTES = 100, 1_048_576
"""A call ends at whichever comes first: it keeps every other caller of the server waiting."""
LOCK_S = 3.0
ASK_EVERY_S = 0.5


class ValkeySide:
    """Two copies into one cell exclude each other by a key with an expiry."""

    def __init__(self, options: Options, store: ValkeyStore, connection: Connection) -> None:
        self.shown = options.shown
        self._options, self._store, self._connection = options, store, connection
        self._lock = _Lock(options, connection)

    @classmethod
    async def open(cls, options: Options, *, is_new: bool) -> ValkeySide:
        store = ValkeyStore(options)
        try:
            await store.open(is_whole=False)
            side = cls(options, store, await Connection.open(options))
        except BaseException:
            await store.close()
            raise
        try:
            await side._check_is_all()
            if is_new:
                await side._lock.take()
        except BaseException:
            await side.close()
            raise
        return side

    async def _check_is_all(self) -> None:
        """A copy reads and writes one cell."""
        found = await self._connection.command("SRANDMEMBER", f"{self._options.prefix}:cells")
        if found is not None:
            name = found.decode(errors="replace")
            raise ConfigError(
                f"{self.shown}: namespace {name!r:.80} has a cell of its own; a copy takes the "
                "namespace default alone"
            )

    async def now_ms(self) -> int:
        return await self._store.now_ms()

    async def load(self, reads: Sequence[Read]) -> list[list[Row]]:
        return (await self._store.load(reads)).rows

    async def loops_holder(self) -> str | None:
        return await self._text("leader")

    async def count(self, table: Table) -> int:
        return int(await self._connection.command("ZCARD", self._key(TABLE_CODES[table.name])))

    async def pages(self, table: Table, after: Row | None) -> AsyncIterator[list[Row]]:
        pages = Pages(table)
        key = None if after is None else primary_key(table, after)
        try:
            async for rows in self._store.rows_of(table.name, table.names, key):
                page = pages.add(rows)
                if page is not None:
                    yield page
        except UnicodeDecodeError as error:
            raise Corruption(f"{table.name}: a text cannot be read ({error})") from error
        if rest := pages.rest():
            yield rest

    async def last_key(self, table: Table) -> Row | None:
        key = self._key(TABLE_CODES[table.name])
        found = await self._connection.command("ZRANGE", key, "-1", "-1")
        return values_of_key(table, found[0]) if found else None

    async def numbers(self) -> dict[str, int]:
        found = {}
        for table in NUMBERED:
            found[table.name] = int(await self._text(f"N{TABLE_CODES[table.name]}") or 0)
        return found

    async def unfinished_source(self) -> str | None:
        return await unfinished_source(self._connection, self._options)

    async def begin(self, source: str) -> None:
        await self._connection.command("SET", mark_of(self._options), source)

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """In calls, each of them whole: the last key is the position even between two of them."""
        form = copying(table.name)
        for part in _parts(rows):
            self._lock.check()
            plans = [form.given(dict(zip(table.names, row, strict=True))) for row in part]
            answer = await self._store.commit_together(plans)
            if isinstance(answer, Refused):
                row = part[answer.plan]
                key = {column: row[table.names.index(column)] for column in table.key}
                raise TransportError(
                    "valkey",
                    f"{self.shown}: {table.name} has a row {key} already: something else writes",
                    backend_kind="protocol",
                )

    async def finish(self, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            await self._connection.command("SET", self._key(f"N{TABLE_CODES[name]}"), str(number))

    async def end(self) -> None:
        await self._connection.command("DEL", mark_of(self._options))

    async def close(self) -> None:
        await self._lock.give()
        await self._connection.close()
        await self._store.close()

    def _key(self, name: str) -> str:
        return f"{self._options.prefix}:{name}"

    async def _text(self, name: str) -> str | None:
        found = await self._connection.command("GET", self._key(name))
        return None if found is None else found.decode()


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
