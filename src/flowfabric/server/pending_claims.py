"""Claims that wait here for work, and can be called off by whoever sent them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.lease import Work

log = logging.getLogger("flowfabric.server")

Who = tuple[str, str]
"""A token's name and an instance of a worker: nobody calls off what another waits for."""
Turn = tuple[list[EngineError | None], list[Work]]
T = TypeVar("T")


class Waits:
    def __init__(self, engine: LocalEngineProtocol) -> None:
        self._engine = engine
        self._claims: dict[Who, set[asyncio.Task[list[Work]]]] = {}

    async def claimed(
        self, who: Who, claiming: Coroutine[Any, Any, list[Work]], *, waits: bool
    ) -> list[Work]:
        """What was claimed; nothing, when it was called off. What was being granted then, the engine gives back.

        A claim that does not wait is not called off: its answer is waited for, and taken back if nobody is there for it.
        """
        task = asyncio.create_task(claiming)
        if waits:
            self._claims.setdefault(who, set()).add(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            asked = asyncio.current_task()
            if asked is None or not asked.cancelling():
                return []
            if waits:
                task.cancel()
            await self._take_back(task, lambda works: works)
            raise
        finally:
            self._forget(who, task)

    async def turned(self, turning: Coroutine[Any, Any, Turn]) -> Turn:
        """What was ended has ended, whether its caller is still there or not; what was claimed for him is taken back."""
        task = asyncio.create_task(turning)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._take_back(task, lambda turn: turn[1])
            raise

    async def _take_back(self, task: asyncio.Task[T], works_of: Callable[[T], list[Work]]) -> None:
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            await give_back(self._engine, works_of(task.result()))

    def _forget(self, who: Who, task: asyncio.Task[list[Work]]) -> None:
        claims = self._claims.get(who, set())
        claims.discard(task)
        if not claims:
            self._claims.pop(who, None)

    def call_off(self, who: Who) -> int:
        """How many were; a claim that has its answer already is answered with it."""
        return sum(task.cancel() for task in tuple(self._claims.get(who, ())))


async def give_back(engine: LocalEngineProtocol, works: Sequence[Work]) -> None:
    """Nobody has read the answer: whoever asks next may go on with them, and does not wait for the leases to run out."""
    for work in works:
        try:
            await engine.delay(work.handle, await engine.server_time_ms())
        except EngineError as error:
            log.warning(
                "%s: its worker has left, and it could not be given back: %s",
                work.execution_id,
                error,
            )
