"""The worker when things go wrong: stopping, losing, cancelling, and tasks that catch what is not theirs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from flowfabric import App, Context, Engine, Retry, RunCancelled, RunFailed, Worker, memory_engine
from flowfabric.errors import ConfigError, TransportError, Unavailable
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk import worker as workers
from flowfabric.sdk.failures import CancelRun, Parked

from .helpers import impatient, unanswered, until, worked_off


@pytest.fixture
def memory() -> Engine:
    return memory_engine()


@pytest.fixture
def app(memory: Engine) -> App:
    return App("memory://", engine=memory)


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
    with pytest.raises(ConfigError, match="make another one"):
        await worker.__aenter__()


@pytest.mark.parametrize("cleanup", ["none", "raises", "awaits"])
async def test_what_is_not_ready_in_time_is_given_back(app: App, memory: Engine, cleanup: str) -> None:
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


async def test_a_task_that_cannot_be_cancelled_does_not_hold_the_worker(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "UNWIND_S", 0.02)
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


async def test_a_claimer_that_failed_still_lets_the_rest_finish(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        began.set()
        await may_end.wait()
        return "done"

    async def broken(*_: Any) -> Any:
        raise Unavailable("claim_many")

    worker = Worker(app, loops=False)
    await worker.__aenter__()
    run = await work.submit()
    await began.wait()
    monkeypatch.setattr(memory, "claim_many", broken)
    await work.submit()
    assert worker._claimer is not None
    await asyncio.wait({worker._claimer})
    may_end.set()
    with pytest.raises(Unavailable):
        await worker.stop()
    assert await run.result() == "done"


async def test_a_worker_that_was_forgotten_registers_again(app: App, memory: Engine) -> None:
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


async def test_a_run_that_comes_back_waits_for_its_former_self(app: App, memory: Engine) -> None:
    """It is taken away and claimed again by the same worker, long before a renewal would tell."""
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


async def test_what_cannot_be_renewed_in_time_counts_as_lost(app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_renewal_that_comes_too_late_does_not_disturb_the_end(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is over in the store, and renewing says so, before its worker has heard it."""
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
        await until(lambda: worker._renewer.failures)
        told.set()
        await until(lambda: worker.done)
    assert await run.result() == "done"


# ---- what tasks raise, catch and return


async def test_a_task_that_swallows_its_waiting_waits_all_the_same(app: App) -> None:
    seen: list[str] = []

    @app.task
    async def swallow(ctx: Context) -> str:
        try:
            await ctx.sleep("1h")
        except BaseException:
            seen.append("caught")
        try:
            await ctx.step("after", lambda: 1)
        except Parked:
            seen.append("again")
        return "not really"

    @app.task
    async def late(ctx: Context) -> None:
        try:
            await ctx.sleep("1h")
        finally:
            await asyncio.sleep(0)
            raise ValueError("in cleaning up")

    @app.task
    async def grouped(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep("1h"))

    runs = [await swallow.submit(), await late.submit(), await grouped.submit()]
    began = time.monotonic()
    await worked_off(app)
    assert [await run.state() for run in runs] == ["delayed"] * 3
    assert seen == ["caught", "again"] and time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncio.CancelledError(), "CancelledError"),
        (SystemExit(3), "SystemExit: 3"),
        (BaseExceptionGroup("many", [KeyError("x")]), "many"),
        (StopAsyncIteration(), "Stop"),
        (ValueError("\0 and more"), "ValueError: . and"),
    ],
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_whatever_a_task_raises_is_its_failure(app: App, error: BaseException, said: str, threaded: bool) -> None:
    async def here() -> None:
        raise error

    def there() -> None:
        raise error

    run = await app.task(there if threaded else here).submit()
    assert await worked_off(app) == 1
    with pytest.raises(RunFailed):
        await run.result()
    assert said.replace(". ", "")[:6] in ((await run.outcome()).last_failure_message or "")


async def test_a_plain_function_that_stops_an_iteration_fails(app: App) -> None:
    @app.task
    def empty() -> Any:
        return next(iter([]))

    run = await empty.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match="empty raised StopIteration"):
        await run.result()


async def test_a_task_may_give_itself_up(app: App) -> None:
    @app.task
    async def work() -> None:
        raise CancelRun("not\0 needed")

    run = await work.submit()
    await worked_off(app)
    with pytest.raises(RunCancelled, match="not needed"):
        await run.result()


async def test_a_thread_keeps_its_slot_until_it_ends(app: App) -> None:
    may_end = threading.Event()
    running: list[int] = []

    @app.task(timeout="20ms")
    def stuck(n: int) -> None:
        running.append(n)
        may_end.wait(20)

    async with Worker(app, concurrency=1, loops=False) as worker:
        first, second = await stuck.submit(1), await stuck.submit(2)
        with pytest.raises(RunFailed, match="TimeoutError"):
            await first.result(timeout=10)
        await asyncio.sleep(0.02)
        assert (await second.state(), running) == ("waiting", [1])
        may_end.set()
        await second.result(timeout=10)
        assert worker.done == 2


async def test_a_plain_function_sees_the_context_of_its_middleware(app: App) -> None:
    tenant = contextvars.ContextVar("tenant", default="nobody")

    async def as_acme(ctx: Context, call: Any) -> Any:
        tenant.set("acme")
        return await call()

    @app.task
    def who() -> str:
        return tenant.get()

    run = await who.submit()
    await worked_off(app, middleware=[as_acme])
    assert await run.result() == "acme"


async def test_middleware_that_fails_fails_the_task(app: App) -> None:
    ran: list[int] = []

    async def refusing(ctx: Context, call: Any) -> Any:
        if ctx.attempt == 0:
            raise PermissionError("not you")
        return await call()

    @app.task(retry=Retry(max=1, backoff="fixed", base=0, on=PermissionError))
    async def work() -> str:
        ran.append(1)
        return "done"

    run = await work.submit()
    await worked_off(app, middleware=[refusing])
    assert (await run.result(), ran) == ("done", [1])


# ---- codecs


class Odd:
    """Fails where it is told to."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def encode(self, data: bytes) -> Any:
        if self.fails in str(data):
            raise LookupError("no key")
        return data.decode() if self.fails == "type" and b"{" not in data else data * (2_000_000 if data == b'"grow"' else 1)

    def decode(self, data: bytes) -> bytes:
        if self.fails == "decode":
            raise LookupError("another key")
        return data


@pytest.mark.parametrize(
    ("fails", "result", "said"),
    [
        ("secret", "secret", "task work: its result: the codec cannot encode it: LookupError: no key"),
        ("type", "x", "the codec must encode to bytes, got str"),
        ("never", "grow", "its result: it takes 12000000 bytes, at most 1048576 are kept"),
        ("decode", "x", "task work: its arguments: the codec cannot decode what is stored"),
    ],
)
async def test_a_codec_that_fails_fails_the_run(memory: Engine, fails: str, result: str, said: str) -> None:
    codec = Odd(fails)
    app = App("memory://", engine=memory, codec=codec)

    @app.task
    async def work() -> str:
        return result

    run = await work.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match=said):
        await run.result()


async def test_a_result_the_engine_does_not_take_fails_the_run(app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowfabric.sdk.payloads.MAX_PAYLOAD_BYTES", 10**9)

    @app.task
    async def work() -> str:
        return "x" * 70_000_000

    run = await work.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match="task work: its result cannot be kept"):
        await run.result()


# ---- ends that are not heard


async def test_an_end_is_told_until_it_is_heard(app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)

    @app.task
    async def work(n: int) -> int:
        if n < 0:
            raise ValueError(n)
        return n

    for call in ("complete_many", "fail"):
        unanswered(monkeypatch, memory, call, 2, landed=True)
    good, bad = await work.submit_many([1, -1])
    await worked_off(app)
    assert await good.result() == 1
    with pytest.raises(RunFailed):
        await bad.result()


async def test_one_refused_end_does_not_hold_the_others(app: App, memory: Engine) -> None:
    """Of two that end together one was revoked meanwhile."""
    together = asyncio.Barrier(2)
    ran: list[int] = []

    @app.task
    async def work(ctx: Context, n: int) -> int:
        ran.append(n)
        if len(ran) <= 2:
            await together.wait()
            if n == 0:
                await memory.revoke_lease(RevokeLeaseArgs(execution_id=ctx.execution_id))
        return n

    runs = await work.submit_many([0, 1])
    began = time.monotonic()
    await worked_off(app)
    assert [await run.result() for run in runs] == [0, 1]
    assert sorted(ran) == [0, 0, 1] and time.monotonic() - began < 4


# ---- an app


async def test_many_connect_together_and_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("memory://")
    real, tries = app.another_engine, []

    async def flaky() -> Engine:
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise TransportError("test", "nobody there")
        return await real()

    monkeypatch.setattr(app, "another_engine", flaky)
    async with asyncio.timeout(5):
        found = await asyncio.gather(*(app.engine() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [TransportError] * 3
        first, *others = await asyncio.gather(*(app.engine() for _ in range(3)))
    assert all(each is first for each in others) and len(tries) == 2
    await app.close()
    await app.close()


def test_an_app_belongs_to_one_event_loop() -> None:
    app = App("memory://")

    @app.task
    async def work() -> None: ...

    async def submit_and_wait() -> None:
        run = await work.submit()
        with pytest.raises(TimeoutError):
            await run.result(timeout=0.01)
        await app.close()

    asyncio.run(submit_and_wait())
    asyncio.run(submit_and_wait())
    asyncio.run(app.__aenter__())
    with pytest.raises(ConfigError, match="connected in another event loop"):
        asyncio.run(submit_and_wait())


def test_only_what_is_in_memory_counts_as_local() -> None:
    local = ["memory://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"]
    assert [App(url).is_local for url in local] == [True] * 3
    shared = ["sqlite:///memory.db", "postgresql://memory-host/db", "sqlite:////data/in-memory/ff.db"]
    assert [App(url).is_local for url in shared] == [False] * 3


async def test_whoever_is_rung_for_nothing_waits_on(app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that was taken back by a replay before anybody looked."""

    @app.task
    async def work() -> str:
        return "done"

    run = await work.submit()
    looks = unanswered(monkeypatch, memory, "read_outcome", 0, landed=False)
    waiting = asyncio.create_task(run.result())
    await until(lambda: len(looks) == 1)
    for rung in app.results._waiting[run.id.uuid]:
        rung.set_result(None)
    await until(lambda: len(looks) == 2)
    await asyncio.sleep(0.02)
    assert len(looks) == 2
    await worked_off(app)
    assert await waiting == "done"
    await app.close()
