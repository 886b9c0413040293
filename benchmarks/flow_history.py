"""The whole history of a large flow, page by page."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from uuid import UUID

from benchmarks.engines import LANE, opened
from benchmarks.flows import graph_of
from benchmarks.report import Measured
from flowfabric import ClaimPolicy, Engine
from flowfabric.model.history import MAX_HISTORY

NAME = "flow-history"
ROUNDS = 3
BATCH = 100
SETTLED_S = 5.0
"""A history that is still written is read again, so the measured one is older than this."""


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """A flow of `n` members without edges that have all run. A sample is the whole history."""
    samples = []
    async with opened(store) as (engine, _):
        graph = graph_of(n, [])
        await engine.submit_flow(graph)
        await _finish(engine)
        await asyncio.sleep(SETTLED_S)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            entries = await _read(engine, graph.flow_id)
            samples.append(time.perf_counter() - began)
            assert entries == 3 * n + 1, entries
    took = median(samples)
    return [
        Measured(
            scenario=NAME,
            store=store,
            system="flowfabric",
            n=n,
            p50_ms=took * 1_000,
            ops_per_s=entries / took,
        )
    ]


async def _finish(engine: Engine) -> None:
    policy = ClaimPolicy("bench", "bench-1", 60_000)
    works = await engine.claim_many(LANE, (), policy, BATCH)
    while works:
        ends = [(work.handle, b"ok") for work in works]
        _, works = await engine.complete_and_claim(ends, LANE, (), policy, BATCH)
        works = works or await engine.claim_many(LANE, (), policy, BATCH)


async def _read(engine: Engine, flow: UUID) -> int:
    entries, after = 0, None
    while True:
        page = await engine.history(flow, MAX_HISTORY, after)
        entries += len(page.items)
        after = page.next_cursor
        if after is None:
            return entries
