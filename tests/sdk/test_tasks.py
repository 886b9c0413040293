"""Tasks from submission to result, on every store: the worker works off what there is, and the clock stands still."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from flowfabric import (
    App,
    Budget,
    BudgetExceeded,
    Context,
    Engine,
    ExecutionId,
    Fatal,
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
from flowfabric.errors import ConfigError, NotFound, ValidationError
from flowfabric.testing import ManualClock


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


async def worked_off(app: App, **more: Any) -> int:
    worker = Worker(app, **more)
    try:
        return await worker.run_until_idle()
    finally:
        await worker.stop()


async def test_a_task_is_submitted_run_and_its_result_read(app: App, engine: Engine) -> None:
    @app.task(lane="mail")
    async def send(to: str, body: str = "hello") -> str:
        return f"{to}: {body}"

    run = await send.submit("a@b.c")
    assert await run.state() == "waiting"
    assert await worked_off(app) == 1
    assert await run.result() == "a@b.c: hello"
    assert await app.run(str(run.id), "send").result() == "a@b.c: hello"
    assert await send("x", body="y") == "x: y"


async def test_the_same_key_is_the_same_run(app: App, engine: Engine) -> None:
    @app.task
    async def send(to: str) -> None: ...

    first, again, other = [await send.submit("a", key=key) for key in ("k", "k", "other")]
    assert (first.id == again.id, first.id == other.id) == (True, False)
    assert await worked_off(app) == 2


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Box(msgspec.Struct):
    inside: list[Point]


async def test_arguments_come_as_the_hints_say(app: App, engine: Engine) -> None:
    seen: list[Any] = []

    @app.task
    async def take(point: Point, box: Box, named: Named, many: dict[str, set[int]]) -> Box:
        seen.append((point, box, named, many))
        return box

    given = (Point(1), Box([Point(2, 3)]), Named(name="n"), {"a": {1, 2}})
    run = await take.submit(*given)
    await worked_off(app)
    assert seen == [given]
    assert await run.result() == given[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x",), "Expected `int`, got `str` - at `$.n`"),
        ((), "missing a required argument: 'n'"),
        ((1, 2), "too many positional arguments"),
        ((object(),), "argument 'n': object cannot be stored; use builtins, a dataclass, "),
    ],
)
async def test_bad_arguments_are_told_at_submit(
    app: App, engine: Engine, args: tuple[Any, ...], said: str
) -> None:
    @app.task
    async def count(n: int) -> None: ...

    with pytest.raises(PayloadError) as caught:
        await count.submit(*args)
    assert "task count" in str(caught.value) and said in str(caught.value)


async def test_a_context_that_is_not_annotated_is_told_where_an_argument_is_missing(
    app: App, engine: Engine
) -> None:
    async def waits(ctx, n: int) -> None: ...  # type: ignore[no-untyped-def]
    def blocks(context) -> None: ...  # type: ignore[no-untyped-def]
    async def plain(n: int) -> None: ...
    async def given(ctx: int, n: int) -> None: ...

    for function, args, said in (
        (
            waits,
            (5,),
            "'n'; ctx has no annotation, so it is an argument; write ctx: flowfabric.Context for the run's context",
        ),
        (blocks, (), "; write context: flowfabric.sync.Context for the run's context"),
        (plain, (), "missing a required argument: 'n'"),
        (given, (5,), "missing a required argument: 'n'"),
    ):
        with pytest.raises(PayloadError) as caught:
            await app.task(function).submit(*args)
        assert str(caught.value).endswith(said)


def test_what_cannot_be_carried_is_told_when_the_task_is_declared() -> None:
    app = App("memory://")

    def custom(thing: asyncio.Lock) -> None: ...
    def starred(*things: int) -> None: ...
    def optioned(key: str) -> None: ...
    async def late(n: int, ctx: Context) -> None: ...
    def given() -> asyncio.Lock: ...  # type: ignore[empty-body]

    for function, said in (
        (custom, "argument 'thing': asyncio.locks.Lock cannot be stored"),
        (starred, "*args and **kwargs"),
        (optioned, "has the name of an option of submit"),
        (late, "the Context comes first"),
        (given, "its result: asyncio.locks.Lock cannot be stored"),
    ):
        with pytest.raises(PayloadError) as caught:
            app.task(function)
        assert said in str(caught.value)


def test_options_are_checked_when_the_task_is_declared() -> None:
    app = App("memory://")
    app.task(name="one")(lambda: None)
    for options, said in (
        ({"name": "one"}, "already declared"),
        ({"timeout": "soon"}, "timeout: a span like"),
        ({"retry": 3}, "retry: a Retry"),
        ({"lanes": "x"}, "lanes: unknown option"),
    ):
        with pytest.raises(ConfigError) as caught:
            app.task(**options)(lambda: None)  # type: ignore[call-overload]
        assert said in str(caught.value)


async def test_a_failure_is_tried_again_if_its_kind_is_named(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    tries: list[str] = []

    @app.task(retry=Retry(max=2, backoff="fixed", base=0, on=(TimeoutError,)))
    async def fetch(kind: str) -> int:
        tries.append(kind)
        if kind == "slow" and len(tries) < 3:
            raise TimeoutError
        if kind == "wrong":
            raise KeyError("nothing there")
        return len(tries)

    run = await fetch.submit("slow")
    await worked_off(app)
    assert await run.result() == 3
    tries.clear()
    wrong = await fetch.submit("wrong")
    await worked_off(app)
    with pytest.raises(RunFailed, match="KeyError: 'nothing there'"):
        await wrong.result()
    assert tries == ["wrong"]


async def test_retry_and_fatal_say_it_themselves(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    tries: list[int] = []

    @app.task(retry=Retry(max=5, backoff="fixed", base="1h"))
    async def work() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Retry("busy", after=5)
        raise Fatal("no use", category="hopeless")

    run = await work.submit()
    await worked_off(app)
    assert await run.state() == "delayed"
    clock.advance(5_000)
    await engine.promote_delayed(run.id)
    await worked_off(app)
    with pytest.raises(RunFailed, match="no use"):
        await run.result()
    assert len(tries) == 2


@pytest.mark.parametrize("ends", [True, False])
async def test_a_task_without_a_retry_policy_may_ask_for_another_try(
    app: App, engine: Engine, clock: ManualClock, ends: bool
) -> None:
    """Three times, as the default policy says; any other exception is final."""
    tries: list[int] = []

    @app.task
    async def work() -> str:
        tries.append(1)
        if len(tries) < 3 or not ends:
            raise Retry("busy", after="5s")
        return "done"

    @app.task
    async def fails() -> None:
        tries.append(1)
        raise ConnectionError

    run = await work.submit()
    for _ in range(4):
        await worked_off(app)
        clock.advance(60_000)
        await engine.promote_delayed(run.id)
    if ends:
        assert (await run.result("5s"), len(tries)) == ("done", 3)
    else:
        with pytest.raises(RunFailed, match="Retry: busy"):
            await run.result("5s")
        assert len(tries) == 4
    tries.clear()
    run_of_fails = await fails.submit()
    await worked_off(app)
    with pytest.raises(RunFailed):
        await run_of_fails.result("5s")
    assert len(tries) == 1


async def test_waiting_for_a_result_in_vain_says_for_whom_and_how_long(
    app: App, engine: Engine
) -> None:
    @app.task
    async def work() -> None: ...

    run = await work.submit()
    with pytest.raises(TimeoutError) as caught:
        await run.result(timeout="20ms")
    assert (
        str(caught.value) == f"{run.id} has not ended within 0.02 s; run.why() returns the reason"
    )


@pytest.mark.parametrize("ident", ["nonsense", "{fp:1}:x", "", None, 5, b"x"])
def test_an_id_that_is_none_is_told(ident: Any) -> None:
    with pytest.raises(
        ValidationError, match=r"invalid_input: id: the id of a run as str\(run.id\) gives it"
    ):
        App("memory://").run(ident)


async def test_a_plain_function_runs_in_a_thread(app: App, engine: Engine) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        time.sleep(0)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return a + b

    runs = await add.submit_many([(1, 2), {"a": 3, "b": 4}])
    await worked_off(app)
    assert [await run.result() for run in runs] == [3, 7]


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


async def test_another_order_of_steps_is_an_error(
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


async def test_one_name_for_two_steps_is_an_error(app: App, engine: Engine) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        await ctx.step("same", lambda: 1)
        with pytest.raises(StepError, match="names two steps"):
            await ctx.step("same", lambda: 1)

    run = await work.submit()
    await worked_off(app)
    await run.result()


async def test_people_are_asked_and_their_answers_come_back(app: App, engine: Engine) -> None:
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


async def test_nobody_answered_in_time(app: App, engine: Engine, clock: ManualClock) -> None:
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


async def test_a_run_that_waits_is_told_by_its_id(app: App, engine: Engine) -> None:
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


async def test_cancelled_and_timed_out(app: App, engine: Engine) -> None:
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


async def test_what_is_stored_goes_through_the_codec(engine: Engine) -> None:
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


async def test_middleware_stands_around_the_task(app: App, engine: Engine) -> None:
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


@pytest.mark.parametrize("key", ["App.X", "app", "app.", ".x", "a b.c", "\u00e9.x"])
async def test_a_tag_that_could_not_be_changed_later_is_not_set_either(
    app: App, engine: Engine, key: str
) -> None:
    task = app.task(name="work")(lambda: None)
    with pytest.raises(ValidationError, match="lower case"):
        await task.submit(tags={key: "1"})
    with pytest.raises(ValidationError, match="lower case"):
        await task.submit(tags={"a.b": "1", key: "1"})
    assert (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"] == []
    run = await task.submit(tags={"app.x": "1"})
    assert await engine.get_execution_tag(run.id, "app.x") == "1"
