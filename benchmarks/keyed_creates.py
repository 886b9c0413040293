"""Creates with an idempotency key: one call each by concurrent callers, and in bulk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median
from uuid import uuid4

from msgspec.structs import replace

from benchmarks.engines import BULK, creations, opened
from benchmarks.report import Measured
from flowfabric import CreateExecutionArgs, Engine

NAME = "keyed-creates"
ROUNDS = 5


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` creates of each kind. The ratio is to the same creates without a key, in turns."""
    async with opened(store) as (engine, _):
        single = [await _both(_single, engine, n // ROUNDS, workers) for _ in range(ROUNDS)]
        bulk = [await _both(_bulk, engine, n // ROUNDS, workers) for _ in range(ROUNDS)]
    return [
        Measured(
            scenario=f"{NAME}/{kind}",
            store=store,
            system="flowfabric",
            n=n,
            ops_per_s=median(keyed for keyed, _ in rates),
            raw_ops_per_s=median(plain for _, plain in rates),
            ratio_to_raw=median(keyed / plain for keyed, plain in rates),
        )
        for kind, rates in (("single", single), ("bulk", bulk))
    ]


async def _both(
    create: Callable[[Engine, list[CreateExecutionArgs], int], Awaitable[None]],
    engine: Engine,
    n: int,
    workers: int,
) -> tuple[float, float]:
    """Creates a second, with a key and without."""
    keyed = [replace(args, idempotency_key=str(uuid4())) for args in creations(n)]
    rates = []
    for many in (keyed, creations(n)):
        began = time.perf_counter()
        await create(engine, many, workers)
        rates.append(n / (time.perf_counter() - began))
    return rates[0], rates[1]


async def _single(engine: Engine, many: list[CreateExecutionArgs], workers: int) -> None:
    left = iter(many)

    async def caller() -> None:
        for args in left:
            await engine.create_execution(args)

    await asyncio.gather(*(caller() for _ in range(workers)))


async def _bulk(engine: Engine, many: list[CreateExecutionArgs], workers: int) -> None:
    for at in range(0, len(many), BULK):
        await engine.create_executions(many[at : at + BULK])
