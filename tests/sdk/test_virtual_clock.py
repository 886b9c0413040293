"""A moved clock passes times, people, other work, quotas and missing workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric import App, Context, Engine, Retry, Run, Worker, any_of
from flowfabric.testing import virtual_clock
from flowfabric.testing.virtual_clock import VirtualClock
from tests.patience import patience

PATIENCE_S = 60.0
DAY_MS = 86_400_000


@pytest.fixture
def app() -> App:
    return App("memory://")


async def passed(clock: VirtualClock, span: str) -> int:
    return await asyncio.wait_for(clock.advance(span), patience(PATIENCE_S))


def tasks(app: App) -> dict[str, Callable[[], Awaitable[Run[Any] | Any]]]:
    app.quota("full", requests=1, per="1d", lane="narrow")

    @app.task
    async def quick(n: int = 0) -> int:
        return n

    @app.task
    async def asks(ctx: Context) -> None:
        await ctx.suspend("answer")

    @app.task
    async def sleeps(ctx: Context) -> None:
        await ctx.sleep("40d")

    @app.task
    async def parent(ctx: Context) -> None:
        await ctx.children(quick.call(1), asks.call())

    @app.task(requires=("gpu",))
    async def routed() -> None: ...

    @app.task(lane="narrow")
    async def narrow() -> None: ...

    async def flow() -> Any:
        made = app.flow("f")
        first = made.add(asks)
        made.add(quick, after=any_of(first, made.add(sleeps)))
        return await made.submit()

    async def crowded() -> Any:
        for _ in range(40):
            last = await narrow.submit()
        return last

    async def paused() -> Any:
        await (await app.engine()).set_lane_state("shut", "paused")
        return await quick.submit(lane="shut")

    return {
        "a delay": lambda: quick.submit(delay="40d"),
        "a deadline": lambda: quick.submit(delay="40d", deadline="50d"),
        "a signal": asks.submit,
        "a sleep": sleeps.submit,
        "children": parent.submit,
        "a flow": flow,
        "a worker that can": routed.submit,
        "a quota": crowded,
        "a paused lane": paused,
    }


@pytest.mark.parametrize("waits_for", list(tasks(App("memory://"))))
@pytest.mark.ff_backend("memory", "sqlite")
async def test_time_passes_while_something_waits(
    app: App,
    ff_engine: Engine,
    ff_clock: VirtualClock,
    ff_worker: Callable[..., Worker],
    waits_for: str,
) -> None:
    start = tasks(app)[waits_for]
    ff_worker(app)
    began = ff_clock.now_ms
    await start()
    await passed(ff_clock, "30d")
    assert ff_clock.now_ms == began + 30 * DAY_MS


@pytest.mark.meets("flow", "suspend", "delay")
@pytest.mark.meets("child", "suspend", "delay")
async def test_everything_else_happens_at_its_time_meanwhile(
    app: App, ff_engine: Engine, ff_clock: VirtualClock, ff_worker: Callable[..., Worker]
) -> None:
    began, seen = ff_clock.now_ms, list[float]()
    waiting = tasks(app)

    @app.task
    async def note(ctx: Context) -> None:
        seen.append((ff_clock.now_ms - began) / DAY_MS)

    ff_worker(app)
    for start in waiting.values():
        await start()
    for days in (2, 5):
        await note.submit(delay=f"{days}d")
    await passed(ff_clock, "10d")
    assert seen == [2, 5]


@pytest.mark.meets("child", "retry")
@pytest.mark.ff_backend("memory", "sqlite", "postgres")
async def test_retried_child_ends_at_its_time(
    app: App, ff_engine: Engine, ff_clock: VirtualClock, ff_worker: Callable[..., Worker]
) -> None:
    tries: list[int] = []

    @app.task(retry=Retry(max=5, backoff="fixed", base="1h"))
    async def flaky() -> int:
        tries.append(ff_clock.now_ms)
        if len(tries) < 4:
            raise ConnectionError
        return len(tries)

    @app.task
    async def parent(ctx: Context) -> list[int]:
        return await ctx.children(flaky.call())

    ff_worker(app)
    run = await parent.submit()
    began = ff_clock.now_ms
    await passed(ff_clock, "1d")
    assert await run.result("5s") == [4]
    assert [(at - began) // 3_600_000 for at in tries] == [0, 1, 2, 3]


@pytest.mark.parametrize("how", ["submits itself", "is tried again at once"])
@pytest.mark.ff_backend("memory", "sqlite")
async def test_endless_work_at_one_time_raises(
    app: App,
    ff_engine: Engine,
    ff_clock: VirtualClock,
    ff_worker: Callable[..., Worker],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    monkeypatch.setattr(virtual_clock, "MAX_RUNS", 200)

    @app.task(retry=Retry(max=1_000_000, backoff="fixed", base=0))
    async def endless() -> None:
        if how == "submits itself":
            await endless.submit()
        else:
            raise ConnectionError

    ff_worker(app)
    await endless.submit()
    with pytest.raises(
        RuntimeError,
        match=r"^time does not settle: work is left at this time after .*runs of tasks \(2\d\d\)",
    ):
        await passed(ff_clock, "1h")


async def test_advance_over_too_many_stops_raises(
    app: App,
    ff_engine: Engine,
    ff_clock: VirtualClock,
    ff_worker: Callable[..., Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(virtual_clock, "MAX_STOPS", 50)

    @app.task
    async def ticks(ctx: Context, n: int) -> None:
        await ctx.sleep(f"{n}s")

    ff_worker(app)
    await ticks.submit_many(range(100))
    with pytest.raises(
        RuntimeError,
        match=r"^time does not settle: something was due 50 times, and 50,000 ms are left",
    ):
        await passed(ff_clock, "100s")
