"""Counts of all executions, for listings and metrics."""

from __future__ import annotations

import asyncio
import time
from itertools import starmap

from msgspec.structs import astuple

from flowfabric.engine.core import Core
from flowfabric.model.search import Counted, ExecutionCounts
from flowfabric.store.port import Count
from flowfabric.store.single_flight import SingleFlight, seen

COUNTED = ("namespace", "lane_id", "execution_kind", "public_state")
COUNTS_LAST_S = 2.0


class CountExecutions:
    """Counts every execution when asked, at most once at a time.

    An answer serves for two seconds, or four times as long as it took. A caller in the second half
    of that time starts the next count and does not wait for it.
    """

    def __init__(self, core: Core) -> None:
        self._store, self._flight = core.store, SingleFlight()
        self._last: Counted | None = None
        self._from_s = self._until_s = 0.0

    async def count_executions(self, namespace: str | None = None) -> Counted:
        """All executions by namespace, lane, task and state, at most two seconds old."""
        counted = await self._read()
        if namespace is None:
            return counted
        own = [each for each in counted.counts if each.namespace == namespace]
        return Counted(counted.counted_at, own)

    async def _read(self) -> Counted:
        now = time.monotonic()
        if self._last is None or now >= self._until_s:
            return await self._flight.once(None, self._count)
        if now >= self._from_s:
            self._next = asyncio.ensure_future(self._flight.once(None, self._count))
            self._next.add_done_callback(seen)
        return self._last

    async def _count(self) -> Counted:
        began = time.monotonic()
        loaded = await self._store.load((Count("ff_exec_core", COUNTED),))
        lasts = max(COUNTS_LAST_S, 4 * (time.monotonic() - began))
        self._from_s, self._until_s = began + lasts / 2, began + lasts
        self._last = Counted(
            loaded.now_ms, sorted(starmap(ExecutionCounts, loaded.rows[0]), key=astuple)
        )
        return self._last
