"""Nodes that depend on some of several: their arguments, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flowfabric import (
    App,
    Context,
    Engine,
    Fatal,
    Node,
    Retry,
    RunSkipped,
    Worker,
    all_of,
    any_of,
    quorum,
    race,
)
from flowfabric.errors import ConfigError
from flowfabric.sdk.flow import FlowBuilder, Group
from flowfabric.testing import ManualClock

from .helpers import worked_off

NAMES = ("a", "b", "c")
with_tasks = pytest.mark.usefixtures("declared")
Joins = Callable[..., Group]


def let_run(join: Joins) -> Joins:
    return lambda *nodes: join(*nodes, cancel_rest=False)


def two(*nodes: Node, cancel_rest: bool = True) -> Group:
    return quorum(2, *nodes, cancel_rest=cancel_rest)


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.fixture
def declared(app: App) -> None:
    for name in NAMES:

        @app.task(name=name, lane=name)
        async def runs(says: str) -> str:
            if says == "fails":
                raise Fatal(says)
            return says.upper()

    @app.task
    async def joined(given: list[str]) -> list[str]:
        return given

    @app.task
    async def won(given: str) -> str:
        return given


async def finish(app: App, clock: ManualClock, names: str) -> None:
    """One after the other, each a millisecond later."""
    for name in names:
        clock.advance(1)
        worker = Worker(app, lanes=[name])
        await worker.run_until_idle()
        await worker.stop()


def runners(app: App, flow: FlowBuilder, says: str = "abc") -> list[Node]:
    return [
        flow.add(app.tasks[name], "fails" if word == "-" else word)
        for name, word in zip(NAMES, says, strict=True)
    ]


@with_tasks
@pytest.mark.parametrize("given", ["the group", "its nodes"])
@pytest.mark.parametrize(
    ("join", "says", "order", "result"),
    [
        (any_of, "abc", "c", ["C"]),
        (any_of, "--c", "abc", ["C"]),
        (let_run(any_of), "abc", "cb", ["B", "C"]),
        (two, "abc", "ca", ["A", "C"]),
        (two, "a-c", "bca", ["A", "C"]),
        (let_run(two), "abc", "cba", ["A", "B", "C"]),
        (all_of, "abc", "cba", ["A", "B", "C"]),
    ],
)
async def test_group_argument_is_the_results_of_those_that_succeeded(
    app: App,
    engine: Engine,
    clock: ManualClock,
    join: Joins,
    says: str,
    order: str,
    result: list[str],
    given: str,
) -> None:
    async with app.flow("joins") as flow:
        nodes = runners(app, flow, says)
        group = join(*nodes)
        last = (
            flow.add(app.tasks["joined"], group)
            if given == "the group"
            else flow.add(app.tasks["joined"], nodes, after=group)
        )
    await finish(app, clock, order)
    await worked_off(app, lanes=["default"])
    assert await last.result("5s") == result


@with_tasks
@pytest.mark.parametrize(
    ("join", "says", "order", "result"),
    [
        (race, "abc", "ca", "C"),
        (race, "-bc", "acb", "C"),
        (let_run(race), "abc", "bac", "B"),
        (let_run(race), "--c", "abc", "C"),
    ],
)
async def test_race_argument_is_the_first_result(
    app: App, engine: Engine, clock: ManualClock, join: Joins, says: str, order: str, result: str
) -> None:
    async with app.flow("races") as flow:
        last = flow.add(app.tasks["won"], given=join(*runners(app, flow, says)))
    await finish(app, clock, order)
    await worked_off(app, lanes=["default"])
    assert await last.result("5s") == result


@with_tasks
async def test_race_without_a_success_skips_its_successor(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    async with app.flow("races") as flow:
        last = flow.add(app.tasks["won"], race(*runners(app, flow, "---")))
    await finish(app, clock, "abc")
    with pytest.raises(RunSkipped):
        await last.result("5s")


@with_tasks
@pytest.mark.meets("flow", "retry", "step")
@pytest.mark.parametrize("join", [let_run(any_of), let_run(race)])
async def test_later_success_does_not_change_the_arguments(
    app: App, clock: ManualClock, engine: Engine, join: Joins
) -> None:
    seen: list[Any] = []

    @app.task(retry=Retry(max=1, backoff="fixed", base=0))
    async def flaky(ctx: Context, given: Any) -> Any:
        seen.append(await ctx.step("given", lambda: given))
        if not ctx.attempt:
            await finish(app, clock, "ab")
            raise ConnectionError
        return given

    async with app.flow("joins") as flow:
        last = flow.add(flaky, join(*runners(app, flow)))
    await finish(app, clock, "c")
    await worked_off(app, lanes=["default"])
    assert await last.result("5s") == seen[0]
    assert seen in ([["C"], ["C"]], ["C", "C"])


NEEDED = "need not succeed for this node to run, so its result cannot be an argument; pass race"
ONE_WAY = "a node depends on one any_of, race or quorum, or on all of its nodes"


@with_tasks
@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda f, t, n: f.add(t, n[0], after=any_of(*n)), f"flow bad: argument 1: Run.* {NEEDED}"),
        (
            lambda f, t, n: f.add(t, given=n[0], after=quorum(2, *n)),
            f"flow bad: given: Run.* {NEEDED}",
        ),
        (
            lambda f, t, n: f.add(t, n, after=any_of(n[0], n[1])),
            "flow bad: argument 1: all of these nodes must be among",
        ),
        (lambda f, t, n: f.add(t, any_of(n[0], n[1]), after=n[2]), ONE_WAY),
        (lambda f, t, n: f.add(t, any_of(n[0]), after=any_of(n[1])), ONE_WAY),
        (lambda f, t, n: f.add(t, race(*n), after=quorum(2, *n)), ONE_WAY),
        (lambda f, t, n: f.add(t, all_of(*n), after=any_of(*n)), ONE_WAY),
        (
            lambda f, t, n: f.add(t, [n[0], "value"]),
            "a list holds either nodes or values, not both",
        ),
        (
            lambda f, t, n: f.add(t, any_of(n)),
            r"any_of: nodes of a flow, as in any_of\(\*nodes\); got \[",
        ),
        (
            lambda f, t, n: f.add(t, race(5)),
            r"race: nodes of a flow, as in race\(\*nodes\); got 5",
        ),
    ],
)
async def test_argument_that_may_not_exist_is_refused_when_added(
    app: App, build: Callable[[FlowBuilder, Any, Sequence[Node]], Node], said: str
) -> None:
    flow = app.flow("bad")
    nodes = runners(app, flow)
    with pytest.raises(ConfigError, match=said):
        build(flow, app.tasks["joined"], nodes)
