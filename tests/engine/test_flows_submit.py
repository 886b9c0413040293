"""A whole graph at once: all of it or nothing, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import Conflict, EngineError, StateError, StateKind, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    MAX_GRAPH_EDGES,
    MAX_GRAPH_NODES,
    EdgePolicy,
    FlowAlreadyExists,
    FlowSubmitted,
    GraphEdge,
    SubmitFlowArgs,
)
from flowfabric.testing import ManualClock

from .flow_helpers import Graph, counters, edge_row, finish, group_row, states, still, submit
from .helpers import claim, create, dump, fields, invalid, refused, row, state, worker


async def test_a_submitted_graph_stands_as_if_built_by_hand(
    engine: Engine, clock: ManualClock
) -> None:
    graph = Graph()
    args = graph.args(
        "a>c b>c c>d",
        {"c": EdgePolicy.any_of("let_run")},
        {"c>d": "x"},
        flow_kind="k",
        namespace="ns",
    )
    assert await engine.submit_flow(args) == FlowSubmitted(graph.flow, 7, 4, 3)
    found = await engine.describe_flow(graph.flow)
    assert found is not None
    assert (found.flow_kind, found.namespace, found.public_flow_state) == ("k", "ns", "open")
    assert (found.graph_revision, found.node_count, found.edge_count, found.created_at) == (
        7,
        4,
        3,
        clock(),
    )
    assert await states(engine, graph) == {"a": "READY", "c": "DEPS", "b": "READY", "d": "DEPS"}
    assert await counters(engine, graph, "c") == (0, 0, 0, 2, "pending")
    assert await counters(engine, graph, "d") == (0, 0, 0, 1, "pending")
    edge = await edge_row(engine, graph, "c>d")
    assert (edge.edge_state, edge.dep_state, edge.applied_at_ms) == (
        "applied",
        "unsatisfied",
        clock(),
    )
    assert {m.id for m in await engine.flow_members(graph.flow)} == set(graph.ids.values())
    assert await engine.resolve_execution_flow_id(graph["d"]) == graph.flow


async def test_a_graph_sent_again_is_answered_and_not_written_again(engine: Engine) -> None:
    graph = Graph()
    args = graph.args("a>b")
    await engine.submit_flow(args)
    await finish(engine, graph, "a")
    before = await still(engine)
    assert await engine.submit_flow(args) == FlowAlreadyExists(graph.flow)
    assert await still(engine) == before


async def test_a_graph_sent_many_times_at_once_is_written_once(engine: Engine) -> None:
    graph = Graph()
    args = graph.args("a>b a>c")
    answers = await asyncio.gather(*(engine.submit_flow(args) for _ in range(6)))
    assert sorted(type(a).__name__ for a in answers) == ["FlowAlreadyExists"] * 5 + [
        "FlowSubmitted"
    ]
    assert len(await engine.flow_members(graph.flow)) == 3


def node(ident: ExecutionId, **said: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(execution_id=ident, **said)


def _changed(graph: Graph, **changes: Any) -> SubmitFlowArgs:
    return structs.replace(graph.args("a>b"), **changes)


BAD: dict[str, tuple[Callable[[Graph], SubmitFlowArgs], str]] = {
    "no nodes": (lambda g: _changed(g, nodes=[], edges=[]), "nodes"),
    "too many nodes": (
        lambda g: _changed(g, nodes=[node(g.mint("a"))] * (MAX_GRAPH_NODES + 1)),
        "nodes",
    ),
    "too many edges": (
        lambda g: _changed(g, edges=[GraphEdge(g.mint("a"), g.mint("b"))] * (MAX_GRAPH_EDGES + 1)),
        "edges",
    ),
    "a node twice": (
        lambda g: _changed(g, nodes=[node(g.mint("a")), node(g.mint("b")), node(g.mint("a"))]),
        "nodes",
    ),
    "a node elsewhere": (
        lambda g: _changed(
            g, nodes=[node(g.mint("a")), node(ExecutionId.of(g.partition ^ 1, uuid4()))]
        ),
        "execution partition mismatch",
    ),
    "a node with a key of its own": (
        lambda g: g.args("a>b", nodes={"b": {"idempotency_key": "k"}}),
        "idempotency",
    ),
    "a node that is wrong": (lambda g: g.args("a>b", nodes={"b": {"priority": 2**31}}), "priority"),
    "an edge to itself": (lambda g: g.args("a>b b>b"), "self_referencing_edge"),
    "an edge to nobody": (
        lambda g: _changed(g, nodes=[node(g.mint("a"))]),
        "execution_not_in_flow",
    ),
    "an edge id twice": (
        lambda g: _changed(g, edges=[GraphEdge(g.mint("a"), g.mint("b"), edge_id=g.flow)] * 2),
        "edge id",
    ),
    "a cycle": (lambda g: g.args("a>b b>c c>b"), "cycle_detected"),
    "a policy for nobody": (
        lambda g: _changed(g, policies={ExecutionId.of(g.partition, uuid4()): EdgePolicy.any_of()}),
        "execution_not_in_flow",
    ),
    "a policy where nothing is waited for": (
        lambda g: g.args("a>b", {"a": EdgePolicy.any_of()}),
        "policies",
    ),
    "a quorum out of reach": (lambda g: g.args("a>b", {"b": EdgePolicy.quorum(2)}), "policies"),
    "a bad policy": (lambda g: g.args("a>b", {"b": EdgePolicy("any_of", 1, "x")}), "on_satisfied"),
    "a bad tag": (lambda g: g.args("a>b", tags={"Bad": "x"}), "invalid tag key"),
}


@pytest.mark.parametrize(("make", "says"), BAD.values(), ids=BAD.keys())
async def test_a_bad_graph_writes_nothing_at_all(
    engine: Engine, make: Callable[[Graph], SubmitFlowArgs], says: str
) -> None:
    before = await dump(engine)
    with pytest.raises(EngineError, match=says):
        await engine.submit_flow(make(Graph()))
    assert await dump(engine) == before


async def test_a_taken_execution_id_refuses_the_whole_graph(engine: Engine) -> None:
    graph = Graph()
    args = graph.args("a>b b>c c>d")
    await create(engine, execution_id=graph["c"], lane_id="c")
    before = without_lanes(await dump(engine))
    await invalid(engine.submit_flow(args), str(graph["c"]))
    assert without_lanes(await dump(engine)) == before


def without_lanes(found: dict[str, Any]) -> dict[str, Any]:
    """A lane is made known on its own, before the graph."""
    return {table: rows for table, rows in found.items() if table != "ff_lane_registry"}


async def test_a_flow_with_other_members_is_refused(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    twin = Graph(graph.flow)
    before = without_lanes(await dump(engine))
    await invalid(engine.submit_flow(twin.args("x>y")), "flow_id")
    assert without_lanes(await dump(engine)) == before


async def test_a_drained_lane_takes_no_part_of_a_graph(engine: Engine) -> None:
    graph = Graph()
    args = graph.args("a>b")
    await create(engine, lane_id="b")
    await create(engine, lane_id="a")
    await engine.drain_lane("b")
    before = await dump(engine)
    await refused(engine.submit_flow(args), StateKind.LANE_CLOSED)
    assert await dump(engine) == before
    await engine.resume_lane("b")
    assert isinstance(await engine.submit_flow(args), FlowSubmitted)


async def test_a_lane_closed_by_another_engine_takes_no_part_either(engine: Engine) -> None:
    graph = Graph()
    other = Engine(engine.store)
    await create(engine, lane_id="b")
    await create(engine, lane_id="a")
    await other.drain_lane("b")
    before = await dump(engine)
    await refused(engine.submit_flow(graph.args("a>b")), StateKind.LANE_CLOSED)
    assert await dump(engine) == before


async def test_a_delayed_member_waits_for_its_time(engine: Engine, clock: ManualClock) -> None:
    graph = await submit(
        engine, "a b", nodes={"a": {"delay_until": clock() + 100}, "b": {"delay_until": clock()}}
    )
    assert await states(engine, graph) == {"a": "DELAYED", "b": "READY"}
    clock.advance(100)
    assert await engine.promote_delayed(graph["a"])
    assert await state(engine, graph["a"]) == "READY"


@pytest.mark.parametrize("after_ms", [50, 100])
async def test_a_blocked_member_keeps_the_later_of_its_dependencies_and_its_delay(
    engine: Engine, clock: ManualClock, after_ms: int
) -> None:
    graph = await submit(engine, "a>b", nodes={"b": {"delay_until": clock() + 100}})
    assert await state(engine, graph["b"]) == "DEPS"
    clock.advance(after_ms)
    await finish(engine, graph, "a")
    assert await state(engine, graph["b"]) == ("DELAYED" if after_ms < 100 else "READY")
    assert (await row(engine, graph["b"])).blocking_detail == ""
    clock.advance(100 - after_ms)
    await engine.promote_delayed(graph["b"])
    assert await state(engine, graph["b"]) == "READY"


def fan(graph: Graph, count: int) -> SubmitFlowArgs:
    """One first, one last, all others between."""
    nodes = [node(graph.mint(f"n{n}"), priority=-n) for n in range(count)]
    between = [graph[f"n{n}"] for n in range(1, count - 1)]
    edges = [GraphEdge(graph["n0"], each) for each in between] + [
        GraphEdge(each, graph[f"n{count - 1}"]) for each in between
    ]
    return SubmitFlowArgs(flow_id=graph.flow, nodes=nodes, edges=edges)


async def test_a_graph_of_a_thousand_nodes_is_one_commit(engine: Engine) -> None:
    graph = Graph()
    assert await engine.submit_flow(fan(graph, 1_000)) == FlowSubmitted(
        graph.flow, 2_996, 1_000, 1_996
    )
    members = await engine.flow_members(graph.flow)
    assert (len(members), sum(m.is_blocked for m in members)) == (1_000, 999)
    assert len(await engine.flow_edges(graph.flow)) == 1_996
    found = await engine.describe_flow(graph.flow)
    assert found is not None and len(found.edge_groups) == 999
    assert await counters(engine, graph, "n999") == (0, 0, 0, 998, "pending")


async def test_a_graph_of_a_thousand_nodes_runs_to_its_end(in_sql: Engine) -> None:
    graph = Graph()
    await in_sql.submit_flow(fan(graph, 1_000))
    first = await claim(in_sql)
    assert fields(first).execution_id == graph["n0"]
    await in_sql.complete(first)
    done = 0
    while works := await in_sql.claim_many("default", (), worker(), 256):
        answers = await in_sql.complete_many([(work.handle, None) for work in works])
        assert answers == [None] * len(works)
        done += len(works)
    assert done == 999
    assert await counters(in_sql, graph, "n999") == (998, 0, 0, 0, "satisfied")
    assert {m.terminal_outcome for m in await in_sql.flow_members(graph.flow)} == {"success"}


async def test_a_graph_whose_last_edge_is_wrong_leaves_no_trace_of_the_first(
    engine: Engine,
) -> None:
    graph = Graph()
    nodes = [node(graph.mint(f"n{n}")) for n in range(50)]
    edges = [GraphEdge(graph[f"n{n}"], graph[f"n{n + 1}"]) for n in range(49)]
    before = await dump(engine)
    with pytest.raises(Conflict, match="cycle_detected"):
        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=graph.flow,
                nodes=nodes,
                edges=[*edges, GraphEdge(graph["n49"], graph["n0"])],
            )
        )
    assert await dump(engine) == before


async def test_groups_are_made_with_their_policy_and_target(engine: Engine) -> None:
    graph = await submit(engine, "a>d b>d c>d a>e", policies={"d": EdgePolicy.quorum(2, "let_run")})
    assert (await group_row(engine, graph, "d")).k_target == 2
    assert (
        await group_row(engine, graph, "d")
    ).policy == '{"kind":"quorum","k":2,"on_satisfied":"let_run"}'
    assert (await group_row(engine, graph, "e")).k_target == 0


async def test_graphs_submitted_at_once_are_stored_or_refused_each_on_its_own(
    engine: Engine,
) -> None:
    await create(engine, lane_id="closed")
    await engine.set_lane_state("closed", "draining")
    graphs = [Graph() for _ in range(12)]
    known = await submit(engine, "x>y")
    wanted = [graph.args("a>b b>c d") for graph in graphs]
    wanted[3] = structs.replace(wanted[3], nodes=[*wanted[3].nodes, node(graphs[3].mint("e"))])
    wanted[5] = known.args("x>z")
    wanted[7] = graphs[7].args("a>b", nodes={"b": {"lane_id": "closed"}})
    wanted[9] = wanted[8]
    answers = await asyncio.gather(*map(engine.submit_flow, wanted), return_exceptions=True)
    kinds = [type(answer) for answer in answers]
    assert kinds[5] is ValidationError and kinds[7] is StateError
    assert sorted(kind.__name__ for kind in kinds[8:10]) == ["FlowAlreadyExists", "FlowSubmitted"]
    for at, graph in enumerate(graphs):
        stored = len(await engine.flow_members(graph.flow))
        if at in (5, 7, 9):
            assert stored == 0
        else:
            assert stored == len(wanted[at].nodes)
            assert len(await engine.flow_edges(graph.flow)) == len(wanted[at].edges)
