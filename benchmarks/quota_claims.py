"""What a quota costs: a lane drained by concurrent workers without one, and with one that never
blocks a claim, in turns.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any
from uuid import uuid4

from benchmarks.engines import BULK, opened
from benchmarks.raw import PAYLOAD
from benchmarks.report import Measured
from flowfabric import ClaimPolicy, CreateExecutionArgs, CreateQuotaPolicyArgs, Engine, ExecutionId

NAME = "quota-claims"
ROUNDS = 5
PLENTY = 1_000_000
KINDS = {
    "no quota": {},
    "concurrency": {"max_concurrent": PLENTY},
    "concurrency and rate": {"max_concurrent": PLENTY, "max_requests_per_window": PLENTY},
}


async def run(store: str, n: int, workers: int) -> list[Measured]:
    async with opened(store) as (engine, _):
        lanes = {kind: await _lane(engine, kind, limits) for kind, limits in KINDS.items()}
        rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(ROUNDS):
            for kind, lane in lanes.items():
                rates[kind].append(await _drain(engine, lane, n // ROUNDS, workers))
    plain = median(rates["no quota"])
    return [
        Measured(
            scenario=NAME,
            store=store,
            system=kind,
            n=n,
            ops_per_s=median(each),
            raw_ops_per_s=plain,
            ratio_to_raw=median(each) / plain,
        )
        for kind, each in rates.items()
    ]


async def _lane(engine: Engine, kind: str, limits: dict[str, Any]) -> str:
    lane = f"bench {kind}"
    if limits:
        quota = uuid4()
        await engine.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, **limits))
        await engine.attach_limit("quota", quota, "lane", lane)
    return lane


async def _drain(engine: Engine, lane: str, n: int, workers: int) -> float:
    """Claims and completions per second."""
    for at in range(0, n, BULK):
        await engine.create_executions(
            [
                CreateExecutionArgs(
                    execution_id=ExecutionId.solo(lane), lane_id=lane, input_payload=PAYLOAD
                )
                for _ in range(min(BULK, n - at))
            ]
        )
    started = time.perf_counter()
    done = sum(await asyncio.gather(*(_worker(engine, lane, number) for number in range(workers))))
    assert done == n, f"{done} of {n} completed"
    return n / (time.perf_counter() - started)


async def _worker(engine: Engine, lane: str, number: int) -> int:
    policy = ClaimPolicy("bench", f"bench-{number}", 30_000)
    done = 0
    while (handle := await engine.claim(lane, (), policy)) is not None:
        await engine.complete(handle, b"ok")
        done += 1
    return done
