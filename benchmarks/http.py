"""The server between client and store: single and bulk submits, a worker over HTTP, and what the
detour costs in time.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median

from benchmarks.engines import LANE, creations
from benchmarks.report import Measured
from benchmarks.sdk import connected, declared, summed_up, timed
from flowfabric import App, Worker, connect
from flowfabric.engine.protocol import EngineProtocol

SUBMIT, DRAIN = "http-submit", "http-drain"
ROUNDS = 3
AT_ONCE = 64
BULK = 1_000
BATCHES = 20
DRAIN_CONCURRENCY = 100
LATENCIES, TURNS = 300, 10
TOKEN = "b" * 40
_ADDRESS = re.compile(rb"http://[0-9.:]+")


@asynccontextmanager
async def served(store_url: str) -> AsyncIterator[str]:
    """A server process on this store, with one token; its address."""
    environ = {
        **os.environ,
        "FF_DEV_MODE": "1",
        "FF_API_TOKEN": TOKEN,
        "FF_WAITPOINT_HMAC_SECRET": "2a" * 32,
        "FF_LISTEN_ADDR": "127.0.0.1:0",
    }
    command = (sys.executable, "-m", "flowfabric.cli.main", "server", "--db", store_url)
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=None
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        found = _ADDRESS.search(line)
        assert found is not None, line
        yield found[0].decode()
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def both(store: str) -> AsyncIterator[tuple[App, App]]:
    """The same tasks on the store itself, and on a server in front of it."""
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(connected(store))
        url = await stack.enter_async_context(served(direct.url))
        yield direct, await stack.enter_async_context(declared(url, token=TOKEN))


async def run_submit(store: str, n: int, workers: int) -> list[Measured]:
    """Requests under way at once, each one execution; then a thousand executions per request."""
    async with both(store) as (_, app):
        engine = await connect(app.url, token=TOKEN)
        await _single(engine, 500)
        single = median([await _single(engine, n) for _ in range(ROUNDS)])
        bulk = median([await _bulk(engine) for _ in range(ROUNDS)])
        await engine.close()
    return [
        Measured(
            scenario=SUBMIT,
            store=store,
            system=f"flowfabric, {AT_ONCE} at once",
            n=n,
            ops_per_s=single,
        ),
        Measured(
            scenario=f"{SUBMIT}/batch",
            store=store,
            system="flowfabric",
            n=BULK * BATCHES,
            ops_per_s=bulk,
        ),
    ]


async def _single(engine: EngineProtocol, n: int) -> float:
    made = iter(creations(n))

    async def client() -> None:
        for args in made:
            await engine.create_execution(args)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return n / (time.perf_counter() - began)


async def _bulk(engine: EngineProtocol) -> float:
    batches = [creations(BULK) for _ in range(BATCHES)]
    began = time.perf_counter()
    for batch in batches:
        await engine.create_executions(batch)
    return BULK * BATCHES / (time.perf_counter() - began)


async def run_drain(store: str, n: int, workers: int) -> list[Measured]:
    """A worker that only knows the server works off a backlog; then single runs over HTTP and
    directly, in turns.
    """
    async with both(store) as (direct, app):
        rates = [await _drained(app, n) for _ in range(ROUNDS)]
        found = [
            Measured(scenario=DRAIN, store=store, system="flowfabric", n=n, ops_per_s=median(rates))
        ]
        directly, over_http = await _in_turns(direct, app)
    found.append(summed_up(f"{DRAIN}/latency direct", store, directly))
    found.append(summed_up(f"{DRAIN}/latency over http", store, over_http))
    return found


async def _in_turns(direct: App, app: App) -> tuple[list[float], list[float]]:
    directly: list[float] = []
    over_http: list[float] = []
    for _ in range(TURNS):
        async with Worker(direct, loops=False):
            directly += await timed(direct, LATENCIES // TURNS)
        async with Worker(app):
            over_http += await timed(app, LATENCIES // TURNS)
    return directly, over_http


async def _drained(app: App, n: int) -> float:
    await app.tasks["nothing"].submit_many(range(n))
    worker = Worker(app, concurrency=DRAIN_CONCURRENCY)
    began = time.perf_counter()
    done = await worker.run_until_idle()
    took = time.perf_counter() - began
    assert done == n, f"{done} of {n} on {LANE}"
    await worker.stop()
    return n / took
