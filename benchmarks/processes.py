"""More and more processes on one server: as many that submit as that work; on Postgres direct and
behind a pooler.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from msgspec import Struct, json
from tests.pgbouncer import BINARY, PgBouncer

from benchmarks.engines import LANE, creations, new_database
from benchmarks.report import Measured
from benchmarks.valkey import new_server
from flowfabric import ClaimPolicy
from flowfabric.connect import connect_store, migrate_postgres
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.testing.postgres import PostgresServer

NAME = "processes"
COUNTS = (1, 2, 4, 8)
SUBMITTED_AT_ONCE = 100
IN_FLIGHT = 4
CLAIM_WAIT_MS = 500
PATIENCE_S = 300.0
SESSIONS = 24
"""Of the pooler on the server, for all clients together."""


class Part(Struct):
    """What one process did, and when it was over."""

    done: int
    ended: float


class Way(Struct, frozen=True):
    """How processes reach the server."""

    name: str
    url: str
    tuning: dict[str, Any] = {}


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` executions for each number of processes; `workers` slots in each that works."""
    if store == "valkey":
        return await _scaled_on_valkey(n, workers)
    if store != "postgres":
        raise SystemExit(f"this scenario needs a server: --store postgres or valkey, not {store}")
    with PostgresServer(settings={"max_connections": "400"}) as server:
        found = []
        for way, url in _ways(server):
            found += await _scaled(way, server, url, n, workers)
    return found


async def _scaled_on_valkey(n: int, workers: int) -> list[Measured]:
    """On a cell of its own each time."""
    found: list[Measured] = []
    with new_server() as server:
        rates: dict[int, float] = {}
        for count in COUNTS:
            way = Way("direct", server.url_of(f"of-{count}"))
            rates[count], parts = await _measured(way, count, n, workers)
            found.append(_line("valkey", "direct", count, n, rates, parts, ""))
    return found


def _ways(server: PostgresServer) -> Iterator[tuple[str, str]]:
    yield "direct", server.url
    if BINARY is None:
        return
    with PgBouncer(server.url, SESSIONS) as pooler:
        yield "pooler, direct LISTEN", pooler.url
        yield "pooler", pooler.url


async def _scaled(
    name: str, server: PostgresServer, url: str, n: int, workers: int
) -> list[Measured]:
    found: list[Measured] = []
    rates: dict[int, float] = {}
    for count in COUNTS:
        database = f"{name.replace(', ', '_').replace(' ', '_').lower()}_{count}"
        direct = await new_database(server, database)
        await migrate_postgres(direct)
        way = _way(name, url, direct)
        rates[count], parts = await _measured(way, count, n, workers)
        more = f", deadlocks {await _deadlocks(direct)}"
        found.append(_line("postgres", name, count, n, rates, parts, more))
    return found


def _line(
    store: str,
    name: str,
    count: int,
    n: int,
    rates: dict[int, float],
    parts: list[Part],
    more: str,
) -> Measured:
    shares = [part.done for part in parts]
    fairness = f"least to most of a worker {min(shares) / max(shares):.2f}"
    ratio = rates[count] / rates[2] if count == COUNTS[-1] else None
    return Measured(
        scenario=f"{NAME}/{count}" + (", ratio to 2" if ratio else ""),
        store=store,
        system=f"{name}: {count} + {count} processes, {fairness}{more}",
        n=n,
        ops_per_s=rates[count],
        ratio_to_raw=ratio,
    )


def _way(name: str, url: str, direct: str) -> Way:
    if name == "direct":
        return Way(name, direct)
    through = url.replace("/postgres?", f"/{direct.rpartition('/')[2]}?")
    listens = {"listen_url": direct} if "LISTEN" in name else {}
    return Way(name, through, {"pooler": True, **listens})


async def _measured(way: Way, count: int, n: int, workers: int) -> tuple[float, list[Part]]:
    async with asyncio.timeout(PATIENCE_S), _started("work", way, workers, count) as working:
        async with _started("submit", way, n // count, count) as submitting:
            began = time.time()
            await asyncio.gather(*(_tell(process) for process in submitting))
            await asyncio.gather(*(_part(process) for process in submitting))
        await asyncio.gather(*(_tell(process) for process in working))
        parts = await asyncio.gather(*(_part(process) for process in working))
    done = sum(part.done for part in parts)
    assert done == n // count * count, f"{done} of {n} completed"
    return done / (max(part.ended for part in parts) - began), parts


async def _deadlocks(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


# ---- the parent's side of a child


@asynccontextmanager
async def _started(what: str, way: Way, n: int, count: int) -> AsyncIterator[list[Process]]:
    tuning = json.encode(way.tuning).decode()
    command = (sys.executable, "-m", "benchmarks.processes", what, way.url, tuning, str(n))
    processes = [
        await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _tell(process: Process) -> None:
    """Begin, to one that submits; no more will come, to one that works."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await process.stdin.drain()


async def _part(process: Process) -> Part:
    assert process.stdout is not None
    return json.decode(await process.stdout.readline(), type=Part)


# ---- a child


async def _child(what: str, url: str, tuning: str, n: int) -> None:
    engine = await connect_store(url, loops=False, **json.decode(tuning))
    if what == "work":
        engine.with_scanners()
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, _heard, told)
    print("ready", flush=True)
    try:
        part = await (_work(engine, n, told) if what == "work" else _submit(engine, n, told))
        print(json.encode(part).decode(), flush=True)
    finally:
        await engine.close()


def _heard(told: asyncio.Event) -> None:
    sys.stdin.readline()
    told.set()


async def _submit(engine: LocalEngineProtocol, n: int, told: asyncio.Event) -> Part:
    await told.wait()
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(size: int) -> None:
        async with limit:
            await engine.create_executions(creations(size))

    sizes = [min(SUBMITTED_AT_ONCE, n - at) for at in range(0, n, SUBMITTED_AT_ONCE)]
    await asyncio.gather(*map(one, sizes))
    return Part(n, time.time())


async def _work(engine: LocalEngineProtocol, slots: int, told: asyncio.Event) -> Part:
    part = Part(0, 0.0)

    async def slot(number: int) -> None:
        policy = ClaimPolicy("bench", f"bench-{number}", 30_000, max_wait_ms=CLAIM_WAIT_MS)
        while True:
            works = await engine.claim_many(LANE, (), policy, 1)
            if not works and told.is_set():
                return
            while works:
                answers, works = await engine.complete_and_claim(
                    [(works[0].handle, b"ok")], LANE, (), policy, 1
                )
                assert answers == [None]
                part.done, part.ended = part.done + 1, time.time()

    await asyncio.gather(*map(slot, range(slots)))
    return part


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_child(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
