"""Two engines on a database: commits wake the other, and one of them runs the loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from flowfabric.connect import PostgresBackend
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.claims.claims import POLL_S
from flowfabric.engine.events.subscriptions import IDLE_POLL_S
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.store.postgres import leader
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.notify import BURST, PAUSE_S
from tests.engine.helpers import claim, create, fields, parked, running, state, worker

from .helpers import engine_on, one, plain, until, world

LISTENERS = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid()
    AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')"""
LEADER = (
    "SELECT holder FROM ff_leader WHERE until_ms > extract(epoch FROM clock_timestamp()) * 1000"
)
ASKED = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid()
    AND query LIKE '%ff_leader%'"""
SLOW = LoopSettings(*(60_000,) * 7)


@asynccontextmanager
async def two(options: Options) -> AsyncIterator[tuple[PostgresBackend, PostgresBackend]]:
    """Two engines that listen."""
    async with engine_on(options) as here, engine_on(options) as there:
        with plain(options) as db:
            await until(lambda: one(db, LISTENERS) == 2)
        yield here, there


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_creation_wakes_a_waiting_claim_in_another_process(options: Options) -> None:
    async with two(options) as (here, there):
        waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=60_000)))
        await parked(there, "ready", "default")
        began = now()
        ident = await create(here)
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident
        assert now() - began < POLL_S / 2 and there.store.notifier.received >= 1
        assert here.store.notifier.received <= 1, "its own news are none"


async def test_a_creation_wakes_a_claim_on_a_lane_that_is_named_by_a_uuid(options: Options) -> None:
    name = str(uuid4())
    async with two(options) as (here, there):
        waiting = asyncio.ensure_future(there.claim(name, (), worker(max_wait_ms=60_000)))
        await parked(there, "ready", name)
        began = now()
        await create(here, lane_id=name)
        assert await waiting is not None and now() - began < POLL_S / 2


async def test_a_creation_on_another_lane_wakes_no_claim(options: Options) -> None:
    async with two(options) as (here, there):
        waiting = asyncio.ensure_future(there.claim("quiet", (), worker(max_wait_ms=300)))
        await parked(there, "ready", "quiet")
        sweeps = there.store.coalescer.jobs
        await create(here, lane_id="loud")
        await until(lambda: there.store.notifier.received)
        assert await waiting is None
        assert there.store.coalescer.jobs <= sweeps + 2, "looked before it slept and at the end"


async def test_a_completion_wakes_a_subscriber_in_another_process(options: Options) -> None:
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
    """Its loops sleep a minute unless an earlier time is announced."""
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


async def test_notifications_of_many_commits_are_combined(options: Options) -> None:
    async with two(options) as (here, there):
        began = now()
        await asyncio.gather(*(create(here) for _ in range(300)))
        for _ in range(30):
            await here.complete(await claim(here))
        await until(lambda: there.store.notifier.received)
        assert 1 <= here.store.notifier.sent <= BURST + (now() - began) / PAUSE_S + 1
        await until(lambda: there.store.notifier.received <= here.store.notifier.sent)
        await world(there)


async def test_two_engines_share_work_without_doing_it_twice(options: Options) -> None:
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
    return engine.loops.leads


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.03)


def holder(engine: PostgresBackend) -> str:
    assert engine.loops.thread is not None and isinstance(engine.loops.thread.inside, LeaderOnly)
    assert isinstance(engine.loops.thread.inside.election, leader.Election)
    return engine.loops.thread.inside.election.me


async def test_the_other_process_leads_when_the_leader_leaves(options: Options) -> None:
    async with engine_on(options) as first, engine_on(options) as second:
        assert first.with_scanners(SLOW) and not first.with_scanners(SLOW)
        await until(lambda: leads(first))
        assert second.with_scanners(SLOW)
        with plain(options) as db:
            await both_asked(db)
            assert one(db, LEADER) == holder(first) and not leads(second)
            await first.close()
            await until(lambda: leads(second))
            assert one(db, LEADER) == holder(second)


async def test_of_two_processes_started_together_one_leads(options: Options) -> None:
    async with engine_on(options) as first, engine_on(options) as second:
        first.with_scanners(SLOW)
        second.with_scanners(SLOW)
        await until(lambda: leads(first) or leads(second))
        with plain(options) as db:
            await both_asked(db)
        assert leads(first) is not leads(second)


async def test_a_leader_whose_session_ends_is_replaced_or_keeps_its_lease(options: Options) -> None:
    async with engine_on(options) as first, engine_on(options) as second:
        first.with_scanners(SLOW)
        await until(lambda: leads(first))
        second.with_scanners(SLOW)
        with plain(options) as db:
            await both_asked(db)
            ended = one(db, "SELECT backend FROM ff_leader")
            db.execute("SELECT pg_terminate_backend(%s, 5000)", (ended,))
            await until(lambda: one(db, "SELECT backend FROM ff_leader") != ended)
            await until(lambda: leads(first) is not leads(second))
            assert one(db, LEADER) in (holder(first), holder(second))


@pytest.mark.parametrize("off_s", [-1, +3_600])
async def test_a_lease_that_expired_or_is_too_far_ahead_is_taken_over(
    options: Options, off_s: int
) -> None:
    """The second is left by a server whose clock was set back."""
    with plain(options) as db:
        at = "extract(epoch FROM clock_timestamp()) * 1000 + %s"
        db.execute(f"INSERT INTO ff_leader VALUES ('loops', 'gone', 0, {at})", (off_s * 1000,))
        async with engine_on(options) as engine:
            engine.with_scanners(SLOW)
            await until(lambda: leads(engine))


async def test_a_live_lease_of_another_is_honoured_until_it_ends(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "TTL_S", 0.5)
    with plain(options) as db:
        began = now()
        db.execute(
            "INSERT INTO ff_leader VALUES ('loops', 'other', 0, extract(epoch FROM "
            "clock_timestamp()) * 1000 + 400)"
        )
        async with engine_on(options) as engine:
            engine.with_scanners(SLOW)
            await until(lambda: leads(engine))
            assert now() - began >= 0.4


async def test_a_replaced_leader_steps_down(options: Options) -> None:
    async with engine_on(options) as engine:
        engine.with_scanners(SLOW)
        await until(lambda: leads(engine))
        with plain(options) as db:
            db.execute("UPDATE ff_leader SET holder = 'other', backend = 0")
            await until(lambda: not leads(engine))


async def test_a_leader_that_cannot_renew_steps_down_when_its_lease_ends(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "TTL_S", 0.5)
    monkeypatch.setattr(leader, "ANSWER_S", 0.1)
    async with engine_on(options) as engine:
        engine.with_scanners(SLOW)
        await until(lambda: leads(engine))
        with plain(options, autocommit=False) as db:
            db.execute("SELECT 1 FROM ff_leader FOR UPDATE")
            await until(lambda: not leads(engine))


async def test_a_follower_continues_the_work_of_the_leader(options: Options) -> None:
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
