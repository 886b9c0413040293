"""Batches usage reports: reports that arrive during a commit are counted in the next one."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.limits.budget_reads import load_for_reports
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.errors import Contention, ContentionKind, EngineError
from flowfabric.model.budget import HardBreach, UsageResult
from flowfabric.plan import Applied
from flowfabric.rules.limits import budgets
from flowfabric.rules.limits.budgets import BudgetRows, Report
from flowfabric.store.port import Store

log = logging.getLogger("flowfabric.budgets")

MAX_REPORTS = 256
MAX_TRIES = 200
LONGEST_PAUSE_S = 0.05
WARN_EVERY_S = 60.0
MAX_WARNED = 1_000
ReportAlone = Callable[[UUID, Report], Awaitable[UsageResult]]


class _Pending(Struct):
    report: Report
    answer: asyncio.Future[UsageResult]


async def pause(tries: int) -> None:
    """Waits before another try.

    Counters that many callers report to change often, so there are many tries.
    """
    if tries >= MAX_TRIES:
        raise Contention(ContentionKind.RETRY_EXHAUSTED)
    await asyncio.sleep(random.uniform(0, min(0.001 * tries, LONGEST_PAUSE_S)))  # noqa: S311


class UsageBatcher:
    """One per engine.

    `report_alone` handles a refused report with consequences for its execution.
    """

    def __init__(self, store: Store, report_alone: ReportAlone, telemetry: TelemetrySlot) -> None:
        self._store, self._report_alone, self._telemetry = store, report_alone, telemetry
        self._queues: dict[UUID, list[_Pending]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._warned: dict[UUID, float] = {}

    def report(self, budget: UUID, report: Report) -> asyncio.Future[UsageResult]:
        pending = _Pending(report, asyncio.get_running_loop().create_future())
        queue = self._queues.get(budget)
        if queue is not None:
            queue.append(pending)
            return pending.answer
        queue = self._queues[budget] = [pending]
        task = asyncio.create_task(self._drain(budget, queue))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._drained(done, budget, queue))
        return pending.answer

    def _drained(self, task: asyncio.Task[None], budget: UUID, queue: list[_Pending]) -> None:
        """Cancels the reports that a cancelled task leaves in its queue."""
        self._tasks.discard(task)
        if self._queues.get(budget) is queue:
            del self._queues[budget]
        for pending in queue:
            pending.answer.cancel()

    async def finish(self) -> None:
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _drain(self, budget: UUID, queue: list[_Pending]) -> None:
        while queue:
            batch = queue[:MAX_REPORTS]
            try:
                await self._count(budget, batch)
            except Exception as error:
                for pending in batch:
                    if not pending.answer.done():
                        pending.answer.set_exception(error)
            del queue[: len(batch)]
        del self._queues[budget]

    async def _count(self, budget: UUID, batch: list[_Pending]) -> None:
        """Counts a batch in order.

        A report with consequences is counted alone, after those before it.
        """
        tries = 0
        while batch:
            reports = [pending.report for pending in batch]
            rows = await load_for_reports(self._store, budget, reports)
            counted = budgets.count(rows, reports)
            alone = _first_with_consequences(rows, reports, counted.results)
            if alone == 0:
                await self._count_alone(budget, batch[0])
                batch = batch[1:]
                continue
            if alone:
                counted = budgets.count(rows, reports[:alone])
            plans = budgets.plans(rows, counted)
            if plans and not isinstance(await self._store.commit_together(plans), Applied):
                tries += 1
                await pause(tries)
                continue
            for pending, result in zip(batch, counted.results, strict=False):
                self._answer(budget, pending, result)
            batch = batch[len(counted.results) :]

    async def _count_alone(self, budget: UUID, pending: _Pending) -> None:
        try:
            result: UsageResult | EngineError = await self._report_alone(budget, pending.report)
        except EngineError as error:
            result = error
        self._answer(budget, pending, result)

    def _answer(self, budget: UUID, pending: _Pending, result: UsageResult | EngineError) -> None:
        if isinstance(result, HardBreach):
            self._telemetry.listener.budget_hit(result.dimension)
            self._warn(budget, result)
        if pending.answer.done():
            return
        if isinstance(result, EngineError):
            pending.answer.set_exception(result)
        else:
            pending.answer.set_result(result)

    def _warn(self, budget: UUID, breach: HardBreach) -> None:
        """Once a minute and budget."""
        now = time.monotonic()
        if now - self._warned.get(budget, -math.inf) < WARN_EVERY_S:
            return
        if len(self._warned) >= MAX_WARNED:
            self._warned = {
                known: at for known, at in self._warned.items() if now - at < WARN_EVERY_S
            }
        self._warned[budget] = now
        log.warning(
            "usage report refused: the budget has no room",
            extra={
                "budget": str(budget),
                "dimension": breach.dimension,
                "used": breach.current_usage,
                "limit": breach.hard_limit,
            },
        )


def _first_with_consequences(
    rows: BudgetRows, reports: Sequence[Report], results: Sequence[UsageResult | EngineError]
) -> int | None:
    for position, (report, result) in enumerate(zip(reports, results, strict=True)):
        if isinstance(result, HardBreach) and budgets.has_consequences(rows.policy, report):
            return position
    return None
