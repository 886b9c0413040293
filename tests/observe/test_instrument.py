"""Metrics of an instrumented app and its workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric import App, Engine, Worker, memory_engine
from flowfabric.loops.supervisor import Supervisor
from flowfabric.observe import Metrics, watch
from tests.sdk.helpers import until

from .helpers import values


async def test_runs_of_a_worker_are_counted(memory: Engine, metrics: Metrics) -> None:
    app = App("memory://", engine=memory)
    watch(app, metrics)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app, Worker(app):
        assert await (await double.submit(4)).result() == 8
    assert values(metrics, "ff_attempt_outcome_total") == {("default", "ok"): 1}
    assert values(metrics, "ff_execution_latency_seconds_count") == {("default", "ok"): 1}
    assert values(metrics, "ff_scanner_cycle_total"), "and the loops it started tell of themselves"


async def test_queues_are_sampled_when_another_thread_reads_the_metrics(
    memory: Engine, metrics: Metrics
) -> None:
    app = App("memory://", engine=memory)
    watch(app, metrics)

    @app.task(lane="mail")
    async def send() -> None:
        return None

    async with app:
        assert values(metrics, "ff_executions") == {}, "a reader in the loop is not blocked"
        await send.submit()
        await asyncio.to_thread(metrics.render)
        assert values(metrics, "ff_executions") == {("mail", "waiting"): 1}
        assert metrics.registry.get_sample_value("ff_cancel_backlog_depth") == 0


def test_queues_are_not_shown_after_the_loop_of_the_app_has_ended(metrics: Metrics) -> None:
    engine = memory_engine()
    app = App("memory://", engine=engine)
    watch(app, metrics)

    @app.task
    async def send() -> None:
        return None

    async def used() -> None:
        async with app:
            await send.submit()
            await asyncio.to_thread(metrics.render)
            assert values(metrics, "ff_executions")

    asyncio.run(used())
    assert values(metrics, "ff_executions") == {}
    asyncio.run(used())


async def test_leases_renewed_in_a_thread_of_their_own_are_counted(
    tmp_path: Path, metrics: Metrics
) -> None:
    app = App(f"sqlite:///{tmp_path}/ff.db")
    watch(app, metrics)
    done = asyncio.Event()

    @app.task
    async def long() -> None:
        await done.wait()

    async with app, Worker(app, lease="300ms"):
        run = await long.submit()
        await until(lambda: values(metrics, "ff_lease_renewal_total").get(("ok",), 0) >= 2)
        done.set()
        await run.result()
        await until(lambda: values(metrics, "ff_scanner_cycle_total"))


async def test_a_worker_at_capacity_is_counted(memory: Engine, metrics: Metrics) -> None:
    app = App("memory://", engine=memory)
    watch(app, metrics)
    done = asyncio.Event()

    @app.task
    async def long() -> None:
        await done.wait()

    async with app, Worker(app, concurrency=1):
        await long.submit()
        await until(lambda: values(metrics, "ff_worker_at_capacity_total"))
        done.set()


async def test_a_stop_that_takes_too_long_is_counted(memory: Engine, metrics: Metrics) -> None:
    app = App("memory://", engine=memory)
    watch(app, metrics)
    began = asyncio.Event()

    @app.task
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    worker = Worker(app, grace="10ms")
    async with app, worker:
        await endless.submit()
        await began.wait()
    assert values(metrics, "ff_shutdown_timeout_total") == {(): 1}


async def test_loops_that_do_not_end_in_time_are_counted(
    memory: Engine, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.watched_by(metrics)
    supervisor = Supervisor(memory)
    stuck = asyncio.Event()

    async def hang(_: Engine) -> int:
        stuck.set()
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(next(loop for loop in supervisor.loops if not loop.timed), "run", hang)
    supervisor.start()
    await stuck.wait()
    await supervisor.stop(0.01)
    assert values(metrics, "ff_shutdown_timeout_total") == {(): 1}


async def test_a_pass_that_fails_is_an_error_and_no_cycle(
    memory: Engine, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.watched_by(metrics)
    supervisor = Supervisor(memory)

    async def broken(_: Engine) -> int:
        raise RuntimeError("injected")

    loop = next(loop for loop in supervisor.loops if not loop.timed)
    monkeypatch.setattr(loop, "run", broken)
    supervisor.start()
    await until(lambda: values(metrics, "ff_scanner_errors_total"))
    await supervisor.stop(5)
    assert (loop.name,) in values(metrics, "ff_scanner_errors_total")
    assert (loop.name,) not in values(metrics, "ff_scanner_cycle_total")


async def test_running_loops_report_metrics(tmp_path: Path, metrics: Metrics) -> None:
    from flowfabric.connect import connect

    engine = await connect(f"sqlite:///{tmp_path}/ff.db", dev=True)
    engine.watched_by(metrics)
    try:
        await until(lambda: values(metrics, "ff_scanner_cycle_total"))
    finally:
        await engine.close()
