"""How much memory of a Valkey server an execution takes in each state, and how much of it its
payload and its result are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec import structs

from benchmarks.engines import BULK, LANE, creations, opened
from benchmarks.report import Measured
from benchmarks.timers import FAR_MS, POLICY, SECRET, suspended_until
from benchmarks.valkey import keys, memory
from flowfabric import Engine
from flowfabric.model.lease import Work
from flowfabric.store.valkey.store import ValkeyStore

NAME = "bytes-per-execution"
PAYLOADS = (40, 1_024)
WARM_UP = 200
POLICY_NOW = structs.replace(POLICY, max_wait_ms=0)
Sizes = tuple[int, int]
"""Bytes and keys."""


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`n` executions for each size of the payload. The result of one that ends is as large."""
    if store != "valkey":
        raise SystemExit(f"{NAME} weighs the keys of a server: --store valkey, not {store}")
    return [line for payload in PAYLOADS for line in await _weighed(payload, n)]


async def _weighed(payload: int, n: int) -> list[Measured]:
    found = []
    async with _opened() as (engine, port):
        await _suspended(engine, await _active(engine, payload, WARM_UP))
        await _ended(engine, await _active(engine, payload, WARM_UP), payload)
        empty = await _sizes(port)
        await _waiting(engine, payload, n)
        found.append(_line("waiting", payload, n, empty, await _sizes(port)))
        works = await _claimed(engine, n)
        found.append(_line("active", payload, n, empty, await _sizes(port)))
        await _suspended(engine, works)
        before = await _sizes(port)
        found.append(_line("suspended", payload, n, empty, before))
        await _ended(engine, await _active(engine, payload, n), payload)
        found.append(_line("ended", payload, n, before, await _sizes(port)))
    return found


@asynccontextmanager
async def _opened() -> AsyncIterator[tuple[Engine, int]]:
    async with opened("valkey") as (engine, _):
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        assert isinstance(engine.store, ValkeyStore)
        yield engine, engine.store.options.port


async def _sizes(port: int) -> Sizes:
    return await memory(port), await keys(port)


async def _waiting(engine: Engine, payload: int, n: int) -> None:
    for at in range(0, n, BULK):
        some = creations(min(BULK, n - at))
        await engine.create_executions(
            [structs.replace(each, input_payload=b"x" * payload) for each in some]
        )


async def _claimed(engine: Engine, n: int) -> list[Work]:
    found: list[Work] = []
    while some := await engine.claim_many(LANE, (), POLICY_NOW, 100):
        found += some
    assert len(found) == n, f"{len(found)} of {n} claimed"
    return found


async def _active(engine: Engine, payload: int, n: int) -> list[Work]:
    await _waiting(engine, payload, n)
    return await _claimed(engine, n)


async def _suspended(engine: Engine, works: Sequence[Work]) -> None:
    until = await engine.server_time_ms() + FAR_MS
    for work in works:
        await suspended_until(engine, work, until)


async def _ended(engine: Engine, works: Sequence[Work], payload: int) -> None:
    for at in range(0, len(works), 100):
        ends = [(work.handle, b"y" * payload) for work in works[at : at + 100]]
        assert await engine.complete_many(ends) == [None] * len(ends)


def _line(state: str, payload: int, n: int, before: Sizes, after: Sizes) -> Measured:
    size, count = ((late - early) / n for early, late in zip(before, after, strict=True))
    return Measured(
        scenario=f"{NAME}/{state}",
        store="valkey",
        system=f"flowfabric, payload of {payload:,} bytes",
        n=n,
        memory_bytes=size,
        notes=f"{count:.1f} keys",
    )
