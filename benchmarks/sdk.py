"""The SDK from end to end: draining a backlog, durable steps, and how long one waits
for a result.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.engines import SERVERS, served
from benchmarks.report import Measured, percentile
from flowfabric import App, Context, Worker

DRAIN, STEPS, LATENCY = "sdk-drain", "steps", "sdk-latency"
ROUNDS = 3
DRAIN_CONCURRENCY = 100
FEWER = (16, 4, 1)
STEP_CONCURRENCY = 10
STEPS_EACH = 10
PAUSE_S = 0.005


def declared(url: str, **more: Any) -> App:
    app = App(url, **more)

    @app.task
    async def nothing(n: int) -> int:
        return n

    async def step(n: int) -> int:
        return n

    @app.task
    async def ten(ctx: Context) -> int:
        for n in range(STEPS_EACH):
            await ctx.step(f"step {n}", step, n)
        return STEPS_EACH

    return app


@asynccontextmanager
async def connected(store: str) -> AsyncIterator[App]:
    """An app on fresh storage."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    async with AsyncExitStack() as stack:
        if store in SERVERS:
            url = await stack.enter_async_context(served(store))
        elif store == "memory":
            url = "memory://"
        else:
            folder = stack.enter_context(TemporaryDirectory(prefix="flowfabric-bench-", dir="."))
            url = f"sqlite:///{folder}/sdk.db"
        yield await stack.enter_async_context(declared(url))


async def _drained(app: App, concurrency: int, submit: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of this process's processors, until one worker has worked off what
    was submitted.
    """
    runs = await submit()
    worker = Worker(app, concurrency=concurrency, loops=False)
    began, busy = time.perf_counter(), time.process_time()
    done = await worker.run_until_idle()
    took = time.perf_counter() - began, time.process_time() - busy
    assert done == len(runs)
    await worker.stop()
    return took


async def run_drain(store: str, n: int, workers: int) -> list[Measured]:
    """Tasks that do nothing, submitted before the worker begins; then fewer of them, with fewer at
    a time.
    """
    async with connected(store) as app:
        task = app.tasks["nothing"]

        async def rated(scenario: str, at_once: int, n: int) -> Measured:
            rounds = [
                await _drained(app, at_once, lambda: task.submit_many(range(n)))
                for _ in range(ROUNDS)
            ]
            return _rate(scenario, store, n, rounds)

        await _drained(app, DRAIN_CONCURRENCY, lambda: task.submit_many(range(200)))
        most = await rated(DRAIN, DRAIN_CONCURRENCY, n)
        return [
            most,
            *[await rated(f"{DRAIN}/{at_once} at a time", at_once, n // 5) for at_once in FEWER],
        ]


async def run_steps(store: str, n: int, workers: int) -> list[Measured]:
    """`n` tasks of ten async steps each, ten tasks at a time: steps per second."""
    async with connected(store) as app:
        task = app.tasks["ten"]
        await _drained(app, STEP_CONCURRENCY, lambda: task.submit_many([()] * 20))
        rounds = [
            await _drained(app, STEP_CONCURRENCY, lambda: task.submit_many([()] * n))
            for _ in range(ROUNDS)
        ]
    return [_rate(STEPS, store, n * STEPS_EACH, rounds)]


def _rate(scenario: str, store: str, n: int, rounds: list[tuple[float, float]]) -> Measured:
    took, busy = (median(each) for each in zip(*rounds, strict=True))
    system = f"flowfabric, {busy / n * 1e6:.0f} us of processor each"
    return Measured(scenario=scenario, store=store, system=system, n=n, ops_per_s=n / took)


async def run_latency(store: str, n: int, workers: int) -> list[Measured]:
    """From the call of submit() to the result in hand, with a worker that has nothing
    else to do.
    """
    async with connected(store) as app:
        async with Worker(app):
            found = [await latency(LATENCY, store, app, n)]
        if store in SERVERS:
            async with _another_process(app.url):
                found.append(await latency(f"{LATENCY}/across processes", store, app, n))
    return found


async def latency(scenario: str, store: str, app: App, n: int) -> Measured:
    return summed_up(scenario, store, await timed(app, n))


async def timed(app: App, n: int, before: int = 20) -> list[float]:
    """Seconds from submitting to having the result, one after the other; some are run before and
    not counted.
    """
    task, samples = app.tasks["nothing"], []
    for at in range(before + n):
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        await (await task.submit(at)).result()
        samples.append(time.perf_counter() - began)
    return samples[before:]


def summed_up(scenario: str, store: str, samples: list[float]) -> Measured:
    p50, p99 = (percentile(samples, share) for share in (0.5, 0.99))
    return Measured(
        scenario=scenario, store=store, system="flowfabric", n=len(samples), p50_ms=p50, p99_ms=p99
    )


@asynccontextmanager
async def _another_process(url: str) -> AsyncIterator[None]:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.sdk", url, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    await worker.stdout.readline()
    try:
        yield
    finally:
        worker.terminate()
        await worker.wait()


async def _work(url: str) -> None:
    async with declared(url) as app:
        print("ready", flush=True)
        await Worker(app).run()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(sys.argv[1]))
