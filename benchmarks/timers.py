"""A million executions that sleep or are suspended: how late the timers that come due are, and what
the engine takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from tempfile import TemporaryDirectory
from uuid import uuid4

from msgspec import structs

from benchmarks.clones import clone_postgres, clone_sqlite, clone_valkey
from benchmarks.engines import BULK, LANE, creations, fill, new_database
from benchmarks.memory_use import rss_mb
from benchmarks.report import Measured, percentile
from benchmarks.valkey import new_server
from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    ExecutionId,
    FreshWaitpoint,
    PostgresBackend,
    Single,
    SqliteBackend,
    SuspendArgs,
    memory_engine,
)
from flowfabric.connect import ValkeyBackend
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.model.lease import HandleKind, Work
from flowfabric.model.waitpoint import TimeoutBehavior
from flowfabric.testing.postgres import PostgresServer

NAME = "timers"
FEW = 1_000
TEMPLATES = 100
FAR_MS = 30 * 86_400_000
DUE_LANE, SLEEPING_LANE = "due", "sleeping"
DUE, AHEAD_MS, EVERY_S = 500, 1_500, 0.02
CLAIM_WAIT_MS = 1_000
SECRET = "2a" * 32
POLICY = ClaimPolicy("bench", "bench-1", 3_600_000, max_wait_ms=CLAIM_WAIT_MS)


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """With a thousand of each kind, and with `n` of each; in the memory store none is suspended."""
    found = []
    for many in (min(FEW, n), n):
        async with _opened(store) as (engine, url):
            found.append(_line(store, many, "before", rss_mb()))
            await _sleeping(engine, many)
            if store != "memory":
                await _suspended(engine, store, url, many)
            engine.with_scanners()
            sleeps, timeouts = await _lags(engine, workers)
            for kind, samples in (("sleep", sleeps), ("timeout of a wait", timeouts)):
                found.append(_lag(store, many, kind, samples))
            found.append(_line(store, many, "after", rss_mb()))
    return found


@asynccontextmanager
async def _opened(store: str) -> AsyncIterator[tuple[LocalEngineProtocol, str]]:
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    async with AsyncExitStack() as stack:
        engine: LocalEngineProtocol
        if store == "postgres":
            server = stack.enter_context(PostgresServer())
            url = await new_database(server, "engine")
            engine = await PostgresBackend.connect(url, migrate=True)
        elif store == "valkey":
            url = stack.enter_context(new_server()).url
            engine = await ValkeyBackend.connect(url)
        elif store == "memory":
            url, engine = "", memory_engine()
        else:
            folder = TemporaryDirectory(prefix="flowfabric-bench-", dir=".")
            url = f"{stack.enter_context(folder)}/engine.db"
            engine = await SqliteBackend.new(url, dev=True)
        stack.push_async_callback(engine.close)
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        yield engine, url


async def _sleeping(engine: LocalEngineProtocol, n: int) -> None:
    until = await engine.server_time_ms() + FAR_MS
    for at in range(0, n, BULK):
        await engine.create_executions(
            [
                structs.replace(each, lane_id=SLEEPING_LANE, delay_until=until + at)
                for each in creations(min(BULK, n - at))
            ]
        )


async def _suspended(engine: LocalEngineProtocol, store: str, url: str, n: int) -> None:
    await fill(engine, TEMPLATES)
    until = await engine.server_time_ms() + FAR_MS
    for work in await engine.claim_many(LANE, (), POLICY, TEMPLATES):
        await suspended_until(engine, work, until)
    copies = n // TEMPLATES - 1
    if store == "postgres":
        await clone_postgres(url, copies)
    elif store == "valkey":
        await clone_valkey(engine.store, copies)
    else:
        await asyncio.to_thread(clone_sqlite, url, copies)


async def suspended_until(engine: LocalEngineProtocol, work: Work, until_ms: int) -> None:
    await engine.suspend(
        work.handle,
        SuspendArgs(
            suspension_id=uuid4(),
            waitpoints=[FreshWaitpoint(uuid4(), "answer")],
            resume_condition=Single("answer"),
            timeout_at=until_ms,
            timeout_behavior=TimeoutBehavior.AUTO_RESUME,
        ),
    )


async def _lags(engine: LocalEngineProtocol, workers: int) -> tuple[list[float], list[float]]:
    """Seconds from due to claimed: of sleeps, and then of the waits that each of them begins."""
    sleeps: list[float] = []
    timeouts: list[float] = []
    due: dict[ExecutionId, int] = {}

    async def work() -> None:
        while len(timeouts) < DUE:
            for work in await engine.claim_many(DUE_LANE, (), POLICY, 10):
                now = await engine.server_time_ms()
                late_s = (now - due[work.execution_id]) / 1000
                if work.handle.kind is HandleKind.RESUMED:
                    timeouts.append(late_s)
                    await engine.complete(work.handle, b"ok")
                else:
                    sleeps.append(late_s)
                    due[work.execution_id] = now + AHEAD_MS
                    await suspended_until(engine, work, now + AHEAD_MS)

    working = [asyncio.create_task(work()) for _ in range(workers)]
    for _ in range(DUE):
        ident = ExecutionId.solo(DUE_LANE)
        due[ident] = await engine.server_time_ms() + AHEAD_MS
        await engine.create_execution(
            CreateExecutionArgs(execution_id=ident, lane_id=DUE_LANE, delay_until=due[ident])
        )
        await asyncio.sleep(EVERY_S)
    await asyncio.gather(*working)
    return sleeps, timeouts


def _lag(store: str, many: int, kind: str, samples: list[float]) -> Measured:
    return Measured(
        scenario=f"{NAME}/{many} of each",
        store=store,
        system=f"lag of a {kind}",
        n=len(samples),
        p50_ms=percentile(samples, 0.5),
        p99_ms=percentile(samples, 0.99),
    )


def _line(store: str, many: int, when: str, megabytes: float) -> Measured:
    scenario = f"{NAME}/{many} of each"
    return Measured(
        scenario=scenario, store=store, system=f"engine, {when}: {megabytes:.1f} MB", n=many
    )
