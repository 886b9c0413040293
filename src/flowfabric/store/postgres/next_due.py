"""When something is due: whoever asks in the same breath is answered by one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from flowfabric.store.schema import INDEXES
from flowfabric.store.single_flight import seen
from flowfabric.store.sql.ddl import first_of

Fetch = Callable[[str], Awaitable[Sequence[Any]]]


class Dues:
    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._asked: set[str] = set()
        self._answering: asyncio.Task[dict[str, int | None]] | None = None

    def next_due(self, index: str) -> Awaitable[int | None]:
        """It is asked with the call, not when the answer is awaited, so that several can be gathered."""
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer())
            self._answering.add_done_callback(seen)
        self._asked.add(index)
        return self._told(index, self._answering)

    async def _told(self, index: str, answering: asyncio.Task[dict[str, int | None]]) -> int | None:
        return (await asyncio.shield(answering))[index]

    async def _answer(self) -> dict[str, int | None]:
        """Begins when all who were about to ask have asked; who comes later asks anew, for it is read already."""
        indexes, self._asked, self._answering = sorted(self._asked), set(), None
        row = (await self._fetch(firsts_of(indexes)))[0]
        return dict(zip(indexes, row, strict=True))


def firsts_of(indexes: Sequence[str]) -> str:
    return "SELECT " + ", ".join(f"({first_of(INDEXES[index])})" for index in indexes)
