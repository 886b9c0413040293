"""Helpers of flow tests: graphs written as text, ways to end a node, reads of edges and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from flowfabric.engine.engine import Engine
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.flow import (
    SUCCESS_ONLY,
    Added,
    AddExecutionToFlowArgs,
    ApplyDependencyArgs,
    Cascaded,
    CreateFlowArgs,
    DependencyApplied,
    Edge,
    EdgeGroup,
    EdgePolicy,
    FlowCreated,
    FlowSubmitted,
    GraphEdge,
    ResolveDependencyArgs,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
)
from flowfabric.model.lease import Handle
from flowfabric.plan import Applied, Arg, Cond, Form, Insert, Update
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES

from .helpers import claim, create, dump, outbox, state, worker

Counters = tuple[int, int, int, int, str]


class Graph:
    """A flow whose members have names; each has a lane of that name."""

    def __init__(self, flow: UUID | None = None) -> None:
        self.flow = flow or uuid4()
        self.partition = partition_of(self.flow, FLOW_PARTITIONS)
        self.namespace = "default"
        self.ids: dict[str, ExecutionId] = {}
        self.edges: dict[str, UUID] = {}

    def __getitem__(self, name: str) -> ExecutionId:
        return self.ids[name]

    def mint(self, name: str) -> ExecutionId:
        return self.ids.setdefault(name, ExecutionId.of(self.partition, uuid4()))

    def args(
        self,
        text: str,
        policies: Mapping[str, EdgePolicy] | None = None,
        refs: Mapping[str, str] | None = None,
        nodes: Mapping[str, Mapping[str, Any]] | None = None,
        kinds: Mapping[str, str] | None = None,
        **said: Any,
    ) -> SubmitFlowArgs:
        """`"a>c b>c d"`: c waits for a and b, d for none. `refs` names edges that pass data,
        `nodes` the arguments of a node.
        """
        edges = []
        for at, word in enumerate(text.split()):
            names = [self.mint(name) for name in word.split(">")]
            if len(names) == 2:
                key = word if word not in self.edges else f"{word}#{at}"
                self.edges[key] = uuid4()
                kind = (kinds or {}).get(word, SUCCESS_ONLY)
                edges.append(GraphEdge(*names, (refs or {}).get(word), kind, self.edges[key]))
        self.namespace = said.get("namespace", "default")
        own = {"namespace": self.namespace}
        made = [
            CreateExecutionArgs(
                execution_id=ident, **{"lane_id": name, **own, **(nodes or {}).get(name, {})}
            )
            for name, ident in self.ids.items()
        ]
        chosen = {self[name]: policy for name, policy in (policies or {}).items()}
        return SubmitFlowArgs(flow_id=self.flow, nodes=made, edges=edges, policies=chosen, **said)


async def submit(engine: Engine, text: str, **said: Any) -> Graph:
    graph = Graph()
    assert isinstance(await engine.submit_flow(graph.args(text, **said)), FlowSubmitted)
    return graph


async def empty_flow(engine: Engine, *names: str, **said: Any) -> Graph:
    """A flow made by hand, with these members and no edges."""
    graph = Graph()
    graph.namespace = said.get("namespace", "default")
    assert await engine.create_flow(CreateFlowArgs(flow_id=graph.flow, **said)) == FlowCreated(
        graph.flow
    )
    for name in names:
        await create(engine, execution_id=graph.mint(name), lane_id=name, namespace=graph.namespace)
        await add(engine, graph, name)
    return graph


async def add(engine: Engine, graph: Graph, name: str) -> None:
    said = AddExecutionToFlowArgs(flow_id=graph.flow, execution_id=graph[name])
    assert isinstance(await engine.add_execution_to_flow(said), Added)


def stage_args(graph: Graph, word: str, revision: int, **said: Any) -> StageDependencyEdgeArgs:
    up, down = word.split(">")
    known = {
        "flow_id": graph.flow,
        "edge_id": graph.edges.setdefault(word, uuid4()),
        "upstream_execution_id": graph[up],
        "downstream_execution_id": graph[down],
        "expected_graph_revision": revision,
    }
    return StageDependencyEdgeArgs(**{**known, **said})


async def revision(engine: Engine, graph: Graph) -> int:
    found = await engine.describe_flow(graph.flow)
    assert found is not None
    return found.graph_revision


async def stage(engine: Engine, graph: Graph, *words: str, **said: Any) -> None:
    for word in words:
        await engine.stage_dependency_edge(
            stage_args(graph, word, await revision(engine, graph), **said)
        )


def apply_args(graph: Graph, word: str, **said: Any) -> ApplyDependencyArgs:
    up, down = word.split(">")
    known = {
        "flow_id": graph.flow,
        "edge_id": graph.edges[word],
        "upstream_execution_id": graph[up],
        "downstream_execution_id": graph[down],
    }
    return ApplyDependencyArgs(**{**known, **said})


async def apply(engine: Engine, graph: Graph, *words: str) -> None:
    for word in words:
        assert isinstance(
            await engine.apply_dependency_to_child(apply_args(graph, word)), DependencyApplied
        )


async def connect(engine: Engine, graph: Graph, *words: str) -> None:
    """Edges staged and applied, one after the other."""
    for word in words:
        await stage(engine, graph, word)
        await apply(engine, graph, word)


def resolving(graph: Graph, word: str, outcome: str = "success") -> ResolveDependencyArgs:
    up, down = word.split(">")
    return ResolveDependencyArgs(
        flow_id=graph.flow,
        edge_id=graph.edges[word],
        upstream_execution_id=graph[up],
        downstream_execution_id=graph[down],
        upstream_outcome=outcome,
    )


# ---- ending nodes


async def hold(engine: Engine, graph: Graph, name: str) -> Handle:
    return await claim(engine, worker(namespace=graph.namespace), lane=name)


async def finish(
    engine: Engine,
    graph: Graph,
    name: str,
    outcome: str = "success",
    result: bytes | None = b"done",
) -> None:
    if outcome == "cancelled":
        await engine.cancel_execution(CancelExecutionArgs(execution_id=graph[name], reason="no"))
        return
    handle = await hold(engine, graph, name)
    if outcome == "success":
        await engine.complete(handle, result)
    else:
        await engine.fail(handle, "broken", FailureClass.PERMANENT)


@contextmanager
def crashing(engine: Engine) -> Iterator[None]:
    """As if the process died right after each commit: nothing that follows from an end is done."""
    cascade: Any = engine.parts.core.cascade

    def nothing(idents: Sequence[ExecutionId]) -> asyncio.Future[Cascaded]:
        answer: asyncio.Future[Cascaded] = asyncio.get_running_loop().create_future()
        answer.set_result(Cascaded())
        return answer

    cascade.ended = nothing
    try:
        yield
    finally:
        del cascade.ended


@contextmanager
def siblings_left(engine: Engine) -> Iterator[None]:
    """As if the process died between a group's firing and the cancels of its siblings."""
    cascade: Any = engine.parts.core.cascade

    async def nobody(group: EdgeGroup) -> list[ExecutionId]:
        return []

    cascade.members.cancel_siblings = nobody
    try:
        yield
    finally:
        del cascade.members.cancel_siblings


# ---- looking


async def states(engine: Engine, graph: Graph, names: str = "") -> dict[str, str]:
    return {name: await state(engine, graph[name]) for name in (names.split() or graph.ids)}


async def group_row(engine: Engine, graph: Graph, name: str) -> EdgeGroup:
    rows = [EdgeGroup(*r) for r in (await engine.store.dump(["ff_edge_group"]))["ff_edge_group"]]
    return next(g for g in rows if g.flow_id == graph.flow and g.downstream_eid == graph[name].uuid)


async def counters(engine: Engine, graph: Graph, name: str) -> Counters:
    """Success, fail, skip, running, and the state."""
    found = await group_row(engine, graph, name)
    return (
        found.success_count,
        found.fail_count,
        found.skip_count,
        found.running_count,
        found.group_state,
    )


async def edge_row(engine: Engine, graph: Graph, word: str) -> Edge:
    return next(e for e in await engine.flow_edges(graph.flow) if e.edge_id == graph.edges[word])


async def undispatched(engine: Engine) -> list[UUID]:
    """Members of flows whose end has no mark."""
    await engine.parts.core.cascade.finish()
    rows = await outbox(engine, "ff_completion_event")
    return [
        r["execution_id"]
        for r in rows
        if r["dispatched_at_ms"] is None and r["flow_id"] is not None
    ]


async def still(engine: Engine) -> dict[str, list[Row]]:
    """Everything stored, once nothing is under way."""
    await engine.parts.core.cascade.finish()
    return await dump(engine)


async def rows_of(engine: Engine, table: str) -> list[dict[str, Any]]:
    names = TABLES[table].names
    return [dict(zip(names, r, strict=True)) for r in (await engine.store.dump([table]))[table]]


async def put_row(engine: Engine, table: str, **values: Any) -> None:
    """A row from elsewhere; what is not given takes its default."""
    form = Form(
        f"test_put_{table}_{'_'.join(sorted(values))}", Insert(table, {c: Arg(c) for c in values})
    )
    assert isinstance(await engine.store.commit(form(**values)), Applied)


async def change_row(engine: Engine, table: str, key: Mapping[str, Any], **values: Any) -> None:
    """Changes a row behind the engine's back."""
    name = f"test_change_{table}_{'_'.join(sorted(values))}"
    where = tuple(Cond(c, "=", Arg(f"at_{c}")) for c in key)
    form = Form(name, Update(table, where, {c: Arg(c) for c in values}))
    answer = await engine.store.commit(form(**{f"at_{c}": v for c, v in key.items()}, **values))
    assert isinstance(answer, Applied)


def flow_key(graph: Graph) -> dict[str, Any]:
    return {"partition_key": graph.partition, "flow_id": graph.flow}


def group_key(graph: Graph, name: str) -> dict[str, Any]:
    return {**flow_key(graph), "downstream_eid": graph[name].uuid}
