"""Loops that run in one process at a time: in the elected leader, while it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flowfabric.engine.telemetry import NO_TELEMETRY, Telemetry

log = logging.getLogger("flowfabric.loops")

GRACE_S = 5.0
RETRY_S = 1.0


class Led(Protocol):
    """What the leader runs."""

    @property
    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    def watched_by(self, listener: Telemetry) -> None: ...


Make = Callable[[], AbstractAsyncContextManager[Led]]


class Election(Protocol):
    async def won(self) -> None: ...

    async def lost(self) -> None: ...

    async def resign(self) -> None: ...


class LeaderOnly:
    """`make` opens the resources of the loops while this process leads."""

    def __init__(self, election: Election, make: Make) -> None:
        self.election, self._make = election, make
        self._task: asyncio.Task[None] | None = None
        self._running: Led | None = None
        self._grace_s = GRACE_S
        self._stopping = asyncio.Event()
        self._listener: Telemetry = NO_TELEMETRY

    @property
    def leads(self) -> bool:
        return self._running is not None

    @property
    def is_running(self) -> bool:
        """Whether the loops run, or wait while another process leads."""
        running = self._running
        return (
            self._task is not None
            and not self._task.done()
            and (running is None or running.is_running)
        )

    def watched_by(self, listener: Telemetry) -> None:
        self._listener = listener
        if self._running is not None:
            self._running.watched_by(listener)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="flowfabric-led-loops")

    async def stop(self, grace_s: float) -> None:
        """Lets running cycles finish within the grace, then resigns."""
        self._grace_s = grace_s
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None
        await self.election.resign()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if await self._until(self.election.won()):
                    await self._lead()
            except Exception:
                log.exception("leadership of the loops failed; resigning")
                await self.election.resign()
                await self._until(asyncio.sleep(RETRY_S))

    async def _lead(self) -> None:
        async with self._make() as supervisor:
            supervisor.watched_by(self._listener)
            supervisor.start()
            self._running = supervisor
            try:
                await self._until(self.election.lost())
            finally:
                self._running = None
                await supervisor.stop(self._grace_s)

    async def _until(self, event: Coroutine[object, object, None]) -> bool:
        """Waits for the event; False when stopped.

        `stop` does not cancel this task, so that opened resources are closed.
        """
        waiting = asyncio.ensure_future(event)
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stopping.cancel()
        await asyncio.gather(waiting, stopping, return_exceptions=True)
        if not waiting.cancelled():
            waiting.result()
        return not self._stopping.is_set()
