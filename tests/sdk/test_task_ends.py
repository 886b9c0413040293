"""However a task ends, its outcome is reported, and reported again after a lost answer."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from flowfabric import App, Context, Engine, Retry, RunCancelled, RunExpired, RunFailed, Worker
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk.exceptions import CancelRun, Fatal, Parked

from .helpers import impatient, unanswered, worked_off

# ---- what tasks raise, catch and return


async def test_task_that_catches_its_wait_still_waits(app: App) -> None:
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
async def test_any_raised_exception_is_the_failure(
    app: App, error: BaseException, said: str, threaded: bool
) -> None:
    async def here() -> None:
        raise error

    def there() -> None:
        raise error

    run = await app.task(there if threaded else here).submit()
    assert await worked_off(app) == 1
    with pytest.raises(RunFailed):
        await run.result()
    assert said.replace(". ", "")[:6] in ((await run.outcome()).last_failure_message or "")


class Unsayable(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


@pytest.mark.parametrize("error", [Unsayable(), CancelRun(), Fatal()])
@pytest.mark.parametrize("cause", [None, Unsayable()])
async def test_exception_whose_text_fails_still_ends_the_run(
    app: App, error: BaseException, cause: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CancelRun, "__str__", Unsayable.__str__)
    tries: list[int] = []

    @app.task
    async def work() -> None:
        tries.append(1)
        raise error from cause

    run = await work.submit()
    assert await worked_off(app) == 1
    kind = RunCancelled if isinstance(error, CancelRun) else RunFailed
    said = "Fatal" if isinstance(error, Fatal) else r"\(its text cannot be read: LookupError\)"
    with pytest.raises(kind, match=said):
        await run.result("5s")
    assert tries == [1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("x", "its result does not fit its return annotation: .*Expected `int`, got `str`"),
        ([1], "its result does not fit its return annotation"),
        (None, "its result does not fit its return annotation: .*Expected `int`, got `null`"),
        (
            object(),
            "its result cannot be stored: object cannot be stored; use builtins, a dataclass",
        ),
        (
            {"deep": [Unsayable()]},
            r"tests\.sdk\.test_task_ends\.Unsayable cannot be stored; use builtins",
        ),
    ],
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_result_that_does_not_fit_its_annotation_fails_the_run(
    app: App, value: Any, said: str, threaded: bool
) -> None:
    async def here() -> int:
        return value  # type: ignore[no-any-return]

    def there() -> int:
        return value  # type: ignore[no-any-return]

    run = await app.task(there if threaded else here).submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match=said):
        await run.result("5s")
    assert (await run.outcome()).result is None


async def test_plain_function_that_raises_stop_iteration_fails(app: App) -> None:
    @app.task
    def empty() -> Any:
        return next(iter([]))

    run = await empty.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match="empty raised StopIteration"):
        await run.result()


async def test_task_cancels_itself(app: App) -> None:
    @app.task
    async def work() -> None:
        raise CancelRun("not\0 needed")

    run = await work.submit()
    await worked_off(app)
    with pytest.raises(RunCancelled, match="not needed"):
        await run.result()


async def test_thread_keeps_its_slot_until_it_ends(app: App) -> None:
    may_end = threading.Event()
    running: list[int] = []

    @app.task(timeout="20ms", retry=Retry(max=0))
    def stuck(n: int) -> None:
        running.append(n)
        may_end.wait(20)

    async with Worker(app, concurrency=1, loops=False) as worker:
        first, second = await stuck.submit(1), await stuck.submit(2)
        with pytest.raises(RunExpired):
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
    """Fails at the given place."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def encode(self, data: bytes) -> Any:
        if self.fails in str(data):
            raise LookupError("no key")
        return (
            data.decode()
            if self.fails == "type" and b"{" not in data
            else data * (2_000_000 if data == b'"grow"' else 1)
        )

    def decode(self, data: bytes) -> bytes:
        if self.fails == "decode":
            raise LookupError("another key")
        return data


@pytest.mark.parametrize(
    ("fails", "result", "said"),
    [
        (
            "secret",
            "secret",
            "task work: its result: the codec cannot encode it: LookupError: no key",
        ),
        ("type", "x", "the codec must encode to bytes, got str"),
        ("never", "grow", "its result: 12000000 bytes, at most 1048576 are stored"),
        ("decode", "x", "task work: its arguments: the codec cannot decode what is stored"),
    ],
)
async def test_a_codec_that_fails_fails_the_run(
    memory: Engine, fails: str, result: str, said: str
) -> None:
    codec = Odd(fails)
    app = App("memory://", engine=memory, codec=codec)

    @app.task
    async def work() -> str:
        return result

    run = await work.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match=said):
        await run.result()


async def test_result_refused_by_the_engine_fails_the_run(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.sdk.serialization.MAX_PAYLOAD_BYTES", 10**9)

    @app.task
    async def work() -> str:
        return "x" * 70_000_000

    run = await work.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match="task work: its result cannot be stored"):
        await run.result()


# ---- ends that are not heard


async def test_report_is_repeated_until_it_is_answered(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_refused_completion_does_not_hold_up_others(app: App, memory: Engine) -> None:
    """Of two that end together one was revoked."""
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
