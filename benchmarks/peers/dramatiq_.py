"""Dramatiq with its results on the same server, by its command. It polls when idle, so the longest
pause is set far below its second by default.
"""

from __future__ import annotations

import time
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis.asyncio import Redis

from benchmarks.peers.commands import drained, redis_url, served, tally_of_worker, url_of_worker
from benchmarks.peers.protocol import PAYLOAD, batches, sampled

THREADS, PREFETCH = 8, 128
PAUSE_MS = 5
DRAIN_SETTINGS = f"{THREADS} threads, prefetch {PREFETCH}"
LATENCY_SETTINGS = f"1 thread, queue polled every {PAUSE_MS} ms"
TEXT = PAYLOAD.decode()
TIMEOUT_MS = 30_000
RESULTS = "dramatiq-results"
TALLY = tally_of_worker()


class Tallied(dramatiq.Middleware):
    """A job is finished when it is acknowledged; its result is stored before."""

    def after_ack(self, broker: dramatiq.Broker, message: Any) -> None:
        if TALLY is not None:
            TALLY.finish()


def _noop(payload: str) -> str:
    if TALLY is not None:
        TALLY.start()
    return "ok"


def _actor(url: str) -> Any:
    broker = RedisBroker(url=url)
    results = RedisBackend(url=url, namespace=RESULTS, use_namespace_prefix_keys=True)
    broker.add_middleware(Results(backend=results))
    broker.add_middleware(Tallied())
    dramatiq.set_broker(broker)
    return dramatiq.actor(actor_name="noop", store_results=True)(_noop)


noop = _actor(url_of_worker())


async def prepare(url: str) -> None:
    """It needs none."""


async def enqueue_many(url: str, n: int) -> float:
    """It has no call for many."""
    actor = _actor(redis_url(url))
    started = time.perf_counter()
    for size in batches(n):
        for _ in range(size):
            actor.send(TEXT)
    return time.perf_counter() - started


enqueue_each = enqueue_many


async def completed(url: str) -> int:
    async with Redis.from_url(redis_url(url)) as db:
        left = await db.hlen("dramatiq:default.msgs")
        return len([key async for key in db.scan_iter(f"{RESULTS}:*", count=1_000)]) - int(left)


async def drain(url: str, n: int) -> float:
    return await drained(url, n, *_worker(THREADS), dramatiq_queue_prefetch=str(PREFETCH))


async def serve(url: str) -> None:
    await served(url, *_worker(1), dramatiq_worker_timeout=str(PAUSE_MS))


def _worker(threads: int) -> tuple[str, ...]:
    """One process, as of every system."""
    count = ("--processes", "1", "--threads", str(threads))
    return ("dramatiq", "benchmarks.peers.dramatiq_", *count, "--skip-logging")


async def roundtrip(url: str, n: int) -> list[float]:
    """The calls block this process's loop, which does nothing else."""
    actor = _actor(redis_url(url))

    async def once() -> None:
        result = actor.send(TEXT).get_result(block=True, timeout=TIMEOUT_MS)
        if result != "ok":
            raise RuntimeError(f"an actor returned {result!r}")

    return await sampled(once, n)
