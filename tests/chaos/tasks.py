"""The tasks of a run. Both namespaces have the same ones, under the same names and on the same
lanes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from flowfabric import App, BudgetExceeded, Context, Retry
from flowfabric.model.budget import HardLimitAction

from .plan import SETTINGS
from .task_plan import BLOCKED_S, FRAMES, JOBS, MAIL, PURSE, PURSES, SPENDERS, TICK, purse_of

OFTEN = Retry(max=50, backoff="fixed", base="50ms")
FOREVER_S = 600.0
ACTIONS = {
    "spends_or_fails": HardLimitAction.FAIL_EXECUTION,
    "spends_or_waits": HardLimitAction.SUSPEND_EXECUTION,
}


def tasks(
    url: str, namespace: str, instance: str = "", blocks_now: Callable[[], bool] = lambda: False
) -> App:
    """The value of a step names the process that ran it. `blocks_now` says whether the event loop
    is blocked when planned.
    """
    app = App(url, name="chaos", namespace=namespace, settings=SETTINGS)
    for kind in SPENDERS:
        for number in range(PURSES):
            app.budget(
                purse_of(kind, number),
                hard={"coins": PURSE},
                on_hard_limit=ACTIONS.get(kind, HardLimitAction.REJECT),
            )
    app.quota("narrow", requests=20, per="1s", concurrent=3)
    _alone(app, instance, blocks_now)
    _limited(app)
    _asking(app)
    _related(app)
    _watched(app)
    return app


def schedule(app: App) -> None:
    """Every minute, in both namespaces."""
    app.schedule("* * * * *", arguments={"n": 0})(app.tasks[TICK])


def _watched(app: App) -> None:
    @app.task(lane=JOBS, retry=OFTEN)
    async def echo(n: int) -> int:
        return n

    @app.task(lane=JOBS, retry=OFTEN)
    async def chat(ctx: Context, n: int) -> int:
        for number in range(FRAMES):
            await ctx.emit(str(number))
        return n

    @app.task(lane=JOBS, retry=OFTEN)
    async def tick(n: int) -> int:
        return n


def _alone(app: App, instance: str, blocks_now: Callable[[], bool]) -> None:
    tokens = count(1)

    def token() -> str:
        return f"{instance}/{next(tokens)}"

    @app.task(lane=JOBS, retry=OFTEN)
    async def steps(ctx: Context, n: int) -> dict[str, Any]:
        found = [await ctx.step("first", token)]
        await ctx.sleep("60ms")
        found += await asyncio.gather(ctx.step("second", token), ctx.step("third", token))
        return {"n": n, "steps": found}

    @app.task(lane=MAIL, retry=OFTEN)
    async def flaky(ctx: Context, n: int) -> int:
        if ctx.attempt < 2:
            raise ConnectionError("by plan")
        return n

    @app.task(lane=JOBS, retry=Retry(max=2, backoff="fixed", base="30ms"))
    async def doomed(n: int) -> int:
        raise ConnectionError("by plan")

    @app.task(lane=JOBS)
    async def blocks(n: int) -> int:
        if blocks_now():
            time.sleep(BLOCKED_S)  # noqa: ASYNC251 - the fault
        return n

    @app.task(lane=JOBS)
    async def probe(n: int) -> int:
        return n


def _limited(app: App) -> None:
    @app.task(lane=JOBS, timeout="1500ms", retry=OFTEN)
    async def timed(ctx: Context, n: int) -> int:
        await ctx.step("before", lambda: n)
        await asyncio.sleep(0.25)
        return n

    @app.task(lane=MAIL, timeout="700ms", retry=OFTEN)
    async def slow_once(ctx: Context, n: int) -> int:
        if ctx.attempt == 0:
            await asyncio.sleep(FOREVER_S)
        return n

    @app.task(lane=JOBS, timeout="400ms", retry=Retry(max=1, backoff="fixed", base="30ms"))
    async def never_ready(n: int) -> int:
        await asyncio.sleep(FOREVER_S)
        return n

    @app.task(lane=JOBS)
    async def overdue(ctx: Context, n: int) -> int:
        """Waits in two ways, by turns, until its deadline has passed."""
        if n % 2:
            await ctx.sleep("10m")
        await ctx.suspend("never")
        return n

    @app.task(lane=MAIL)
    async def in_time(ctx: Context, n: int) -> int:
        await ctx.sleep("100ms")
        return n

    @app.task(lane=JOBS, quota="narrow")
    async def metered(n: int) -> int:
        await asyncio.sleep(0.02)
        return n

    async def spend(ctx: Context, n: int) -> str:
        await ctx.spend(purse_of(ctx.task, n), key=str(ctx.execution_id), coins=1)
        await asyncio.sleep(0.02)
        return "spent"

    @app.task(lane=JOBS)
    async def spends_or_fails(ctx: Context, n: int) -> str:
        return await spend(ctx, n)

    @app.task(lane=JOBS)
    async def spends_or_waits(ctx: Context, n: int) -> str:
        return await spend(ctx, n)

    @app.task(lane=MAIL)
    async def spends_or_says(ctx: Context, n: int) -> str:
        try:
            return await spend(ctx, n)
        except BudgetExceeded:
            return "refused"


def _asking(app: App) -> None:
    @app.task(lane=JOBS, timeout="2s", retry=OFTEN)
    async def approved(ctx: Context, n: int) -> str:
        return (await ctx.approval("question")).by

    @app.task(lane=MAIL)
    async def approved_by_two(ctx: Context, n: int) -> str:
        return " and ".join(
            sorted(answer.by for answer in (await ctx.approval("question", need=2)).answers)
        )

    @app.task(lane=JOBS, retry=OFTEN)
    async def rejected(ctx: Context, n: int) -> str:
        return (await ctx.approval("question")).by

    @app.task(lane=JOBS)
    async def unanswered(ctx: Context, n: int) -> str:
        try:
            await ctx.approval("question", timeout="300ms")
        except TimeoutError:
            return "too late"
        return "answered"

    @app.task(lane=JOBS)
    async def waits(ctx: Context, n: int) -> int:
        await ctx.suspend("never")
        return n


def _related(app: App) -> None:
    named = app.tasks

    @app.task(lane=MAIL)
    async def family(ctx: Context, n: int) -> list[int]:
        first = await ctx.children(named["timed"].call(n), named["steps"].call(n))
        (last,) = await ctx.children(named["flaky"].call(n))
        return [first[0], first[1]["n"], last]

    @app.task(lane=JOBS)
    async def broken_family(ctx: Context, n: int) -> list[int]:
        return await ctx.children(named["doomed"].call(n), named["timed"].call(n))

    @app.task(lane=JOBS)
    async def linger(ctx: Context, n: int) -> int:
        await ctx.sleep("10m")
        return n

    @app.task(lane=MAIL, retry=OFTEN)
    async def detached(ctx: Context, n: int) -> int:
        await ctx.sleep("700ms")
        return n

    @app.task(lane=JOBS)
    async def leaver(ctx: Context, n: int) -> list[int]:
        return await ctx.children(linger.call(n), detached.call(n, detached=True))

    @app.task(lane=JOBS, retry=OFTEN)
    async def racer(n: int) -> int:
        await asyncio.sleep(0.05)
        return n

    @app.task(lane=MAIL)
    async def loser(n: int) -> int:
        raise ConnectionError("by plan")

    @app.task(lane=JOBS)
    async def joins(n: int) -> int:
        return n

    @app.task(lane=JOBS)
    async def unreachable(n: int) -> int:
        return n
