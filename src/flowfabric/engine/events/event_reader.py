"""Reads of the outboxes, shared by subscribers at the same position."""

from __future__ import annotations

from collections.abc import Sequence

from flowfabric.engine.batcher import Batcher
from flowfabric.store.port import Row, Store

MAX_SHARED = 10_000
_Page = tuple[str, int, int]
"""A channel, the position to read behind, and the size of the page."""


class EventReader:
    """One per engine. A read that is asked for while the same one is in flight begins after it, so
    that it sees every event committed before the call.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads: Batcher[_Page, None, list[Row]] = Batcher(self._read, MAX_SHARED)

    async def read(self, channel: str, after: int, limit: int) -> list[Row]:
        """Rows that no caller changes."""
        return await self._reads.submit((channel, after, limit), None)

    async def _read(self, page: _Page, callers: Sequence[None]) -> list[list[Row]]:
        rows = await self._store.read_events(*page)
        return [rows] * len(callers)
