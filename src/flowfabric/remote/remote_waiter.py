"""A waiter for work on a server: it waits by a long poll with the last counter it has seen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flowfabric.engine.events.long_poll import MAX_POLL_MS

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol

TopicKey = tuple[frozenset[str], str | None]
"""The lanes and the namespace of a counter."""


class RemoteWaiter:
    """As a `Waiter`: enter it, arm it, check, then wait.

    Wake-ups since the last wait count, so that none is missed between the check and the wait.
    """

    topics: tuple[Any, ...] = ()

    def __init__(
        self,
        engine: EngineProtocol,
        lanes: tuple[str, ...],
        namespace: str | None,
        seen: dict[TopicKey, int],
    ) -> None:
        self._engine, self._lanes, self._namespace, self._seen = (
            engine,
            list(lanes),
            namespace,
            seen,
        )
        self._key = frozenset(lanes), namespace
        self._rung = asyncio.Event()

    def __enter__(self) -> RemoteWaiter:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def arm(self) -> None:
        self._rung.clear()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, timeout_s: float | None) -> bool:
        """True if there may be work or `ring` was called; False after the timeout."""
        rung = asyncio.create_task(self._rung.wait())
        asked = asyncio.create_task(self._ask(timeout_s))
        try:
            done, _ = await asyncio.wait({rung, asked}, return_when=asyncio.FIRST_COMPLETED)
            return rung in done or asked.result()
        finally:
            for task in (rung, asked):
                task.cancel()
            await asyncio.wait({rung, asked})

    async def _ask(self, timeout_s: float | None) -> bool:
        wait_ms = MAX_POLL_MS if timeout_s is None else min(int(timeout_s * 1_000), MAX_POLL_MS)
        seen = self._seen.get(self._key)
        found: int = await self._engine.wait_for_work(self._lanes, seen, wait_ms, self._namespace)
        self._seen[self._key] = found
        return found != seen
