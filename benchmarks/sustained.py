"""Lives without a pause: what a queue that is used all the time leaves behind, and whether the
store clears it away in time.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.engines import fill, opened
from benchmarks.report import Measured
from benchmarks.submit_claim_complete import worker

NAME = "sustained"
PORTIONS = 10


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """Claimed and completed a second, in the first tenth and in each that follows."""
    each = n // PORTIONS
    found: list[Measured] = []
    async with opened(store) as (engine, _):
        for portion in range(1, PORTIONS + 1):
            await fill(engine, each)
            began = time.perf_counter()
            done = await asyncio.gather(*(worker(engine, k) for k in range(workers)))
            rate = each / (time.perf_counter() - began)
            assert sum(map(len, done)) == each
            scenario = f"{NAME}/{portion} of {PORTIONS}"
            found.append(
                Measured(
                    scenario=scenario, store=store, system="flowfabric", n=each, ops_per_s=rate
                )
            )
    return found
