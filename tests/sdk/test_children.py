"""Children: submitted once each, results in order, no slot held by the parent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import (
    App,
    ChildFailed,
    Context,
    Engine,
    Fatal,
    Retry,
    Run,
    RunFailed,
    Worker,
    any_of,
)
from flowfabric.model.flow import CancelFlowPolicy
from flowfabric.sdk import children as module
from flowfabric.sdk.exceptions import StepError
from flowfabric.testing import ManualClock

from .helpers import worked_off
from .test_tasks import Point


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.fixture
def ran(app: App) -> list[int]:
    """The arguments of every run of `double`."""
    found: list[int] = []

    @app.task
    async def double(n: int) -> int:
        found.append(n)
        if n < 0:
            raise ValueError(f"{n} is less than nothing")
        return 2 * n

    @app.task
    async def mirror(point: Point) -> Point:
        return Point(point.y, point.x)

    return found


def doubled(app: App, *numbers: int) -> list[Any]:
    return [app.tasks["double"].call(n) for n in numbers]


async def test_results_come_back_typed_and_in_order(
    app: App, engine: Engine, ran: list[int]
) -> None:
    @app.task
    async def parent(ctx: Context) -> list[Any]:
        one, point, other, none = await ctx.children(
            *doubled(app, 1),
            app.tasks["mirror"].call(point=Point(1, 2)),
            *doubled(app, 3),
            nothing.call(priority=5),
        )
        assert isinstance(point, Point)
        return [one, [point.x, point.y], other, none]

    @app.task(lane="quiet")
    async def nothing() -> None: ...

    run = await parent.submit()
    assert await worked_off(app, concurrency=1) == 2 + 4 + 1
    assert await run.result() == [2, [2, 1], 6, None]
    assert sorted(ran) == [1, 3]


@pytest.mark.parametrize("n", [0, 1, 7])
async def test_one_slot_is_enough(app: App, engine: Engine, ran: list[int], n: int) -> None:
    @app.task
    async def parent(ctx: Context) -> int:
        return sum(await ctx.children(*doubled(app, *range(n))))

    runs = [await parent.submit() for _ in range(3)]
    await worked_off(app, concurrency=1)
    assert [await run.result() for run in runs] == [n * (n - 1)] * 3
    assert len(ran) == 3 * n


async def test_two_waits_and_steps_in_between(app: App, engine: Engine, ran: list[int]) -> None:
    steps: list[str] = []

    @app.task
    async def parent(ctx: Context) -> list[int]:
        await ctx.step("before", lambda: steps.append("before"))
        first = await ctx.children(*doubled(app, 1, 2), name="first")
        await ctx.step("between", lambda: steps.append("between"))
        second = await ctx.children(*doubled(app, *first))
        return [*first, *second]

    run = await parent.submit()
    await worked_off(app)
    assert await run.result() == [2, 4, 4, 8]
    assert (sorted(ran), steps) == ([1, 2, 2, 4], ["before", "between"])


async def test_children_may_have_children_of_their_own(
    app: App, engine: Engine, ran: list[int]
) -> None:
    @app.task
    async def tree(ctx: Context, depth: int) -> int:
        if not depth:
            return 1
        return 1 + sum(await ctx.children(tree.call(depth - 1), tree.call(depth - 1)))

    run = await tree.submit(3)
    await worked_off(app, concurrency=1)
    assert await run.result() == 15


async def test_failed_child_raises_in_the_parent(app: App, engine: Engine, ran: list[int]) -> None:
    caught: list[ChildFailed] = []

    @app.task(retry=Retry(max=3, base=0))
    async def parent(ctx: Context) -> None:
        try:
            await ctx.children(*doubled(app, 1, -1, -2))
        except ChildFailed as error:
            caught.append(error)
            raise

    run = await parent.submit()
    await worked_off(app)
    with pytest.raises(
        RunFailed, match=r"child of task double failed: ValueError: -1 is less than nothing"
    ) as told:
        await run.result()
    (error,) = caught
    assert (error.task, error.end) == ("double", "failed") and str(app.run(error.run)) in str(
        told.value
    )
    assert await app.run(error.run).state() == "failed"
    assert sorted(ran) == [-2, -1, 1], "all have ended before it is told, and nobody is tried again"


async def test_return_exceptions_makes_failures_results(
    app: App, engine: Engine, ran: list[int], clock: ManualClock
) -> None:
    @app.task
    async def parent(ctx: Context) -> list[str]:
        found = await ctx.children(*doubled(app, 1, -1), given_up.call(), return_exceptions=True)
        await ctx.sleep("1s")
        return [str(each.end if isinstance(each, ChildFailed) else each) for each in found]

    @app.task
    async def given_up(ctx: Context) -> None:
        await ctx.suspend("never")

    run = await parent.submit()
    await worked_off(app)
    (waiting,) = [
        each for each in await started_by(engine, run) if await each.state() == "suspended"
    ]
    await waiting.cancel("not wanted")
    await worked_off(app)
    clock.advance(1_000)
    await engine.promote_delayed(run.id)
    await worked_off(app)
    assert await run.result() == ["2", "failed", "cancelled"]


async def started_by(engine: Engine, parent: Run[Any]) -> list[Run[Any]]:
    """The children of the parent's first wait, and their join."""
    flow = module.family(parent.id, 0, "", ()).flow_id
    return [parent.app.run(member.id) for member in await engine.flow_members(flow)]


@pytest.mark.parametrize("parent_first", [True, False])
@pytest.mark.meets("child", "replay")
async def test_replayed_parent_reads_the_replayed_child(
    app: App, engine: Engine, clock: ManualClock, parent_first: bool
) -> None:
    broken = [True]

    @app.task
    async def child() -> str:
        if broken:
            raise Fatal("broken")
        return "whole"

    @app.task
    async def parent(ctx: Context) -> list[str]:
        return await ctx.children(child.call())

    run = await parent.submit()
    await worked_off(app)
    assert await run.state() == "failed"
    broken.clear()
    (failed,) = [each for each in await started_by(engine, run) if await each.state() == "failed"]
    await failed.replay()
    if not parent_first:
        await worked_off(app)
    await run.replay()
    await worked_off(app, concurrency=1)
    assert await run.result() == ["whole"]


@pytest.mark.parametrize("call", ["submit_flow", "create_waitpoint", "suspend", "record_step"])
@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.meets("crash", "reclaim", "child")
async def test_worker_crash_while_children_are_started_loses_nothing(
    app: App,
    engine: Engine,
    ran: list[int],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    landed: bool,
) -> None:
    """Dies right before or right after the call; another worker continues."""

    @app.task
    async def parent(ctx: Context) -> list[int]:
        return await ctx.children(*doubled(app, 1, 2))

    worker = Worker(app, lease="10s", loops=False, concurrency=1)  # the children are nobody's yet
    real, died = getattr(engine, call), asyncio.Event()

    async def last_words(*args: Any, **kwargs: Any) -> Any:
        if landed:
            await real(*args, **kwargs)
        died.set()
        await asyncio.Event().wait()

    run = await parent.submit()
    monkeypatch.setattr(engine, call, last_words)
    working = asyncio.create_task(worker.run_until_idle())
    await died.wait()
    await worker.crash()
    await working
    monkeypatch.setattr(engine, call, real)
    await worked_off(app)
    clock.advance(10_000)
    await engine.mark_lease_expired_if_due(run.id)
    await engine.requeue_lost(run.id, 0)
    await worked_off(app)
    assert await run.result() == [2, 4]
    assert sorted(ran) == [1, 2]


async def test_parent_continues_when_its_children_and_join_were_cancelled(
    app: App, engine: Engine, clock: ManualClock, ran: list[int]
) -> None:
    """The join is cancelled too: the engine wakes the parent."""

    @app.task
    async def parent(ctx: Context) -> list[int]:
        return await ctx.children(*doubled(app, 1), later.call())

    @app.task
    async def later(ctx: Context) -> None:
        await ctx.suspend("never")

    run = await parent.submit()
    await worked_off(app)
    await engine.cancel_flow(module.family(run.id, 0, "", ()).flow_id, CancelFlowPolicy.CANCEL_ALL)
    await worked_off(app)
    with pytest.raises(RunFailed, match="child of task later was cancelled"):
        await run.result()


async def test_parent_resumed_too_early_waits_again(
    app: App, engine: Engine, clock: ManualClock, ran: list[int]
) -> None:
    @app.task
    async def parent(ctx: Context) -> list[int]:
        return await ctx.children(later.call(), *doubled(app, 2))

    @app.task
    async def later(ctx: Context) -> int:
        await ctx.suspend("go on")
        return 1

    run = await parent.submit()
    await worked_off(app)
    for _ in range(3):
        await engine.resume_execution(run.id)
        await worked_off(app)
        assert await run.state() == "suspended"
    (waiting,) = [r for r in await started_by(engine, run) if await r.state() == "suspended"]
    await waiting.signal("yes")
    await worked_off(app)
    assert (await run.result(), ran) == ([1, 4], [2])


@pytest.mark.meets("child", "flow")
async def test_a_node_of_a_flow_may_have_children(app: App, engine: Engine, ran: list[int]) -> None:
    @app.task
    async def parent(ctx: Context, n: int) -> int:
        return sum(await ctx.children(*doubled(app, n, n)))

    async with app.flow("family") as flow:
        some = [flow.add(app.tasks["double"], n) for n in (1, 2)]
        middle = flow.add(parent, 5, after=any_of(*some, cancel_rest=False))
        last = flow.add(app.tasks["double"], middle)
    await worked_off(app, concurrency=1)
    assert await last.result() == 40


async def test_large_results_are_read_from_the_children(
    app: App, engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 10)

    @app.task
    async def letters(n: int) -> str:
        return "x" * n

    @app.task
    async def parent(ctx: Context) -> list[int]:
        found = await ctx.children(letters.call(20), letters.call(1))
        await ctx.sleep("1s")
        return [len(each) for each in found]

    run = await parent.submit()
    await worked_off(app)
    clock.advance(1_000)
    await engine.promote_delayed(run.id)
    await worked_off(app)
    assert await run.result() == [20, 1]
    record = (await engine.read_steps(run.id))[0]
    assert record.kind == "children" and b"xxx" not in (record.value or b"")


async def test_changed_children_fail_the_run(
    app: App, engine: Engine, clock: ManualClock, ran: list[int]
) -> None:
    wanted = ["double"]

    @app.task
    async def parent(ctx: Context) -> None:
        await ctx.children(*(app.tasks[name].call(1) for name in wanted), later.call(1))

    @app.task
    async def later(ctx: Context, n: int) -> None:
        await ctx.suspend("never")

    run = await parent.submit()
    await worked_off(app)
    wanted[:] = ["later"]
    await engine.resume_execution(run.id)
    await worked_off(app)
    with pytest.raises(
        RunFailed, match=r"child 0 \(task later\) is missing: an earlier run started other children"
    ):
        await run.result()


async def test_children_follow_the_order_of_steps(app: App, engine: Engine, ran: list[int]) -> None:
    said: list[str] = []

    @app.task
    async def parent(ctx: Context) -> None:
        async def within() -> None:
            await ctx.children(*doubled(app, 1))

        with pytest.raises(StepError, match="is inside of another step"):
            await ctx.step("around", within)
        under_way = ctx.children(*doubled(app, 1), name="one")
        with pytest.raises(
            StepError, match="step 'beside' cannot begin before children 'one' is finished"
        ):
            await ctx.step("beside", lambda: 1)
        await under_way
        for wrong in (app.tasks["double"], 1, stranger.call()):
            with pytest.raises(StepError, match=r"calls of this app's tasks"):
                ctx.children(wrong)  # type: ignore[arg-type]
        with pytest.raises(StepError, match="at most 1000 at once, got 1001"):
            ctx.children(*doubled(app, 1) * 1_001)
        said.append("all")

    other = App("memory://", engine=engine)

    @other.task
    async def stranger() -> None: ...

    run = await parent.submit()
    await worked_off(app)
    await run.result()
    assert said == ["all"]
