"""Batches usage reports: reports that arrive during a commit are counted in the next one."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from uuid import UUID

from flowfabric.engine import retry
from flowfabric.engine.batcher import Batcher
from flowfabric.engine.limits.budget_reads import load_for_reports
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.errors import EngineError
from flowfabric.model.budget import HardBreach, UsageResult
from flowfabric.plan import Applied
from flowfabric.rules.limits import budgets
from flowfabric.rules.limits.budgets import BudgetRows, Report
from flowfabric.store.port import Store

log = logging.getLogger("flowfabric.budgets")

MAX_REPORTS = 256
WARN_EVERY_S = 60.0
MAX_WARNED = 1_000
ReportAlone = Callable[[UUID, Report], Awaitable[UsageResult]]


class UsageBatcher:
    """One per engine. `report_alone` counts a report whose refusal has consequences."""

    def __init__(self, store: Store, report_alone: ReportAlone, telemetry: TelemetrySlot) -> None:
        self._store, self._report_alone, self._telemetry = store, report_alone, telemetry
        self._reports: Batcher[UUID, Report, UsageResult] = Batcher(
            self._count, MAX_REPORTS, keeps_cancelled=True
        )
        self._warned: dict[UUID, float] = {}

    def report(self, budget: UUID, report: Report) -> asyncio.Future[UsageResult]:
        return self._reports.submit(budget, report)

    async def finish(self) -> None:
        await self._reports.finish()

    async def _count(
        self, budget: UUID, reports: list[Report]
    ) -> Sequence[UsageResult | EngineError]:
        """Counts reports in order; one with consequences is counted alone, after those before."""
        for tries in count(1):
            rows = await load_for_reports(self._store, budget, reports)
            counted = budgets.count(rows, reports)
            alone = _first_with_consequences(rows, reports, counted.results)
            if alone == 0:
                return [self._noted(budget, await self._count_alone(budget, reports[0]))]
            if alone:
                counted = budgets.count(rows, reports[:alone])
            plans = budgets.plans(rows, counted)
            if not plans or isinstance(await self._store.commit_together(plans), Applied):
                return [self._noted(budget, result) for result in counted.results]
            await retry.pause(retry.CONTENDED, tries)
        raise AssertionError("the last pause raises")

    async def _count_alone(self, budget: UUID, report: Report) -> UsageResult | EngineError:
        try:
            return await self._report_alone(budget, report)
        except EngineError as error:
            return error

    def _noted(self, budget: UUID, result: UsageResult | EngineError) -> UsageResult | EngineError:
        if isinstance(result, HardBreach):
            self._telemetry.listener.budget_hit(result.dimension)
            self._warn(budget, result)
        return result

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
