"""Two engines on a cell: commits wake the other, and one of them runs the loops."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.store.valkey import leader
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.leader import Election
from flowfabric.store.valkey.options import Options
from flowfabric.testing import ManualClock
from flowfabric.testing.valkey import ValkeyServer
from tests import valkey
from tests.engine.helpers import create, fields, parked, running, state, worker
from tests.patience import patient

from .helpers import engine_on, until, world

SLOW = LoopSettings(*(60_000,) * 7)
QUICK = LoopSettings(delayed_promoter_ms=100)


@pytest.fixture
def cell() -> Options:
    """Under the clock of the server."""
    return valkey.new_store(ManualClock()).options


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "ASK_EVERY_S", 0.03)


@asynccontextmanager
async def two(cell: Options) -> AsyncIterator[tuple[Engine, Engine]]:
    async with engine_on(cell) as here, engine_on(cell) as there:
        yield here, there


async def test_a_creation_wakes_a_waiting_claim_of_another_engine(cell: Options) -> None:
    async with two(cell) as (here, there), patient(20):
        waiting = asyncio.ensure_future(there.claim("default", (), worker(max_wait_ms=600_000)))
        await parked(there, "ready", "default")
        ident = await create(here)
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident


async def test_a_completion_wakes_a_subscriber_of_another_engine(cell: Options) -> None:
    async with two(cell) as (here, there), patient(20):
        stream = await there.subscribe_completion()
        ident, handle = await running(here)
        waiting = asyncio.ensure_future(anext(stream))
        await parked(there, "ff_completion_event")
        await here.complete(handle)
        assert (await waiting).execution_id == ident


async def test_two_engines_share_work_without_doing_it_twice(cell: Options) -> None:
    async with two(cell) as (here, there):
        made = [await create(here) for _ in range(60)]
        found: list[str] = []

        async def work(engine: Engine, number: int) -> None:
            while several := await engine.claim_many("default", (), worker(number), 3):
                for each in several:
                    found.append(str(each.execution_id))
                    await engine.complete(each.handle)

        await asyncio.gather(work(here, 1), work(there, 2), work(here, 3), work(there, 4))
        assert sorted(found) == sorted(map(str, made))
        await world(here)


async def test_a_lease_of_one_engine_is_honoured_by_the_other(cell: Options) -> None:
    async with two(cell) as (here, there):
        ident, handle = await running(here)
        assert await there.claim("default", (), worker(9)) is None
        await there.complete(handle)
        assert await state(here, ident) == "ENDED(success)"


# ---- who runs the loops


def leads(engine: Engine) -> bool:
    return engine.loops.leads


def holder(engine: Engine) -> str:
    inside = engine.loops.thread.inside  # type: ignore[attr-defined]
    assert isinstance(inside, LeaderOnly) and isinstance(inside.election, Election)
    return inside.election.me


async def held_by(cell: Options) -> str | None:
    connection = await Connection.open(cell)
    found = await connection.command("GET", f"{cell.prefix}:leader")
    await connection.close()
    return None if found is None else found.decode()


async def take(cell: Options, who: str, px: int) -> None:
    connection = await Connection.open(cell)
    await connection.command("SET", f"{cell.prefix}:leader", who, "PX", str(px))
    await connection.close()


async def test_the_other_engine_leads_when_the_leader_leaves(cell: Options) -> None:
    async with two(cell) as (first, second):
        assert first.with_scanners(SLOW) and not first.with_scanners(SLOW)
        await until(lambda: leads(first))
        assert second.with_scanners(SLOW)
        assert await held_by(cell) == holder(first) and not leads(second)
        await first.close()
        await until(lambda: leads(second))
        assert await held_by(cell) == holder(second)


async def test_a_lease_that_ends_too_late_is_taken_over(cell: Options) -> None:
    """It is left by a server whose clock was set back; its holder is gone."""
    await take(cell, "gone", 3_600_000)
    async with engine_on(cell) as engine:
        engine.with_scanners(SLOW)
        await until(lambda: leads(engine))
        assert await held_by(cell) == holder(engine)


async def test_a_live_lease_of_another_is_honoured_until_it_ends(cell: Options) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await take(cell, "other", 400)
    async with engine_on(cell) as engine:
        engine.with_scanners(SLOW)
        await until(lambda: leads(engine))
        assert loop.time() - began >= 0.35


async def test_a_replaced_leader_steps_down(cell: Options) -> None:
    async with engine_on(cell) as engine:
        engine.with_scanners(SLOW)
        await until(lambda: leads(engine))
        await take(cell, "other", 7_000)
        await until(lambda: not leads(engine))


async def test_a_leader_that_is_not_answered_steps_down_and_leads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader, "TTL_S", 0.5)
    monkeypatch.setattr(leader, "ANSWER_S", 0.1)
    with ValkeyServer() as server:
        cell = Options("127.0.0.1", server.port)
        async with engine_on(cell) as engine:
            engine.with_scanners(SLOW)
            await until(lambda: leads(engine))
            server.signal(signal.SIGSTOP)
            await until(lambda: not leads(engine))
            server.signal(signal.SIGCONT)
            await until(lambda: leads(engine))


async def test_a_follower_continues_the_work_of_the_leader(cell: Options) -> None:
    async with two(cell) as (first, second):
        first.with_scanners(QUICK)
        await until(lambda: leads(first))
        second.with_scanners(QUICK)
        ident = await create(second, delay_until=await second.server_time_ms() + 400)
        await first.close()
        handle = await second.claim("default", (), worker(max_wait_ms=20_000))
        assert handle is not None and fields(handle).execution_id == ident


@contextmanager
def leading(cell: Options, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that leads."""
    url = f"valkey://{cell.host}:{cell.port}/{cell.cell}"
    command = [sys.executable, "-m", "tests.store.leader_child", url, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "leads\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.meets("freeze", "leader_change", "delay")
async def test_delays_end_while_the_leader_is_stopped(cell: Options, how: signal.Signals) -> None:
    with leading(cell) as process:
        async with engine_on(cell) as engine:
            engine.with_scanners()
            before = await held_by(cell)
            process.send_signal(how)
            ident = await create(engine, delay_until=await engine.server_time_ms() + 500)
            async with patient(20):
                handle = await engine.claim("default", (), worker(max_wait_ms=60_000))
            assert handle is not None and fields(handle).execution_id == ident
            assert await held_by(cell) != before


@pytest.mark.meets("freeze", "delay")
async def test_a_task_that_blocks_the_event_loop_of_the_leader_delays_no_timer(
    cell: Options,
) -> None:
    """The loops have a thread of their own, so the lead does not even change."""
    with leading(cell, "30"):
        async with engine_on(cell) as engine:
            before = await held_by(cell)
            ident = await create(engine, delay_until=await engine.server_time_ms() + 200)
            async with patient(15):
                handle = await engine.claim("default", (), worker(max_wait_ms=60_000))
            assert handle is not None and fields(handle).execution_id == ident
            assert await held_by(cell) == before


# ---- the clock of the server


async def test_loops_go_on_when_the_clock_of_the_server_was_set_back(cell: Options) -> None:
    """The time of the cell stands still until the clock has caught up with it."""
    async with engine_on(cell) as engine:
        engine.with_scanners(QUICK)
        await until(lambda: leads(engine))
        ahead = await engine.server_time_ms() + 1_500
        connection = await Connection.open(cell)
        await connection.command("SET", f"{cell.prefix}:T", str(ahead))
        await connection.close()
        ident = await create(engine, delay_until=ahead + 200)
        assert await engine.server_time_ms() >= ahead
        async with patient(20):
            handle = await engine.claim("default", (), worker(max_wait_ms=60_000))
        assert handle is not None and fields(handle).execution_id == ident
        await world(engine)
