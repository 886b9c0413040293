"""The end of an execution that joined a flow after its claim, by another process, is handled at
once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.attempt import FailureClass, FailureReason, TerminalFailed
from flowfabric.model.lease import Handle

from .flow_helpers import Graph, add, connect, empty_flow, states
from .helpers import claim, create, worker


async def joined(engine: Engine) -> tuple[Graph, Handle]:
    """x was claimed here before another engine took it into a flow in which y waits for it."""
    other = Engine(engine.store)
    graph = await empty_flow(other, "y")
    await create(engine, execution_id=graph.mint("x"), lane_id="x")
    handle = await claim(engine, lane="x")
    await add(other, graph, "x")
    await connect(other, graph, "x>y")
    return graph, handle


Ending = Callable[[Engine, Handle], Awaitable[Any]]


async def _in_one_call(engine: Engine, handle: Handle) -> None:
    answers, _ = await engine.complete_and_claim([(handle, b"done")], "x", (), worker(), 1)
    assert answers == [None]


ENDINGS: dict[str, tuple[Ending, str]] = {
    "complete": (lambda e, h: e.complete(h, b"done"), "READY"),
    "complete_many": (lambda e, h: e.complete_many([(h, b"done")]), "READY"),
    "complete_and_claim": (_in_one_call, "READY"),
    "fail": (lambda e, h: e.fail(h, "boom", FailureClass.PERMANENT), "ENDED(skipped)"),
    "time out": (
        lambda e, h: e.fail(h, FailureReason("slow", b"attempt_timeout"), FailureClass.PERMANENT),
        "ENDED(skipped)",
    ),
    "cancel": (lambda e, h: e.cancel(h, "enough"), "ENDED(skipped)"),
}


@pytest.mark.parametrize(("end", "leaves"), ENDINGS.values(), ids=ENDINGS.keys())
async def test_its_end_releases_dependents_in_the_same_call(
    engine: Engine, end: Ending, leaves: str
) -> None:
    graph, handle = await joined(engine)
    assert await states(engine, graph, "y") == {"y": "DEPS"}
    await end(engine, handle)
    assert await states(engine, graph, "y") == {"y": leaves}


async def test_a_repeated_end_leaves_the_dependent_ready(engine: Engine) -> None:
    graph, handle = await joined(engine)
    await engine.complete(handle, b"done")
    assert await engine.complete_many([(handle, b"done")]) == [None]
    assert await states(engine, graph, "y") == {"y": "READY"}


async def test_a_repeated_final_failure_has_the_same_answer(engine: Engine) -> None:
    _, handle = await joined(engine)
    for _ in range(2):
        assert await engine.fail(handle, "boom", FailureClass.PERMANENT) == TerminalFailed()


async def test_the_end_of_an_execution_without_a_flow_asks_nothing_more(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph()
    await create(engine, execution_id=graph.mint("x"), lane_id="x")
    handle = await claim(engine, lane="x")
    asked: list[Any] = []
    monkeypatch.setattr(engine.store, "load", asked.append)
    await engine.complete(handle, b"done")
    assert asked == []
