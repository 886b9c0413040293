"""Loops that run in one process at a time: in the one that was elected, for as long as it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from flowfabric.loops.supervisor import Supervisor

GRACE_S = 5.0


class Election(Protocol):
    async def won(self) -> None: ...

    async def lost(self) -> None: ...

    async def resign(self) -> None: ...


class Led:
    def __init__(self, election: Election, supervisor: Callable[[], Supervisor]) -> None:
        self._election, self._make = election, supervisor
        self._task: asyncio.Task[None] | None = None
        self._running: Supervisor | None = None
        self._grace_s = GRACE_S

    @property
    def leads(self) -> bool:
        return self._running is not None

    @property
    def is_running(self) -> bool:
        """Whether it works, or stands by while another process does."""
        standing = self._task is not None and not self._task.done()
        return standing and (self._running is None or self._running.is_running)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="flowfabric-led-loops")

    async def stop(self, grace_s: float) -> None:
        """Lets running passes finish within the grace, then lets go of the lead."""
        self._grace_s = grace_s
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._running is not None:  # it was stepping down when we came
            await self._running.stop(grace_s)
            self._running = None
        await self._election.resign()

    async def _run(self) -> None:
        while True:
            await self._election.won()
            self._running = self._make()
            self._running.start()
            try:
                await self._election.lost()
            finally:
                await self._running.stop(self._grace_s)
                self._running = None
