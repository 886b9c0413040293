"""Vacuums hot tables by need: the server's own vacuum looks at a table once a minute at most.

A claim walks past the index entries of the rows that were claimed since the last vacuum, so a lane
that drains 10,000 executions a second needs one every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from flowfabric.store.postgres.connections import LazyConnection
from flowfabric.store.schema import TABLES
from flowfabric.store.sql.rows import SqlRows

VACUUM_SETTINGS = {"statement_timeout": "0", "vacuum_cost_delay": "0"}
log = logging.getLogger("flowfabric.store.postgres")

MIN_DEAD = 20_000
"""Dead rows of a table from which a vacuum is worth its scan of all indexes."""
MIN_SHARE = 0.05
"""The same as a share of the rows, for tables that no claim walks."""
WALKED = "ff_exec_core"
REST = 9
"""A pause lasts at least this many times as long as the vacuum before it."""
LONGEST_REST_S = 120.0

_TABLES = sorted(TABLES)
_COUNTS = """SELECT c.relname, pg_stat_get_dead_tuples(c.oid), pg_stat_get_live_tuples(c.oid)
    FROM pg_class AS c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    AND c.relname = ANY($1) AND pg_stat_get_dead_tuples(c.oid) >= $2
    ORDER BY 2 DESC"""


class TableCount(Struct, frozen=True):
    table: str
    dead: int
    live: int

    @property
    def needs_vacuum(self) -> bool:
        share = 0.0 if self.table == WALKED else MIN_SHARE
        return self.dead >= max(MIN_DEAD, share * self.live)


class Vacuum:
    """One at a time, on a connection of its own, beside the caller's work."""

    def __init__(self, link: LazyConnection) -> None:
        self._link = link
        self._running: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self._rest_s = 0.0

    async def start_if_needed(self, fetch: Callable[..., Awaitable[SqlRows]]) -> int:
        """The number of vacuums it started: 0 or 1."""
        if self._running is not None or time.monotonic() < self._next_at:
            return 0
        counts = [TableCount(*row) for row in await fetch(_COUNTS, _TABLES, MIN_DEAD)]
        needed = [count for count in counts if count.needs_vacuum]
        # The claimed table first: it decides how long a claim takes.
        needed.sort(key=lambda count: (count.table != WALKED, -count.dead))
        if not needed:
            return 0
        self._running = asyncio.create_task(self._run(needed[0]), name="flowfabric-vacuum")
        return 1

    async def _run(self, count: TableCount) -> None:
        began = time.monotonic()
        try:
            connection = await self._link.get()
            await connection.execute(
                f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) {count.table}"
            )
        except Exception:
            self._link.drop()
            log.warning("vacuum failed", exc_info=True, extra={"table": count.table})
        finally:
            took = time.monotonic() - began
            self._next_at = time.monotonic() + min(REST * took, LONGEST_REST_S)
            self._running = None
            log.debug(
                "table vacuumed",
                extra={"table": count.table, "dead": count.dead, "elapsed_s": round(took, 3)},
            )

    async def close(self) -> None:
        """Cancels a running vacuum; what it did stays."""
        running = self._running
        if running is not None:
            running.cancel()
            await asyncio.wait({running})
            self._link.drop()
        await self._link.close()
