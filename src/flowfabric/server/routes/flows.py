"""Flows: made piece by piece or as a whole graph, looked at, and cancelled."""

from __future__ import annotations

import logging
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, execution_id, time_ordered_uuid
from flowfabric.model.flow import (
    Added,
    AddExecutionToFlowArgs,
    ApplyDependencyArgs,
    CancelFlowArgs,
    CreateFlowArgs,
    DependencyApplied,
    EdgePolicy,
    FlowAlreadyTerminal,
    FlowCreated,
    FlowSubmitted,
    GraphEdge,
    PartiallyCancelled,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
)
from flowfabric.server.flow_cancel_job import cancel_members
from flowfabric.server.numbers import U64, Time, at_most
from flowfabric.server.route import BULK, Ask, Reply, Route, bad_request, same, variant
from flowfabric.server.routes.executions import NewExecution, args_of
from flowfabric.wire.operations import Bound, Role

MAX_LISTED = 1_000
log = logging.getLogger("flowfabric.server")


class NewFlow(Struct, frozen=True, kw_only=True):
    flow_id: UUID | None = None
    flow_kind: str = "dag"
    namespace: str = "default"
    now: Time | None = None


async def create(ask: Ask) -> Reply:
    """Makes an empty flow, or finds the one of the same id."""
    body: NewFlow = ask.body
    flow = body.flow_id or time_ordered_uuid()
    made = await ask.engine.create_flow(
        CreateFlowArgs(flow_id=flow, flow_kind=body.flow_kind, namespace=body.namespace)
    )
    if isinstance(made, FlowCreated):
        return Reply(201, variant(made, "Created"))
    return Reply(200, variant(made, "AlreadySatisfied"))


class NewMember(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    execution_id: ExecutionId
    now: Time | None = None


async def add_member(ask: Ask) -> Reply:
    """Makes an execution a member of a flow."""
    same(ask.uuid(), ask.body.flow_id, "flow_id")
    args = AddExecutionToFlowArgs(flow_id=ask.uuid(), execution_id=ask.body.execution_id)
    made = await ask.engine.add_execution_to_flow(args)
    return Reply(201 if isinstance(made, Added) else 200, variant(made))


class Edge(Struct, frozen=True, kw_only=True):
    """One member waits for another."""

    flow_id: UUID
    edge_id: UUID
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: str = "success_only"
    data_passing_ref: str | None = None
    now: Time | None = None


def _edge(ask: Ask) -> dict[str, Any]:
    """What staging and applying have in common."""
    body: Edge = ask.body
    same(ask.uuid(), body.flow_id, "flow_id")
    return {
        "flow_id": body.flow_id,
        "edge_id": body.edge_id,
        "upstream_execution_id": body.upstream_execution_id,
        "downstream_execution_id": body.downstream_execution_id,
        "dependency_kind": body.dependency_kind,
        "data_passing_ref": body.data_passing_ref,
    }


class NewEdge(Edge, frozen=True, kw_only=True):
    expected_graph_revision: U64


async def stage_edge(ask: Ask) -> Reply:
    """Stages that one member waits for another."""
    args = StageDependencyEdgeArgs(
        **_edge(ask), expected_graph_revision=at_most(ask.body.expected_graph_revision)
    )
    return Reply(201, variant(await ask.engine.stage_dependency_edge(args)))


class AppliedEdge(Edge, frozen=True, kw_only=True):
    graph_revision: U64 = 0


async def apply_edge(ask: Ask) -> Reply:
    """Lets a staged edge hold its child back."""
    args = ApplyDependencyArgs(**_edge(ask), graph_revision=at_most(ask.body.graph_revision))
    made = await ask.engine.apply_dependency_to_child(args)
    return Reply(
        200, variant(made, "Applied" if isinstance(made, DependencyApplied) else "AlreadyApplied")
    )


class CancelFlow(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    reason: str
    cancellation_policy: str
    now: Time | None = None


class Wait(Struct, frozen=True):
    wait: str = ""


async def _with_all_members(ask: Ask, policy: str) -> Reply:
    """With all members, cancelled or not: what the policy has left alone goes on."""
    members = [member.id for member in await ask.engine.flow_members(ask.body.flow_id)]
    return Reply(
        200,
        {
            "Cancelled": {
                "cancellation_policy": policy,
                "member_execution_ids": members[:MAX_LISTED],
            }
        },
    )


async def cancel(ask: Ask) -> Reply:
    """Cancels a flow and its members; with `wait=true`, they have been when it answers."""
    body: CancelFlow = ask.body
    same(ask.uuid(), body.flow_id, "flow_id")
    policy = body.cancellation_policy
    args = CancelFlowArgs(flow_id=body.flow_id, reason=body.reason, cancellation_policy=policy)
    header = await ask.engine.cancel_flow_header(args)
    if isinstance(header, FlowAlreadyTerminal):
        stored = header.stored_cancellation_policy
        return await _with_all_members(ask, policy if stored is None else stored)
    failed = (
        list(header.failed_member_execution_ids) if isinstance(header, PartiallyCancelled) else []
    )
    members = [*header.member_execution_ids, *failed]
    said: dict[str, Any] = {"cancellation_policy": policy, "member_execution_ids": members}
    if policy != "cancel_all" or not members:
        return _cancelled(said, failed) if failed else await _with_all_members(ask, policy)
    if ask.query.wait not in ("true", "1"):
        ask.server.begin(cancel_members(ask.engine, body.flow_id, members, body.reason))
        return Reply(200, {"CancellationScheduled": {**said, "member_count": len(members)}})
    failed = await cancel_members(ask.engine, body.flow_id, members, body.reason)
    return _cancelled(said, failed)


def _cancelled(said: dict[str, Any], failed: list[ExecutionId]) -> Reply:
    if failed:
        return Reply(200, {"PartiallyCancelled": {**said, "failed_member_execution_ids": failed}})
    return Reply(200, {"Cancelled": said})


class Policy(Struct, frozen=True):
    """When a member may start: after `all_of`, `any_of`, or a `quorum` of k of those it waits for."""

    kind: Literal["all_of", "any_of", "quorum"]
    k: U64 = 1
    on_satisfied: Literal["cancel_remaining", "let_run"] = "cancel_remaining"

    def edge_policy(self) -> EdgePolicy:
        if self.kind == "all_of":
            return EdgePolicy.all_of()
        return (
            EdgePolicy.any_of(self.on_satisfied)
            if self.kind == "any_of"
            else EdgePolicy.quorum(at_most(self.k), self.on_satisfied)
        )


class NewGraphEdge(Struct, frozen=True, kw_only=True):
    upstream: ExecutionId
    downstream: ExecutionId
    data_passing_ref: str | None = None
    dependency_kind: str = "success_only"


class NewNode(NewExecution, frozen=True, kw_only=True):
    """As a new execution, in the namespace of its graph."""

    namespace: str | None = None  # type: ignore[assignment]


class NewGraph(Struct, frozen=True, kw_only=True):
    """Nodes need their ids, minted for the flow (`{fp:N}` with the flow's partition), so that edges can name them."""

    flow_id: UUID
    nodes: list[NewNode]
    edges: list[NewGraphEdge] = []
    policies: dict[str, Policy] = {}
    flow_kind: str = "dag"
    namespace: str = "default"
    tags: dict[str, str] = {}


async def graph(ask: Ask) -> Reply:
    """A whole graph at once, or nothing of it."""
    body: NewGraph = ask.body
    if any(node.execution_id is None for node in body.nodes):
        raise bad_request("nodes: each needs an execution_id, so that edges can name it")
    args = SubmitFlowArgs(
        flow_id=body.flow_id,
        nodes=[
            args_of(structs.replace(node, namespace=node.namespace or body.namespace))
            for node in body.nodes
        ],
        edges=[
            GraphEdge(
                edge.upstream,
                edge.downstream,
                edge.data_passing_ref,
                edge.dependency_kind,
            )
            for edge in body.edges
        ],
        policies={
            execution_id(name, "policies"): policy.edge_policy()
            for name, policy in body.policies.items()
        },
        flow_kind=body.flow_kind,
        namespace=body.namespace,
        tags=body.tags,
    )
    made = await ask.engine.submit_flow(args)
    if isinstance(made, FlowSubmitted):
        return Reply(201, variant(made, "Submitted"))
    return Reply(200, variant(made, "AlreadySatisfied"))


async def describe(ask: Ask) -> Reply:
    """How a flow stands."""
    found = await ask.engine.describe_flow(ask.uuid())
    if found is None:
        raise NotFound("flow", ask.uuid())
    return Reply(200, found)


async def members(ask: Ask) -> Reply:
    """The members of a flow."""
    await describe(ask)
    return Reply(200, await ask.engine.flow_members(ask.uuid()))


async def edges(ask: Ask) -> Reply:
    """Who waits for whom in a flow."""
    await describe(ask)
    return Reply(200, await ask.engine.flow_edges(ask.uuid()))


class GroupPolicy(Struct, frozen=True):
    policy: Policy


async def group_policy(ask: Ask) -> Reply:
    """Sets when a member may start: after all, any, or so many of those it waits for. Before its first edge."""
    downstream = ask.execution("downstream")
    said = await ask.engine.set_edge_group_policy(
        ask.uuid(), downstream, ask.body.policy.edge_policy()
    )
    return Reply(200, {"status": said})


_ID = "/v1/flows/{id}"
_READ: dict[str, Any] = {"role": Role.READ, "bound": Bound.FLOW, "tag": "flows"}
_SUBMIT: dict[str, Any] = {"role": Role.SUBMIT, "tag": "flows"}
_MADE = {200: dict[str, Any], 201: dict[str, Any]}

ROUTES = (
    Route(
        "POST", "/v1/flows", create, bound=Bound.NAMESPACE, body=NewFlow, answers=_MADE, **_SUBMIT
    ),
    Route(
        "POST",
        "/v1/flows/graph",
        graph,
        bound=Bound.NAMESPACE,
        body=NewGraph,
        limit=BULK,
        answers=_MADE,
        **_SUBMIT,
    ),
    Route(
        "POST",
        f"{_ID}/members",
        add_member,
        bound=Bound.FLOW,
        body=NewMember,
        answers=_MADE,
        **_SUBMIT,
    ),
    Route(
        "POST",
        f"{_ID}/edges",
        stage_edge,
        bound=Bound.FLOW,
        body=NewEdge,
        answers={201: dict[str, Any]},
        **_SUBMIT,
    ),
    Route(
        "POST",
        f"{_ID}/edges/apply",
        apply_edge,
        bound=Bound.FLOW,
        body=AppliedEdge,
        answers={200: Any},
        **_SUBMIT,
    ),
    Route(
        "POST",
        f"{_ID}/cancel",
        cancel,
        bound=Bound.FLOW,
        body=CancelFlow,
        query=Wait,
        answers={200: dict[str, Any]},
        **_SUBMIT,
    ),
    Route("GET", _ID, describe, answers={200: dict[str, Any]}, **_READ),
    Route("GET", f"{_ID}/members", members, answers={200: list[Any]}, **_READ),
    Route("GET", f"{_ID}/edges", edges, answers={200: list[Any]}, **_READ),
    Route(
        "PUT",
        f"{_ID}/edge-groups/{{downstream}}",
        group_policy,
        bound=Bound.FLOW,
        body=GroupPolicy,
        answers={200: dict[str, str]},
        **_SUBMIT,
    ),
)
