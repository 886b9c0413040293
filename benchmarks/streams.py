"""Output streams: how fast frames are written, whether a long stream gets slow, and how soon a
follower sees one.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from benchmarks.engines import LANE, SERVERS, creations, opened, served
from benchmarks.report import Measured, percentile
from flowfabric import ClaimPolicy, Frame, FrameKind
from flowfabric.connect import connect_store
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.model.lease import Work

APPEND, LATENCY = "stream-append", "stream-latency"
WRITERS = 100
LONG = 100_000
SINGLE, SAMPLE = 1_000, 5_000
BATCH = 100
POLICY = ClaimPolicy("bench", "bench-1", 3_600_000)
TOKEN = Frame(b" token", FrameKind.Stdout, "delta")


async def _attempts(engine: LocalEngineProtocol, count: int) -> list[Work]:
    await engine.create_executions(creations(count))
    return await engine.claim_many(LANE, (), POLICY, count)


async def run_append(store: str, n: int, workers: int) -> list[Measured]:
    """A hundred attempts write token by token, each waiting for its own; then one stream grows
    long.
    """
    async with opened(store) as (engine, _):
        attempts = await _attempts(engine, WRITERS)
        await _tokens(engine, attempts, 10)
        rounds = [await _tokens(engine, attempts, n // WRITERS // 3) for _ in range(3)]
        (long,) = await _attempts(engine, 1)
        singly, together = await _grown(engine, long)
    rate = median(rounds)
    return [
        Measured(scenario=APPEND, store=store, system="flowfabric", n=n, ops_per_s=rate),
        _flatness("one at a time", store, *singly),
        _flatness(f"{BATCH} at a time", store, *together),
    ]


def _flatness(how: str, store: str, first: float, last: float) -> Measured:
    return Measured(
        scenario=f"{APPEND}/a stream of {LONG:,}, {how}: cost of the last against the first",
        store=store,
        system="flowfabric",
        n=LONG,
        ops_per_s=1 / last,
        raw_ops_per_s=1 / first,
        ratio_to_raw=last / first,
    )


async def _tokens(engine: LocalEngineProtocol, attempts: list[Work], each: int) -> float:
    async def write(work: Work) -> None:
        for _ in range(each):
            await engine.append_frame(work.handle, TOKEN)

    began = time.perf_counter()
    await asyncio.gather(*map(write, attempts))
    return each * len(attempts) / (time.perf_counter() - began)


async def _grown(
    engine: LocalEngineProtocol, work: Work
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds per frame at the beginning of a stream and at its end: written singly, and in
    batches.
    """
    first = await _seconds(engine, work, SINGLE, 1), await _seconds(engine, work, SAMPLE, BATCH)
    await _seconds(engine, work, LONG - 2 * (SAMPLE + SINGLE), BATCH)
    last = await _seconds(engine, work, SINGLE, 1), await _seconds(engine, work, SAMPLE, BATCH)
    return (first[0], last[0]), (first[1], last[1])


async def _seconds(engine: LocalEngineProtocol, work: Work, count: int, batch: int) -> float:
    began = time.perf_counter()
    for _ in range(count // batch):
        await engine.append_frames(work.handle, [TOKEN] * batch)
    return (time.perf_counter() - began) / count


async def run_latency(store: str, n: int, workers: int) -> list[Measured]:
    """From the call that writes a frame to the moment a tail that waits for it has it."""
    async with opened(store) as (engine, _):
        found = [await _latency(LATENCY, store, engine, engine, n)]
    if store in SERVERS:
        async with _another_process(store) as (writer, reader):
            found.append(await _across(store, writer, reader, n))
    return found


async def _latency(
    name: str, store: str, writer: LocalEngineProtocol, reader: LocalEngineProtocol, n: int
) -> Measured:
    (work,) = await _attempts(writer, 1)
    seen: asyncio.Queue[float] = asyncio.Queue()

    async def follow() -> None:
        async for _ in reader.follow_stream(work.execution_id):
            seen.put_nowait(time.perf_counter())

    following = asyncio.create_task(follow())
    samples = []
    for _ in range(n):
        await asyncio.sleep(0.002)
        began = time.perf_counter()
        await writer.append_frame(work.handle, TOKEN)
        samples.append(await seen.get() - began)
    await writer.complete(work.handle)
    await following
    return Measured(
        scenario=name,
        store=store,
        system="flowfabric",
        n=n,
        p50_ms=percentile(samples, 0.5),
        p99_ms=percentile(samples, 0.99),
    )


@asynccontextmanager
async def _another_process(
    store: str,
) -> AsyncIterator[tuple[LocalEngineProtocol, asyncio.subprocess.Process]]:
    """A follower in a process of its own, which says when it saw a frame: both clocks are the
    machine's.
    """
    async with served(store) as url:
        engine = await connect_store(url, loops=False)
        try:
            reader = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "benchmarks.streams",
                url,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            yield engine, reader
            await reader.wait()
        finally:
            await engine.close()


async def _across(
    store: str, writer: LocalEngineProtocol, reader: asyncio.subprocess.Process, n: int
) -> Measured:
    assert reader.stdin is not None and reader.stdout is not None
    (work,) = await _attempts(writer, 1)
    reader.stdin.write(f"{work.execution_id}\n".encode())
    await reader.stdout.readline()
    samples = []
    for _ in range(n):
        await asyncio.sleep(0.025)
        began = time.monotonic()
        await writer.append_frame(work.handle, TOKEN)
        samples.append(float(await reader.stdout.readline()) - began)
    await writer.complete(work.handle)
    scenario = f"{LATENCY}/across processes"
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    return Measured(
        scenario=scenario, store=store, system="flowfabric", n=n, p50_ms=p50, p99_ms=p99
    )


async def _follow(url: str) -> None:
    from flowfabric import ExecutionId

    async with await connect_store(url, loops=False) as engine:
        ident = ExecutionId(sys.stdin.readline().strip())
        print("ready", flush=True)
        async for _ in engine.follow_stream(ident):
            print(time.monotonic(), flush=True)


if __name__ == "__main__":
    asyncio.run(_follow(sys.argv[1]))
