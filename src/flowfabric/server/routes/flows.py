"""Routes of flows: create them in steps or as a whole graph, read and cancel them."""

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
from flowfabric.server.numbers import U64, Time, clamp
from flowfabric.server.route import (
    BULK,
    CREATED,
    ApiRequest,
    Reply,
    RouteGroup,
    bad_request,
    require_match,
    tagged,
)
from flowfabric.server.routes.executions import NewExecution, args_of
from flowfabric.wire.operations import Bound, Role

MAX_LISTED = 1_000
log = logging.getLogger("flowfabric.server")


routes = RouteGroup(tag="flows", role=Role.SUBMIT, bound=Bound.FLOW)


class NewFlow(Struct, frozen=True, kw_only=True):
    flow_id: UUID | None = None
    flow_kind: str = "dag"
    namespace: str = "default"
    now: Time | None = None


@routes("POST", "/v1/flows", bound=Bound.NAMESPACE, body=NewFlow, answers=CREATED)
async def create(request: ApiRequest) -> Reply:
    """Creates an empty flow, or returns the one with the same id."""
    body: NewFlow = request.body
    flow = body.flow_id or time_ordered_uuid()
    made = await request.engine.create_flow(
        CreateFlowArgs(flow_id=flow, flow_kind=body.flow_kind, namespace=body.namespace)
    )
    if isinstance(made, FlowCreated):
        return Reply(201, tagged(made, "Created"))
    return Reply(200, tagged(made, "AlreadySatisfied"))


class NewMember(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    execution_id: ExecutionId
    now: Time | None = None


@routes("POST", "/v1/flows/{id}/members", body=NewMember, answers=CREATED)
async def add_member(request: ApiRequest) -> Reply:
    """Adds an execution to a flow."""
    require_match(request.uuid(), request.body.flow_id, "flow_id")
    args = AddExecutionToFlowArgs(flow_id=request.uuid(), execution_id=request.body.execution_id)
    made = await request.engine.add_execution_to_flow(args)
    return Reply(201 if isinstance(made, Added) else 200, tagged(made))


class Edge(Struct, frozen=True, kw_only=True):
    """A dependency: the downstream member waits for the upstream member."""

    flow_id: UUID
    edge_id: UUID
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: str = "success_only"
    data_passing_ref: str | None = None
    now: Time | None = None


def _edge(request: ApiRequest) -> dict[str, Any]:
    body: Edge = request.body
    require_match(request.uuid(), body.flow_id, "flow_id")
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


@routes("POST", "/v1/flows/{id}/edges", body=NewEdge, answers={201: dict[str, Any]})
async def stage_edge(request: ApiRequest) -> Reply:
    """Stages a dependency between two members."""
    args = StageDependencyEdgeArgs(
        **_edge(request), expected_graph_revision=clamp(request.body.expected_graph_revision)
    )
    return Reply(201, tagged(await request.engine.stage_dependency_edge(args)))


class AppliedEdge(Edge, frozen=True, kw_only=True):
    graph_revision: U64 = 0


@routes("POST", "/v1/flows/{id}/edges/apply", body=AppliedEdge, answers={200: Any})
async def apply_edge(request: ApiRequest) -> Reply:
    """Applies a staged dependency: its child waits from now on."""
    args = ApplyDependencyArgs(**_edge(request), graph_revision=clamp(request.body.graph_revision))
    made = await request.engine.apply_dependency_to_child(args)
    return Reply(
        200, tagged(made, "Applied" if isinstance(made, DependencyApplied) else "AlreadyApplied")
    )


class CancelFlow(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    reason: str
    cancellation_policy: str
    now: Time | None = None


class Wait(Struct, frozen=True):
    wait: str = ""


async def _with_all_members(request: ApiRequest, policy: str) -> Reply:
    """Answer with all members, including those that the policy left running."""
    members = [member.id for member in await request.engine.flow_members(request.body.flow_id)]
    return Reply(
        200,
        {
            "Cancelled": {
                "cancellation_policy": policy,
                "member_execution_ids": members[:MAX_LISTED],
            }
        },
    )


@routes("POST", "/v1/flows/{id}/cancel", body=CancelFlow, query=Wait)
async def cancel(request: ApiRequest) -> Reply:
    """Cancels a flow and its members; with `wait=true`, answers after the members' cancels."""
    body: CancelFlow = request.body
    require_match(request.uuid(), body.flow_id, "flow_id")
    policy = body.cancellation_policy
    args = CancelFlowArgs(flow_id=body.flow_id, reason=body.reason, cancellation_policy=policy)
    header = await request.engine.cancel_flow_header(args)
    if isinstance(header, FlowAlreadyTerminal):
        stored = header.stored_cancellation_policy
        return await _with_all_members(request, policy if stored is None else stored)
    failed = (
        list(header.failed_member_execution_ids) if isinstance(header, PartiallyCancelled) else []
    )
    members = [*header.member_execution_ids, *failed]
    result: dict[str, Any] = {"cancellation_policy": policy, "member_execution_ids": members}
    if policy != "cancel_all" or not members:
        return _cancelled(result, failed) if failed else await _with_all_members(request, policy)
    if request.query.wait not in ("true", "1"):
        request.server.run_in_background(
            cancel_members(request.engine, body.flow_id, members, body.reason)
        )
        return Reply(200, {"CancellationScheduled": {**result, "member_count": len(members)}})
    failed = await cancel_members(request.engine, body.flow_id, members, body.reason)
    return _cancelled(result, failed)


def _cancelled(result: dict[str, Any], failed: list[ExecutionId]) -> Reply:
    if failed:
        return Reply(200, {"PartiallyCancelled": {**result, "failed_member_execution_ids": failed}})
    return Reply(200, {"Cancelled": result})


class Policy(Struct, frozen=True):
    """When a member may start: after `all_of`, `any_of` or a `quorum` of k of its upstreams."""

    kind: Literal["all_of", "any_of", "quorum"]
    k: U64 = 1
    on_satisfied: Literal["cancel_remaining", "let_run"] = "cancel_remaining"

    def edge_policy(self) -> EdgePolicy:
        if self.kind == "all_of":
            return EdgePolicy.all_of()
        return (
            EdgePolicy.any_of(self.on_satisfied)
            if self.kind == "any_of"
            else EdgePolicy.quorum(clamp(self.k), self.on_satisfied)
        )


class NewGraphEdge(Struct, frozen=True, kw_only=True):
    upstream: ExecutionId
    downstream: ExecutionId
    data_passing_ref: str | None = None
    dependency_kind: str = "success_only"


class NewNode(NewExecution, frozen=True, kw_only=True):
    """A new execution, by default in the namespace of its graph."""

    namespace: str | None = None  # type: ignore[assignment]


class NewGraph(Struct, frozen=True, kw_only=True):
    """A graph; edges name its nodes by id.

    The id of each node carries the partition of the flow, as `{fp:N}`.
    """

    flow_id: UUID
    nodes: list[NewNode]
    edges: list[NewGraphEdge] = []
    policies: dict[str, Policy] = {}
    flow_kind: str = "dag"
    namespace: str = "default"
    tags: dict[str, str] = {}


@routes(
    "POST", "/v1/flows/graph", bound=Bound.NAMESPACE, body=NewGraph, limit=BULK, answers=CREATED
)
async def graph(request: ApiRequest) -> Reply:
    """Creates a whole graph in one transaction."""
    body: NewGraph = request.body
    if any(node.execution_id is None for node in body.nodes):
        raise bad_request("nodes: each node requires an execution_id, because edges refer to it")
    args = SubmitFlowArgs(
        flow_id=body.flow_id,
        nodes=[
            args_of(structs.replace(node, namespace=node.namespace or body.namespace))
            for node in body.nodes
        ],
        edges=[
            GraphEdge(edge.upstream, edge.downstream, edge.data_passing_ref, edge.dependency_kind)
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
    made = await request.engine.submit_flow(args)
    if isinstance(made, FlowSubmitted):
        return Reply(201, tagged(made, "Submitted"))
    return Reply(200, tagged(made, "AlreadySatisfied"))


@routes("GET", "/v1/flows/{id}", role=Role.READ)
async def describe(request: ApiRequest) -> Reply:
    """The state of a flow with its edge groups."""
    found = await request.engine.describe_flow(request.uuid())
    if found is None:
        raise NotFound("flow", request.uuid())
    return Reply(200, found)


@routes("GET", "/v1/flows/{id}/members", role=Role.READ, answers={200: list[Any]})
async def members(request: ApiRequest) -> Reply:
    """The members of a flow."""
    await describe(request)
    return Reply(200, await request.engine.flow_members(request.uuid()))


@routes("GET", "/v1/flows/{id}/edges", role=Role.READ, answers={200: list[Any]})
async def edges(request: ApiRequest) -> Reply:
    """The dependencies of a flow."""
    await describe(request)
    return Reply(200, await request.engine.flow_edges(request.uuid()))


class GroupPolicy(Struct, frozen=True):
    policy: Policy


@routes(
    "PUT",
    "/v1/flows/{id}/edge-groups/{downstream}",
    body=GroupPolicy,
    answers={200: dict[str, str]},
)
async def group_policy(request: ApiRequest) -> Reply:
    """Sets the policy of a member's dependencies, before its first one is staged."""
    downstream = request.execution("downstream")
    result = await request.engine.set_edge_group_policy(
        request.uuid(), downstream, request.body.policy.edge_policy()
    )
    return Reply(200, {"status": result})
