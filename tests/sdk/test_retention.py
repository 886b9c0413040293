"""How long runs are kept: the task's ages, else the app's, else the engine's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowfabric import App, Context, Engine, Retention
from flowfabric.engine.background import LoopSettings
from flowfabric.errors import ConfigError, NotFound
from flowfabric.loops.timers import DelayedPromoter
from flowfabric.loops.upkeep import RetentionTrimmer
from flowfabric.testing import ManualClock

from .helpers import worked_off

HOUR_MS = 3_600_000
DAY = 24
WEEK = 7 * DAY
PLAIN, BOTH = None, Retention("2h", timedelta(hours=3))


@pytest.mark.parametrize(
    ("app_says", "task_says", "hours"),
    [
        (PLAIN, PLAIN, (DAY, WEEK)),
        ("5h", PLAIN, (5, 5)),
        (BOTH, PLAIN, (2, 3)),
        (PLAIN, "5h", (5, 5)),
        (BOTH, 7_200, (2, 2)),
        (BOTH, Retention(failed="30d"), (2, 30 * DAY)),
        (PLAIN, Retention(completed="1h"), (1, WEEK)),
        (PLAIN, Retention(failed="1s"), (DAY, 0)),
        (PLAIN, Retention(), (DAY, WEEK)),
    ],
)
async def test_the_ages_of_the_task_come_before_those_of_the_app(
    engine: Engine, clock: ManualClock, app_says: Any, task_says: Any, hours: tuple[int, int]
) -> None:
    app = App("memory://", engine=engine, retention=app_says)

    @app.task(retention=task_says)
    async def works(well: bool) -> str:
        if not well:
            raise ValueError
        return "well"

    runs = [await works.submit(True), await works.submit(False)]
    await worked_off(app)
    until = [clock() + max(kept * HOUR_MS, 1_000) for kept in hours]
    for at in sorted({at - before for at in until for before in (1, 0)}):
        await engine.trim_retention("default", now=at)
        kept = [await engine.read_outcome(run.id) is not None for run in runs]
        assert kept == [at < over for over in until]


@pytest.mark.meets("retention", "second_tenant")
async def test_retention_loop_covers_every_lane_and_namespace(
    engine: Engine, clock: ManualClock
) -> None:
    runs = []
    for namespace in ("a", "b"):
        app = App("memory://", engine=engine, namespace=namespace, retention="1h")

        @app.task(lane=f"lane-{namespace}")
        async def works() -> None: ...

        runs.append(await works.submit())
        await worked_off(app)
    clock.advance(HOUR_MS)
    await engine.finish()
    assert await RetentionTrimmer(LoopSettings()).run(engine) >= 2
    for run in runs:
        with pytest.raises(NotFound):
            await run.outcome()


@pytest.mark.meets("retention", "child", "delay")
async def test_child_with_short_retention_is_kept_until_its_parent_ends(
    engine: Engine, clock: ManualClock
) -> None:
    app = App("memory://", engine=engine, retention="1s")

    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    async def parent(ctx: Context) -> list[int]:
        return await ctx.children(child.call(0), child.call(1, delay="2d"))

    run = await parent.submit()
    await worked_off(app)
    await engine.finish()
    for _ in range(2):
        clock.advance(DAY * HOUR_MS)
        await RetentionTrimmer(LoopSettings()).run(engine)
    await DelayedPromoter(LoopSettings()).run(engine)
    await worked_off(app)
    assert await run.result("5s") == [0, 1]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("0s", "retention"),
        (0, "retention"),
        ("-1h", "retention"),
        ("999ms", "retention"),
        ("11y", "retention"),
        (11 * 365 * 86_400, "retention"),
        (True, "retention"),
        (Retention(completed="0s"), "retention.completed"),
        (Retention(failed="soon"), "retention.failed"),
        ({"failed": "1d"}, "retention"),
    ],
)
def test_invalid_retention_names_its_field(given: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{field}: .*got "):
        App("memory://", retention=given)
    with pytest.raises(ConfigError, match=rf"^task works: {field}: .*got "):

        @App("memory://").task(retention=given)
        async def works() -> None: ...
