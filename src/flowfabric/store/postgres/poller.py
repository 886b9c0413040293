"""Wake-ups between processes without LISTEN, as behind a transaction-mode pooler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flowfabric.store.postgres.errors import POSTGRES_ERRORS
from flowfabric.store.sql.rows import SqlRows
from flowfabric.store.wakeups import Wakeups

log = logging.getLogger("flowfabric.postgres")

POLL_S = 1.0
SNAPSHOT = "SELECT pg_current_snapshot()::text"
"""It differs as soon as any transaction of the server that writes has begun or ended."""


class Poller:
    """Rings waiters when something was committed since the last poll. Timers are not rung."""

    def __init__(self, fetch: Callable[[str], Awaitable[SqlRows]], hub: Wakeups) -> None:
        self._fetch, self._hub = fetch, hub
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="flowfabric-postgres-poller")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        last = ""
        while True:
            if self._hub.waiters:
                last = await self._poll(last)
            await asyncio.sleep(POLL_S)

    async def _poll(self, last: str) -> str:
        try:
            found: str = (await self._fetch(SNAPSHOT))[0][0]
        except POSTGRES_ERRORS as error:
            log.debug("a poll for commits of other processes failed", exc_info=error)
            return ""
        if found != last:
            self._hub.ring_all_but_timers()
        return found
