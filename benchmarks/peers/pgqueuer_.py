"""PgQueuer on asyncpg, by its performance guide: autovacuum tuned, a pool for throughput, one
connection where latency counts.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.core.completion import CompletionWatcher
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job, TracebackRecord
from pgqueuer.queries import Queries
from pgqueuer.types import JOB_STATUS, QueueExecutionMode

from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled

DRAIN_BATCH = 100
LATENCY_BATCH = 1
DEBOUNCE = timedelta(milliseconds=1)
DRAIN_SETTINGS = f"batch_size {DRAIN_BATCH}, connection pool"
LATENCY_SETTINGS = f"batch_size {LATENCY_BATCH}, watcher debounce 1 ms"
JOB = "noop"


class TalliedQueries(Queries):
    """Completions are buffered, so a job is finished when its batch is committed, not when its
    handler returns.
    """

    tally: Tally

    async def log_jobs(
        self, job_status: list[tuple[Job, JOB_STATUS, TracebackRecord | None]]
    ) -> None:
        await super().log_jobs(job_status)
        self.tally.finish(len(job_status))


async def prepare(url: str) -> None:
    async with _driver(url) as driver:
        queries = Queries(driver)
        await queries.install()
        await queries.optimize_autovacuum()


async def enqueue_many(url: str, n: int) -> float:
    async with _driver(url) as driver:
        queries = Queries(driver)
        started = time.perf_counter()
        for size in batches(n):
            await queries.enqueue([JOB] * size, [PAYLOAD] * size, [0] * size)
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    async with _driver(url) as driver:
        queries = Queries(driver)
        started = time.perf_counter()
        for _ in range(n):
            await queries.enqueue(JOB, PAYLOAD)
        return time.perf_counter() - started


async def completed(url: str) -> int:
    async with _driver(url) as driver:
        rows = await driver.fetch(
            "SELECT count(*) AS done FROM pgqueuer_log WHERE status = 'successful'"
        )
        return int(str(rows[0]["done"]))


async def drain(url: str, n: int) -> float:
    tally = Tally(n)
    async with asyncpg.create_pool(url, min_size=5, max_size=20) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = TalliedQueries(driver)
        queries.tally = tally
        queuer = PgQueuer(driver, queries=queries)

        @queuer.entrypoint(JOB)
        async def noop(job: Job) -> None:
            tally.start()

        await queuer.run(batch_size=DRAIN_BATCH, mode=QueueExecutionMode.drain)
    return tally.seconds


async def serve(url: str) -> None:
    async with _driver(url) as driver:
        queuer = PgQueuer(driver)

        @queuer.entrypoint(JOB)
        async def noop(job: Job) -> None:
            return None

        await queuer.run(batch_size=LATENCY_BATCH)


async def roundtrip(url: str, n: int) -> list[float]:
    samples: list[float] = []
    async with _driver(url) as producing, _driver(url) as watching:
        queries = Queries(producing)
        async with CompletionWatcher(
            watching, queries=Queries(watching), debounce=DEBOUNCE
        ) as watcher:

            async def once() -> None:
                [job] = await queries.enqueue(JOB, PAYLOAD)
                status = await watcher.wait_for(job)
                if status != "successful":
                    raise RuntimeError(f"job {job} ended as {status}")

            samples += await sampled(once, n)
    return samples


@asynccontextmanager
async def _driver(url: str) -> AsyncIterator[AsyncpgDriver]:
    connection = await asyncpg.connect(url)
    try:
        yield AsyncpgDriver(connection)
    finally:
        await connection.close()
