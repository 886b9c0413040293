"""Which namespaces have work in a lane, for claims that are for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from flowfabric.store.port import Scan, Store

MAX_LANES = 10_000
MOST_TURNS = 1_000


class NamespaceRotation:
    """One per engine. Each read skips from one namespace to the next, however much waits in either."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, str] = {}

    async def namespaces(self, lane: str, most: int = MOST_TURNS) -> AsyncIterator[str]:
        """Those with something ready, each once, beginning behind the one that had its turn last: none waits for another."""
        start = at = self._last.get(lane, "")
        begun_anew = not start
        for _ in range(most):
            found, first = await self._next(lane, at)
            if found is None and not begun_anew:
                begun_anew, found = True, first
            if found is None or (begun_anew and start and found > start):
                return
            if len(self._last) >= MAX_LANES:
                self._last.clear()
            self._last[lane] = at = found
            yield found

    async def _next(self, lane: str, at: str) -> tuple[str | None, str | None]:
        """The one behind, and the first of all, in one round trip."""
        scans = [
            Scan("ready_namespaces", {"lane_id": lane}, (after,), limit=1, columns=("namespace",))
            for after in (at, "")
        ]
        behind, first = (await self._store.load(scans)).rows
        return behind[0][0] if behind else None, first[0][0] if first else None
