"""Capability routing: unrunnable work is skipped, parked if no live worker can run it, and
released.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.claims import routing
from flowfabric.engine.claims.claims import POLL_S
from flowfabric.engine.claims.routing import CHECK_EVERY_MS, RECENT_CLAIM_MS, Routing
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.loops.upkeep import RouteReleaser
from flowfabric.model.worker import WorkerInfo
from flowfabric.plan import Plan
from flowfabric.rules.claims.routing import NO_WORKER_COVERS
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Store
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.sqlite import change_watcher as sqlite_watch
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore
from flowfabric.store.sqlite.uri import parse_target
from flowfabric.testing import ManualClock
from tests.conftest import STORES
from tests.patience import patient
from tests.postgres import clean_database

from .helpers import LANE, claim, create, fields, parked, registration, row, state, worker


def needs(*capabilities: str) -> dict[str, Any]:
    return {"routing_requirements": {"required_capabilities": list(capabilities)}}


async def ask(
    engine: Engine, clock: ManualClock, *capabilities: str, lane: str = LANE
) -> ExecutionId | None:
    """Claims and checks the head of the lane, as a worker does that has claimed for a while."""
    found = await engine.claim(lane, capabilities, worker())
    if found is None:
        clock.advance(CHECK_EVERY_MS)
        found = await engine.claim(lane, capabilities, worker())
    return None if found is None else fields(found).execution_id


# ---- parking


async def test_work_that_no_live_worker_covers_is_parked_with_its_reason(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration(capabilities=frozenset({"eu"})))
    ident = await create(engine, policy=needs("eu", "gpu"), priority=9)
    assert await ask(engine, clock, "eu") is None
    found = await row(engine, ident)
    assert await state(engine, ident) == "ROUTE"
    assert (found.blocking_reason, found.blocking_detail) == (
        "waiting_for_capable_worker",
        NO_WORKER_COVERS,
    )


async def test_a_busy_worker_checks_routes(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration())
    for _ in range(3):
        await create(engine)
    ident = await create(engine, policy=needs("gpu"), priority=9)
    await claim(engine)
    assert await state(engine, ident) == "READY"
    clock.advance(CHECK_EVERY_MS - 1)
    await claim(engine)
    assert await state(engine, ident) == "READY"
    clock.advance(1)
    await claim(engine)
    assert await state(engine, ident) == "ROUTE"


async def test_work_that_a_specialist_covers_is_only_skipped(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration("plain"))
    await engine.register_worker(registration("able", capabilities=frozenset({"gpu", "more"})))
    ident = await create(engine, policy=needs("gpu"), priority=9)
    assert await ask(engine, clock) is None
    assert await state(engine, ident) == "READY"
    assert await ask(engine, clock, "gpu") == ident


async def test_nothing_is_parked_without_registered_workers(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration(namespace="elsewhere"))
    ident = await create(engine, policy=needs("gpu"))
    assert await ask(engine, clock) is None
    assert await state(engine, ident) == "READY"
    assert await ask(engine, clock, "gpu") == ident


async def test_a_long_head_is_parked_page_by_page(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "HEAD_PAGE", 5)
    monkeypatch.setattr(routing, "MAX_HEADS", 15)
    await engine.register_worker(registration())
    for _ in range(22):
        await create(engine, policy=needs("gpu"), priority=9)
    await ask(engine, clock)
    assert len(await engine.scan_eligible_executions(LANE)) == 7
    await ask(engine, clock)
    assert await engine.scan_eligible_executions(LANE) == []
    await engine.register_worker(registration("able", capabilities=frozenset({"gpu"})))
    assert len(await engine.scan_eligible_executions(LANE)) == 22


async def test_a_capable_claimer_gets_parked_work_without_registration(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration())
    ident = await create(engine, policy=needs("gpu"))
    await ask(engine, clock)
    assert await state(engine, ident) == "ROUTE"
    assert await ask(engine, clock, "gpu", lane="other") is None
    assert await ask(engine, clock, "eu") is None
    assert await ask(engine, clock, "gpu") == ident


async def test_work_of_an_unregistered_specialist_that_claims_is_not_parked(
    engine: Engine, clock: ManualClock
) -> None:
    """Claimers that skip it do not park it repeatedly while the specialist claims."""
    await engine.register_worker(registration(liveness_ttl_ms=60_000))
    made = {await create(engine, policy=needs("gpu")) for _ in range(5)}
    assert await ask(engine, clock) is None
    assert await engine.scan_eligible_executions(LANE) == []
    taken = {await ask(engine, clock, "gpu")}
    for _ in range(4):
        assert await ask(engine, clock) is None
        taken.add(await ask(engine, clock, "gpu"))
    assert taken == made
    late = await create(engine, policy=needs("gpu"))
    clock.advance(RECENT_CLAIM_MS)
    assert await ask(engine, clock) is None
    assert await state(engine, late) == "ROUTE"


async def test_a_waiting_claim_of_an_unregistered_worker_gets_parked_work(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.claims.claims.POLL_S", 0.01)
    ident = await create(engine, policy=needs("gpu"))
    await engine.block_route(ident, "waiting_for_capable_worker")
    waiting = asyncio.ensure_future(engine.claim(LANE, ("gpu",), worker(max_wait_ms=60_000)))
    await parked(engine, "ready", LANE)
    clock.advance(CHECK_EVERY_MS)
    async with patient(10):
        handle = await waiting
    assert handle is not None and fields(handle).execution_id == ident


async def test_work_parked_during_a_registration_is_released(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registration finds no parked work yet; the parking process looks for workers
    afterwards.
    """
    await engine.register_worker(registration())
    ident = await create(engine, policy=needs("gpu"))
    commit, done = engine.store.commit_many, []

    async def late(plans: list[Plan]) -> Any:
        if plans[0].form.name == "block_route" and not done:
            done.append(True)
            await engine.register_worker(registration("able", capabilities=frozenset({"gpu"})))
        return await commit(plans)

    monkeypatch.setattr(engine.store, "commit_many", late)
    assert await ask(engine, clock) is None
    assert done and await state(engine, ident) == "READY"


async def test_work_claimed_meanwhile_is_not_parked(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.register_worker(registration())
    ident = await create(engine, policy=needs("gpu"))
    live = engine.live_workers

    async def slow(namespace: str | None = None) -> list[WorkerInfo]:
        await engine.claim(LANE, ("gpu",), worker(2))
        return await live(namespace)

    monkeypatch.setattr(engine.parts.part(Routing), "live_workers", slow)
    assert await ask(engine, clock) is None
    assert await state(engine, ident) == "RUNNING"


# ---- letting go


async def test_new_capabilities_of_a_known_worker_release_at_once(engine: Engine) -> None:
    await engine.register_worker(registration())
    ident = await create(engine, policy=needs("eu", "gpu"))
    await engine.block_route(ident, "waiting_for_capable_worker")
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    assert await state(engine, ident) == "ROUTE"
    await engine.register_worker(registration(capabilities=frozenset({"gpu", "eu"})))
    assert await state(engine, ident) == "READY"


async def test_a_release_continues_behind_the_last_page(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many old ones that no worker covers do not hide a later one."""
    monkeypatch.setattr(routing, "ROUTE_PAGE", 2)
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    for n in range(25):
        clock.advance(1)
        ident = await create(engine, policy=needs("gpu" if n == 24 else "never"))
        await engine.block_route(ident, "waiting_for_capable_worker")
    loop = RouteReleaser(LoopSettings())
    assert await loop.run(engine) == 0
    assert await loop.run(engine) == 1
    assert await state(engine, ident) == "READY"
    assert await loop.run(engine) == 0


# ---- two engines on one database


@asynccontextmanager
async def two(kind: str, clock: ManualClock, folder: Path) -> AsyncIterator[tuple[Engine, Engine]]:
    """On a file and on Postgres as two processes would be, each with a store of its own."""
    stores: list[Store]
    if kind == "postgres":
        options = clean_database()
        stores = [await PostgresStore(options, clock=clock).open(check=False) for _ in range(2)]
    elif kind == "memory":
        stores = [MemoryStore(clock)] * 2
    elif kind == "sqlite-memory":
        stores = [open_store("file:two?mode=memory&cache=shared", clock=clock) for _ in range(2)]
    else:
        stores = [
            SqliteStore(parse_target(str(folder / "ff.db")), clock=clock).retain() for _ in range(2)
        ]
    try:
        yield Engine(stores[0]), Engine(stores[1])
    finally:
        for store in stores:
            await store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_registration_in_another_engine_wakes_a_waiting_claim(
    kind: str, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_watch, "WATCH_INTERVAL_S", 0.005)
    async with two(kind, clock, tmp_path) as (here, there):
        await here.register_worker(registration())
        ident = await create(here, policy=needs("gpu"))
        await ask(there, clock)
        assert await state(here, ident) == "ROUTE"
        waiting = asyncio.ensure_future(here.claim(LANE, ("gpu",), worker(max_wait_ms=60_000)))
        await parked(here, "ready", LANE)
        began = asyncio.get_running_loop().time()
        await there.register_worker(registration("able", capabilities=frozenset({"gpu"})))
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident
        assert asyncio.get_running_loop().time() - began < POLL_S / 2


@pytest.mark.parametrize("kind", ["memory", "sqlite-file", "postgres"])
async def test_the_loop_releases_work_of_a_registration_that_died(
    kind: str, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wake-up reaches the loop elsewhere long before its interval, which is all there is
    between processes on SQLite.
    """
    monkeypatch.setattr(sqlite_watch, "WATCH_INTERVAL_S", 0.005)
    async with two(kind, clock, tmp_path) as (here, there):
        ident = await create(here, policy=needs("gpu"))
        await here.block_route(ident, "waiting_for_capable_worker")
        loops = Supervisor(there, LoopSettings(route_ms=60_000 if kind != "sqlite-file" else 100))
        loops.loops = [loop for loop in loops.loops if loop.name == "route_releaser"]
        loops.start()
        await parked(there, "worker_registered")

        async def died(*_: Any) -> int:
            return 0

        monkeypatch.setattr(here, "release_for", died)
        await here.register_worker(registration("able", capabilities=frozenset({"gpu"})))
        async with patient(5):
            while await state(here, ident) != "READY":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await loops.stop(1)


@pytest.mark.parametrize("kind", STORES)
async def test_every_execution_runs_on_a_capable_worker(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    sets = [("a",), ("b",), ("a", "b"), ()]
    async with two(kind, clock, tmp_path) as engines:
        made = {
            await create(engines[0], policy=needs(*sets[n % 4])): set(sets[n % 4])
            for n in range(40)
        }

        async def work(engine: Engine, number: int, offered: tuple[str, ...]) -> list[ExecutionId]:
            got: list[ExecutionId] = []
            while works := await engine.claim_many(LANE, offered, worker(number), 3):
                assert all(made[w.execution_id] <= set(offered) for w in works)
                got += [w.execution_id for w in works]
                await engine.complete_many([(w.handle, None) for w in works])
            return got

        fleet = [
            (engines[n % 2], n, offered)
            for n, offered in enumerate((("a",), ("b",), ("a", "b"), ("a", "b", "c"), ()))
        ]
        taken = [
            ident for got in await asyncio.gather(*(work(*each) for each in fleet)) for ident in got
        ]
        assert len(taken) == 40 and set(taken) == set(made)
