"""Celery with its results on the same server, by its guide to optimizing: many jobs prefetched, and
no event that only monitors read. A job is acknowledged when it is done, as all others do.
"""

from __future__ import annotations

import time
from typing import Any

from celery import Celery
from celery.worker.request import Request
from redis.asyncio import Redis

from benchmarks.peers.commands import drained, redis_url, served, tally_of_worker, url_of_worker
from benchmarks.peers.protocol import PAYLOAD, batches, sampled

PREFETCH = 128
THREADS = 8
DRAIN_POOL, LATENCY_POOL = ("--pool=threads", f"--concurrency={THREADS}"), ("--pool=solo",)
DRAIN_SETTINGS = f"pool of {THREADS} threads, acks late, prefetch {PREFETCH}"
LATENCY_SETTINGS = "pool solo, acks late, result by its channel"
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")
TEXT = PAYLOAD.decode()
TIMEOUT_S = 30.0
TALLY = tally_of_worker()


class TalliedRequest(Request):
    """A job is finished when it is acknowledged; its result is stored before."""

    def acknowledge(self) -> None:
        super().acknowledge()
        if TALLY is not None:
            TALLY.finish()


def _app(url: str) -> Celery:
    app = Celery("bench", broker=url, backend=url)
    app.conf.update(
        task_acks_late=True,
        worker_prefetch_multiplier=PREFETCH,
        worker_disable_rate_limits=True,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
    )
    return app


def _noop(payload: str) -> str:
    if TALLY is not None:
        TALLY.start()
    return "ok"


app = _app(url_of_worker())
app.task(name="noop", Request=TalliedRequest)(_noop)


async def prepare(url: str) -> None:
    """It needs none."""


async def enqueue_many(url: str, n: int) -> float:
    """It has no call for many, so many share a producer."""
    app, task = _client(url)
    with app.producer_or_acquire() as producer:
        started = time.perf_counter()
        for size in batches(n):
            for _ in range(size):
                task.apply_async((TEXT,), producer=producer)
        return time.perf_counter() - started


enqueue_each = enqueue_many


async def completed(url: str) -> int:
    async with Redis.from_url(redis_url(url)) as db:
        left = await db.llen("celery") + await db.hlen("unacked")
        keys = [key async for key in db.scan_iter("celery-task-meta-*", count=1_000)]
        results = await db.mget(keys) if keys else []
        return sum(b'"SUCCESS"' in each for each in results if each) - int(left)


async def drain(url: str, n: int) -> float:
    return await drained(url, n, *_worker(*DRAIN_POOL))


async def serve(url: str) -> None:
    await served(url, *_worker(*LATENCY_POOL))


def _worker(*pool: str) -> tuple[str, ...]:
    return ("celery", "-A", "benchmarks.peers.celery_", "worker", *pool, *QUIET)


async def roundtrip(url: str, n: int) -> list[float]:
    """The calls block this process's loop, which does nothing else."""
    _, task = _client(url)

    async def once() -> None:
        result = task.apply_async((TEXT,)).get(timeout=TIMEOUT_S)
        if result != "ok":
            raise RuntimeError(f"a task returned {result!r}")

    return await sampled(once, n)


def _client(url: str) -> tuple[Celery, Any]:
    app = _app(redis_url(url))
    return app, app.task(name="noop")(_noop)
