"""More than one process on a database: a commit of one wakes the others, and one of them runs the loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from flowfabric.connect import PostgresBackend
from flowfabric.engine.claims import POLL_S
from flowfabric.engine.subscriptions import IDLE_POLL_S
from flowfabric.loops.led import Led
from flowfabric.loops.loop import LoopSettings
from flowfabric.store.postgres import leader
from flowfabric.store.postgres.bell import BURST, PAUSE_S
from flowfabric.store.postgres.connections import Options
from tests.engine.helpers import claim, create, fields, parked, running, state, worker

from .helpers import engine_on, one, plain, until, world

LISTENERS = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')"""
LEADERS = f"""SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
    WHERE locktype = 'advisory' AND classid = {leader._CLASS} AND granted AND datname = current_database()"""
ASKED = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND query LIKE '%pg_try_advisory_lock%'"""
SLOW = LoopSettings(*(60_000,) * 7)


@asynccontextmanager
async def two(options: Options) -> AsyncIterator[tuple[PostgresBackend, PostgresBackend]]:
    """Both listening."""
    async with engine_on(options) as here, engine_on(options) as there:
        with plain(options) as db:
            await until(lambda: one(db, LISTENERS) == 2)
        yield here, there


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_creation_wakes_a_claim_that_waits_elsewhere(options: Options) -> None:
    async with two(options) as (here, there):
        waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=60_000)))
        await parked(there, "ready", "default")
        began = now()
        ident = await create(here)
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident
        assert now() - began < POLL_S / 2 and there.store._bell.heard >= 1
        assert here.store._bell.heard <= 1, "its own news are none"


async def test_a_creation_on_another_lane_wakes_nobody(options: Options) -> None:
    async with two(options) as (here, there):
        waiting = asyncio.ensure_future(there.claim("quiet", (), worker(max_wait_ms=300)))
        await parked(there, "ready", "quiet")
        sweeps = there.store._coalescer.jobs
        await create(here, lane_id="loud")
        await until(lambda: there.store._bell.heard)
        assert await waiting is None
        assert there.store._coalescer.jobs <= sweeps + 2, "looked before it slept and at the end"


async def test_a_completion_wakes_a_subscriber_elsewhere(options: Options) -> None:
    async with two(options) as (here, there):
        stream = await there.subscribe_completion()
        ident, handle = await running(here)
        waiting = asyncio.ensure_future(anext(stream))
        await parked(there, "ff_completion_event")
        began = now()
        await here.complete(handle)
        assert (await waiting).execution_id == ident
        assert now() - began < IDLE_POLL_S / 2


async def test_a_delay_wakes_the_loop_of_the_leader(options: Options) -> None:
    """Its loops sleep a minute unless they are told of something earlier."""
    async with two(options) as (here, there):
        there.with_scanners(SLOW)
        await until(lambda: leads(there))
        await parked(there, "delayed")
        server_now = await here.server_time_ms()
        began = now()
        ident = await create(here, delay_until=server_now + 300)
        handle = await here.claim("default", (), worker(max_wait_ms=20_000))
        assert handle is not None and fields(handle).execution_id == ident
        assert now() - began < POLL_S / 2


async def test_many_commits_are_told_together(options: Options) -> None:
    async with two(options) as (here, there):
        began = now()
        await asyncio.gather(*(create(here) for _ in range(300)))
        for _ in range(30):
            await here.complete(await claim(here))
        await until(lambda: there.store._bell.heard)
        assert 1 <= here.store._bell.sent <= BURST + (now() - began) / PAUSE_S + 1
        assert there.store._bell.heard <= here.store._bell.sent
        await world(there)


async def test_work_is_shared_without_being_done_twice(options: Options) -> None:
    async with two(options) as (here, there):
        made = [await create(here) for _ in range(60)]
        found: list[str] = []

        async def work(engine: PostgresBackend, number: int) -> None:
            while several := await engine.claim_many("default", (), worker(number), 3):
                for each in several:
                    found.append(str(each.execution_id))
                    await engine.complete(each.handle)

        await asyncio.gather(work(here, 1), work(there, 2), work(here, 3), work(there, 4))
        assert sorted(found) == sorted(map(str, made))
        await world(here)


async def test_a_lease_of_one_engine_is_honoured_by_the_other(options: Options) -> None:
    async with two(options) as (here, there):
        ident, handle = await running(here)
        assert await claim_nothing(there)
        await there.complete(handle)
        assert await state(here, ident) == "ENDED(success)"


async def claim_nothing(engine: PostgresBackend) -> bool:
    return await engine.claim("default", (), worker(9)) is None


# ---- who runs the loops


def leads(engine: PostgresBackend) -> bool:
    return isinstance(engine._loops, Led) and engine._loops.leads


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.03)


async def test_of_two_one_leads_and_the_other_follows_when_it_leaves(options: Options) -> None:
    async with engine_on(options) as first, engine_on(options) as second:
        assert first.with_scanners(SLOW) and not first.with_scanners(SLOW)
        await until(lambda: leads(first))
        assert second.with_scanners(SLOW)
        with plain(options) as db:
            await both_asked(db)
            assert one(db, LEADERS) == 1 and not leads(second)
            await first.close()
            await until(lambda: leads(second))
            assert one(db, LEADERS) == 1


async def test_started_together_exactly_one_leads(options: Options) -> None:
    async with engine_on(options) as first, engine_on(options) as second:
        first.with_scanners(SLOW)
        second.with_scanners(SLOW)
        await until(lambda: leads(first) or leads(second))
        with plain(options) as db:
            await both_asked(db)
            assert one(db, LEADERS) == 1
        assert leads(first) is not leads(second)


async def test_a_leader_whose_session_ends_stops_and_somebody_leads_again(options: Options) -> None:
    async with engine_on(options) as first, engine_on(options) as second:
        first.with_scanners(SLOW)
        await until(lambda: leads(first))
        second.with_scanners(SLOW)
        assert isinstance(first._loops, Led)
        led = first._loops._running
        with plain(options) as db:
            await both_asked(db)
            one(db, LEADERS.replace("count(*)", "pg_terminate_backend(pid, 5000)"))
            await until(lambda: first._loops is not None and first._loops._running is not led)  # type: ignore[union-attr]
            await until(lambda: leads(first) or leads(second))
            await until(lambda: one(db, LEADERS) == 1)
        await until(lambda: led is not None and led._tasks == [])


async def test_a_follower_takes_over_what_the_leader_left(options: Options) -> None:
    quick = LoopSettings(delayed_promoter_ms=100)
    async with engine_on(options) as first, engine_on(options) as second:
        first.with_scanners(quick)
        await until(lambda: leads(first))
        second.with_scanners(quick)
        ident = await create(second, delay_until=await second.server_time_ms() + 400)
        await first.close()
        handle = await second.claim("default", (), worker(max_wait_ms=20_000))
        assert handle is not None and fields(handle).execution_id == ident


async def both_asked(db: psycopg.Connection[Any]) -> None:
    await until(lambda: one(db, ASKED) == 2)
