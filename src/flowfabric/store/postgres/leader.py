"""Elects the process that runs the loops: the one that holds a lease on a row.

Times are those of the server. Statements are independent and sent as text, so they work behind a
transaction-mode pooler.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import suppress

import asyncpg

from flowfabric.store.postgres import connections
from flowfabric.store.postgres.connections import Options

log = logging.getLogger("flowfabric.loops")

TTL_S = 8.0
ASK_EVERY_S = 2.0
ANSWER_S = 2.0
_NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class Election:
    """The lease of a leader that is frozen, blocked or partitioned expires; that of a dead leader
    is free as soon as its session has ended.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.me = secrets.token_hex(8)
        self._connection: asyncpg.Connection | None = None
        self._leads_until = float("-inf")
        self._is_silent = False

    async def won(self) -> None:
        """Returns when this process leads."""
        while not await self.ask(look_first=True):  # noqa: ASYNC110
            await asyncio.sleep(ASK_EVERY_S)

    async def lost(self) -> None:
        """Returns when another process leads, or when the lease was not renewed in time."""
        while True:
            await asyncio.sleep(min(ASK_EVERY_S, max(self._leads_until - time.monotonic(), 0)))
            if await self.ask() is False or time.monotonic() >= self._leads_until:
                return

    async def resign(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None or connection.is_closed():
            return
        with suppress(Exception):
            await connection.execute(
                f"DELETE FROM ff_leader WHERE name = 'loops' AND holder = '{self.me}'",
                timeout=ANSWER_S,
            )
            await connection.close(timeout=ANSWER_S)
        connection.terminate()

    async def ask(self, *, look_first: bool = False) -> bool | None:
        """Whether this process leads; None when the server did not answer."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                connection = await self._connected()
                if look_first and await connection.execute(self._held()) != "SELECT 0":
                    return False
                won = await connection.execute(self._take()) == "INSERT 0 1"
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._drop(error)
            return None
        self._is_silent = False
        if won:
            self._leads_until = began + TTL_S
        return won

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connections.connect(self._options)
        return self._connection

    def _drop(self, error: Exception) -> None:
        level = logging.DEBUG if self._is_silent else logging.WARNING
        self._is_silent = True
        log.log(
            level,
            "the election of the loop leader failed; the next try follows",
            exc_info=error,
        )
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _held(self) -> str:
        return f"SELECT 1 FROM ff_leader AS l WHERE l.name = 'loops' AND NOT ({self._free()})"

    def _take(self) -> str:
        backend = "0" if self._options.pooler else "pg_backend_pid()"
        return (
            "INSERT INTO ff_leader AS l (name, holder, backend, until_ms) "
            f"VALUES ('loops', '{self.me}', {backend}, {_NOW} + {_ttl_ms()}) "
            "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, "
            "backend = excluded.backend, until_ms = excluded.until_ms "
            f"WHERE {self._free()}"
        )

    def _free(self) -> str:
        """The lease is this process's own, has expired, or belongs to a session that has ended.

        A time further ahead than a lease lasts means that the server's clock was set back.
        """
        return (
            f"l.holder = '{self.me}' OR l.until_ms NOT BETWEEN {_NOW} AND {_NOW} + {_ttl_ms()} "
            "OR (l.backend <> 0 AND NOT EXISTS "
            "(SELECT 1 FROM pg_stat_activity AS a WHERE a.pid = l.backend))"
        )


def _ttl_ms() -> int:
    return int(TTL_S * 1000)
