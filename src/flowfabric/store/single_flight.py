"""Concurrent calls with the same key share one call in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SingleFlight:
    """One call per key at a time; a cancelled caller does not cancel it for the others."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    async def once(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> T:
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = asyncio.ensure_future(call())
            running.add_done_callback(lambda _: self._running.pop(key))
            running.add_done_callback(seen)
        answer: T = await asyncio.shield(running)
        return answer


def seen(task: asyncio.Future[Any]) -> None:
    """Retrieves the error of a call whose callers were all cancelled, so that it is not logged."""
    if not task.cancelled():
        task.exception()
