"""Opens the engine of an app once, for the event loop in which it is first used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError

Connect = Callable[[], Coroutine[object, object, EngineProtocol]]


class Connection:
    """Opens one engine for any number of callers. After a failure the next caller retries."""

    def __init__(self, app: str, connect: Connect) -> None:
        self._app, self._connect = app, connect
        self._opening: asyncio.Task[EngineProtocol] | None = None

    async def engine(self) -> EngineProtocol:
        opening = self._opening
        if opening is None or _has_failed(opening):
            opening = asyncio.create_task(self._connect(), name="flowfabric-connect")
            self._opening = opening
        elif opening.get_loop() is not asyncio.get_running_loop():
            raise ConfigError(
                f"app {self._app}: it is connected in another event loop; use one App per loop, "
                "or close it there first: `async with app:` or `await app.close()`"
            )
        return opening.result() if opening.done() else await asyncio.shield(opening)

    def forget(self) -> asyncio.Task[EngineProtocol] | None:
        """The next call opens anew. Returns what was opened, or is being opened."""
        opening, self._opening = self._opening, None
        return opening

    async def close(self) -> None:
        opening = self.forget()
        if opening is not None:
            await asyncio.wait({opening})
            if not _has_failed(opening):
                await opening.result().close()


def _has_failed(opening: asyncio.Task[EngineProtocol]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
