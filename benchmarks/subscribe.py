"""Catching up: completion events from the first to the last through `subscribe_completion`, as a
consumer would.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from benchmarks.engines import BULK, opened
from benchmarks.memory_use import rss_mb
from benchmarks.report import Measured, percentile
from flowfabric import Engine, ExecutionId
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.model.event import COMPLETION_EVENTS
from flowfabric.plan import Arg, Emit, Form

NAME, MANY = "subscribe", "subscribers"
TURNS = 3
SUBSCRIBERS, EVERY_S = 1_000, 0.1
TELL = Form(
    "bench_tell",
    Emit(
        COMPLETION_EVENTS,
        "success",
        {
            "execution_id": Arg("execution_id"),
            "partition_key": Arg("partition_key"),
            "namespace": "default",
        },
    ),
)


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """The events of `n` executions, written without them; the middle one of a few readings."""
    async with opened(store) as (engine, _):
        await _tell(engine, n)
        rates = [await _caught_up(engine, n) for _ in range(TURNS)]
    return [Measured(scenario=NAME, store=store, system="flowfabric", n=n, ops_per_s=median(rates))]


async def _tell(engine: Engine, n: int) -> None:
    for at in range(0, n, BULK):
        idents = [ExecutionId.solo(f"lane-{k % 7}") for k in range(at, min(at + BULK, n))]
        plans = [TELL(execution_id=i.uuid, partition_key=i.partition_index) for i in idents]
        await engine.store.commit_many(plans)


async def _caught_up(engine: Engine, n: int) -> float:
    following, seen = engine.subscribe_completion(BEGINNING), 0
    began = time.perf_counter()
    async for _event in following:
        seen += 1
        if seen == n:
            break
    return n / (time.perf_counter() - began)


async def run_many(store: str, n: int, workers: int) -> list[Measured]:
    """A thousand subscribers on one engine, `n` events, ten a second: from commit to received."""
    lags: list[float] = []
    told: list[float] = []

    async def follow(engine: Engine) -> None:
        seen = 0
        async for _event in engine.subscribe_completion(BEGINNING):
            lags.append(time.perf_counter() - told[seen])
            seen += 1
            if seen == n:
                return

    async with opened(store) as (engine, _):
        before = rss_mb()
        following = [asyncio.create_task(follow(engine)) for _ in range(SUBSCRIBERS)]
        busy = time.process_time()
        for number in range(n):
            await asyncio.sleep(EVERY_S)
            told.append(time.perf_counter())
            ident = ExecutionId.solo(f"lane-{number % 7}")
            plan = TELL(execution_id=ident.uuid, partition_key=ident.partition_index)
            await engine.store.commit_many([plan])
        await asyncio.gather(*following)
        busy = time.process_time() - busy
        grown = rss_mb() - before
    system = f"{SUBSCRIBERS} subscribers, {grown:.1f} MB more, {busy / len(lags) * 1e6:.0f} us each"
    p50, p99 = percentile(lags, 0.5), percentile(lags, 0.99)
    return [Measured(scenario=MANY, store=store, system=system, n=n, p50_ms=p50, p99_ms=p99)]
