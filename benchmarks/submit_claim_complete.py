"""The whole life: submitted in bulk, claimed and completed by concurrent workers; and one life at a
time.

Each worker holds one execution at a time, and says of it that it is done in the call that asks for
the next, as `Worker` does;
`two-calls` is the same with two. Engine and raw rival take turns in rounds, so that a slow moment
of the machine hits both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

from msgspec import Struct

from benchmarks.engines import BULK, LANE, Rival, creations, opened
from benchmarks.report import Measured, percentile
from flowfabric import ClaimPolicy, Engine

NAME, TWO_CALLS = "submit-claim-complete", "two-calls"
ROUNDS = 5
SEQUENTIAL = 100
Work = Callable[[Engine, int], Awaitable[list[float]]]
RAW = {"sqlite": "raw sqlite3", "postgres": "raw asyncpg", "valkey": "raw glide"}


class Lives(Struct):
    """How many a second, the submission included; how long a worker had each; how many were
    submitted a second.
    """

    rate: float
    samples: list[float]
    create_rate: float


class Round(Struct):
    """Rates and seconds of one turn; the raw ones are empty where there is no raw rival."""

    lives: Lives
    alone: list[float]
    raw_rate: float | None
    raw_alone: list[float]


async def run(store: str, n: int, workers: int) -> list[Measured]:
    return await _run(NAME, worker, store, n, workers)


async def run_two_calls(store: str, n: int, workers: int) -> list[Measured]:
    return await _run(TWO_CALLS, _apart, store, n, workers)


async def _run(scenario: str, work: Work, store: str, n: int, workers: int) -> list[Measured]:
    async with opened(store) as (engine, open_raw):
        raw = await open_raw()
        rounds = [await _round(engine, raw, work, n // ROUNDS, workers) for _ in range(ROUNDS)]
        if raw is not None:
            await raw.close()
    raw_alone = [s for r in rounds for s in r.raw_alone]
    results = [
        _lives(scenario, store, n, rounds),
        Measured(
            scenario=f"{scenario}/bulk-create",
            store=store,
            system="flowfabric",
            n=n,
            ops_per_s=median(r.lives.create_rate for r in rounds),
        ),
        _alone(scenario, "flowfabric", store, [s for r in rounds for s in r.alone], raw_alone),
    ]
    if raw_alone:
        raw_rate = median(r.raw_rate for r in rounds if r.raw_rate)
        results.append(
            Measured(scenario=scenario, store=store, system=RAW[store], n=n, ops_per_s=raw_rate)
        )
        results.append(_alone(scenario, RAW[store], store, raw_alone, []))
    return results


async def _round(engine: Engine, raw: Rival | None, work: Work, n: int, workers: int) -> Round:
    lives = await _all_lives(engine, work, n, workers)
    raw_rate = None if raw is None else n / await raw.lives(n)
    return Round(
        lives,
        await _sequential(engine),
        raw_rate,
        [] if raw is None else await raw.one_by_one(SEQUENTIAL),
    )


async def _all_lives(engine: Engine, work: Work, n: int, workers: int) -> Lives:
    batches = [creations(min(BULK, n - at)) for at in range(0, n, BULK)]
    submitted = time.perf_counter()
    for batch in batches:
        await engine.create_executions(batch)
    created = time.perf_counter()
    samples = [
        s for each in await asyncio.gather(*(work(engine, k) for k in range(workers))) for s in each
    ]
    finished = time.perf_counter()
    assert len(samples) == n, f"{len(samples)} of {n} completed"
    return Lives(n / (finished - submitted), samples, n / (created - submitted))


def _lives(scenario: str, store: str, n: int, rounds: list[Round]) -> Measured:
    """The share is the middle one of the rounds' own."""
    samples = [s for r in rounds for s in r.lives.samples]
    shares = [r.lives.rate / r.raw_rate for r in rounds if r.raw_rate]
    return Measured(
        scenario=scenario,
        store=store,
        system="flowfabric",
        n=n,
        ops_per_s=median(r.lives.rate for r in rounds),
        p50_ms=percentile(samples, 0.5),
        p99_ms=percentile(samples, 0.99),
        raw_ops_per_s=median(r.raw_rate for r in rounds if r.raw_rate) if shares else None,
        ratio_to_raw=median(shares) if shares else None,
    )


def _alone(
    scenario: str, system: str, store: str, samples: list[float], raw: list[float]
) -> Measured:
    """One life after the other; here the ratio is of the medians of the latency, so lower is
    better.
    """
    p50 = percentile(samples, 0.5)
    raw_p50 = percentile(raw, 0.5) if raw else None
    return Measured(
        scenario=f"{scenario}/sequential",
        store=store,
        system=system,
        n=len(samples),
        ops_per_s=len(samples) / sum(samples),
        p50_ms=p50,
        p99_ms=percentile(samples, 0.99),
        raw_ops_per_s=None if raw_p50 is None else 1000 / raw_p50,
        ratio_to_raw=None if raw_p50 is None else p50 / raw_p50,
    )


async def worker(engine: Engine, number: int, namespace: str = "default") -> list[float]:
    """Seconds from one completion to the next."""
    policy = ClaimPolicy("bench", f"bench-{number}", 30_000, None, namespace)
    samples: list[float] = []
    works = await engine.claim_many(LANE, (), policy, 1)
    while works:
        started = time.perf_counter()
        answers, works = await engine.complete_and_claim(
            [(works[0].handle, b"ok")], LANE, (), policy, 1
        )
        samples.append(time.perf_counter() - started)
        assert answers == [None]
        works = works or await engine.claim_many(LANE, (), policy, 1)
    return samples


async def _apart(engine: Engine, number: int) -> list[float]:
    """Seconds from asking for work to having completed it."""
    policy = ClaimPolicy("bench", f"bench-{number}", 30_000)
    samples: list[float] = []
    while True:
        started = time.perf_counter()
        handle = await engine.claim(LANE, (), policy)
        if handle is None:
            return samples
        await engine.complete(handle, b"ok")
        samples.append(time.perf_counter() - started)


async def _sequential(engine: Engine) -> list[float]:
    policy = ClaimPolicy("bench", "bench-1", 30_000)
    samples = []
    for args in creations(SEQUENTIAL):
        started = time.perf_counter()
        await engine.create_execution(args)
        handle = await engine.claim(LANE, (), policy)
        assert handle is not None
        await engine.complete(handle, b"ok")
        samples.append(time.perf_counter() - started)
    return samples
