"""Which of many processes runs the loops: the one whose session holds an advisory lock."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

import asyncpg

from flowfabric.store.postgres import connections
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.failures import TROUBLE

ASK_EVERY_S = 2.0
_CLASS = 0x0F10FA


class Election:
    """Leadership ends with the session, so a dead leader is followed at once and a frozen one when the server notices."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection: asyncpg.Connection | None = None
        self._ended = asyncio.Event()

    async def won(self) -> None:
        """Returns when this process leads."""
        while True:
            if await self._ask():
                return
            await asyncio.sleep(ASK_EVERY_S)

    async def lost(self) -> None:
        """Returns when it no longer does."""
        await self._ended.wait()

    async def resign(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(Exception):
                await connection.close(timeout=2)

    async def _ask(self) -> bool:
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connections.connect(self._options)
                self._ended = asyncio.Event()
                self._connection.add_termination_listener(lambda _: self._ended.set())
            place = zlib.crc32(self._options.schema.encode()) & 0x7FFFFFFF
            return bool(await self._connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _CLASS, place))
        except TROUBLE:
            return False
