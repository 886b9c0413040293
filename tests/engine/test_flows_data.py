"""Results of upstreams as inputs of those that waited for them."""

from __future__ import annotations

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.flow import EdgePolicy, Resolved

from .flow_helpers import crashing, finish, hold, resolving, submit
from .helpers import fields, row, state


async def test_a_result_becomes_the_childs_input(engine: Engine) -> None:
    graph = await submit(
        engine,
        "a>b a>c",
        refs={"a>b": "anything"},
        nodes={n: {"input_payload": b"own"} for n in "bc"},
    )
    await finish(engine, graph, "a", result=b"from a")
    assert (await row(engine, graph["b"])).payload == b"from a"
    assert (await row(engine, graph["c"])).payload == b"own"


@pytest.mark.parametrize(("outcome", "result"), [("success", None), ("failed", b"")])
async def test_no_result_leaves_the_childs_input(
    engine: Engine, outcome: str, result: bytes | None
) -> None:
    policies = {"c": EdgePolicy.any_of("let_run")}
    graph = await submit(
        engine,
        "a>c b>c",
        policies=policies,
        refs={"a>c": "r"},
        nodes={"c": {"input_payload": b"own"}},
    )
    await finish(engine, graph, "a", outcome, result)
    assert (await row(engine, graph["c"])).payload == b"own"


async def test_an_empty_result_is_a_result(engine: Engine) -> None:
    graph = await submit(engine, "a>b", refs={"a>b": "r"}, nodes={"b": {"input_payload": b"own"}})
    await finish(engine, graph, "a", result=b"")
    assert (await row(engine, graph["b"])).payload == b""


async def test_under_all_of_each_success_overwrites_the_one_before(engine: Engine) -> None:
    graph = await submit(engine, "a>c b>c", refs={"a>c": "r", "b>c": "r"})
    await finish(engine, graph, "b", result=b"from b")
    assert (await row(engine, graph["c"])).payload == b"from b"
    assert await state(engine, graph["c"]) == "DEPS"
    await finish(engine, graph, "a", result=b"from a")
    assert (await row(engine, graph["c"])).payload == b"from a"
    held = await hold(engine, graph, "c")
    assert fields(held).execution_id == graph["c"]


async def test_under_a_quorum_only_the_edge_that_fires_passes(engine: Engine) -> None:
    graph = await submit(
        engine,
        "a>d b>d c>d",
        policies={"d": EdgePolicy.quorum(2, "let_run")},
        refs={"a>d": "r", "b>d": "r", "c>d": "r"},
    )
    await finish(engine, graph, "a", result=b"1")
    assert (await row(engine, graph["d"])).payload == b""
    await finish(engine, graph, "b", result=b"2")
    assert (await row(engine, graph["d"])).payload == b"2"
    await finish(engine, graph, "c", result=b"3")
    assert (await row(engine, graph["d"])).payload == b"2"


async def test_a_child_that_is_over_is_given_nothing(engine: Engine) -> None:
    graph = await submit(engine, "a>b", refs={"a>b": "r"}, nodes={"b": {"input_payload": b"own"}})
    await finish(engine, graph, "b", "cancelled")
    with crashing(engine):
        await finish(engine, graph, "a", result=b"from a")
    assert await engine.resolve_dependency(resolving(graph, "a>b")) == Resolved(
        "satisfied", "satisfied", data_injected=False
    )
    assert (await row(engine, graph["b"])).payload == b"own"
