"""The shape of a loop, and what the loops share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

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
    """`run` does what is due and says how much that was; `next_due` says when to look again, None for the interval.

    A `timed` loop has nothing to do before its next due time, and does not even try.
    """

    name: str
    topic: str
    timed: bool
    interval_ms: int

    async def run(self, engine: Engine) -> int: ...

    async def next_due(self, engine: Engine) -> int | None: ...


async def at_once_if_any(engine: Engine, index: str) -> int | None:
    """When a loop is due that has nothing to do while nobody waits in an index."""
    return None if await engine.store.next_due(index) is None else 0


class Worklist:
    """Executions of a declared index, one operation each. One that keeps failing is left alone for a while."""

    def __init__(self, name: str, wanted: ScannerFilter) -> None:
        self._name, self._wanted = name, wanted
        self._failures: dict[ExecutionId, int] = {}
        self._skipped: dict[ExecutionId, int] = {}

    async def each(
        self,
        engine: Engine,
        index: str,
        upto: int,
        work: Callable[[ExecutionId], Awaitable[Any]],
        group: dict[str, Any] | None = None,
    ) -> int:
        self._skipped = {ident: left - 1 for ident, left in self._skipped.items() if left > 1}
        done, after = 0, None
        while True:
            loaded = await engine.store.load(
                (Scan(index, group or {}, after, upto, BATCH, CORE_COLUMNS),)
            )
            page = [from_core_row(row) for row in loaded.rows[0]]
            done += await self._all(engine, [e.id for e in page if passes(e, self._wanted)], work)
            if len(page) < BATCH:
                return done
            after = tuple(getattr(page[-1], column) for column in INDEXES[index].order)

    async def several(
        self,
        engine: Engine,
        idents: list[ExecutionId],
        work: Callable[[ExecutionId], Awaitable[Any]],
    ) -> int:
        """As `each`, for executions found some other way."""
        self._skipped = {ident: left - 1 for ident, left in self._skipped.items() if left > 1}
        if idents and not self._wanted.empty:
            keys = [(ident.partition_index, ident.uuid) for ident in idents]
            found = [
                from_core_row(row)
                for row in (
                    await engine.store.load((GetAll("ff_exec_core", keys, CORE_COLUMNS),))
                ).rows[0]
            ]
            idents = [e.id for e in found if passes(e, self._wanted)]
        return await self._all(engine, idents, work)

    async def _all(
        self,
        engine: Engine,
        idents: list[ExecutionId],
        work: Callable[[ExecutionId], Awaitable[Any]],
    ) -> int:
        due = [ident for ident in idents if ident not in self._skipped]
        done = sum(await asyncio.gather(*(self._one(ident, work) for ident in due)))
        if done < len(due):
            engine.telemetry.scanner_errors(self._name, len(due) - done)
        return done

    async def _one(self, ident: ExecutionId, work: Callable[[ExecutionId], Awaitable[Any]]) -> int:
        try:
            await work(ident)
        except Exception:
            failures = self._failures.get(ident, 0) + 1
            self._failures[ident] = failures
            if failures >= MAX_FAILURES:
                del self._failures[ident]
                self._skipped[ident] = SKIPPED_CYCLES + 1
                log.warning(
                    "%s: %s failed %d times; leaving it for %d cycles",
                    *(self._name, ident, failures, SKIPPED_CYCLES),
                    exc_info=True,
                    extra={"scanner": self._name, "execution_id": str(ident), "count": failures},
                )
            return 0
        self._failures.pop(ident, None)
        return 1
