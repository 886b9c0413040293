"""Limits: reports of usage against one hot budget."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID, uuid4

from benchmarks.engines import opened
from benchmarks.report import Measured, percentile
from flowfabric import CreateBudgetArgs, Engine, HardBreach, ReportUsageAdminArgs

REPORT = "report-usage"
CALLERS = 50
WARM_UP = 500


async def run_reports(store: str, n: int, workers: int) -> list[Measured]:
    """`n` reports by fifty callers at once, each under its own key, with a limit that is never
    reached; the sum is checked.
    """
    async with opened(store) as (engine, _):
        budget = uuid4()
        await engine.create_budget(
            CreateBudgetArgs(
                budget_id=budget, dimensions=["tokens"], hard_limits=[10**12], soft_limits=[10**12]
            )
        )
        await _reports(engine, budget, WARM_UP)
        began = time.perf_counter()
        samples = await _reports(engine, budget, n)
        took = time.perf_counter() - began
        used = (await engine.get_budget_status(budget)).usage["tokens"]
        assert used == WARM_UP // CALLERS * CALLERS + len(samples), used
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    rate = len(samples) / took
    return [
        Measured(
            scenario=REPORT,
            store=store,
            system="flowfabric",
            n=len(samples),
            ops_per_s=rate,
            p50_ms=p50,
            p99_ms=p99,
        )
    ]


async def _reports(engine: Engine, budget: UUID, n: int) -> list[float]:
    shares = await asyncio.gather(*(_caller(engine, budget, n // CALLERS) for _ in range(CALLERS)))
    return [sample for share in shares for sample in share]


async def _caller(engine: Engine, budget: UUID, n: int) -> list[float]:
    samples = []
    for _ in range(n):
        args = ReportUsageAdminArgs(dimensions=["tokens"], deltas=[1], dedup_key=uuid4().hex)
        began = time.perf_counter()
        result = await engine.report_usage_admin(budget, args)
        samples.append(time.perf_counter() - began)
        assert not isinstance(result, HardBreach)
    return samples
