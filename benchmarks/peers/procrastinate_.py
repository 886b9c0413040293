"""Procrastinate on psycopg: a pool as large as the concurrency, as its discussion of pool sizes
says for short jobs.
"""

from __future__ import annotations

import asyncio
import time

from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.types import JSONDict

from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled

CONCURRENCY = 10
STATUS_POLL_S = 0.001
DRAIN_SETTINGS = f"concurrency {CONCURRENCY}"
LATENCY_SETTINGS = "status polled every 1 ms"
JOB = "noop"
ARGUMENTS: JSONDict = {"payload": PAYLOAD.decode()}


class TalliedManager(JobManager):
    """A job is finished when its status is committed."""

    tally: Tally

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        await super().finish_job(job, status, delete_job)
        self.tally.finish()


async def prepare(url: str) -> None:
    async with _app(url).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def enqueue_many(url: str, n: int) -> float:
    async with _app(url).open_async() as app:
        task = app.configure_task(JOB)
        started = time.perf_counter()
        for size in batches(n):
            await task.batch_defer_async(*(ARGUMENTS for _ in range(size)))
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    async with _app(url).open_async() as app:
        task = app.configure_task(JOB)
        started = time.perf_counter()
        for _ in range(n):
            await task.defer_async(**ARGUMENTS)
        return time.perf_counter() - started


async def completed(url: str) -> int:
    async with _app(url).open_async() as app:
        return sum([int(queue["succeeded"]) for queue in await app.job_manager.list_queues_async()])


async def drain(url: str, n: int) -> float:
    tally = Tally(n)
    app = _app(url, CONCURRENCY + 1)
    manager = TalliedManager(app.connector)
    manager.tally = tally
    app.job_manager = manager

    @app.task(name=JOB)
    async def noop(payload: str) -> None:
        tally.start()

    async with app.open_async():
        await app.run_worker_async(
            concurrency=CONCURRENCY, wait=False, install_signal_handlers=False
        )
    return tally.seconds


async def serve(url: str) -> None:
    app = _app(url)

    @app.task(name=JOB)
    async def noop(payload: str) -> None:
        return None

    async with app.open_async():
        await app.run_worker_async(install_signal_handlers=False)


async def roundtrip(url: str, n: int) -> list[float]:
    """It sends no notification when a job ends, so its status is polled, as often as is cheap."""
    async with _app(url).open_async() as app:
        task = app.configure_task(JOB)

        async def once() -> None:
            job = await task.defer_async(**ARGUMENTS)
            status = Status("todo")
            while status in (Status("todo"), Status.DOING):
                await asyncio.sleep(STATUS_POLL_S)
                status = await app.job_manager.get_job_status_async(job)
            if status != Status.SUCCEEDED:
                raise RuntimeError(f"job {job} ended as {status}")

        return await sampled(once, n)


def _app(url: str, pool_size: int = 4) -> App:
    return App(connector=PsycopgConnector(conninfo=url, min_size=pool_size, max_size=pool_size))
