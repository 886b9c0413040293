"""WAL bytes per operation on Postgres, and of the peers' jobs in the same run.

One checkpoint precedes the phases of each system, so full page images are few.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from uuid import uuid4

import asyncpg

from benchmarks.engines import LANE, fill, new_database
from benchmarks.peers.children import ask
from benchmarks.peers.systems import require, systems_of
from benchmarks.raw import PAYLOAD
from benchmarks.report import Measured
from benchmarks.submit_claim_complete import worker
from benchmarks.suspension import SECRET, trips
from flowfabric import (
    ClaimPolicy,
    Engine,
    ExecutionId,
    Frame,
    FrameKind,
    PostgresBackend,
)
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import GraphEdge, SubmitFlowArgs
from flowfabric.testing.postgres import PostgresServer

NAME = "wal"
WARM_UP = 500
POLICY = ClaimPolicy("bench", "bench-1", 3_600_000)
Phase = Callable[[], Awaitable[object]]


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` of each operation."""
    if store != "postgres":
        raise SystemExit(f"{NAME} measures Postgres: --store postgres, not {store}")
    found: list[Measured] = []
    with PostgresServer() as server:
        async with _engine(server) as (engine, meter):
            await fill(engine, WARM_UP)
            await _drain(engine, workers)
            await trips(engine, f"{LANE}-warm", 10)
            await _checkpoint(server)
            for name, count, phase in _phases(engine, n, workers):
                found.append(_line(name, "flowfabric", count, await meter(phase)))
        require("postgres")
        for system in systems_of("postgres"):
            found += await _peer(server, system, n)
    return found


def _line(phase: str, system: str, n: int, written: int) -> Measured:
    return Measured(
        scenario=f"{NAME}/{phase}", store="postgres", system=system, n=n, wal_bytes=written / n
    )


def _phases(engine: Engine, n: int, workers: int) -> list[tuple[str, int, Phase]]:
    few = max(n // 10, 1)
    return [
        ("create", n, partial(fill, engine, n)),
        ("claim and complete", n, partial(_drain, engine, workers)),
        ("step", few, partial(_steps, engine, few)),
        ("frame", n, partial(_frames, engine, n)),
        ("suspend, signal and claim again", few, partial(trips, engine, f"{LANE}-s", few)),
        ("node of a chain, with its edge", few, partial(_chain, engine, few, workers)),
    ]


async def _drain(engine: Engine, workers: int) -> None:
    await asyncio.gather(*(worker(engine, number) for number in range(workers)))


def _named(lane: str) -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ExecutionId.solo(lane), lane_id=lane, execution_kind="bench"
    )


async def _steps(engine: Engine, n: int) -> None:
    """A hundred recorded steps an execution; the execution itself is a hundredth of each."""
    per = 100
    lane = f"{LANE}-steps"
    for _ in range(max(n // per, 1)):
        await engine.create_execution(_named(lane))
        (work,) = await engine.claim_many(lane, (), POLICY, 1)
        for at in range(per):
            await engine.record_step(work.handle, at, f"step-{at}", b"42")
        await engine.complete(work.handle, b"ok")


async def _frames(engine: Engine, n: int) -> None:
    """Token-sized frames of one stream, a hundred in flight."""
    lane = f"{LANE}-frames"
    await engine.create_execution(_named(lane))
    (work,) = await engine.claim_many(lane, (), POLICY, 1)
    frames = [Frame(b" token", FrameKind.Stdout, "delta")] * 100
    for _ in range(max(n // 100, 1)):
        await asyncio.gather(*(engine.append_frame(work.handle, frame) for frame in frames))
    await engine.complete(work.handle, b"ok")


async def _chain(engine: Engine, n: int, workers: int) -> None:
    """Chains of ten, drained."""
    length = 10
    for _ in range(max(n // length, 1)):
        flow = uuid4()
        idents = [ExecutionId.for_flow(flow) for _ in range(length)]
        nodes = [
            CreateExecutionArgs(
                execution_id=ident, lane_id=LANE, execution_kind="bench", input_payload=PAYLOAD
            )
            for ident in idents
        ]
        edges = [GraphEdge(up, down) for up, down in pairwise(idents)]
        await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=nodes, edges=edges))
        for _ in range(length):
            (work,) = await engine.claim_many(LANE, (), POLICY, 1)
            await engine.complete(work.handle, b"ok")


async def _peer(server: PostgresServer, system: str, n: int) -> list[Measured]:
    url = await new_database(server, f"peer_{system}")
    await ask(system, "prepare", url)
    await _checkpoint(server)
    connection = await asyncpg.connect(url)
    try:
        created = await _written(connection, lambda: ask(system, "enqueue-many", url, n))
        drained = await _written(connection, lambda: ask(system, "drain", url, n))
    finally:
        await connection.close()
    return [
        _line("peers, enqueue", system, n, created),
        _line("peers, drain", system, n, drained),
    ]


Meter = Callable[[Phase], Awaitable[int]]


@asynccontextmanager
async def _engine(server: PostgresServer) -> AsyncIterator[tuple[Engine, Meter]]:
    url = await new_database(server, "wal")
    engine = await PostgresBackend.connect(url, migrate=True)
    connection = await asyncpg.connect(url)
    try:
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        yield engine, partial(_written, connection)
    finally:
        await connection.close()
        await engine.close()


async def _checkpoint(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.url)
    await connection.execute("CHECKPOINT")
    await connection.close()


async def _written(connection: asyncpg.Connection[asyncpg.Record], phase: Phase) -> int:
    before = await connection.fetchval("SELECT pg_current_wal_insert_lsn()")
    await phase()
    return int(
        await connection.fetchval(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)", before
        )
    )
