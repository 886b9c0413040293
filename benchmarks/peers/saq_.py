"""SAQ with hiredis: workers wait for work in the server, callers follow jobs by their channel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from redis.asyncio import Redis
from saq import Job, Status, Worker
from saq.job import TERMINAL_STATUSES
from saq.queue.redis import RedisQueue

from benchmarks.peers.commands import redis_url
from benchmarks.peers.protocol import PAYLOAD, WARM_UP, Tally, batches, sampled

CONCURRENCY = 100
PRODUCERS = 20
DRAIN_SETTINGS = f"concurrency {CONCURRENCY}"
LATENCY_SETTINGS = "concurrency 1, result by its channel"
JOB = "noop"
TEXT = PAYLOAD.decode()
RESULT = "ok"
NAME = "bench"
TIMEOUT_S = 30.0
Q = TypeVar("Q", bound=RedisQueue)


class TalliedQueue(RedisQueue):
    """A job is finished when its end is committed."""

    tally: Tally
    last: asyncio.Event

    async def _finish(self, job: Job, status: Status, **kwargs: Any) -> None:
        await super()._finish(job, status, **kwargs)
        if self.tally.finish():
            self.last.set()


async def prepare(url: str) -> None:
    """It needs none."""


async def enqueue_many(url: str, n: int) -> float:
    """It has no call for many, so many are under way at a time, up to its own limit of 20."""
    async with _queue(url) as queue:
        started = time.perf_counter()
        for size in batches(n):
            await asyncio.gather(*(queue.enqueue(JOB, payload=TEXT) for _ in range(size)))
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    async with _queue(url) as queue:
        started = time.perf_counter()
        for _ in range(n):
            await queue.enqueue(JOB, payload=TEXT)
        return time.perf_counter() - started


async def completed(url: str) -> int:
    async with _queue(url) as queue:
        left = await queue.count("incomplete") + await queue.count("active")
        done = [job async for job in queue.iter_jobs([Status.COMPLETE], batch_size=1_000)]
        return len(done) - left


async def drain(url: str, n: int) -> float:
    tally = Tally(n)

    async def noop(ctx: Any, *, payload: str) -> str:
        tally.start()
        return RESULT

    tallied = TalliedQueue(Redis.from_url(redis_url(url)), name=NAME)
    tallied.tally, tallied.last = tally, asyncio.Event()
    async with _opened(tallied) as queue:
        await queue.sweep()  # the first sweep of a worker aborts jobs that it has just taken
        worker = Worker(queue, [(JOB, noop)], concurrency=CONCURRENCY)
        running = asyncio.create_task(worker.start())
        await queue.last.wait()
        await worker.stop()
        await running
    return tally.seconds


async def serve(url: str) -> None:
    async def noop(ctx: Any, *, payload: str) -> str:
        return RESULT

    async with _queue(url) as queue:
        await Worker(queue, [(JOB, noop)], concurrency=1).start()


async def roundtrip(url: str, n: int) -> list[float]:
    """The keys are known before, so that one listener hears of all: by its own `refresh`, which
    begins to listen after it has looked, an end in between is missed.
    """
    ended: asyncio.Queue[str] = asyncio.Queue()
    keys = [f"job-{at}" for at in range(WARM_UP + n)]

    def heard(key: str, status: Status) -> None:
        if status in TERMINAL_STATUSES:
            ended.put_nowait(key)

    async with _queue(url) as queue:
        listening = asyncio.create_task(queue.listen(keys, heard, timeout=None))
        wanted = iter(keys)

        async def once() -> None:
            key = next(wanted)
            job = await queue.enqueue(JOB, key=key, payload=TEXT)
            async with asyncio.timeout(TIMEOUT_S):
                while await ended.get() != key:
                    pass
            assert job is not None
            await job.refresh()
            if job.result != RESULT:
                raise RuntimeError(f"job {key} ended as {job.status}: {job.error}")

        samples = await sampled(once, n)
        listening.cancel()
        return samples


@asynccontextmanager
async def _queue(url: str) -> AsyncIterator[RedisQueue]:
    async with _opened(RedisQueue(Redis.from_url(redis_url(url)), name=NAME)) as queue:
        yield queue


@asynccontextmanager
async def _opened(queue: Q) -> AsyncIterator[Q]:
    await queue.connect()
    try:
        yield queue
    finally:
        await queue.disconnect()
