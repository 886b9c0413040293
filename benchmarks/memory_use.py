"""How much memory an idle engine takes, and whether it grows while 100,000 executions
pass through.
"""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

from benchmarks.engines import BULK, LANE, creations, opened
from benchmarks.report import Measured
from flowfabric import ClaimPolicy, Engine

NAME = "memory"


def rss_mb() -> float:
    """What is resident now; the peak where the system does not tell."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def run(store: str, n: int, workers: int) -> list[Measured]:
    async with opened(store) as (engine, _):
        results = [_line(store, "idle", 0, rss_mb())]
        highest = 0.0
        for at in range(0, n, BULK):
            await engine.create_executions(creations(min(BULK, n - at)))
            await asyncio.gather(*(_drain(engine, k) for k in range(workers)))
            if at >= n // 10:
                highest = max(highest, rss_mb())
            elif at < n // 10 <= at + BULK:
                results.append(_line(store, "warm, after a tenth", at + BULK, rss_mb()))
        results.append(_line(store, "highest of the rest", n, highest))
    return results


def _line(store: str, when: str, n: int, megabytes: float) -> Measured:
    return Measured(scenario=NAME, store=store, system=f"{when}: {megabytes:.1f} MB", n=n)


async def _drain(engine: Engine, number: int) -> None:
    policy = ClaimPolicy("bench", f"bench-{number}", 30_000)
    while work := await engine.claim_many(LANE, (), policy, 50):
        await engine.complete_many([(each.handle, b"ok") for each in work])
