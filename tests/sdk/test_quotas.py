"""Quotas declared with the app, and kept by every worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import App, Engine, Run
from flowfabric.errors import ConfigError, FlowFabricError
from flowfabric.sdk.limits import quota_id
from flowfabric.testing import ManualClock

from .helpers import until, worked_off


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


BY_TASK: Any = ({}, {"quota": "q"}, {})
BY_LANE: Any = ({"lane": "llm"}, {"lane": "llm"}, {})
BY_TAG: Any = ({"tag": "app.customer=acme"}, {}, {"tags": {"app.customer": "acme"}})
PLACES = pytest.mark.parametrize(
    ("quota", "task", "submit"), [BY_TASK, BY_LANE, BY_TAG], ids=["task", "lane", "tag"]
)


@PLACES
async def test_concurrent_quota_runs_one_at_a_time(
    app: App, engine: Engine, quota: Any, task: Any, submit: Any
) -> None:
    app.quota("q", concurrent=1, **quota)
    began: list[int] = []
    go_on = asyncio.Event()

    @app.task(**task)
    async def call(n: int) -> int:
        began.append(n)
        await go_on.wait()
        return n

    @app.task
    async def free() -> str:
        return "free"

    runs = [await call.submit(n, **submit) for n in (1, 2)]
    first = asyncio.create_task(worked_off(app))
    await until(lambda: began)
    other = await free.submit()
    await worked_off(app)
    assert await other.result() == "free"  # whichever of the two workers took it
    assert len(began) == 1
    go_on.set()
    await first
    await worked_off(app)
    assert sorted([await run.result() for run in runs]) == [1, 2]


@PLACES
async def test_quota_admits_so_many_per_window(
    app: App, engine: Engine, clock: ManualClock, quota: Any, task: Any, submit: Any
) -> None:
    app.quota("q", requests=2, per="1m", **quota)

    @app.task(**task)
    async def call() -> None: ...

    runs: list[Run[None]] = [await call.submit(**submit) for _ in range(5)]
    done = []
    for span in (0, 59_999, 1, 60_000):
        clock.advance(span)
        done.append(await worked_off(app))
    assert done == [2, 0, 2, 1]
    assert {await run.state() for run in runs} == {"completed"}


async def test_tasks_that_name_one_quota_share_it(app: App, engine: Engine) -> None:
    app.quota("shared", requests=1, per="1h")

    @app.task(quota="shared")
    async def one() -> None: ...

    @app.task(quota="shared")
    async def other() -> None: ...

    await one.submit()
    await other.submit_many([(), ()])
    async with app.flow("calls") as flow:
        flow.add(one)
    assert await worked_off(app) == 1


async def test_existing_quota_gets_the_declared_limits(app: App, engine: Engine) -> None:
    app.quota("q", requests=5, per="2s", concurrent=3, lane="llm", tag="a.b=c")
    await app.engine()
    again = App("memory://", engine=engine)
    again.quota("q", requests=99, lane="llm")
    await again.engine()
    elsewhere = App("memory://", engine=engine, namespace="other")
    elsewhere.quota("q", concurrent=7)
    await elsewhere.engine()
    found = [
        await engine.read_quota_policy_limits(quota_id(namespace, "q"))
        for namespace in ("default", "other")
    ]
    kept = [
        (q.max_requests_per_window, q.requests_per_window_seconds, q.active_concurrency_cap)
        for q in found
        if q is not None
    ]
    assert kept == [(99, 60, 0), (0, 60, 7)]
    scopes = [
        (scope.scope_type, scope.scope_id) for scope in (await engine.list_limit_scopes()).items
    ]
    assert scopes == [("lane", "llm"), ("tag", "a.b=c")]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "quota q: say at least one limit, like requests=60"),
        ({"per": "1m"}, "quota q: say at least one limit"),
        ({"per": "1m", "concurrent": 1}, "quota q: per: it is the time for so many requests"),
        ({"requests": 0}, "quota q: requests: a whole number from 1; leave it out for no limit"),
        ({"requests": True}, "quota q: requests: a whole number"),
        ({"concurrent": -1}, "quota q: concurrent: a whole number"),
        ({"concurrent": "4"}, "quota q: concurrent: a whole number"),
        ({"requests": 1, "per": "soon"}, "quota q: per: a span like"),
        ({"requests": 1, "per": "1500ms"}, "quota q: per: whole seconds"),
        ({"requests": 1, "per": 0}, "quota q: per: whole seconds"),
        ({"requests": 1, "lane": "a b\0"}, "quota q: lane"),
        ({"requests": 1, "tag": "acme"}, 'quota q: tag: "key=value"'),
        ({"requests": 1, "tag": "=acme"}, 'quota q: tag: "key=value"'),
        ({"requests": 1, "tag": {"a": "b"}}, 'quota q: tag: "key=value"'),
    ],
)
def test_invalid_quota_is_refused_when_declared(said: Any, told: str) -> None:
    app = App("memory://")
    with pytest.raises(FlowFabricError) as caught:
        app.quota("q", **said)
    assert told in str(caught.value)
    assert not app.quotas


def test_unknown_and_duplicate_quota_names_are_refused() -> None:
    app = App("memory://")
    app.quota("q", concurrent=1)
    with pytest.raises(ConfigError, match="quota q: already declared"):
        app.quota("q", concurrent=2)
    with pytest.raises(FlowFabricError, match="quota: name"):
        app.quota("", concurrent=2)
    for wrong in ("openai", 4):
        with pytest.raises(
            ConfigError,
            match=r"task call: quota: a name declared before with app.quota\(...\), declared: q",
        ):
            app.task(name="call", quota=wrong)(lambda: None)  # type: ignore[call-overload]
    assert not app.tasks
