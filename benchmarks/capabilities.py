"""Mixed fleets: tasks that need one of ten capability sets, and workers that offer one or several
of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from benchmarks.engines import BULK, LANE, opened
from benchmarks.raw import PAYLOAD
from benchmarks.report import Measured, percentile
from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId, RegisterWorkerArgs

NAME = "capability-routing"
WORKERS = 40
SLOTS = 10
SETS = (
    ("cpu",),
    ("gpu",),
    ("gpu", "large-memory"),
    ("arm64",),
    ("eu-west",),
    ("eu-west", "gpu"),
    ("ffmpeg",),
    ("browser",),
    ("browser", "eu-west"),
    ("sandbox",),
)


class Run(Struct):
    """What one worker got: how many, how many of them it could not run, and seconds from asking to
    having completed.
    """

    offered: frozenset[str]
    samples: list[float]
    got: int = 0
    wrong: int = 0


def offers(number: int) -> frozenset[str]:
    """Three workers in four offer one set, the fourth offers three."""
    several = 3 if number % 4 == 3 else 1
    return frozenset(token for k in range(several) for token in SETS[(number + k) % len(SETS)])


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """Tasks of all sets mixed, and then one set after the other, so that most have to be looked
    past.
    """
    mixed = await _measured(store, n, NAME, lambda at: at % len(SETS))
    return [*mixed, *await _measured(store, n, f"{NAME}/in-blocks", lambda at: at * len(SETS) // n)]


async def _measured(
    store: str, n: int, scenario: str, kind_of: Callable[[int], int]
) -> list[Measured]:
    async with opened(store) as (engine, _):
        for number in range(WORKERS):
            await engine.register_worker(_registration(number))
        for at in range(0, n, BULK):
            await engine.create_executions(
                [_creation(SETS[kind_of(k)]) for k in range(at, min(at + BULK, n))]
            )
        started = time.perf_counter()
        runs = await asyncio.gather(*(_worker(engine, number) for number in range(WORKERS)))
        took = time.perf_counter() - started
    got = sum(each.got for each in runs)
    assert got == n, f"{got} of {n} completed"
    samples = [sample for each in runs for sample in each.samples]
    correct = 1 - sum(each.wrong for each in runs) / got
    assert correct == 1.0, f"only {correct:.4f} went to a worker that can run it"
    return [
        Measured(
            scenario=scenario,
            store=store,
            system="flowfabric",
            n=n,
            ops_per_s=n / took,
            p50_ms=percentile(samples, 0.5),
            p99_ms=percentile(samples, 0.99),
            share_correct=correct,
        )
    ]


def _registration(number: int) -> RegisterWorkerArgs:
    instance = f"bench-{number}"
    return RegisterWorkerArgs(
        worker_id=instance,
        worker_instance_id=instance,
        lanes=frozenset({LANE}),
        capabilities=offers(number),
    )


def _creation(needed: tuple[str, ...]) -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ExecutionId.solo(LANE),
        lane_id=LANE,
        execution_kind="bench",
        input_payload=PAYLOAD,
        tags={"bench.needs": ",".join(needed)},
        policy={"routing_requirements": {"required_capabilities": list(needed)}},
    )


async def _worker(engine: Engine, number: int) -> Run:
    """Asks for as much as it has slots, until there is nothing left for it. What it got says itself
    what it needs.
    """
    policy = ClaimPolicy(f"bench-{number}", f"bench-{number}", 30_000)
    done = Run(offers(number), [])
    while True:
        started = time.perf_counter()
        works = await engine.claim_many(LANE, done.offered, policy, SLOTS)
        if not works:
            return done
        done.got += len(works)
        done.wrong += sum(
            not set(work.tags["bench.needs"].split(",")) <= done.offered for work in works
        )
        await engine.complete_many([(work.handle, b"ok") for work in works])
        done.samples.append(time.perf_counter() - started)
