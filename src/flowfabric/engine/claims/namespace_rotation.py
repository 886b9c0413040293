"""The namespaces that have work in a lane, for claims of all namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator

from flowfabric.store.port import Scan, Store

MAX_LANES = 10_000
MAX_NAMESPACES = 1_000


class NamespaceRotation:
    """One per engine. A read skips to the next namespace, whatever the length of the queues."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, str] = {}

    async def namespaces(self, lane: str, most: int = MAX_NAMESPACES) -> AsyncIterator[str]:
        """Namespaces with ready work, each once, starting behind the last one of the lane."""
        start = at = self._last.get(lane, "")
        wrapped = not start
        for _ in range(most):
            found, first = await self._next(lane, at)
            if found is None and not wrapped:
                wrapped, found = True, first
            if found is None or (wrapped and start and found > start):
                return
            if len(self._last) >= MAX_LANES:
                self._last.clear()
            self._last[lane] = at = found
            yield found

    async def _next(self, lane: str, at: str) -> tuple[str | None, str | None]:
        """The next namespace, and the first of all, in one round trip."""
        scans = [
            Scan("ready_namespaces", {"lane_id": lane}, (after,), limit=1, columns=("namespace",))
            for after in (at, "")
        ]
        following, first = (
            next((namespace for (namespace,) in rows), None)
            for rows in (await self._store.load(scans)).rows
        )
        return following, first
