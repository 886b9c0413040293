"""Recorded steps with lost answers, lost leases, and tasks that change their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric import (
    App,
    ClaimPolicy,
    Context,
    Engine,
    OpenWaitpoint,
    RunFailed,
    StepError,
    memory_engine,
)
from flowfabric.errors import Contention, ContentionKind
from flowfabric.model.step import MAX_STEP_BYTES
from flowfabric.testing import ManualClock

from .helpers import impatient, unanswered, worked_off


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> Engine:
    return memory_engine(clock)


@pytest.fixture
def app(memory: Engine) -> App:
    return App("memory://", engine=memory)


async def failed(app: App, body: Callable[[Context], Awaitable[Any]], said: str) -> None:
    """A task with this body fails with this text."""

    async def work(ctx: Context) -> Any:
        return await body(ctx)

    run = await app.task(work).submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match=said):
        await run.result()


@pytest.mark.parametrize("landed", [True, False])
async def test_a_step_is_recorded_again_and_not_run_again(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    impatient(monkeypatch)
    ran: list[int] = []

    @app.task
    async def work(ctx: Context) -> Any:
        return await ctx.step("once", lambda: ran.append(1) or len(ran))  # type: ignore[func-returns-value]

    calls = unanswered(monkeypatch, memory, "record_step", 2, landed=landed)
    run = await work.submit()
    await worked_off(app)
    assert (await run.result(), len(ran), len(calls)) == (1, 1, 3)


@pytest.mark.parametrize("call", ["delay", "suspend"])
async def test_wait_with_a_lost_answer_still_parks(
    app: App, memory: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    impatient(monkeypatch)

    @app.task
    async def work(ctx: Context) -> str:
        if call == "delay":
            await ctx.sleep("1h")
        else:
            await ctx.suspend("answer", timeout="1h")
        return "gone on"

    unanswered(monkeypatch, memory, call, 1, landed=True)
    run = await work.submit()
    await worked_off(app)
    assert await run.state() == ("delayed" if call == "delay" else "suspended")
    if call == "delay":
        clock.advance(3_600_000)
        await memory.promote_delayed(run.id)
    else:
        await run.signal("yes")
    await worked_off(app)
    assert await run.result() == "gone on"


async def test_run_does_not_fail_while_the_store_is_away(
    app: App, memory: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)

    @app.task
    async def work(ctx: Context) -> str:
        return str(await ctx.step("kept", lambda: "kept"))

    unanswered(monkeypatch, memory, "record_step", 8, landed=False)
    run = await work.submit()
    await worked_off(app)
    assert await run.state() == "delayed"
    clock.advance(1_000)
    await memory.promote_delayed(run.id)
    await worked_off(app)
    assert (await run.result(), (await run.outcome()).total_attempt_count) == ("kept", 1)


async def test_task_without_its_lease_is_cancelled_at_its_next_step(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @app.task
    async def work(ctx: Context) -> None:
        try:
            await ctx.step("one", lambda: 1)
        except asyncio.CancelledError:
            seen.append(f"cancelled, lost {ctx.lost.is_set()}")
            raise

    async def gone(*_: Any) -> None:
        raise Contention(ContentionKind.LEASE_CONFLICT)

    monkeypatch.setattr(memory, "record_step", gone)
    run = await work.submit()
    await worked_off(app)
    assert (seen, await run.state()) == (["cancelled, lost True"], "active")


async def test_steps_that_run_together_keep_their_order(
    app: App, memory: Engine, clock: ManualClock
) -> None:
    """The first to be called ends last; the next run finds all at their positions."""
    ran: list[str] = []
    ended = {name: asyncio.Event() for name in "abc"}

    async def part(name: str, after: str | None) -> str:
        if after is not None:
            await ended[after].wait()
        ended[name].set()
        ran.append(name)
        return name

    @app.task
    async def work(ctx: Context) -> list[str]:
        order = zip("abc", ("b", "c", None), strict=True)
        found = await asyncio.gather(*(ctx.step(name, part, name, after) for name, after in order))
        await ctx.sleep(1)
        return found

    run = await work.submit()
    await worked_off(app)
    clock.advance(1_000)
    await memory.promote_delayed(run.id)
    await worked_off(app)
    assert (await run.result(), ran) == (["a", "b", "c"], ["c", "b", "a"])
    assert [step.name for step in await memory.read_steps(run.id)][:3] == ["a", "b", "c"]


async def _chains(ctx: Context) -> None:
    async def chain(name: str) -> None:
        await ctx.step(f"{name} 1", lambda: 1)
        await ctx.step(f"{name} 2", lambda: 2)

    await asyncio.gather(chain("left"), chain("right"))


async def _nested(ctx: Context) -> None:
    async def outer() -> Any:
        return await ctx.step("inner", lambda: 1)

    await ctx.step("outer", outer)


async def _beside(ctx: Context) -> None:
    step = asyncio.ensure_future(ctx.step("step", asyncio.sleep, 0))
    try:
        await ctx.sleep("1h")
    finally:
        step.cancel()


async def _forgotten(ctx: Context) -> None:
    waiting = asyncio.Event()
    ctx.keep = asyncio.create_task(ctx.step("forgotten", waiting.wait))  # type: ignore[attr-defined]
    await asyncio.sleep(0)


async def _threaded(ctx: Context) -> None:
    await asyncio.to_thread(lambda: asyncio.run(ctx.step("far", lambda: 1)))


async def _lying(ctx: Context) -> None:
    def lie() -> int:
        return "text"  # type: ignore[return-value]

    await ctx.step("lie", lie)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_chains, "step 'right 1' and step 'left 1' are called by two asyncio tasks at once"),
        (_nested, "step 'inner' is inside of another step"),
        (_beside, "sleep 'sleep at 1' cannot begin before step 'step' is finished"),
        (_forgotten, "it returned before step 'forgotten' was finished"),
        (_threaded, "step 'far': call it in the task itself, not in a thread"),
        (
            _lying,
            "step 'lie': the result does not fit the function's return annotation: "
            "Expected `int`, got `str`",
        ),
    ],
)
async def test_what_has_no_order_is_refused(
    app: App, body: Callable[[Context], Awaitable[Any]], said: str
) -> None:
    await failed(app, body, said)


async def test_step_outside_a_task_is_refused(app: App) -> None:
    kept: list[Context] = []

    @app.task
    async def work(ctx: Context) -> None:
        kept.append(ctx)

    run = await work.submit()
    await worked_off(app)
    await run.result()
    for use in (
        lambda: kept[0].step("late", lambda: 1),
        lambda: kept[0].sleep(1),
        lambda: kept[0].emit("late"),
    ):
        with pytest.raises(StepError, match=r"task work: .*: the task has ended"):
            await use()


async def test_steps_are_bounded_before_they_run(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    async def named(ctx: Context) -> None:
        await ctx.step("x" * 257, ran.append, 1)

    async def numbered(ctx: Context) -> None:
        for n in range(3):
            await ctx.step(str(n), ran.append, n)

    async def large(ctx: Context) -> None:
        await ctx.step("large", lambda: "x" * MAX_STEP_BYTES)

    await failed(app, named, "a step's name is text of 1 to 256 bytes")
    assert ran == []
    monkeypatch.setattr("flowfabric.sdk.session.MAX_STEPS", 2)
    app.tasks.clear()
    await failed(app, numbered, "'2': one run has at most 2 steps")
    assert ran == [0, 1]
    app.tasks.clear()
    await failed(app, large, "step 'large': 1048578 bytes, at most 1048576 are stored")


async def _answered_and_lost(app: App, memory: Engine, clock: ManualClock, run: Any) -> None:
    """A worker takes the signalled run and dies before it has recorded the signal."""
    await run.signal("yes", 42)
    (work,) = await memory.claim_many(
        "default", app.capabilities, ClaimPolicy("w", "w-1", 1_000), 1
    )
    assert work.execution_id == run.id
    clock.advance(60_000)
    await memory.mark_lease_expired_if_due(run.id)
    await memory.requeue_lost(run.id, 0)


@pytest.mark.parametrize("notify", [None, lambda _: None])
async def test_signal_survives_a_crash_before_it_was_recorded(
    app: App, memory: Engine, clock: ManualClock, notify: Any
) -> None:
    @app.task
    async def ask(ctx: Context) -> Any:
        return [
            signal.payload for signal in await ctx.suspend("answer", payload=int, notify=notify)
        ]

    run = await ask.submit()
    await worked_off(app)
    await _answered_and_lost(app, memory, clock, run)
    await worked_off(app)
    assert await run.result() == [42]


async def test_replay_of_a_run_cancelled_in_a_wait_opens_a_new_waitpoint(
    app: App, memory: Engine
) -> None:
    asked: list[OpenWaitpoint] = []

    @app.task
    async def ask(ctx: Context) -> Any:
        return [each.payload for each in (await ctx.approval("go", notify=asked.append)).answers]

    run = await ask.submit()
    await worked_off(app)
    await run.cancel("not now")
    await run.replay()
    await worked_off(app)
    assert (await run.state(), len(asked)) == ("suspended", 2)
    await run.signal("approved", "go", waitpoint=asked[1].waitpoint_id, token=asked[1].token)
    await worked_off(app)
    assert await run.result() == ["go"]
