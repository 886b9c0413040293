"""The interface of a background loop, and what the loops share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.engine.filters import passes
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.store.port import GetAll, Scan
from flowfabric.store.schema import INDEXES

log = logging.getLogger("flowfabric.loops")

BATCH = 100
MAX_FAILURES = 3
SKIPPED_CYCLES = 10


class Loop(Protocol):
    """One background loop.

    `run` does what is due and returns the number of items done. `next_due` is the time of the next
    item, or None to sleep for the interval. A `timed` loop runs only when something is due. `topic`
    wakes the loop.
    """

    name: str
    topic: str
    timed: bool
    interval_ms: int

    async def run(self, engine: Engine) -> int: ...

    async def next_due(self, engine: Engine) -> int | None: ...


class BaseLoop:
    """The fields of a loop that is due at the first entry of `index`; without one, per interval."""

    name: str
    topic: str
    timed: bool = False
    index: str = ""

    def __init__(self, settings: LoopSettings, interval_ms: int) -> None:
        self.interval_ms, self.wanted = interval_ms, settings.wanted

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due(self.index) if self.index else None


async def due_if_any(engine: Engine, index: str) -> int | None:
    """Due at once if the index has an entry, else None."""
    return None if await engine.store.next_due(index) is None else 0


async def drain(step: Callable[[], Awaitable[int]]) -> int:
    """Call `step` until it returns 0; the sum of its results."""
    total = 0
    while (done := await step()) > 0:
        total += done
    return total


class Worklist:
    """Applies an operation to each execution of an index.

    An execution that fails MAX_FAILURES times is skipped for SKIPPED_CYCLES cycles.
    """

    def __init__(self, name: str, wanted: ScannerFilter) -> None:
        self._name, self._wanted = name, wanted
        self._failures: dict[ExecutionId, int] = {}
        self._skipped: dict[ExecutionId, int] = {}

    async def run_index(
        self,
        engine: Engine,
        index: str,
        upto: int,
        work: Callable[[ExecutionId], Awaitable[object]],
        group: Mapping[str, object] | None = None,
    ) -> int:
        self._count_cycle()
        done, after = 0, None
        while True:
            loaded = await engine.store.load(
                (Scan(index, dict(group or {}), after, upto, BATCH, CORE_COLUMNS),)
            )
            page = [from_core_row(row) for row in loaded.rows[0]]
            wanted = [e.id for e in page if passes(e, self._wanted)]
            done += await self._run_all(engine, wanted, work)
            if len(page) < BATCH:
                return done
            after = tuple(getattr(page[-1], column) for column in INDEXES[index].order)

    async def run_ids(
        self,
        engine: Engine,
        idents: list[ExecutionId],
        work: Callable[[ExecutionId], Awaitable[object]],
    ) -> int:
        """As `run_index`, for given executions."""
        self._count_cycle()
        if idents and not self._wanted.empty:
            keys = [(ident.partition_index, ident.uuid) for ident in idents]
            loaded = await engine.store.load((GetAll("ff_exec_core", keys, CORE_COLUMNS),))
            found = [from_core_row(row) for row in loaded.rows[0]]
            idents = [e.id for e in found if passes(e, self._wanted)]
        return await self._run_all(engine, idents, work)

    def _count_cycle(self) -> None:
        self._skipped = {ident: left - 1 for ident, left in self._skipped.items() if left > 1}

    async def _run_all(
        self,
        engine: Engine,
        idents: list[ExecutionId],
        work: Callable[[ExecutionId], Awaitable[object]],
    ) -> int:
        due = [ident for ident in idents if ident not in self._skipped]
        done = sum(await asyncio.gather(*(self._run_one(ident, work) for ident in due)))
        if done < len(due):
            engine.telemetry.scanner_errors(self._name, len(due) - done)
        return done

    async def _run_one(
        self, ident: ExecutionId, work: Callable[[ExecutionId], Awaitable[object]]
    ) -> int:
        try:
            await work(ident)
        except Exception:
            self._on_failure(ident)
            return 0
        self._failures.pop(ident, None)
        return 1

    def _on_failure(self, ident: ExecutionId) -> None:
        failures = self._failures.get(ident, 0) + 1
        self._failures[ident] = failures
        if failures < MAX_FAILURES:
            return
        del self._failures[ident]
        self._skipped[ident] = SKIPPED_CYCLES + 1
        log.warning(
            "execution failed repeatedly in a background loop; skipping it",
            exc_info=True,
            extra={
                "scanner": self._name,
                "execution_id": str(ident),
                "count": failures,
                "skipped_cycles": SKIPPED_CYCLES,
            },
        )
