"""Whether a claim gets slower as work piles up."""

from __future__ import annotations

import time

from benchmarks.engines import LANE, fill, opened
from benchmarks.report import Measured, percentile
from flowfabric import ClaimPolicy, Engine

NAME = "backlog-growth"
SMALL = 1_000
CLAIMS = 300


async def run(store: str, n: int, workers: int) -> list[Measured]:
    async with opened(store) as (engine, _):
        await fill(engine, SMALL)
        await _claims(engine, 50)
        small = await _claims(engine, CLAIMS)
        await fill(engine, n - SMALL)
        large = await _claims(engine, CLAIMS)
    base = percentile(small, 0.5)
    return [_line(store, SMALL, small, None), _line(store, n, large, base)]


def _line(store: str, queued: int, samples: list[float], base_p50: float | None) -> Measured:
    """Here the ratio is the median against the small backlog's, not against a raw limit."""
    p50 = percentile(samples, 0.5)
    return Measured(
        scenario=NAME,
        store=store,
        system=f"flowfabric, {queued} queued",
        n=queued,
        ops_per_s=len(samples) / sum(samples),
        p50_ms=p50,
        p99_ms=percentile(samples, 0.99),
        raw_ops_per_s=None if base_p50 is None else 1000 / base_p50,
        ratio_to_raw=None if base_p50 is None else p50 / base_p50,
    )


async def _claims(engine: Engine, count: int) -> list[float]:
    policy = ClaimPolicy("bench", "bench-1", 600_000)
    samples = []
    for _ in range(count):
        started = time.perf_counter()
        assert await engine.claim(LANE, (), policy) is not None
        samples.append(time.perf_counter() - started)
    return samples
