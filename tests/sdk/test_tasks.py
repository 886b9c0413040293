"""Tasks from submission to result, on every store."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from flowfabric import (
    App,
    Engine,
    Fatal,
    Retry,
    RunFailed,
)
from flowfabric.testing import ManualClock

from .helpers import worked_off


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


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


async def test_arguments_are_decoded_by_their_hints(app: App, engine: Engine) -> None:
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


async def test_failure_is_retried_if_its_class_is_listed(
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


async def test_raised_retry_and_fatal_decide_about_the_retry(
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


async def test_result_timeout_names_the_run_and_the_time(app: App, engine: Engine) -> None:
    @app.task
    async def work() -> None: ...

    run = await work.submit()
    with pytest.raises(TimeoutError) as caught:
        await run.result(timeout="20ms")
    said = f"run {run.id.uuid} has not ended within 0.02 s; run.why() returns the reason"
    assert str(caught.value) == said


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
