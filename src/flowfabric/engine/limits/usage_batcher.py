"""Counts what is reported: whatever came in for a budget while the last commit was under way is decided together in the next."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from flowfabric.engine.batcher import Batcher
from flowfabric.engine.limits.budget_reads import read_books
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
Act = Callable[[UUID, Report], Awaitable[UsageResult]]


async def pause(tries: int) -> None:
    """A counter that many report to moves all the time, so it is tried more often than anything else, at odd intervals."""
    if tries >= MAX_TRIES:
        raise Contention(ContentionKind.RETRY_EXHAUSTED)
    await asyncio.sleep(random.uniform(0, min(0.001 * tries, LONGEST_PAUSE_S)))  # noqa: S311


class UsageBatcher:
    """One per engine. `act` is called for a report that may have consequences for the execution it names."""

    def __init__(self, store: Store, act: Act, telemetry: TelemetrySlot) -> None:
        self._store, self._act, self._telemetry = store, act, telemetry
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
        """What may have consequences is counted on its own, after those that came before it."""
        tries = 0
        while True:
            books = await read_books(self._store, budget, reports)
            found = budgets.count(books, reports)
            alone = self._first_to_act(books, reports, found.results)
            if alone == 0:
                return [self._noted(budget, await self._alone(budget, reports[0]))]
            if alone:
                found = budgets.count(books, reports[:alone])
            plans = budgets.plans(books, found)
            if not plans or isinstance(await self._store.commit_together(plans), Applied):
                return [self._noted(budget, result) for result in found.results]
            tries += 1
            await pause(tries)

    def _first_to_act(
        self, books: BudgetRows, reports: list[Report], results: Sequence[object]
    ) -> int | None:
        for at, (report, result) in enumerate(zip(reports, results, strict=True)):
            if isinstance(result, HardBreach) and budgets.acts(books.policy, report):
                return at
        return None

    async def _alone(self, budget: UUID, report: Report) -> UsageResult | EngineError:
        try:
            return await self._act(budget, report)
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
        if now - self._warned.get(budget, -math.inf) >= WARN_EVERY_S:
            if len(self._warned) >= MAX_WARNED:
                self._warned = {
                    known: at for known, at in self._warned.items() if now - at < WARN_EVERY_S
                }
            self._warned[budget] = now
            said = (budget, breach.dimension, breach.current_usage, breach.hard_limit)
            log.warning("budget %s: a report was refused, %s is at %d of %d", *said)
