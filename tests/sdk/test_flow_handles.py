"""Handles to flows: their state, their results, and their cancel."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from flowfabric import App, Engine, Fatal, FlowFailed, RunFailed, RunSkipped, Worker, race
from flowfabric.errors import ConfigError, NotFound, ValidationError
from flowfabric.sdk.flow import FlowBuilder

from .helpers import worked_off

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.fixture
def declared(app: App) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    async def total(parts: list[int]) -> int:
        return sum(parts)

    @app.task
    async def fail(reason: str) -> None:
        raise Fatal(reason)

    @app.task
    async def first(value: int) -> int:
        return value


async def sums(app: App) -> FlowBuilder:
    double, total = app.named("double"), app.named("total")
    async with app.flow("sums") as flow:
        flow.add(total, [flow.add(double, 1), flow.add(double, 2), flow.add(double, 3, node="x")])
    return flow


async def test_results_are_named_by_their_nodes(app: App, engine: Engine) -> None:
    flow = await sums(app)
    assert await flow.state() == "blocked"
    await worked_off(app)
    assert await flow.results() == {"double": 2, "double 2": 4, "x": 6, "total": 12}
    assert await flow.wait() == "completed"


async def test_an_existing_flow_has_a_handle(app: App, engine: Engine) -> None:
    submitted = await sums(app)
    for flow in (app.flow(submitted.id), app.flow(id=str(submitted.id))):
        found = await flow.describe()
        assert (found.id, found.name, found.state) == (submitted.id, "sums", "blocked")
        assert (found.namespace, found.cancelled_at, found.tags) == ("default", None, {})
        assert found.members == {"waiting": 3, "waiting_children": 1}
    await worked_off(app)
    found = await app.flow(submitted.id).describe()
    assert (found.state, found.members) == ("completed", {"completed": 4})


async def test_submit_returns_a_handle(app: App, engine: Engine) -> None:
    flow = app.flow("one")
    flow.add(app.named("double"), 4)
    submitted = await flow.submit()
    assert submitted.id == flow.id
    await worked_off(app)
    assert await submitted.results() == {"double": 8}


async def test_wait_returns_when_the_last_run_has_ended(app: App, engine: Engine) -> None:
    flow = await sums(app)
    waiting = asyncio.create_task(flow.wait("60s"))
    async with Worker(app):
        assert await waiting == "completed"


async def test_wait_says_how_much_is_left_after_its_timeout(app: App, engine: Engine) -> None:
    flow = await sums(app)
    said = rf"flow {flow.id} has not ended within 0.02 s: 4 of 4 runs are left; .*run.why\(\)"
    with pytest.raises(TimeoutError, match=said):
        await flow.wait("20ms")


async def test_a_failed_flow_raises_with_the_errors_of_its_runs(app: App, engine: Engine) -> None:
    async with app.flow("bad") as flow:
        broken = flow.add(app.named("fail"), "no disk", node="write")
        flow.add(app.named("double"), 1, after=broken, node="read")
        flow.add(app.named("double"), 2, node="other")
    await worked_off(app)
    with pytest.raises(FlowFailed, match=r"is failed: write: .*no disk") as raised:
        await flow.results()
    assert (raised.value.flow, raised.value.state) == (flow.id, "failed")
    assert list(raised.value.errors) == ["write"]
    found = await flow.results(return_exceptions=True)
    assert found["other"] == 4
    assert isinstance(found["write"], RunFailed) and isinstance(found["read"], RunSkipped)


async def test_a_won_race_is_completed_without_results_of_its_losers(
    app: App, engine: Engine
) -> None:
    double = app.named("double")
    async with app.flow("race") as flow:
        nodes = [flow.add(double, 1, priority=9), flow.add(double, 2, lane="idle")]
        flow.add(app.named("first"), race(*nodes))
    await worked_off(app)
    assert await flow.results() == {"double": 2, "first": 2}
    assert (await flow.describe()).members == {"cancelled": 1, "completed": 2}


async def test_cancel_ends_every_run_with_its_reason(app: App, engine: Engine) -> None:
    flow = await sums(app)
    await flow.cancel("the customer left")
    await flow.cancel("a second reason")
    assert await flow.wait() == "cancelled"
    found = await flow.describe()
    assert (found.state, found.cancel_reason) == ("cancelled", "the customer left")
    assert found.cancelled_at is not None and found.members == {"cancelled": 4}
    reasons = {info.cancel_reason async for info in flow.runs()}
    assert reasons == {"the customer left"}
    with pytest.raises(FlowFailed, match="is cancelled: "):
        await flow.results()


async def test_the_runs_of_a_flow_are_listed(app: App, engine: Engine) -> None:
    flow = await sums(app)
    await app.named("double").submit(9)
    tasks = sorted([info.task async for info in flow.runs()])
    assert tasks == ["double", "double", "double", "total"]
    assert {info.flow async for info in app.runs.all(flow=flow, task="total")} == {flow.id}


async def test_an_unknown_flow_is_not_found(app: App, engine: Engine) -> None:
    flow = app.flow(uuid4())
    for call in (flow.describe, flow.state, flow.wait, flow.results, flow.cancel):
        with pytest.raises(NotFound, match="flow"):
            await call()
    with pytest.raises(ValidationError, match="id: a Flow, or the id of one, got 'ship'"):
        app.flow(id="ship")


async def test_names_of_nodes_are_unique(app: App, engine: Engine) -> None:
    flow = app.flow("twice")
    flow.add(app.named("double"), 1, node="a")
    with pytest.raises(ConfigError, match="node: 'a' is the name of another node"):
        flow.add(app.named("double"), 2, node="a")
