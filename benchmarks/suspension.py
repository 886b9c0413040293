"""Suspension: from a suspend to the same attempt claimed again, and who waits, looked up among many
that do.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

from benchmarks.engines import LANE, fill, opened
from benchmarks.raw import PAYLOAD
from benchmarks.report import Measured, percentile
from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    DeliverSignalArgs,
    Engine,
    ExecutionId,
    FreshWaitpoint,
    ReasonCode,
    Single,
    SuspendArgs,
    Suspended,
)
from flowfabric.model.lease import Work

RESUME, LIST = "suspend-resume", "list-waitpoints"
WARM_UP = 50
FEW = 1_000
LISTINGS = 500
AT_ONCE = 100
KEY = "answer"
SECRET = "2a" * 32
POLICY = ClaimPolicy("bench", "bench-1", 3_600_000)


async def run_resume(store: str, n: int, workers: int) -> list[Measured]:
    """`n` round trips one after the other, then as many by all workers at once."""
    async with opened(store) as (engine, _):
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        await trips(engine, LANE, WARM_UP)
        alone = await trips(engine, LANE, n)
        began = time.perf_counter()
        shares = await asyncio.gather(
            *(trips(engine, f"{LANE}-{at}", max(n // workers, 1)) for at in range(workers))
        )
        took = time.perf_counter() - began
    crowd = [sample for share in shares for sample in share]
    return [
        _measured(RESUME, store, alone, len(alone) / sum(alone)),
        _measured(
            f"{RESUME}/{workers} workers, with create and complete", store, crowd, len(crowd) / took
        ),
    ]


def _measured(
    scenario: str, store: str, samples: list[float], rate: float | None = None
) -> Measured:
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    return Measured(
        scenario=scenario,
        store=store,
        system="flowfabric",
        n=len(samples),
        ops_per_s=rate,
        p50_ms=p50,
        p99_ms=p99,
    )


async def trips(engine: Engine, lane: str, n: int) -> list[float]:
    """On a lane of its own, so that what was suspended is what is claimed again. Only the round
    trip is timed.
    """
    samples = []
    for _ in range(n):
        ident = ExecutionId.solo(lane)
        await engine.create_execution(
            CreateExecutionArgs(execution_id=ident, lane_id=lane, input_payload=PAYLOAD)
        )
        (work,) = await engine.claim_many(lane, (), POLICY, 1)
        began = time.perf_counter()
        again = await _trip(engine, work, lane)
        samples.append(time.perf_counter() - began)
        assert again.execution_id == ident and again.attempt_index == work.attempt_index
        await engine.complete(again.handle, b"ok")
    return samples


async def _trip(engine: Engine, work: Work, lane: str) -> Work:
    parked = await _suspend(engine, work)
    await engine.deliver_signal(
        DeliverSignalArgs(
            execution_id=work.execution_id,
            waitpoint_id=parked.details.waitpoint_id,
            signal_id=uuid4(),
            waitpoint_token=parked.details.waitpoint_token,
            signal_name="go",
            payload=PAYLOAD,
        )
    )
    (again,) = await engine.claim_many(lane, (), POLICY, 1)
    return again


async def _suspend(engine: Engine, work: Work) -> Suspended:
    parked = await engine.suspend(
        work.handle,
        SuspendArgs(
            suspension_id=uuid4(),
            waitpoints=[FreshWaitpoint(uuid4(), KEY)],
            resume_condition=Single(KEY, "go"),
            reason_code=ReasonCode.WAITING_FOR_APPROVAL,
        ),
    )
    assert isinstance(parked, Suspended)
    return parked


async def run_list(store: str, n: int, workers: int) -> list[Measured]:
    """The first page of an execution's waitpoints, and of all, with a thousand suspended
    and with `n`.
    """
    few, results = min(FEW, n), []
    async with opened(store) as (engine, _):
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        waiting = await _suspended(engine, few)
        before = await _listed(engine, waiting)
        waiting += await _suspended(engine, n - few)
        after = await _listed(engine, waiting)
    for name in before:
        small, large = (
            _measured(f"{name}/{few}", store, before[name]),
            _measured(f"{name}/{n}", store, after[name]),
        )
        assert small.p50_ms is not None and large.p50_ms is not None
        large.system, large.ratio_to_raw = (
            f"flowfabric: ratio to {few}",
            large.p50_ms / small.p50_ms,
        )
        results += [small, large]
    return results


async def _suspended(engine: Engine, n: int) -> list[ExecutionId]:
    await fill(engine, n)
    found: list[ExecutionId] = []
    while len(found) < n:
        works = await engine.claim_many(LANE, (), POLICY, min(AT_ONCE, n - len(found)))
        await asyncio.gather(*(_suspend(engine, work) for work in works))
        found += [work.execution_id for work in works]
    return found


async def _listed(engine: Engine, waiting: list[ExecutionId]) -> dict[str, list[float]]:
    chosen = random.Random(1).choices(waiting, k=LISTINGS)
    own = [await _timed(partial(engine.list_pending_waitpoints, ident), 1) for ident in chosen]
    page = min(100, len(waiting))
    everybodys = [await _timed(engine.list_open_waitpoints, page) for _ in range(LISTINGS)]
    return {LIST: own, f"{LIST}, of all": everybodys}


async def _timed(read: Callable[[], Awaitable[Any]], expected: int) -> float:
    began = time.perf_counter()
    found = await read()
    took = time.perf_counter() - began
    assert len(found.items) == expected
    return took
