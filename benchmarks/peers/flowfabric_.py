"""FlowFabric itself, as its users would run it: leases, fences, attempts and events included."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from benchmarks.peers.protocol import PAYLOAD, Tally, batches, sampled
from flowfabric import ClaimPolicy, CreateExecutionArgs, ExecutionId, PostgresBackend
from flowfabric.connect import connect_store, is_postgres
from flowfabric.engine.local_protocol import LocalEngineProtocol

LANE = "bench"
DRAIN_BATCH = 100
DRAIN_LOOPS = 4
DRAIN_SETTINGS = f"claims and completes {DRAIN_BATCH} at a time, {DRAIN_LOOPS} loops"
LATENCY_SETTINGS = "waits in claim, caller waits for the end"
WAIT_MS = 30_000
RESULT = b"ok"
POLICY = ClaimPolicy("bench", "bench-1", 30_000, max_wait_ms=60_000)


async def prepare(url: str) -> None:
    if is_postgres(url):
        await (await PostgresBackend.connect(url, migrate=True)).close()


async def enqueue_many(url: str, n: int) -> float:
    async with _engine(url) as engine:
        started = time.perf_counter()
        for size in batches(n):
            await engine.create_executions([_job() for _ in range(size)])
        return time.perf_counter() - started


async def enqueue_each(url: str, n: int) -> float:
    async with _engine(url) as engine:
        started = time.perf_counter()
        for _ in range(n):
            await engine.create_execution(_job())
        return time.perf_counter() - started


async def completed(url: str) -> int:
    async with _engine(url) as engine:
        found = (await engine.count_executions()).counts
        return sum(each.count for each in found if each.public_state == "completed")


async def drain(url: str, n: int) -> float:
    """While one batch is claimed, others are completed."""
    tally = Tally(n)
    async with _engine(url) as engine:
        await asyncio.gather(*(_work(engine, tally) for _ in range(DRAIN_LOOPS)))
    return tally.seconds


async def _work(engine: LocalEngineProtocol, tally: Tally) -> None:
    policy = ClaimPolicy("bench", "bench-1", 30_000)
    while work := await engine.claim_many(LANE, (), policy, DRAIN_BATCH):
        tally.start()
        errors = await engine.complete_many([(each.handle, RESULT) for each in work])
        tally.finish(errors.count(None))


async def serve(url: str) -> None:
    async with _engine(url) as engine:
        while True:
            handle = await engine.claim(LANE, (), POLICY)
            if handle is not None:
                await engine.complete(handle, RESULT)


async def roundtrip(url: str, n: int) -> list[float]:
    async with _engine(url) as engine:
        once = await _followed(engine) if is_postgres(url) else partial(_outcome, engine)
        return await sampled(once, n)


async def _followed(engine: LocalEngineProtocol) -> Callable[[], Awaitable[None]]:
    """The next completion is that of the job."""
    done = await engine.subscribe_completion()

    async def once() -> None:
        job = _job()
        await engine.create_execution(job)
        if (await anext(done)).execution_id != job.execution_id:
            raise RuntimeError(f"waited for {job.execution_id}, but another one was done")

    return once


async def _outcome(engine: LocalEngineProtocol) -> None:
    """With the result, as every peer on Valkey hands it over."""
    job = _job()
    await engine.create_execution(job)
    outcome = await engine.wait_for_outcome(job.execution_id, WAIT_MS)
    if outcome is None or outcome.result != RESULT:
        raise RuntimeError(f"{job.execution_id} has another outcome: {outcome}")


def _job() -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ExecutionId.solo(LANE),
        lane_id=LANE,
        execution_kind="bench",
        input_payload=PAYLOAD,
    )


@asynccontextmanager
async def _engine(url: str) -> AsyncIterator[LocalEngineProtocol]:
    engine = await connect_store(url, loops=False)
    try:
        yield engine
    finally:
        await engine.close()
