"""Counts of all executions, for listings and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import starmap

from msgspec.structs import astuple

from flowfabric.engine.core import Core
from flowfabric.model.search import Counted, ExecutionCounts
from flowfabric.store.port import Count
from flowfabric.store.single_flight import SingleFlight, seen

COUNTED = ("namespace", "lane_id", "execution_kind", "public_state")
FRESH_S = 1.0
PAUSE_FACTOR = 3


class CountExecutions:
    """Counts every execution when asked, at most once at a time.

    An answer is fresh for a second, or three times as long as it took. Up to two seconds, a caller
    gets it and starts the next count without waiting for it.
    """

    def __init__(self, core: Core, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._flight, self._clock = core.store, SingleFlight(), clock
        self._last: Counted | None = None
        self._from_s = self._until_s = 0.0

    async def count_executions(
        self, namespace: str | None = None, lanes: Sequence[str] | None = None
    ) -> Counted:
        """All executions by namespace, lane, task and state, at most two seconds old."""
        counted = await self._read()
        own = [
            each
            for each in counted.counts
            if (namespace is None or each.namespace == namespace)
            and (lanes is None or each.lane_id in lanes)
        ]
        return Counted(counted.counted_at, own)

    async def _read(self) -> Counted:
        now = self._clock()
        if self._last is None or now >= self._until_s:
            return await self._flight.once(None, self._count)
        if now >= self._from_s:
            self._next = asyncio.ensure_future(self._flight.once(None, self._count))
            self._next.add_done_callback(seen)
        return self._last

    async def _count(self) -> Counted:
        began = self._clock()
        loaded = await self._store.load((Count("ff_exec_core", COUNTED),))
        self._from_s = began + max(FRESH_S, PAUSE_FACTOR * (self._clock() - began))
        self._until_s = max(began + 2 * FRESH_S, self._from_s)
        self._last = Counted(
            loaded.now_ms, sorted(starmap(ExecutionCounts, loaded.rows[0]), key=astuple)
        )
        return self._last
