"""A worker stops, loses leases and comes back without losing work."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from flowfabric import App, Context, Engine, Worker
from flowfabric.errors import ConfigError, Unavailable
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk import executor, producer

from .helpers import unanswered, until, worked_off

# ---- stopping


async def test_stopping_waits_for_what_runs_and_takes_nothing_new(app: App) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(n: int) -> int:
        began.set()
        await may_end.wait()
        return n

    async with Worker(app, concurrency=1, loops=False) as worker:
        first, second = await work.submit_many([1, 2])
        await began.wait()
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)
        may_end.set()
        await stopping
    assert {await first.state(), await second.state()} == {"completed", "waiting"}
    with pytest.raises(ConfigError, match="create another Worker"):
        await worker.__aenter__()


@pytest.mark.parametrize("cleanup", ["none", "raises", "awaits"])
async def test_run_not_finished_within_the_grace_is_given_back(
    app: App, memory: Engine, cleanup: str
) -> None:
    began = asyncio.Event()
    slow = True

    @app.task
    async def work() -> str:
        began.set()
        try:
            await asyncio.sleep(60 if slow else 0)
        except asyncio.CancelledError:
            if cleanup == "raises":
                raise ValueError("in the middle of it") from None
            await asyncio.sleep(0)
            raise
        return "done"

    worker = Worker(app, loops=False)
    async with worker:
        run = await work.submit()
        await began.wait()
        await worker.stop(grace=0)
    assert await run.state() == "delayed"
    slow = False
    await memory.promote_delayed(run.id)
    await worked_off(app)
    assert (await run.result(), (await run.outcome()).total_attempt_count) == ("done", 1)


async def test_a_task_that_cannot_be_cancelled_does_not_hold_the_worker(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "UNWIND_S", 0.02)
    began, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def stubborn() -> str:
        began.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    async with Worker(app, loops=False) as worker:
        run = await stubborn.submit()
        await began.wait()
        await worker.stop(grace=0)
        assert await run.state() == "active"
        may_end.set()
    assert await run.result(timeout=5) == "done"


@pytest.mark.parametrize(
    "error", [Unavailable("claim_many"), ValueError("a torn row"), KeyError("lane")], ids=repr
)
async def test_claim_is_repeated_after_any_error(
    app: App,
    memory: Engine,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(producer, "FIRST_PAUSE_S", 0.001)
    real, failed = memory.claim_many, 0

    async def broken(*said: Any) -> Any:
        nonlocal failed
        failed += 1
        if failed < 4:
            raise error
        return await real(*said)

    monkeypatch.setattr(memory, "claim_many", broken)
    task = app.task(name="work")(lambda: "done")
    async with Worker(app, loops=False):
        run = await task.submit()
        assert await run.result() == "done"
    said = [
        record
        for record in caplog.records
        if record.name == "flowfabric.worker" and record.exc_info
    ]
    assert len(said) == 3 and all("trying again" in record.getMessage() for record in said)


async def test_heartbeat_continues_after_an_unexpected_error(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(name="any")(lambda: None)
    real, beats = memory.heartbeat_worker, 0

    async def broken(*said: Any) -> Any:
        nonlocal beats
        beats += 1
        if beats == 1:
            raise RuntimeError("once")
        return await real(*said)

    monkeypatch.setattr(memory, "heartbeat_worker", broken)
    async with Worker(app, lease="30ms", loops=False):
        await until(lambda: beats >= 3)


async def test_worker_missing_in_the_registry_registers_again(app: App, memory: Engine) -> None:
    app.task(name="any")(lambda: None)
    async with Worker(app, lease="30ms", loops=False) as worker:
        await memory.mark_worker_dead(worker.instance_id)

        async def known() -> bool:
            return bool((await memory.list_workers()).items)

        ends = time.monotonic() + 10
        while not await known():
            assert time.monotonic() < ends
            await asyncio.sleep(0.005)
    assert not await known()


# ---- leases


async def test_a_lost_lease_cancels_the_task(app: App, memory: Engine) -> None:
    seen: list[bool] = []
    began = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        began.set()
        try:
            await asyncio.sleep(0 if seen else 60)
        except asyncio.CancelledError:
            seen.append(ctx.lost.is_set())
            raise

    async with Worker(app, lease="60ms", loops=False) as worker:
        run = await work.submit()
        await began.wait()
        await memory.revoke_lease(RevokeLeaseArgs(execution_id=run.id))
        await run.result(timeout=20)
    assert (seen, worker.done) == ([True], 2)


async def test_reclaimed_run_starts_after_its_previous_handler_ended(
    app: App, memory: Engine
) -> None:
    """The same worker claims the run again, long before a renewal would notice."""
    seen: list[str] = []
    began = asyncio.Event()

    @app.task
    async def work() -> None:
        seen.append("begins")
        began.set()
        try:
            await asyncio.sleep(60 if len(seen) == 1 else 0)
        finally:
            await asyncio.sleep(0.01)
            seen.append("ends")

    async with Worker(app, loops=False):
        run = await work.submit()
        await began.wait()
        await memory.revoke_lease(RevokeLeaseArgs(execution_id=run.id))
        await run.result(timeout=20)
    assert seen == ["begins", "ends", "begins", "ends"]


async def test_lease_not_renewed_in_time_counts_as_lost(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        began.set()
        await asyncio.sleep(60)

    calls = unanswered(monkeypatch, memory, "renew", 10**6, landed=False)
    async with Worker(app, lease="60ms", loops=False) as worker:
        await work.submit()
        await began.wait()
        await until(lambda: worker.done)
    assert calls


async def test_late_renewal_does_not_prevent_the_completion(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has ended in the store, and a renewal says so, before its worker is answered."""
    real = memory.complete_many
    told = asyncio.Event()

    async def slowly(many: Any) -> Any:
        answers = await real(many)
        await told.wait()
        return answers

    monkeypatch.setattr(memory, "complete_many", slowly)

    @app.task
    async def work() -> str:
        return "done"

    async with Worker(app, lease="30ms", loops=False) as worker:
        run = await work.submit()
        await until(lambda: worker.failed_renewals)
        told.set()
        await until(lambda: worker.done)
    assert await run.result() == "done"


# ---- namespaces


@pytest.mark.meets("second_tenant", "child")
async def test_a_worker_runs_the_work_of_its_own_namespace(engine: Engine) -> None:
    """Both namespaces have the same tasks on the same lane, with children and schedules."""
    ran: list[tuple[str, str, int]] = []

    def app_of(namespace: str) -> App:
        app = App("memory://", engine=engine, namespace=namespace)

        @app.task(name="leaf")
        async def leaf(whose: str, n: int) -> int:
            ran.append((namespace, whose, n))
            return n

        @app.task(name="root")
        async def root(ctx: Context, whose: str) -> int:
            return sum(await ctx.children(*(leaf.call(whose, n) for n in range(2))))

        return app

    ours, theirs = app_of("ours"), app_of("theirs")
    async with Worker(ours, concurrency=2, loops=False):
        backlog = [await theirs.tasks["leaf"].submit("theirs", n) for n in range(3)]
        run = await ours.tasks["root"].submit("ours")
        assert await run.result(timeout=20) == 1
        assert {await each.state() for each in backlog} == {"waiting"}
    assert await Worker(ours, loops=False).run_until_idle() == 0
    assert await Worker(theirs, loops=False).run_until_idle() == 3
    assert {(by, whose) for by, whose, _ in ran} == {("ours", "ours"), ("theirs", "theirs")}
