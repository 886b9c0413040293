"""Catching up: completion events from the first to the last through `subscribe_completion`, as a consumer would."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.engines import BULK, opened
from benchmarks.report import Measured
from flowfabric import Engine, ExecutionId
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.model.event import COMPLETION_EVENTS
from flowfabric.plan import Arg, Emit, Form

NAME = "subscribe"
TURNS = 3
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
