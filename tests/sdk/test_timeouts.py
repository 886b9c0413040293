"""A task's `timeout` counts the time an attempt runs, without waits, in worker and engine."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from flowfabric import App, Context, Engine, Retry, RunExpired
from flowfabric.engine.background import LoopSettings
from flowfabric.loops.timers import DelayedPromoter
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.testing import ManualClock

from .helpers import worked_off

TIMEOUT_MS = 60_000
USED_MS = 59_900
PATIENCE_S = 30.0
"""Far less than the whole timeout: a run that takes longer was given more than the rest."""


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


async def go_on(app: App, engine: Engine, clock: ManualClock) -> None:
    clock.advance(3_600_000)
    await DelayedPromoter(LoopSettings()).run(engine)
    await worked_off(app, lease="10m")


@pytest.mark.meets("timeout", "delay")
@pytest.mark.meets("timeout", "suspend")
@pytest.mark.meets("timeout", "child")
@pytest.mark.parametrize("how", ["sleep", "delay", "suspend", "children"])
async def test_after_a_wait_the_worker_gives_an_attempt_what_is_left(
    app: App, engine: Engine, clock: ManualClock, how: str
) -> None:
    segments: list[float] = []

    @app.task
    async def child(ctx: Context) -> None:
        await ctx.sleep("1h")

    @app.task(timeout="60s", retry=Retry(max=0))
    async def works(ctx: Context) -> None:
        segments.append(time.monotonic())
        if len(segments) == 1:
            clock.advance(USED_MS)
        if how == "suspend":
            await ctx.suspend("go on")
        elif how == "children":
            await ctx.children(child.call())
        elif how == "sleep":
            await ctx.sleep("1h")
        elif len(segments) == 1:
            await ctx.delay("1h")
        await asyncio.Event().wait()

    run = await works.submit()
    await worked_off(app, lease="10m")
    assert len(segments) == 1
    if how == "suspend":
        await run.signal("yes")
    await go_on(app, engine, clock)
    reason = "its timeout of 60 s, of which 59.9 s were used before it waited"
    with pytest.raises(RunExpired, match=f"AttemptTimedOut: it ran for longer than {reason}$"):
        await run.result("5s")
    assert len(segments) == 2 and time.monotonic() - segments[1] < PATIENCE_S


@pytest.mark.meets("timeout", "retry")
@pytest.mark.meets("timeout", "replay")
@pytest.mark.parametrize("how", ["retry", "replay"])
async def test_retry_has_the_whole_timeout(
    app: App, engine: Engine, clock: ManualClock, how: str
) -> None:
    used: list[int] = []
    honest = engine.claim_many

    async def claim_many(*args: Any) -> Any:
        works = await honest(*args)
        used.extend(work.time_used_ms for work in works)
        return works

    engine.claim_many = claim_many  # type: ignore[method-assign]

    @app.task(
        timeout="60s", retry=Retry(max=1 if how == "retry" else 0, backoff="fixed", base="1h")
    )
    async def works(ctx: Context) -> str:
        await ctx.sleep("1h")
        if len(used) < 3:
            clock.advance(USED_MS)
            raise ConnectionError
        return "done"

    run = await works.submit()
    await worked_off(app, lease="10m")
    await go_on(app, engine, clock)
    if how == "replay":
        await engine.replay_execution(ReplayExecutionArgs(execution_id=run.id))
    await go_on(app, engine, clock)
    assert await run.result("5s") == "done"
    assert used == [0, 0, 0]


@pytest.mark.parametrize("threaded", [False, True])
async def test_result_after_the_timeout_is_refused(
    app: App, engine: Engine, threaded: bool
) -> None:
    async def here() -> str:
        time.sleep(0.3)  # noqa: ASYNC251 - the point of it
        return "late"

    def there() -> str:
        time.sleep(0.3)
        return "late"

    task = app.task(timeout="20ms", retry=Retry(max=0))(there if threaded else here)
    run = await task.submit()
    await worked_off(app)
    with pytest.raises(
        RunExpired,
        match=r"AttemptTimedOut: it (returned after|ran for longer than) its timeout of 0.02 s$",
    ):
        await run.result("5s")
    assert (await run.outcome()).result is None
