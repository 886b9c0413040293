"""How many statements an idle engine sends while its workers wait for work, counted by the
server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from msgspec import structs

from benchmarks.engines import BULK, LANE, SERVERS, creations, new_database
from benchmarks.memory_use import rss_mb
from benchmarks.report import Measured
from benchmarks.valkey import calls, new_server
from flowfabric import ClaimPolicy
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.connect import connect_store, migrate_postgres
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.testing.postgres import PostgresServer

NAME, FLEET = "idle", "idle-fleet"
SETTLE_S = 3.0
LANES, FLEET_WORKERS, ENGINES, FOLLOWERS = 10_000, 1_000, 4, 1_000
Sent = Callable[[], Awaitable[int]]
Waiting = Sequence[Coroutine[Any, Any, None]]


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` is how many seconds it is watched."""
    if store not in SERVERS:
        return [Measured(scenario=NAME, store=store, system="flowfabric", n=n)]
    async with AsyncExitStack() as stack:
        sent, (engine,) = await _engines(stack, store, 1)
        engine.with_scanners()
        rate = await _watched(sent, [_wait(engine, LANE, k, n) for k in range(workers)], n)
    system = f"flowfabric, {workers} waiting workers: statements"
    return [Measured(scenario=NAME, store=store, system=system, n=n, ops_per_s=rate)]


async def run_fleet(store: str, n: int, workers: int) -> list[Measured]:
    """10,000 lanes and 1,000 waiting workers, then 1,000 subscribers instead; `n` is in seconds."""
    if store not in SERVERS:
        return [Measured(scenario=FLEET, store=store, system="flowfabric", n=n)]
    found = []
    async with AsyncExitStack() as stack:
        sent, engines = await _engines(stack, store, ENGINES)
        await _use_lanes(engines[0])
        for engine in engines:
            engine.with_scanners()
        workers_of = [
            _wait(engines[k % ENGINES], _lane(k * LANES // FLEET_WORKERS), k, n)
            for k in range(FLEET_WORKERS)
        ]
        followers = [_follow(engines[k % ENGINES]) for k in range(FOLLOWERS)]
        for what, waiting in (
            (f"{LANES} lanes, {FLEET_WORKERS} waiting workers", workers_of),
            (f"{LANES} lanes, {FOLLOWERS} subscribers", followers),
        ):
            rate = await _watched(sent, waiting, n)
            system = f"{ENGINES} engines, {what}, {rss_mb():.1f} MB: statements"
            found.append(Measured(scenario=FLEET, store=store, system=system, n=n, ops_per_s=rate))
    return found


async def _engines(
    stack: AsyncExitStack, store: str, count: int
) -> tuple[Sent, list[LocalEngineProtocol]]:
    """On one server, and how many statements or calls it has had."""
    if store == "valkey":
        cells = stack.enter_context(new_server())
        sent: Sent = partial(calls, cells.port)
        url = cells.url
    else:
        server = stack.enter_context(PostgresServer(settings={"log_statement": "all"}))
        url = await new_database(server, "engine")
        await migrate_postgres(url)
        sent = partial(_statements, server)
    engines: list[LocalEngineProtocol] = []
    for _ in range(count):
        engines.append(await connect_store(url, loops=False))
        stack.push_async_callback(engines[-1].close)
    return sent, engines


async def _watched(sent: Sent, waiting: Waiting, seconds: int) -> float:
    """Statements a second while they wait."""
    tasks = [asyncio.create_task(each) for each in waiting]
    await asyncio.sleep(SETTLE_S)
    before = await sent()
    await asyncio.sleep(seconds)
    count = await sent() - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return count / seconds


async def _wait(engine: LocalEngineProtocol, lane: str, number: int, seconds: int) -> None:
    policy = ClaimPolicy(
        "bench",
        f"bench-{number}",
        30_000,
        max_wait_ms=min(int((SETTLE_S + seconds + 5) * 1000), 60_000),
    )
    await engine.claim(lane, (), policy)


async def _follow(engine: LocalEngineProtocol) -> None:
    async for _event in engine.subscribe_completion(BEGINNING):
        pass


def _lane(number: int) -> str:
    return f"{LANE}-{number}"


async def _use_lanes(engine: LocalEngineProtocol) -> None:
    """Each has had an execution, which sleeps for a day."""
    until = await engine.server_time_ms() + 86_400_000
    for at in range(0, LANES, BULK):
        await engine.create_executions(
            [
                structs.replace(each, lane_id=_lane(at + number), delay_until=until)
                for number, each in enumerate(creations(BULK))
            ]
        )


async def _statements(server: PostgresServer) -> int:
    log = server.log
    return log.count(" LOG:  execute ") + log.count(" LOG:  statement: ")
