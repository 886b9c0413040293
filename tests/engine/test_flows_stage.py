"""Edges as staged: every check in its order, one winner per revision, no cycles."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Conflict, ConflictKind, Contention, ContentionKind, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    MAX_CYCLE_NODES,
    FlowSubmitted,
    GraphEdge,
    Staged,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
)
from flowfabric.model.flow_views import Incoming, Outgoing
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    change_row,
    connect,
    edge_row,
    empty_flow,
    finish,
    flow_key,
    revision,
    stage,
    stage_args,
    still,
)
from .helpers import create, invalid, state, two_stores


async def conflict(call: Any) -> Conflict:
    with pytest.raises(Conflict) as caught:
        await call
    return caught.value


async def test_a_staged_edge_is_recorded_and_changes_no_execution(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await empty_flow(engine, "a", "b")
    clock.advance(4)
    args = stage_args(graph, "a>b", 2, data_passing_ref="r", dependency_kind="odd")
    assert await engine.stage_dependency_edge(args) == Staged(graph.edges["a>b"], 3)
    found = await engine.describe_flow(graph.flow)
    assert found is not None
    assert (found.graph_revision, found.edge_count, found.node_count, found.last_mutation_at) == (
        3,
        1,
        2,
        clock(),
    )
    stored = await edge_row(engine, graph, "a>b")
    assert (stored.edge_state, stored.dep_state, stored.applied_at_ms, stored.policy_version) == (
        "pending",
        None,
        None,
        0,
    )
    shown = await engine.describe_edge(graph.flow, graph.edges["a>b"])
    assert shown is not None
    assert (shown.upstream_execution_id, shown.downstream_execution_id) == (graph["a"], graph["b"])
    assert (shown.dependency_kind, shown.satisfaction_condition, shown.data_passing_ref) == (
        "odd",
        "all_required",
        "r",
    )
    assert (shown.edge_state, shown.created_at, shown.created_by) == ("pending", clock(), "engine")
    assert await state(engine, graph["b"]) == "READY"
    assert await engine.evaluate_flow_eligibility(graph["b"]) == "eligible"


async def wrong(engine: Engine) -> list[tuple[StageDependencyEdgeArgs, str]]:
    """Each is wrong in every later way as well, as far as that is possible."""
    unknown, graph = Graph(), await empty_flow(engine, "a", "b")
    graph.mint("x")
    outside = ExecutionId.of(graph.partition ^ 1, uuid4())
    lost = ExecutionId.of(unknown.partition ^ 1, uuid4())
    unknown.mint("a")
    unknown.mint("b")
    mismatch = (
        f"execution partition mismatch: expected {graph.partition}, got {graph.partition ^ 1}"
    )
    nowhere = (
        f"execution partition mismatch: expected {unknown.partition}, got {unknown.partition ^ 1}"
    )
    return [
        (
            stage_args(unknown, "a>b", 9, upstream_execution_id=lost, downstream_execution_id=lost),
            "self_referencing_edge",
        ),
        (stage_args(unknown, "a>b", 9, upstream_execution_id=lost), nowhere),
        (stage_args(graph, "a>x", 9, upstream_execution_id=outside), mismatch),
        (stage_args(graph, "x>a", 9, downstream_execution_id=outside), mismatch),
        (stage_args(unknown, "a>b", 9), "flow_not_found"),
        (stage_args(graph, "a>x", 2), "execution_not_in_flow"),
        (stage_args(graph, "x>a", 2), "execution_not_in_flow"),
    ]


async def test_staging_is_refused_in_order(engine: Engine) -> None:
    cases = await wrong(engine)
    before = await still(engine)
    for args, detail in cases:
        error = await invalid(engine.stage_dependency_edge(args))
        assert (error.kind, error.detail) == (ValidationKind.INVALID_INPUT, detail)
    assert await still(engine) == before


async def test_a_cancelled_flow_is_reported_before_the_revision(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await engine.cancel_flow(graph.flow)
    assert (
        await invalid(engine.stage_dependency_edge(stage_args(graph, "a>b", 99)))
    ).detail == "flow_already_terminal"


@pytest.mark.parametrize("expected", [0, 1, 3, 2**62])
async def test_a_stale_revision_is_refused_before_members_are_looked_at(
    engine: Engine, expected: int
) -> None:
    graph = await empty_flow(engine, "a", "b")
    graph.mint("x")
    before = await still(engine)
    with pytest.raises(Contention) as caught:
        await engine.stage_dependency_edge(stage_args(graph, "a>x", expected))
    assert caught.value.kind is ContentionKind.STALE_GRAPH_REVISION and caught.value.retryable
    assert await still(engine) == before
    await stage(engine, graph, "a>b")
    assert await revision(engine, graph) == 3


async def test_an_edge_id_stands_for_one_edge_and_the_error_carries_it(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b", "c")
    await stage(engine, graph, "a>b")
    shown = await engine.describe_edge(graph.flow, graph.edges["a>b"])
    before = await still(engine)
    for word in ("a>b", "b>c"):
        error = await conflict(
            engine.stage_dependency_edge(stage_args(graph, word, 4, edge_id=graph.edges["a>b"]))
        )
        assert (error.kind, error.existing) == (ConflictKind.DEPENDENCY_ALREADY_EXISTS, shown)
    with pytest.raises(Contention, match="stale_graph_revision"):
        await engine.stage_dependency_edge(stage_args(graph, "a>b", 3))
    assert await still(engine) == before


async def test_a_cycle_is_refused_before_the_edge_id_and_leaves_the_revision(
    engine: Engine,
) -> None:
    graph = await empty_flow(engine, "a", "b", "c")
    await stage(engine, graph, "a>b", "b>c")
    before = await still(engine)
    for word in ("c>a", "b>a", "c>b"):
        error = await conflict(
            engine.stage_dependency_edge(stage_args(graph, word, 5, edge_id=graph.edges["a>b"]))
        )
        assert error.kind is ConflictKind.CYCLE_DETECTED
    assert await still(engine) == before
    await stage(engine, graph, "a>c")


async def test_applied_and_resolved_edges_count_for_cycles(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b", "c")
    await finish(engine, graph, "a")
    await connect(engine, graph, "a>b", "b>c")
    error = await conflict(engine.stage_dependency_edge(stage_args(graph, "c>a", 5)))
    assert error.kind is ConflictKind.CYCLE_DETECTED


async def test_concurrent_stagers_of_one_revision_have_one_winner(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    at = await revision(engine, graph)
    stagings = [
        engine.stage_dependency_edge(stage_args(graph, "a>b", at, edge_id=uuid4()))
        for _ in range(8)
    ]
    answers = await asyncio.gather(*stagings, return_exceptions=True)
    won = [a for a in answers if isinstance(a, Staged)]
    stale = [
        a
        for a in answers
        if isinstance(a, Contention) and a.kind is ContentionKind.STALE_GRAPH_REVISION
    ]
    assert (len(won), len(stale)) == (1, 7)
    assert await revision(engine, graph) == at + 1
    assert len(await engine.flow_edges(graph.flow)) == 1


async def test_several_edges_between_the_same_two_are_several(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b")
    await stage(engine, graph, "a>b", edge_id=uuid4())
    assert len(await engine.list_edges(graph.flow, Outgoing(graph["a"]))) == 2
    found = await engine.describe_flow(graph.flow)
    assert found is not None and found.edge_count == 2


async def chain_of(engine: Engine, length: int) -> Graph:
    """n0 to the last, each waiting for the one before, in one go."""
    graph = Graph()
    names = [f"n{n}" for n in range(length)]
    nodes = [CreateExecutionArgs(execution_id=graph.mint(name)) for name in names]
    edges = [GraphEdge(graph[a], graph[b]) for a, b in pairwise(names)]
    args = SubmitFlowArgs(flow_id=graph.flow, nodes=nodes, edges=edges)
    assert isinstance(await engine.submit_flow(args), FlowSubmitted)
    return graph


@two_stores
@pytest.mark.parametrize(
    ("length", "fits"), [(MAX_CYCLE_NODES, True), (MAX_CYCLE_NODES + 1, False)]
)
async def test_a_graph_too_large_to_look_through_counts_as_a_cycle(
    engine: Engine, length: int, fits: bool
) -> None:
    graph = await chain_of(engine, length)
    await create(engine, execution_id=graph.mint("new"))
    await change_row(
        engine,
        "ff_exec_core",
        {"partition_key": graph.partition, "execution_id": graph["new"].uuid},
        flow_id=graph.flow,
    )
    call = engine.stage_dependency_edge(stage_args(graph, "new>n0", await revision(engine, graph)))
    if fits:
        assert isinstance(await call, Staged)
    else:
        assert (await conflict(call)).kind is ConflictKind.CYCLE_DETECTED


async def test_edges_of_one_flow_are_not_those_of_another(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b")
    edge = graph.edges["a>b"]
    assert [e.edge_id for e in await engine.list_edges(graph.flow, Outgoing(graph["a"]))] == [edge]
    assert [e.edge_id for e in await engine.list_edges(graph.flow, Incoming(graph["b"]))] == [edge]
    for flow, direction in (
        (graph.flow, Outgoing(graph["b"])),
        (graph.flow, Incoming(graph["a"])),
        (uuid4(), Outgoing(graph["a"])),
        (graph.flow, Incoming(graph.mint("nobody"))),
    ):
        assert await engine.list_edges(flow, direction) == []
    assert await engine.describe_edge(uuid4(), edge) is None
    assert await engine.describe_edge(graph.flow, uuid4()) is None


async def test_an_edge_that_cannot_be_read_is_never_half_a_list(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b", "c")
    await stage(engine, graph, "a>b", "a>c")
    await change_row(
        engine, "ff_edge", {**flow_key(graph), "edge_id": graph.edges["a>c"]}, policy="[]"
    )
    for call in (
        engine.list_edges(graph.flow, Outgoing(graph["a"])),
        engine.describe_edge(graph.flow, graph.edges["a>c"]),
    ):
        assert (await invalid(call)).kind is ValidationKind.CORRUPTION
