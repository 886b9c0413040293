"""The loops of all cells of a deployment, in the process that leads those of its base cell.

A cell sleeps while nothing happens in it: it costs one read every few seconds, and no tasks. It is
woken by a commit, by the time of its next timer, and now and then for what has no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.errors import EngineError
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.wakeups import Topic, Wakeups

log = logging.getLogger("flowfabric.loops")

LOOK_S = 5.0
"""So often the register and the sleeping cells are looked at, should a message be lost."""
REGISTERED = "cells"
"""The topic of the base cell that tells of a new one."""
QUIET_S = 10.0
"""A cell sleeps after this time without a commit, unless a timer is due sooner."""
VISIT_S = 300.0
"""The longest sleep: for retention, and for repairs that no commit asks for."""
AFTER_ERROR_S = 5.0
VISITS_AT_ONCE = 16
GRACE_S = 5.0


class Directory(Protocol):
    """The cells beside the base cell."""

    async def names(self) -> list[str]: ...

    async def last_commits(self, namespaces: Sequence[str]) -> list[object]:
        """A value per cell that differs after a commit; None where the cell did not answer."""


OpenCell = Callable[[str, Wakeups], Awaitable[Engine]]


class WatchedWakeups(Wakeups):
    """Tells of every wake-up in a cell."""

    def __init__(self, on_wake: Callable[[], None]) -> None:
        super().__init__()
        self._on_wake = on_wake

    def ring(self, topics: Iterable[Topic]) -> None:
        listed = list(topics)
        if listed:
            self._on_wake()
        super().ring(listed)

    def due(self, timer: str, at_ms: float) -> None:
        self._on_wake()
        super().due(timer, at_ms)


class CellSupervisor:
    """The loops of one cell, which run while something happens in it."""

    def __init__(
        self,
        namespace: str,
        directory: Directory,
        open_cell: OpenCell,
        settings: LoopSettings,
        turns: asyncio.Semaphore,
    ) -> None:
        self._namespace, self._open_cell, self._settings = namespace, open_cell, settings
        self._directory, self._turns = directory, turns
        self.stirred = asyncio.Event()
        self.seen: object = None
        """The last commit of a sleeping cell; None while its loops run, which commit as well."""
        self.engine: Engine | None = None
        self._stopping = asyncio.Event()
        self._grace_s = GRACE_S

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._live()
            except Exception:
                log.exception(
                    "loops of a cell failed; retrying", extra={"namespace": self._namespace}
                )
                await self._within(AFTER_ERROR_S, self._stopping)
        if self.engine is not None:
            await self.engine.close()

    async def _live(self) -> None:
        if self.engine is None:
            self.engine = await self._open_cell(self._namespace, WatchedWakeups(self.stirred.set))
        async with self._turns:
            self.stirred.clear()
            self.seen = None
            supervisor = Supervisor(self.engine, self._settings)
            await supervisor.run_once()
            wait_s = await self._until_due(supervisor)
        while not self._stopping.is_set():
            if not await self._within(min(wait_s, VISIT_S), self.stirred) and wait_s > VISIT_S:
                return
            if self._stopping.is_set():
                return
            wait_s = await self._awake(self.engine)

    async def _awake(self, engine: Engine) -> float:
        """Runs the loops until the cell is quiet; the seconds until its next timer."""
        supervisor = Supervisor(engine, self._settings)
        self.seen = None
        supervisor.start(announced=False)
        try:
            while True:
                self.stirred.clear()
                if self._stopping.is_set():
                    return 0.0
                if await self._within(QUIET_S, self.stirred):
                    continue
                async with self._turns:
                    wait_s = await self._until_due(supervisor)
                if wait_s > QUIET_S and not self.stirred.is_set():
                    return wait_s
        finally:
            await supervisor.stop(self._grace_s)

    async def _until_due(self, supervisor: Supervisor) -> float:
        """Commits from now on, and only these, are missing in the answer."""
        (self.seen,) = await self._directory.last_commits([self._namespace])
        due = await supervisor.next_due()
        if due is None or self.engine is None:
            return float("inf")
        return max(due - await self.engine.store.now_ms(), 0) / 1_000

    async def _within(self, seconds: float, event: asyncio.Event) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
                return True
        return False

    def watched_by(self, listener: Telemetry) -> None:
        if self.engine is not None:
            self.engine.watched_by(listener)

    def stop(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._stopping.set()
        self.stirred.set()


class CellLoops:
    """The loops of the base cell, and of every cell that it registers."""

    def __init__(
        self, base: Engine, directory: Directory, open_cell: OpenCell, settings: LoopSettings
    ) -> None:
        self._base, self._hub = Supervisor(base, settings), base.store.hub
        self._directory, self._open_cell, self._settings = directory, open_cell, settings
        self._new = self._hub.waiter((REGISTERED, None))
        self._turns = asyncio.Semaphore(VISITS_AT_ONCE)
        self.cells: dict[str, CellSupervisor] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._listener: Telemetry | None = None

    @property
    def is_running(self) -> bool:
        looks = self._looking is not None and not self._looking.done()
        return looks and self._base.is_running

    def watched_by(self, listener: Telemetry) -> None:
        self._listener = listener
        self._base.watched_by(listener)
        for each in self.cells.values():
            each.watched_by(listener)

    def start(self) -> None:
        self._base.start()
        self._looking = asyncio.create_task(self._look(), name="flowfabric-cells")

    async def stop(self, grace_s: float) -> None:
        self._stopping.set()
        self._new.ring()
        for each in self.cells.values():
            each.stop(grace_s)
        if self._looking is not None:
            await self._looking
        await asyncio.gather(self._base.stop(grace_s), *self._tasks, return_exceptions=True)

    async def _look(self) -> None:
        with self._new as new:
            while not self._stopping.is_set():
                new.arm()
                try:
                    await self.look()
                except EngineError as error:
                    log.warning("the cells cannot be listed; retrying", extra={"error": error.code})
                if not self._stopping.is_set():
                    await new.wait(LOOK_S)

    async def look(self) -> None:
        """Runs the loops of new cells, and wakes those with commits that no message told of."""
        for name in await self._directory.names():
            if name not in self.cells and not self._stopping.is_set():
                self._add(name)
        asleep = [name for name, each in self.cells.items() if each.seen is not None]
        for name, last in zip(asleep, await self._directory.last_commits(asleep), strict=True):
            cell = self.cells[name]
            if None not in (last, cell.seen) and last != cell.seen:
                cell.stirred.set()

    def _add(self, name: str) -> None:
        cell = self.cells[name] = CellSupervisor(
            name, self._directory, self._opened, self._settings, self._turns
        )
        task = asyncio.create_task(cell.run(), name=f"flowfabric-cell-{name}")
        self._tasks.add(task)

    async def _opened(self, name: str, hub: Wakeups) -> Engine:
        engine = await self._open_cell(name, hub)
        if self._listener is not None:
            engine.watched_by(self._listener)
        return engine
