"""The supervisor on the system clock and a SQLite file: wake-ups and shutdown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric.connect import SqliteBackend, memory_engine, sqlite_engine
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.loops.supervisor import EARLY_S, Supervisor, until_step
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.store.sqlite.registry import open_store
from tests.engine.helpers import (
    LANE,
    attempt,
    claim,
    create,
    fields,
    loop_threads,
    parked,
    registration,
    running,
    state,
    worker,
)
from tests.patience import patient

LONG_MS = 60_000
SLOW = LoopSettings(*(LONG_MS,) * 18)
"""No loop looks by itself within a test: whatever happens in time happened because it was due."""
SOON_S = 10.0


@asynccontextmanager
async def live(
    folder: Path, settings: LoopSettings = SLOW, **engine: Any
) -> AsyncIterator[SqliteBackend]:
    """A backend on a file of its own with its loops running."""
    made = sqlite_engine(open_store(str(folder / "live.db")), Settings(**engine))
    assert made.with_scanners(settings)
    try:
        yield made
    finally:
        await made.close()


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with patient(SOON_S):
        while not await check():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_delayed_execution_is_claimable_at_its_time(tmp_path: Path) -> None:
    async with live(tmp_path) as engine:
        waiting = asyncio.create_task(
            engine.claim(LANE, (), worker(max_wait_ms=int(SOON_S * 1000)))
        )
        at = now_ms() + 50
        ident = await create(engine, delay_until=at)
        handle = await waiting
        assert handle is not None and fields(handle).execution_id == ident
        assert now_ms() >= at


async def test_an_earlier_due_time_wakes_a_loop_that_sleeps_for_a_later_one(tmp_path: Path) -> None:
    async with live(tmp_path) as engine:
        await create(engine, delay_until=now_ms() + LONG_MS)
        await parked(engine, "delayed")
        soon = await create(engine, delay_until=now_ms() + 50)
        handle = await engine.claim(LANE, (), worker(max_wait_ms=int(SOON_S * 1000)))
        assert handle is not None and fields(handle).execution_id == soon


async def test_a_retry_is_claimable_after_its_backoff(tmp_path: Path) -> None:
    policy = ExecutionPolicy(retry_policy=RetryPolicy(backoff={"type": "fixed", "delay_ms": 40}))
    async with live(tmp_path) as engine:
        ident, handle = await running(engine, policy=policy)
        await engine.fail(handle, "boom")
        again = await engine.claim(LANE, (), worker(max_wait_ms=int(SOON_S * 1000)))
        assert again is not None and fields(again).attempt_index == 1
        assert (await attempt(engine, ident)).attempt_type == "retry"


async def test_an_execution_of_a_dead_worker_is_requeued(tmp_path: Path) -> None:
    async with live(tmp_path, lease_reclaim_grace_ms=20) as engine:
        ident, before = await running(engine, worker(ttl_ms=50))
        again = await engine.claim(LANE, (), worker(2, max_wait_ms=int(SOON_S * 1000)))
        assert again is not None and fields(again).execution_id == ident
        assert fields(again).lease_epoch == fields(before).lease_epoch + 1


async def test_time_limits_end_executions(tmp_path: Path) -> None:
    policy = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=40),
        retry_policy=RetryPolicy(max_retries=0, backoff={}),
    )
    async with live(tmp_path) as engine:
        slow, _ = await running(engine, policy=policy)
        late = await create(engine, execution_deadline_at=now_ms() + 40)

        async def both_ended() -> bool:
            return [await state(engine, i) for i in (slow, late)] == ["ENDED(expired)"] * 2

        await until(both_ended)


async def test_workers_without_heartbeat_are_removed(tmp_path: Path) -> None:
    async with live(tmp_path) as engine:
        await engine.register_worker(registration(liveness_ttl_ms=40))

        async def gone() -> bool:
            return not await engine.store.execute_for_test("SELECT 1 FROM ff_worker_registry")

        await until(gone)


# ---- starting and stopping


async def test_the_loops_run_once_per_database(tmp_path: Path) -> None:
    path = str(tmp_path / "one.db")
    first, second = sqlite_engine(open_store(path)), sqlite_engine(open_store(path))
    assert first.store is second.store
    assert first.with_scanners(SLOW)
    assert not first.with_scanners(SLOW)
    assert not second.with_scanners(SLOW)
    await second.close()
    assert first.store.loops is not None
    await first.shutdown_prepare()
    assert first.store.loops is None
    assert first.with_scanners(SLOW), "after a shutdown they may be started again"
    await first.close()


async def test_two_databases_have_loops_of_their_own(tmp_path: Path) -> None:
    one, two = (sqlite_engine(open_store(str(tmp_path / name))) for name in ("a.db", "b.db"))
    assert one.with_scanners(SLOW) and two.with_scanners(SLOW)
    await one.close()
    await two.close()


async def test_stop_wakes_sleeping_loops_and_leaves_no_task(tmp_path: Path) -> None:
    before = len(asyncio.all_tasks())
    async with live(tmp_path) as engine:
        await claim(engine) if await create(engine) else None
        assert sum(task.get_name().startswith("flowfabric-") for task in asyncio.all_tasks()) == 0
        assert len(loop_threads()) == 1
        started = time.monotonic()
        await engine.shutdown_prepare(SOON_S)
        assert time.monotonic() - started < SOON_S / 2
        assert len(asyncio.all_tasks()) == before
        assert not loop_threads()
        await engine.ping()


class Stubborn:
    """A loop whose cycle blocks or raises."""

    name, topic, timed, interval_ms = "stubborn", "stubborn", False, LONG_MS

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.seconds, self.error, self.finished, self.entered = (
            seconds,
            error,
            False,
            asyncio.Event(),
        )

    async def run(self, engine: Engine) -> int:
        self.entered.set()
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.finished = True
        return 1

    async def next_due(self, engine: Engine) -> int | None:
        return None


def supervised(engine: Engine, loop: Stubborn) -> Supervisor:
    supervisor = Supervisor(engine, SLOW)
    supervisor.loops = [loop]
    supervisor.start()
    return supervisor


async def test_stop_lets_a_running_pass_finish() -> None:
    loop = Stubborn(0.05)
    supervisor = supervised(memory_engine(), loop)
    await loop.entered.wait()
    await supervisor.stop(SOON_S)
    assert loop.finished


async def test_stop_ends_a_pass_that_outlasts_the_grace_and_does_not_raise() -> None:
    loop = Stubborn(600)
    supervisor = supervised(memory_engine(), loop)
    await loop.entered.wait()
    async with patient(SOON_S):
        await supervisor.stop(0.02)
    assert not loop.finished


async def test_stop_without_a_start_and_twice_is_fine() -> None:
    supervisor = Supervisor(memory_engine(), SLOW)
    await supervisor.stop(0)
    supervisor.start()
    await supervisor.stop(1)
    await supervisor.stop(1)


async def test_a_failed_cycle_is_logged_and_retried(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.loops.supervisor.AFTER_ERROR_MS", 10)
    loop = Stubborn(0, RuntimeError("injected"))
    with caplog.at_level(logging.ERROR, "flowfabric.loops"):
        supervisor = supervised(memory_engine(), loop)
        await loop.entered.wait()
        await asyncio.sleep(0)
        loop.entered.clear()
        loop.error = None
        async with patient(SOON_S):
            await loop.entered.wait()
    await supervisor.stop(SOON_S)
    assert [vars(each)["scanner"] for each in caplog.records] == ["stubborn"]
    assert "loop cycle failed; retrying" in caplog.text
    assert loop.finished


@pytest.mark.parametrize("how", ["cancelled", "raised"])
async def test_a_loop_that_died_is_restarted_and_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("flowfabric.loops.supervisor.RESTART_S", 0.05)
    loop = Stubborn(600)
    if how == "raised":
        loop.seconds, loop.error = 0, BaseExceptionGroup("injected", [SystemError()])  # type: ignore[assignment]
        monkeypatch.setattr(
            "flowfabric.loops.supervisor.Exception", ZeroDivisionError, raising=False
        )
    supervisor = supervised(memory_engine(), loop)
    await loop.entered.wait()
    if how == "cancelled":
        (task,) = loop_tasks()
        task.cancel()
    async with patient(SOON_S):
        while "background loop ended" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0)
        stopped = not supervisor.is_running
        assert stopped
        loop.seconds, loop.error = 0, None
        loop.entered.clear()
        await loop.entered.wait()
        await until(lambda: _is(loop.finished))
    assert supervisor.is_running
    (record,) = [each for each in caplog.records if "ended" in each.getMessage()][:1]
    assert (vars(record)["scanner"], record.getMessage()) == (
        "stubborn",
        "background loop ended; restarting it",
    )
    await supervisor.stop(SOON_S)


async def _is(what: bool) -> bool:
    return what


def loop_tasks() -> list[asyncio.Task[None]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("flowfabric-")]


async def test_a_loop_that_waits_for_its_restart_does_not_start_after_a_stop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.loops.supervisor.RESTART_S", 0.1)
    loop = Stubborn(600)
    supervisor = supervised(memory_engine(), loop)
    await loop.entered.wait()
    (task,) = loop_tasks()
    task.cancel()
    while "background loop ended" not in caplog.text:  # noqa: ASYNC110
        await asyncio.sleep(0)
    loop.entered.clear()
    await supervisor.stop(SOON_S)
    await asyncio.sleep(0.15)
    assert not loop.entered.is_set()


async def test_loops_that_were_all_cancelled_are_not_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that ends cancels all its tasks; nothing starts again behind it."""
    monkeypatch.setattr("flowfabric.loops.supervisor.RESTART_S", 0.02)
    supervisor = Supervisor(memory_engine(), SLOW)
    supervisor.start()
    await asyncio.sleep(0)
    tasks = loop_tasks()
    assert len(tasks) == len(supervisor.loops)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(0.05)
    assert loop_tasks() == [] and not supervisor.is_running
    await supervisor.stop(SOON_S)


async def test_an_idle_supervisor_sleeps(tmp_path: Path) -> None:
    """No due time, no work: no loop runs again within its interval."""
    async with live(tmp_path) as engine:
        await asyncio.sleep(0.15)
        jobs = engine.store.writer.jobs
        await asyncio.sleep(0.3)
        assert engine.store.writer.jobs - jobs <= 1


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (100.0, 3.0),
        (100.1, 2.9),
        (102.5, 0.5),
        (103.0, 3.0),
        (104.0, 2.0),
        (100.0 + 3 * 7 + 1, 2.0),
    ],
)
def test_steps_lie_an_interval_apart(now: float, left: float) -> None:
    assert until_step(100.0, now, 3.0) == pytest.approx(left)


def test_an_early_timer_does_not_cause_a_second_cycle() -> None:
    assert until_step(100.0, 103.0 - EARLY_S / 2, 3.0) == pytest.approx(3.0 + EARLY_S / 2)


def test_no_step_is_further_away_than_the_interval() -> None:
    assert all(0 < until_step(100.0, 100 + n / 1000, 0.75) <= 0.751 + EARLY_S for n in range(5_000))
