"""How many statements an idle engine sends while its workers wait for work, counted in the server's
own log.
"""

from __future__ import annotations

import asyncio

from benchmarks.engines import LANE, new_database
from benchmarks.report import Measured
from flowfabric import ClaimPolicy, Engine, PostgresBackend
from flowfabric.testing.postgres import PostgresServer

NAME = "idle"
SETTLE_S = 3.0


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` is how many seconds it is watched."""
    if store != "postgres":
        return [Measured(scenario=NAME, store=store, system="flowfabric", n=n)]
    with PostgresServer(settings={"log_statement": "all"}) as server:
        engine = await PostgresBackend.connect(await new_database(server, "engine"), migrate=True)
        engine.with_scanners()
        waiting = [asyncio.create_task(_wait(engine, k, n)) for k in range(workers)]
        await asyncio.sleep(SETTLE_S)
        before = _statements(server)
        await asyncio.sleep(n)
        sent = _statements(server) - before
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await engine.close()
    system = f"flowfabric, {workers} waiting workers: statements"
    return [Measured(scenario=NAME, store=store, system=system, n=n, ops_per_s=sent / n)]


async def _wait(engine: Engine, number: int, seconds: int) -> None:
    policy = ClaimPolicy(
        "bench",
        f"bench-{number}",
        30_000,
        max_wait_ms=min(int((SETTLE_S + seconds + 5) * 1000), 60_000),
    )
    await engine.claim(LANE, (), policy)


def _statements(server: PostgresServer) -> int:
    log = server.log
    return log.count(" LOG:  execute ") + log.count(" LOG:  statement: ")
