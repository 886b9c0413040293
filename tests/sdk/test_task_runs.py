"""Steps, waits, output, flows and middleware of running tasks, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import (
    App,
    Budget,
    BudgetExceeded,
    Context,
    Engine,
    ExecutionId,
    OpenWaitpoint,
    PayloadError,
    Retry,
    RunCancelled,
    RunExpired,
    RunFailed,
    State,
    StepError,
    Worker,
    any_of,
)
from flowfabric.errors import ConfigError, NotFound
from flowfabric.testing import ManualClock

from .helpers import worked_off
from .test_tasks import Point


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


async def test_a_step_runs_once_however_often_the_task_is_run(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    ran: list[str] = []

    def build(version: str) -> dict[str, str]:
        ran.append("build")
        return {"image": version}

    async def test(image: Point) -> Point:
        ran.append("test")
        return image

    @app.task
    async def release(ctx: Context, version: str) -> str:
        ran.append("release")
        image = await ctx.step("build", build, version)
        point = await ctx.step("test", test, Point(1, 2))
        await ctx.sleep("1h")
        return f"{image['image']} {point.x}"

    run = await release.submit("1.0")
    await worked_off(app)
    assert await run.state() == "delayed"
    clock.advance(3_600_000)
    await engine.promote_delayed(run.id)
    await worked_off(app)
    assert await run.result() == "1.0 1"
    assert ran == ["release", "build", "test", "release"]


async def test_changed_order_of_steps_fails_the_run(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    order = ["a", "b"]

    @app.task
    async def work(ctx: Context) -> None:
        for name in order:
            await ctx.step(name, lambda: 1)
        await ctx.sleep(1)

    run = await work.submit()
    await worked_off(app)
    order.reverse()
    clock.advance(1_000)
    await engine.promote_delayed(run.id)
    await worked_off(app)
    with pytest.raises(
        RunFailed, match="position 0 was step 'a' in an earlier run and is step 'b' now"
    ):
        await run.result()


async def test_duplicate_step_name_is_refused(app: App, engine: Engine) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        await ctx.step("same", lambda: 1)
        with pytest.raises(StepError, match="names two steps"):
            await ctx.step("same", lambda: 1)

    run = await work.submit()
    await worked_off(app)
    await run.result()


async def test_approval_returns_the_answers_of_distinct_approvers(app: App, engine: Engine) -> None:
    asked: list[OpenWaitpoint] = []

    @app.task
    async def release(ctx: Context) -> list[Any]:
        decision = await ctx.approval("go-live", need=2, timeout="24h", notify=asked.append)
        return [[each.by, each.payload] for each in decision.answers]

    run = await release.submit()
    await worked_off(app)
    assert await run.state() == "suspended" and len(asked) == 2
    assert asked[0].token not in repr(asked[0])
    for link, who in ((asked[0], "ann"), (asked[0], "eve"), (asked[1], "bob")):
        await app.run(link.run).signal(
            "approved", {"by": who}, source=who, waitpoint=link.waitpoint_id, token=link.token
        )
    await worked_off(app)
    answers = await run.result()
    assert sorted({who for who, _ in answers}) == ["ann", "bob"]
    assert len(asked) == 2


async def test_suspend_raises_after_its_timeout(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    @app.task
    async def ask(ctx: Context) -> str:
        try:
            await ctx.suspend("answer", timeout="1m")
        except TimeoutError:
            return "nobody"
        return "somebody"

    run = await ask.submit()
    await worked_off(app)
    clock.advance(60_000)
    await engine.expire_suspension(run.id)
    await worked_off(app)
    assert await run.result() == "nobody"


async def test_waiting_run_is_signalled_by_its_id(app: App, engine: Engine) -> None:
    @app.task
    async def ask(ctx: Context) -> Any:
        return [signal.payload for signal in await ctx.suspend("answer", payload=int)]

    run = await ask.submit()
    await worked_off(app)
    await app.run(str(run.id)).signal("yes", 42)
    await worked_off(app)
    assert await run.result() == [42]


async def test_output_progress_and_budgets(app: App, engine: Engine) -> None:
    @app.task
    async def talk(ctx: Context) -> str:
        for data in ("text", b"\xff", {"a": 1}):
            await ctx.emit(data)
        assert await ctx.patch({"done": 1}) == 1
        await ctx.progress(50, "half")
        await ctx.spend("acme/day", tokens=60, key="first")
        await ctx.spend("acme/day", tokens=60, key="first")
        with pytest.raises(BudgetExceeded, match="tokens is at 60 of 100"):
            await ctx.spend("acme/day", tokens=60, key="second")
        return "done"

    app.budget("acme/day", hard={"tokens": 100})
    run = await talk.submit()
    await worked_off(app)
    assert await run.result() == "done"
    frames = [frame async for frame in run.stream()]
    assert [frame.payload for frame in frames] == [b"text", b"\xff", b'{"a":1}', b'{"done":1}']
    with pytest.raises(ConfigError, match="say at least one limit"):
        Budget("empty").creation("default")


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_a_run_tells_its_history(
    app: App, engine: Engine, clock: ManualClock, page: int
) -> None:
    @app.task
    async def nap(ctx: Context) -> None:
        await ctx.sleep("1s")

    run = await nap.submit()
    assert [entry.what async for entry in run.history(page=page)] == ["created"]
    await worked_off(app)
    clock.advance(1_000)
    await engine.promote_delayed(run.id)
    await worked_off(app)
    told = [entry async for entry in run.history(page=page)]
    assert [entry.what for entry in told] == ["created", "claimed", "delayed", "claimed", "ended"]
    assert {entry.execution_id for entry in told} == {run.id}
    assert told[2].at_ms + 1_000 == told[3].at_ms


async def test_a_run_that_is_not_there_has_no_history(app: App, engine: Engine) -> None:
    with pytest.raises(NotFound, match="execution"):
        [entry async for entry in app.run(ExecutionId.solo("default")).history()]


async def test_a_flow_passes_results_on(app: App, engine: Engine) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    async def total(numbers: list[int], plus: int, more: int = 1) -> int:
        return sum(numbers) + plus + more

    async with app.flow("sums") as flow:
        some = [flow.add(double, n) for n in (1, 2, 3)]
        first = flow.add(double, 10, after=any_of(*some, cancel_rest=False))
        last = flow.add(total, some, first)
    await worked_off(app)
    assert await last.result() == 12 + 20 + 1


async def test_a_flow_with_a_mistake_submits_nothing(app: App, engine: Engine) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async def mistaken() -> None:
        async with app.flow("sums") as flow:
            flow.add(double, 1)
            flow.add(double, "x")

    with pytest.raises(PayloadError):
        await mistaken()
    assert await worked_off(app) == 0
    stranger = app.flow("other").add(double, 1)
    with pytest.raises(ConfigError, match="not a node of this flow"):
        app.flow("sums").add(double, stranger)


class Model:
    def answer(self) -> int:
        return 42


async def test_state_is_given_by_type(app: App, engine: Engine) -> None:
    @app.task
    async def ask(ctx: Context, question: str, model: State[Model]) -> int:
        return model.answer()

    with pytest.raises(ConfigError, match="no Model in the worker's state"):
        Worker(app)
    run = await ask.submit("what?")
    await worked_off(app, state=[Model()])
    assert await run.result() == 42


async def test_a_worker_takes_only_what_it_can_run(app: App, engine: Engine) -> None:
    other = App("memory://", engine=engine)

    @app.task
    async def known() -> str:
        return "known"

    @other.task
    async def strange() -> str:
        return "strange"

    runs = [await strange.submit(), await known.submit()]
    assert await worked_off(app) == 1
    assert [await run.state() for run in runs] == ["waiting", "completed"]
    assert await worked_off(other) == 1


async def test_a_cancelled_and_a_late_run_raise_their_own_errors(app: App, engine: Engine) -> None:
    @app.task(timeout="10ms", retry=Retry(max=0))
    async def slow() -> None:
        await asyncio.sleep(60)

    cancelled, late = await slow.submit(), await slow.submit()
    await cancelled.cancel("not wanted")
    await worked_off(app)
    with pytest.raises(RunCancelled, match="not wanted"):
        await cancelled.result()
    with pytest.raises(RunExpired):
        await late.result()


async def test_stored_payloads_pass_through_the_codec(engine: Engine) -> None:
    class Reversed:
        def encode(self, data: bytes) -> bytes:
            return data[::-1]

        def decode(self, data: bytes) -> bytes:
            return data[::-1]

    app = App("memory://", engine=engine, codec=Reversed())

    @app.task
    async def echo(ctx: Context, text: str) -> str:
        return str(await ctx.step("say", lambda: text))

    run = await echo.submit("secret")
    await worked_off(app)
    assert await run.result() == "secret"
    stored = [
        (await engine.read_execution_context(run.id)).input_payload,
        (await engine.read_outcome(run.id)).result,
    ]  # type: ignore[union-attr]
    assert stored == [b'{"text":"secret"}'[::-1], b'"secret"'[::-1]]
    assert (await engine.read_steps(run.id))[0].value == b'"secret"'[::-1]


async def test_middleware_wraps_the_task_in_order(app: App, engine: Engine) -> None:
    seen: list[str] = []

    def noting(name: str) -> Any:
        async def middleware(ctx: Context, call: Any) -> Any:
            seen.append(f"{name} {ctx.task}")
            return await call()

        return middleware

    @app.task
    async def work() -> str:
        seen.append("work")
        return "done"

    run = await work.submit()
    await worked_off(app, middleware=[noting("outer"), noting("inner")])
    assert (await run.result(), seen) == ("done", ["outer work", "inner work", "work"])
