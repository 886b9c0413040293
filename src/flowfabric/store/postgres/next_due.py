"""When something is due: calls of one iteration of the event loop share a statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from flowfabric.store.schema import INDEXES
from flowfabric.store.single_flight import seen
from flowfabric.store.sql.ddl import first_of
from flowfabric.store.sql.rows import SqlRows


class NextDue:
    def __init__(self, fetch: Callable[[str], Awaitable[SqlRows]]) -> None:
        self._fetch = fetch
        self._indexes: set[str] = set()
        self._answer: asyncio.Task[dict[str, int | None]] | None = None

    def next_due(self, index: str) -> Awaitable[int | None]:
        """Requested at the call, not when the answer is awaited, so that calls can be gathered."""
        if self._answer is None:
            self._answer = asyncio.create_task(self._read())
            self._answer.add_done_callback(seen)
        self._indexes.add(index)
        return self._value(index, self._answer)

    async def _value(self, index: str, answer: asyncio.Task[dict[str, int | None]]) -> int | None:
        return (await asyncio.shield(answer))[index]

    async def _read(self) -> dict[str, int | None]:
        """A later call needs a new statement, since this one may have read already."""
        indexes, self._indexes, self._answer = sorted(self._indexes), set(), None
        row = (await self._fetch(firsts_of(indexes)))[0]
        return dict(zip(indexes, row, strict=True))


def firsts_of(indexes: Sequence[str]) -> str:
    return "SELECT " + ", ".join(f"({first_of(INDEXES[index])})" for index in indexes)
