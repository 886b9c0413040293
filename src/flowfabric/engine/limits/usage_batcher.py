"""Counts what is reported: whatever came in for a budget while the last commit was under way is decided together in the next."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.limits.budget_reads import read_books
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


class _Job(Struct):
    report: Report
    answer: asyncio.Future[UsageResult]


async def pause(tries: int) -> None:
    """A counter that many report to moves all the time, so it is tried more often than anything else, at odd intervals."""
    if tries >= MAX_TRIES:
        raise Contention(ContentionKind.RETRY_EXHAUSTED)
    await asyncio.sleep(random.uniform(0, min(0.001 * tries, LONGEST_PAUSE_S)))  # noqa: S311


class UsageBatcher:
    """One per engine. `act` is called for a report that may have consequences for the execution it names."""

    def __init__(self, store: Store, act: Act) -> None:
        self._store, self._act = store, act
        self._waiting: dict[UUID, list[_Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._warned: dict[UUID, float] = {}

    def report(self, budget: UUID, report: Report) -> asyncio.Future[UsageResult]:
        job = _Job(report, asyncio.get_running_loop().create_future())
        queue = self._waiting.get(budget)
        if queue is not None:
            queue.append(job)
            return job.answer
        queue = self._waiting[budget] = [job]
        task = asyncio.create_task(self._drain(budget, queue))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._over(done, budget, queue))
        return job.answer

    def _over(self, task: asyncio.Task[None], budget: UUID, queue: list[_Job]) -> None:
        """Whoever is left was waiting for a count that was cancelled, perhaps before it began."""
        self._tasks.discard(task)
        if self._waiting.get(budget) is queue:
            del self._waiting[budget]
        for job in queue:
            job.answer.cancel()

    async def finish(self) -> None:
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _drain(self, budget: UUID, queue: list[_Job]) -> None:
        while queue:
            jobs = queue[:MAX_REPORTS]
            try:
                await self._count(budget, jobs)
            except Exception as error:
                for job in jobs:
                    if not job.answer.done():
                        job.answer.set_exception(error)
            del queue[: len(jobs)]
        del self._waiting[budget]

    async def _count(self, budget: UUID, jobs: list[_Job]) -> None:
        """What may have consequences is counted on its own, after those that came before it."""
        tries = 0
        while jobs:
            reports = [job.report for job in jobs]
            books = await read_books(self._store, budget, reports)
            found = budgets.count(books, reports)
            alone = self._first_to_act(books, jobs, found.results)
            if alone == 0:
                await self._alone(budget, jobs[0])
                jobs = jobs[1:]
                continue
            if alone:
                found = budgets.count(books, reports[:alone])
            plans = budgets.plans(books, found)
            if plans and not isinstance(await self._store.commit_together(plans), Applied):
                tries += 1
                await pause(tries)
                continue
            for job, result in zip(jobs, found.results, strict=False):
                self._answer(budget, job, result)
            jobs = jobs[len(found.results) :]

    def _first_to_act(
        self, books: BudgetRows, jobs: list[_Job], results: Sequence[object]
    ) -> int | None:
        for at, (job, result) in enumerate(zip(jobs, results, strict=True)):
            if isinstance(result, HardBreach) and budgets.has_consequences(
                books.policy, job.report
            ):
                return at
        return None

    async def _alone(self, budget: UUID, job: _Job) -> None:
        try:
            result: UsageResult | EngineError = await self._act(budget, job.report)
        except EngineError as error:
            result = error
        self._answer(budget, job, result)

    def _answer(self, budget: UUID, job: _Job, result: UsageResult | EngineError) -> None:
        if isinstance(result, HardBreach):
            self._warn(budget, result)
        if job.answer.done():
            return
        if isinstance(result, EngineError):
            job.answer.set_exception(result)
        else:
            job.answer.set_result(result)

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
