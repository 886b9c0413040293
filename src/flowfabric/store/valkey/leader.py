"""Elects the process that runs the loops of a cell: the one that holds a key with an expiry."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import suppress

from msgspec import structs

from flowfabric.errors import EngineError
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import Options

log = logging.getLogger("flowfabric.loops")

TTL_S = 8.0
ASK_EVERY_S = 2.0
ANSWER_S = 2.0
TAKE = (
    "#!lua flags=allow-oom\n"
    "local held = redis.call('GET', KEYS[1]) "
    "if held and held ~= ARGV[1] and redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then "
    "return 0 end "
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1"
)
"""A lease that ends later than any was taken for is left by a clock that was set back. On a full
server the loops of a leader make room.
"""
GIVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class Election:
    """The lease of a leader that is frozen or partitioned expires by the server's clock."""

    def __init__(self, options: Options) -> None:
        self._options = structs.replace(options, replicated=False)
        self._key = f"{options.prefix}:leader"
        self.me = secrets.token_hex(8)
        self._connection: Connection | None = None
        self._leads_until = float("-inf")

    async def won(self) -> None:
        """Returns when this process leads."""
        while not await self._ask():  # noqa: ASYNC110
            await asyncio.sleep(ASK_EVERY_S)

    async def lost(self) -> None:
        """Returns when another process leads, or when the lease was not renewed in time."""
        while True:
            await asyncio.sleep(min(ASK_EVERY_S, max(self._leads_until - time.monotonic(), 0)))
            if await self._ask() is False or time.monotonic() >= self._leads_until:
                return

    async def resign(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(EngineError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await connection.command("EVAL", GIVE, "1", self._key, self.me)
            await connection.close()

    async def _ask(self) -> bool | None:
        """Whether this process leads; None when the server did not answer."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._connection is None:
                    self._connection = await Connection.open(self._options)
                won = await self._connection.command(
                    "EVAL", TAKE, "1", self._key, self.me, str(int(TTL_S * 1_000))
                )
        except (EngineError, TimeoutError) as error:
            log.debug("the election of the loop leader failed", exc_info=error)
            return None
        if won == 1:
            self._leads_until = began + TTL_S
        return bool(won == 1)
