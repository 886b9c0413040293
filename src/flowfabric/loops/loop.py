"""The base class of background loops, and what they share."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.engine.filters import passes
from flowfabric.engine.snapshots import CORE_COLUMNS, core_of, pages
from flowfabric.ids import ExecutionId
from flowfabric.store.port import Scan

log = logging.getLogger("flowfabric.loops")

BATCH = 100
MAX_FAILURES = 3
SKIPPED_CYCLES = 10
Work = Callable[[ExecutionId], Awaitable[object]]


class Loop(ABC):
    """One background loop.

    It is due at the first entry of `index`; without an index it sleeps for its interval, the field
    `setting` of `LoopSettings`, by default its name with `_ms`. A `timed` loop runs only when
    something is due. `topic` wakes it.
    """

    name: str
    topic: str
    setting: str = ""
    timed: bool = False
    index: str = ""

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms: int = getattr(settings, self.setting or f"{self.name}_ms")
        self.wanted = settings.wanted
        self.failures = Failures(self.name)

    @abstractmethod
    async def run(self, engine: Engine) -> int:
        """Does what is due; returns the number of items done."""

    async def next_due(self, engine: Engine) -> int | None:
        """The time of the next item, or None to sleep for the interval."""
        return await engine.store.next_due(self.index) if self.index else None

    async def run_index(
        self,
        engine: Engine,
        index: str,
        upto: int,
        work: Work,
        failures: Failures | None = None,
    ) -> int:
        """Applies an operation to each execution of an index that passes the filter."""
        scan = Scan(index, upto=upto, limit=BATCH, columns=CORE_COLUMNS)
        found = (
            [each.id for each in page if passes(each, self.wanted)]
            async for page in pages(engine.store, scan, core_of)
        )
        return await (failures or self.failures).run(engine, found, work)


async def due_if_any(engine: Engine, index: str) -> int | None:
    """Due at once if the index has an entry, else None."""
    return None if await engine.store.next_due(index) is None else 0


async def drain(step: Callable[[], Awaitable[int]]) -> int:
    """Calls `step` until it returns 0; the sum of its results."""
    total = 0
    while (done := await step()) > 0:
        total += done
    return total


class Failures:
    """Skips an execution that fails `MAX_FAILURES` times for `SKIPPED_CYCLES` cycles."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._failures: dict[ExecutionId, int] = {}
        self._skipped: dict[ExecutionId, int] = {}

    async def run(
        self, engine: Engine, batches: AsyncIterator[list[ExecutionId]], work: Work
    ) -> int:
        """One cycle; returns the number of executions that did not fail."""
        self._skipped = {ident: left - 1 for ident, left in self._skipped.items() if left > 1}
        done = 0
        async for batch in batches:
            due = [ident for ident in batch if ident not in self._skipped]
            passed = sum(await asyncio.gather(*(self._run_one(ident, work) for ident in due)))
            if passed < len(due):
                engine.telemetry.scanner_errors(self._name, len(due) - passed)
            done += passed
        return done

    async def _run_one(self, ident: ExecutionId, work: Work) -> bool:
        try:
            await work(ident)
        except Exception:
            self._on_failure(ident)
            return False
        self._failures.pop(ident, None)
        return True

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
