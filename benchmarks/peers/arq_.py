"""arq: many jobs at once in one process. It polls, so both polls are set far below their half a
second by default.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from arq import ArqRedis, create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker

from benchmarks.peers.commands import redis_url
from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled

MAX_JOBS = 100
PRODUCERS = 20
POLL_S = 0.001
DRAIN_SETTINGS = f"max_jobs {MAX_JOBS}, queue polled every 1 ms"
LATENCY_SETTINGS = "queue and result polled every 1 ms"
JOB = "noop"
RESULT = "ok"
RESULTS = "arq:result:*"
QUEUE = "arq:queue"


async def prepare(url: str) -> None:
    """It needs none."""


async def enqueue_many(url: str, n: int) -> float:
    """It has no call for many, so many are under way at a time."""
    async with _pool(url) as pool:
        started = time.perf_counter()
        for size in batches(n):
            shares = [size // PRODUCERS + (at < size % PRODUCERS) for at in range(PRODUCERS)]
            await asyncio.gather(*(_enqueue(pool, share) for share in shares))
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    async with _pool(url) as pool:
        started = time.perf_counter()
        await _enqueue(pool, n)
        return time.perf_counter() - started


async def _enqueue(pool: ArqRedis, n: int) -> None:
    for _ in range(n):
        await pool.enqueue_job(JOB, PAYLOAD)


async def completed(url: str) -> int:
    async with _pool(url) as pool:
        left = await pool.zcard(QUEUE)
        return len([key async for key in pool.scan_iter(RESULTS, count=1_000)]) - int(left)


async def drain(url: str, n: int) -> float:
    """A job is finished when its result is recorded and it is off the queue."""
    tally = Tally(n)

    async def noop(ctx: dict[Any, Any], payload: bytes) -> str:
        tally.start()
        return RESULT

    async def ended(ctx: dict[Any, Any]) -> None:
        tally.finish()

    async with _pool(url) as pool:
        worker = Worker(
            functions=[func(noop, name=JOB)],
            redis_pool=pool,
            burst=True,
            max_jobs=MAX_JOBS,
            poll_delay=POLL_S,
            after_job_end=ended,
            handle_signals=False,
        )
        await worker.async_run()
    return tally.seconds


async def serve(url: str) -> None:
    async def noop(ctx: dict[Any, Any], payload: bytes) -> str:
        return RESULT

    async with _pool(url) as pool:
        worker = Worker(
            functions=[func(noop, name=JOB)],
            redis_pool=pool,
            poll_delay=POLL_S,
            handle_signals=False,
        )
        await worker.async_run()


async def roundtrip(url: str, n: int) -> list[float]:
    async with _pool(url) as pool:

        async def once() -> None:
            job = await pool.enqueue_job(JOB, PAYLOAD)
            if job is None or await job.result(poll_delay=POLL_S) != RESULT:
                raise RuntimeError(f"{job!r} has another result")

        return await sampled(once, n)


@asynccontextmanager
async def _pool(url: str) -> AsyncIterator[ArqRedis]:
    pool = await create_pool(RedisSettings.from_dsn(redis_url(url)))
    try:
        yield pool
    finally:
        await pool.aclose()
