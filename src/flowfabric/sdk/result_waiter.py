"""Waiting for runs to end: one listener per app, however many wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError, NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.event import is_end
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.sdk.retry import persist

log = logging.getLogger("flowfabric.results")

Heard = tuple["asyncio.Task[None] | None", int]
ASK_MS, MAX_ASKING = 20_000, 16
MOMENT_S = 0.002
"""So long nobody asks a server for what he has just submitted: it is busy handing it out, and would be held up."""
LOOK_S = 5.0
"""Should a wake-up be lost, whoever waits looks by himself."""


class Results:
    def __init__(self, engine: Callable[[], Awaitable[EngineProtocol]]) -> None:
        self._engine = engine
        self._waiting: dict[UUID, list[asyncio.Future[None]]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._heard = self._asking = 0

    @property
    def heard(self) -> Heard:
        """How far the listener has got, if there is one that stands: who made a run after that need not look at first."""
        listener, ready = self._listener, self._ready
        if listener is None or listener.done() or ready is None or not ready.done():
            return None, self._heard
        return listener, self._heard

    async def of(
        self, ident: ExecutionId, timeout_s: float | None, born: Heard | None = None
    ) -> ExecutionOutcome:
        """How it ended, as soon as it has. Whoever waits is on the list before he looks: nothing falls in between.

        A new run is `born` where the listener stood when it was made; while that has heard nothing since, it has not ended.
        """
        async with asyncio.timeout(timeout_s):
            engine = await self._engine()
            if engine.may_wait and self._asking < MAX_ASKING:
                return await self._asked(engine, ident, 0.0 if born is None else MOMENT_S)
            while True:
                rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.setdefault(ident.uuid, []).append(rung)
                try:
                    await self._begin()
                    if born is None or born != self.heard:
                        outcome = await self._look(ident)
                        if outcome.ended:
                            return outcome
                    born = None
                    await asyncio.wait({rung}, timeout=LOOK_S)
                finally:
                    self._forget(ident.uuid, rung)

    async def _asked(
        self, engine: EngineProtocol, ident: ExecutionId, after_s: float
    ) -> ExecutionOutcome:
        """Few who wait for a server's engine ask it each for himself; beyond that, all share one listener."""
        self._asking += 1
        try:
            await asyncio.sleep(after_s)
            while True:
                outcome = await persist(lambda: engine.wait_for_outcome(ident, ASK_MS))
                if outcome is None:
                    raise NotFound("execution", ident)
                if outcome.ended:
                    return outcome
        finally:
            self._asking -= 1

    async def _look(self, ident: ExecutionId) -> ExecutionOutcome:
        engine = await self._engine()
        outcome = await persist(lambda: engine.read_outcome(ident))
        if outcome is None:
            raise NotFound("execution", ident)
        return outcome

    def _forget(self, ident: UUID, rung: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(ident, [])
        if rung in waiting:
            waiting.remove(rung)
        if not waiting:
            self._waiting.pop(ident, None)

    async def _begin(self) -> None:
        if self._listener is None or self._listener.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._listener = asyncio.create_task(
                self._follow(self._ready), name="flowfabric-results"
            )
        assert self._ready is not None
        await asyncio.shield(self._ready)

    async def _follow(self, ready: asyncio.Future[None]) -> None:
        try:
            events = await (await self._engine()).subscribe_completion()
            ready.set_result(None)
            async for event in events:
                self._heard += 1
                if is_end(event.outcome):
                    for rung in self._waiting.pop(event.execution_id.uuid, ()):
                        if not rung.done():
                            rung.set_result(None)
        except (
            EngineError
        ) as error:  # the next who waits begins anew, and all look for themselves meanwhile
            log.info("results are looked for, not listened for, until the next one asks: %s", error)
        finally:
            if not ready.done():
                ready.set_result(None)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None
