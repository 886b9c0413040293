"""Cancels of many waiting executions by one bulk job, and the memory that this takes."""

from __future__ import annotations

import time

from benchmarks.engines import BULK, creations, opened
from benchmarks.memory_use import rss_mb
from benchmarks.report import Measured
from flowfabric import Engine
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkState
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState

NAME = "bulk-cancel"
WHERE = ExecutionFilter(state=(PublicState.WAITING,))
PAGES = 20


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """Creates `n` executions, counts them in a dry run, and cancels them with one job."""
    async with opened(store) as (engine, _):
        for at in range(0, n, BULK):
            await engine.create_executions(creations(min(BULK, n - at)))
        return [
            await _job(engine, store, n, dry_run=True),
            await _job(engine, store, n, dry_run=False),
        ]


async def _job(engine: Engine, store: str, n: int, *, dry_run: bool) -> Measured:
    args = BulkArgs(
        action=BulkAction.CANCEL,
        where=WHERE,
        requested_by="bench",
        reason="measured",
        dry_run=dry_run,
    )
    before, began = rss_mb(), time.perf_counter()
    job = await engine.start_bulk(args)
    highest = before
    while job.state is BulkState.RUNNING:
        job = await engine.run_bulk(job.job_id, PAGES)
        highest = max(highest, rss_mb())
    took = time.perf_counter() - began
    expected = (n, 0 if dry_run else n)
    assert (job.matched, job.changed) == expected, job
    return Measured(
        scenario=f"{NAME}/dry-run" if dry_run else NAME,
        store=store,
        system="flowfabric",
        n=n,
        ops_per_s=n / took,
        notes=f"memory {before:.0f} MB before, at most {highest:.0f} MB",
    )
