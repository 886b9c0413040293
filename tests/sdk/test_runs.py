"""Listing and counting runs, and what one run shows of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric import App, Context, Engine, Fatal, Retry, RunInfo
from flowfabric.errors import ConfigError, NotFound, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.sdk.children import JOIN
from flowfabric.testing import ManualClock

from .helpers import worked_off

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.fixture
def declared(app: App) -> None:
    @app.task(lane="sums")
    async def double(ctx: Context, n: int) -> int:
        await ctx.progress(50, "half of it")
        return 2 * n

    @app.task(lane="mail")
    async def send(to: str) -> None:
        raise Fatal(f"no mailbox: {to}")

    @app.task(lane="mail")
    async def parent(ctx: Context) -> list[int]:
        return await ctx.children(double.call(1), double.call(2))


async def listed(app: App, **where: Any) -> list[str]:
    """The tasks of all runs that match, sorted; pages of two."""
    return sorted([info.task async for info in app.runs.all(page=2, **where)])


async def test_runs_are_listed_by_state_task_lane_and_tag(app: App, engine: Engine) -> None:
    double, send = app.named("double"), app.named("send")
    await double.submit(1, tags={"app.customer": "acme"})
    await send.submit("ann")
    await worked_off(app)
    await double.submit(2, delay="3650d")
    assert await listed(app) == ["double", "double", "send"]
    assert await listed(app, state="failed") == ["send"]
    assert await listed(app, state=["completed", "delayed"]) == ["double", "double"]
    assert await listed(app, task=double) == await listed(app, task="double")
    assert await listed(app, task=double, state="completed") == ["double"]
    assert await listed(app, lane="mail") == ["send"]
    assert await listed(app, tag="app.customer") == ["double"]
    assert await listed(app, tag="app.customer=globex") == []
    assert await listed(app, error="Fatal") == ["send"]
    assert await listed(app, error="no mailbox") == ["send"]
    assert await listed(app, error="mailbox") == []


async def test_a_listing_shows_the_facts_of_each_run(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    submitted_at = datetime.fromtimestamp(clock() / 1_000, UTC)
    run = await app.named("double").submit(4, key="k", priority=7, tags={"app.customer": "acme"})
    await worked_off(app)
    (info,) = await app.runs()
    assert (info.id, info.task, info.state, info.lane) == (run.id, "double", "completed", "sums")
    assert (info.created_at, info.priority, info.key) == (submitted_at, 7, "k")
    assert info.ended_at is not None and info.started_at is not None
    assert (info.tags["app.customer"], info.error, info.flow) == ("acme", None, None)
    assert (info.attempts, info.retries, info.namespace) == (1, 0, "default")
    assert await info.run.result() == 8
    again = await run.info()
    assert structs.replace(again, run=info.run) == info and again.run is run


async def test_a_run_shows_its_last_progress(app: App, engine: Engine) -> None:
    run = await app.named("double").submit(1)
    assert await run.progress() is None
    assert (await run.info()).progress is None
    await worked_off(app)
    progress = await run.progress()
    assert progress is not None
    assert (progress.percent, progress.message) == (50, "half of it")
    assert progress == (await run.info()).progress
    missing = app.run(ExecutionId.solo("default"))
    for read in (missing.progress, missing.info):
        with pytest.raises(NotFound, match="execution"):
            await read()


async def test_a_failed_run_shows_its_error_and_a_cancelled_one_its_reason(
    app: App, engine: Engine
) -> None:
    failed, cancelled = await app.named("send").submit("ann"), await app.named("double").submit(1)
    await cancelled.cancel("not needed")
    await worked_off(app)
    info = await failed.info()
    assert (info.state, info.error) == ("failed", "Fatal: no mailbox: ann")
    info = await cancelled.info()
    assert (info.state, info.cancel_reason, info.error) == ("cancelled", "not needed", None)


async def test_the_error_of_an_attempt_is_shown_until_the_run_succeeds(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    ran: list[int] = []

    @app.task(retry=Retry(base="1s", jitter=False))
    async def flaky() -> None:
        ran.append(1)
        if len(ran) == 1:
            raise ConnectionError("no route")

    run = await flaky.submit()
    await worked_off(app)
    info = await run.info()
    assert (info.state, info.error) == ("delayed", "ConnectionError: no route")
    clock.advance(1_001)
    await Supervisor(engine).run_once()
    await worked_off(app)
    info = await run.info()
    assert (info.state, info.error, info.attempts) == ("completed", None, 2)


async def test_pages_follow_each_other_in_both_orders(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    runs = []
    for n in range(5):
        runs.append((await app.named("double").submit(n)).id)
        clock.advance(1)
    assert [info.id async for info in app.runs.all(page=2)] == runs[::-1]
    assert [info.id async for info in app.runs.all(page=2, oldest_first=True)] == runs
    first = await app.runs(limit=3)
    assert [info.id for info in first] == runs[:1:-1] and len(first) == 3
    second = await app.runs(limit=3, cursor=first.next_cursor)
    assert [info.id for info in second] == runs[1::-1]
    assert second.next_cursor is None


async def test_times_are_spans_datetimes_or_pairs(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    await app.named("double").submit(1)
    await worked_off(app)
    clock.advance(3_600_000)
    await app.named("send").submit("ann")
    now = datetime.fromtimestamp(clock() / 1_000, UTC)
    hour = timedelta(hours=1)
    assert await listed(app, created="30m") == ["send"]
    assert await listed(app, created=hour * 2) == ["double", "send"]
    assert await listed(app, created=now - hour / 2) == ["send"]
    assert await listed(app, created=(None, now - hour / 2)) == ["double"]
    assert await listed(app, created=("2h", "30m")) == ["double"]
    assert await listed(app, created=(now - hour * 3, now - hour * 2)) == []
    assert await listed(app, ended="2h") == ["double"]
    assert await listed(app, ended="30m") == []


async def test_children_and_the_run_of_a_key_are_found(app: App, engine: Engine) -> None:
    run = await app.named("parent").submit()
    await app.named("double").submit(9, key="nine")
    await worked_off(app)
    children = ["double", "double", JOIN]
    assert await listed(app, parent=run) == await listed(app, parent=str(run.id)) == children
    assert await listed(app, parent=run, task="double") == ["double", "double"]
    assert [info.key async for info in app.runs.all(task="double", key="nine")] == ["nine"]
    assert await listed(app, task="double", key="ten") == []


async def test_an_app_lists_and_counts_its_own_namespace(app: App, engine: Engine) -> None:
    other = App("memory://", engine=engine, namespace="other")

    @other.task
    async def elsewhere() -> None:
        return None

    await elsewhere.submit()
    await app.named("double").submit(1)
    assert await listed(app) == ["double"]
    assert await listed(other) == ["elsewhere"]
    assert await listed(app, namespace=None) == ["double", "elsewhere"]
    assert (await app.counts()).by_task == {"double": 1}
    assert (await app.counts("other")).by_task == {"elsewhere": 1}
    assert (await app.counts(None)).by_task == {"double": 1, "elsewhere": 1}


async def test_counts_add_up_by_state_task_and_lane(app: App, engine: Engine) -> None:
    await app.named("double").submit_many([1, 2, 3])
    await app.named("send").submit("ann")
    await worked_off(app)
    await app.named("double").submit(4)
    found = await app.counts()
    assert found.total == 5
    assert found.by_state == {"completed": 3, "failed": 1, "waiting": 1}
    assert found.by_task == {"double": 4, "send": 1}
    assert found.by_lane == {"mail": 1, "sums": 4}
    assert sum(row.count for row in found.rows if row.task == "double") == 4


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"colour": "red"}, "runs: colour: unknown option; accepted are .*state.*key"),
        ({"state": "done"}, "state: one or more of .*completed"),
        ({"state": 5}, "state: one or more of"),
        ({"task": 5}, "task: a declared task or the name of one"),
        ({"created": "soon"}, "created: a span such as"),
        ({"ended": ("1h", "2h", "3h")}, "ended: a span such as"),
        ({"flow": "ship"}, "flow: a Flow, or the id of one"),
        ({"parent": "ship"}, "parent: the uuid of a run, or its full id"),
        ({"key": "k"}, "key: give task=... as well"),
        ({"limit": -1}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"tag": "=x"}, "tag: a key, or key=value"),
    ],
)
async def test_a_wrong_condition_is_refused_with_its_name(
    app: App, engine: Engine, where: dict[str, Any], said: str
) -> None:
    with pytest.raises((ConfigError, ValidationError), match=said):
        await app.runs(**where)


async def test_runs_that_match_nothing_are_an_empty_page(app: App, engine: Engine) -> None:
    page = await app.runs(flow=uuid4())
    assert (page.items, page.next_cursor) == ([], None)
    assert isinstance(page.items, list) and list[RunInfo](page) == []
