"""Plain tasks with a blocking context, on SQLite and on Postgres."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flowfabric import (
    App,
    BudgetExceeded,
    Engine,
    OpenWaitpoint,
    Retry,
    Run,
    RunExpired,
    RunFailed,
    Worker,
)
from flowfabric import Context as AsyncContext
from flowfabric.connect import migrate_postgres
from flowfabric.errors import ConfigError
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.sdk import sync_context
from flowfabric.sync import Context
from tests.postgres import database

from .helpers import impatient, unanswered, until, worked_off
from .processes import eventually


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    if request.param == "sqlite":
        return App(f"sqlite:///{tmp_path}/ff.db")
    url = database("blocking")
    asyncio.run(migrate_postgres(url))
    return App(url)


async def test_plain_steps_run_once_and_in_the_tasks_thread(stored: App) -> None:
    ran: list[tuple[str, int]] = []

    def here(name: str) -> str:
        ran.append((name, threading.get_ident()))
        return name.upper()

    async def there(name: str) -> str:
        ran.append((name, threading.get_ident()))
        return name.upper()

    @stored.task(retry=Retry(max=3, base="1ms"))
    def work(ctx: Context, word: str) -> list[str]:
        found = [
            ctx.step("plain", here, word),
            ctx.step("async", there, f"{word}2"),
            ctx.step("late", lambda: there("x")),
        ]
        ran.append(("task", threading.get_ident()))
        if ctx.attempt == 0:
            raise ConnectionError
        return found

    async with stored, Worker(stored):
        assert await (await work.submit("a")).result("20s") == ["A", "A2", "X"]
    names = [name for name, _ in ran]
    assert names == ["a", "a2", "x", "task", "task"]
    loop = threading.get_ident()
    assert ran[0][1] == ran[3][1] != loop and ran[1][1] == ran[2][1] == loop


async def _waits(run: Run[Any], name: str) -> bool:
    return await run.state() == "suspended" and [
        point.waitpoint_key for point in await run.waitpoints()
    ] == [name]


async def test_waiting_plain_task_frees_its_slot_and_thread(stored: App) -> None:
    links: list[OpenWaitpoint] = []
    tops: list[int] = []

    @stored.task
    def ask(ctx: Context) -> list[Any]:
        tops.append(1)
        ctx.sleep("1ms")
        (word,) = ctx.suspend("word", payload=str)
        decision = ctx.approval("go", need=2, notify=links.append, payload=bool)
        return [word.payload, sorted(answer.by for answer in decision.answers)]

    @stored.task
    def other() -> int:
        return 1

    async with stored, Worker(stored, concurrency=1) as worker:
        run = await ask.submit()
        for wanted in ("word", "go"):
            await eventually(partial(_waits, run, wanted))
            await until(lambda: not worker.running)
            assert await (await other.submit()).result("20s") == 1
            if wanted == "word":
                await run.signal("word", "yes")
        for who, link in zip(("ann", "bob"), links, strict=True):
            await stored.run(link.run).signal(
                "approved", True, source=who, waitpoint=link.waitpoint_id, token=link.token
            )
        assert await run.result("20s") == ["yes", ["ann", "bob"]]
    assert (len(links), len(tops)) == (2, 4)


async def test_output_and_spending_work_from_any_thread(stored: App) -> None:
    stored.budget("few", hard={"tokens": 10})

    @stored.task
    def work(ctx: Context) -> Any:
        ctx.emit("one")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ctx.emit, "two").result()
        ctx.progress(50, "half")
        version = ctx.patch({"a": 1})
        ctx.log.info("said")
        ctx.spend("few", tokens=8)
        try:
            ctx.spend("few", tokens=8)
        except BudgetExceeded:
            return [
                version,
                ctx.task,
                ctx.lane,
                ctx.attempt,
                dict(ctx.tags),
                str(ctx.execution_id),
                ctx.is_lost,
            ]

    async with stored, Worker(stored):
        run = await work.submit(tags={"a.b": "c"})
        assert await run.result("20s") == [
            1,
            "work",
            "default",
            0,
            {"a.b": "c"},
            str(run.id),
            False,
        ]
        assert [frame.payload async for frame in run.stream()][:2] == [b"one", b"two"]


async def test_a_lost_lease_ends_the_thread_at_its_next_call(stored: App) -> None:
    began, go_on, over = threading.Event(), threading.Event(), threading.Event()
    seen: list[Any] = []

    @stored.task
    def work(ctx: Context) -> str:
        if began.is_set():
            return "second"
        began.set()
        go_on.wait(20)
        seen.append((ctx.lost.is_set(), ctx.is_lost))
        try:
            ctx.emit("from the dead")
            seen.append("went on")
        except Exception as error:
            seen.append(error)
        finally:
            over.set()
        return "first"

    async with stored, Worker(stored, lease="200ms", concurrency=2):
        run = await work.submit()
        await until(began.is_set)
        engine = await stored.engine()
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=run.id))
        assert await run.result("20s") == "second"
        go_on.set()
        await until(over.is_set)
        assert seen == [(True, True)]
        frames = [frame.payload async for frame in run.stream()]
        assert b"from the dead" not in frames


async def test_plain_task_after_its_timeout_raises_at_its_next_call(app: App) -> None:
    go_on, seen = threading.Event(), []

    @app.task(timeout="10ms", retry=Retry(max=0))
    def work(ctx: Context) -> None:
        go_on.wait(20)
        try:
            ctx.step("late", lambda: seen.append("ran"))
        except asyncio.CancelledError as error:
            seen.append(str(error))
            raise

    run = await work.submit()
    worker = Worker(app)
    await worker.run_until_idle()
    with pytest.raises(RunExpired):
        await run.result()
    go_on.set()
    await until(lambda: seen)
    await worker.stop()
    assert seen == ["task work: step 'late': this run has been stopped"]


async def test_step_running_at_the_timeout_is_not_recorded(app: App, memory: Engine) -> None:
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def slow() -> int:
        inside.set()
        go_on.wait(20)
        return 1

    @app.task(timeout="500ms", retry=Retry(max=0))
    def work(ctx: Context) -> None:
        try:
            ctx.step("slow", slow)
        except asyncio.CancelledError:
            seen.append("unwound")
            raise

    run = await work.submit()
    worker = Worker(app)
    await worker.run_until_idle()
    assert inside.is_set() and await run.state() == "expired"
    go_on.set()
    await until(lambda: seen)
    await worker.stop()
    assert await memory.read_steps(run.id) == []


async def test_lost_answer_is_requested_again(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    ran: list[int] = []

    @app.task
    def work(ctx: Context) -> Any:
        return ctx.step("once", lambda: ran.append(1) or len(ran))  # type: ignore[func-returns-value]

    calls = unanswered(monkeypatch, memory, "record_step", 2, landed=True)
    run = await work.submit()
    await worked_off(app)
    assert (await run.result(), len(ran), len(calls)) == (1, 1, 3)


def _nested(ctx: Context) -> None:
    ctx.step("outer", lambda: ctx.step("inner", lambda: 1))


def _in_another_thread(ctx: Context) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ctx.step, "far", lambda: 1).result()


def _from_the_loop(ctx: Context) -> None:
    async def blocks() -> None:
        ctx.emit("x")

    ctx.step("async", blocks)


def _stops_iterating(ctx: Context) -> None:
    ctx.step("next", lambda: next(iter(())))


def _twice(ctx: Context) -> None:
    ctx.step("same", lambda: 1)
    ctx.step("same", lambda: 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_nested, "step 'inner' is inside of step 'outer'"),
        (_in_another_thread, "step 'far': call it in the task's own thread"),
        (_from_the_loop, "emit: it would block the worker's event loop"),
        (_stops_iterating, "raised StopIteration"),
        (_twice, "'same' names two steps"),
    ],
)
async def test_calls_without_an_order_are_refused(
    app: App, body: Callable[[Context], None], said: str
) -> None:
    def work(ctx: Context) -> None:
        body(ctx)

    run = await app.task(work).submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match=said):
        await run.result()


async def test_thread_that_outlives_its_loop_raises(
    monkeypatch: pytest.MonkeyPatch, memory: Engine
) -> None:
    """Whatever it has asked the loop for, and whenever the loop closes, it does not hang."""
    monkeypatch.setattr(sync_context, "LOOP_CHECK_S", 0.01)
    seen: list[str] = []

    def a_life(ended_before: bool) -> None:
        loop = asyncio.new_event_loop()
        asked, closed = threading.Event(), threading.Event()

        async def made() -> Context:
            inner = _Inner()
            return Context(inner, inner)  # type: ignore[arg-type]

        context, post = loop.run_until_complete(made()), loop.call_soon_threadsafe

        def posted(*args: Any, **kwargs: Any) -> Any:
            found = post(*args, **kwargs)
            asked.set()
            return found

        loop.call_soon_threadsafe = posted  # type: ignore[method-assign]

        def call() -> None:
            if ended_before:
                closed.wait(20)
            try:
                context.emit("x")
            except asyncio.CancelledError as error:
                seen.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        assert ended_before or asked.wait(20)
        loop.close()
        closed.set()
        thread.join(20)

    for ended_before in (True, False):
        await asyncio.to_thread(a_life, ended_before)
    assert seen == ["task t: emit: its worker has stopped"] * 2


class _Inner:
    """Replaces the async context and its session; the event loop is closed before it calls them."""

    work = SimpleNamespace(execution_kind="t")
    on_lost = None

    def emit(self, data: object) -> None: ...


def test_wrong_context_class_is_refused_when_the_task_is_declared() -> None:
    app = App("memory://")

    def plain(ctx: AsyncContext) -> None: ...

    async def awaits(ctx: Context) -> None: ...

    with pytest.raises(
        ConfigError,
        match=r"task plain: ctx: a plain def takes flowfabric\.sync\.Context, whose calls block",
    ):
        app.task(plain)
    with pytest.raises(
        ConfigError, match=r"task awaits: ctx: an async def takes flowfabric\.Context"
    ):
        app.task(awaits)
    assert not app.tasks
