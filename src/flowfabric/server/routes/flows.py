"""Routes of flows: create them in steps or as a whole graph, read and cancel them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import EngineError, NotFound, StateError, StateKind, ValidationError
from flowfabric.ids import ExecutionId, execution_id, time_ordered_uuid
from flowfabric.model import flow as model
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.flow_views import FlowSnapshot
from flowfabric.server import route
from flowfabric.server.policies import U64, Time, clamp
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.routes.executions import NewExecution, args_of
from flowfabric.wire.operations import Bound, Role

log = logging.getLogger("flowfabric.server")

MAX_LISTED = 1_000
MAX_PARALLEL = 16
"""Members cancelled at a time. The cancel reconciler retries those that failed."""


routes = RouteGroup(tag="flows", role=Role.SUBMIT, bound=Bound.FLOW)


class NewFlow(Struct, frozen=True, kw_only=True):
    flow_id: UUID | None = None
    flow_kind: str = "dag"
    namespace: str = "default"
    now: Time | None = None


@routes("POST", "/v1/flows", bound=Bound.NAMESPACE, answers=route.CREATED)
async def create(request: ApiRequest, body: NewFlow) -> Reply:
    """Creates an empty flow, or returns the one with the same id."""
    args = route.args_from(model.CreateFlowArgs, body, flow_id=body.flow_id or time_ordered_uuid())
    made = await request.engine.create_flow(args)
    return route.created(made, model.FlowCreated, "Created", "AlreadySatisfied")


class NewMember(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    execution_id: ExecutionId
    now: Time | None = None


@routes("POST", "/v1/flows/{id}/members", answers=route.CREATED)
async def add_member(request: ApiRequest, body: NewMember) -> Reply:
    """Adds an execution to a flow."""
    route.require_match(request.uuid(), body.flow_id, "flow_id")
    args = route.args_from(model.AddExecutionToFlowArgs, body)
    return route.created(await request.engine.add_execution_to_flow(args), model.Added)


class Edge(Struct, frozen=True, kw_only=True):
    """A dependency: the downstream member waits for the upstream member."""

    flow_id: UUID
    edge_id: UUID
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: str = "success_only"
    data_passing_ref: str | None = None
    now: Time | None = None


class NewEdge(Edge, frozen=True, kw_only=True):
    expected_graph_revision: U64


@routes("POST", "/v1/flows/{id}/edges", answers={201: dict[str, Any]})
async def stage_edge(request: ApiRequest, body: NewEdge) -> Reply:
    """Stages a dependency between two members."""
    route.require_match(request.uuid(), body.flow_id, "flow_id")
    revision = clamp(body.expected_graph_revision)
    args = route.args_from(model.StageDependencyEdgeArgs, body, expected_graph_revision=revision)
    return Reply(201, route.tagged(await request.engine.stage_dependency_edge(args)))


class AppliedEdge(Edge, frozen=True, kw_only=True):
    graph_revision: U64 = 0


@routes("POST", "/v1/flows/{id}/edges/apply", answers={200: Any})
async def apply_edge(request: ApiRequest, body: AppliedEdge) -> object:
    """Applies a staged dependency: its child waits from now on."""
    route.require_match(request.uuid(), body.flow_id, "flow_id")
    args = route.args_from(
        model.ApplyDependencyArgs, body, graph_revision=clamp(body.graph_revision)
    )
    made = await request.engine.apply_dependency_to_child(args)
    is_new = isinstance(made, model.DependencyApplied)
    return route.tagged(made, "Applied" if is_new else "AlreadyApplied")


class CancelFlow(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    reason: str
    cancellation_policy: str
    now: Time | None = None


class Wait(Struct, frozen=True):
    wait: str = ""


async def _with_all_members(request: ApiRequest, flow: UUID, policy: str) -> object:
    """Answer with all members, including those that the policy left running."""
    members = [member.id for member in await request.engine.flow_members(flow)]
    result = {"cancellation_policy": policy, "member_execution_ids": members[:MAX_LISTED]}
    return {"Cancelled": result}


@routes("POST", "/v1/flows/{id}/cancel")
async def cancel(request: ApiRequest, body: CancelFlow, query: Wait) -> object:
    """Cancels a flow and its members; with `wait=true`, answers after the members' cancels."""
    route.require_match(request.uuid(), body.flow_id, "flow_id")
    flow, policy = body.flow_id, body.cancellation_policy
    header = await request.engine.cancel_flow_header(route.args_from(model.CancelFlowArgs, body))
    if isinstance(header, model.FlowAlreadyTerminal):
        stored = header.stored_cancellation_policy
        return await _with_all_members(request, flow, policy if stored is None else stored)
    failed = (
        list(header.failed_member_execution_ids)
        if isinstance(header, model.PartiallyCancelled)
        else []
    )
    members = [*header.member_execution_ids, *failed]
    result = {"cancellation_policy": policy, "member_execution_ids": members}
    if policy == "cancel_all" and members:
        cancelling = cancel_members(request.engine, flow, members, body.reason)
        if query.wait not in ("true", "1"):
            request.server.run_in_background(cancelling)
            return {"CancellationScheduled": {**result, "member_count": len(members)}}
        failed = await cancelling
    elif not failed:
        return await _with_all_members(request, flow, policy)
    if failed:
        return {"PartiallyCancelled": {**result, "failed_member_execution_ids": failed}}
    return {"Cancelled": result}


async def cancel_members(
    engine: LocalEngineProtocol, flow: UUID, members: Sequence[ExecutionId], reason: str
) -> list[ExecutionId]:
    """Cancel the members and return those that could not be cancelled."""
    gate = asyncio.Semaphore(MAX_PARALLEL)

    async def cancel(member: ExecutionId) -> ExecutionId | None:
        fields = {"flow_id": str(flow), "execution_id": str(member)}
        async with gate:
            try:
                await _cancel_member(engine, member, reason)
            except EngineError as error:
                log.warning("flow member not cancelled", extra={**fields, "error": str(error)})
                return member
        try:
            await engine.ack_cancel_member(flow, member)
        except EngineError as error:
            log.warning("flow cancel not acknowledged", extra={**fields, "error": str(error)})
        return None

    return [
        failed
        for failed in await asyncio.gather(*(cancel(member) for member in members))
        if failed is not None
    ]


async def _cancel_member(engine: LocalEngineProtocol, member: ExecutionId, reason: str) -> None:
    """Cancel one member; a member that is removed or has ended counts as cancelled."""
    try:
        await engine.cancel_execution(CancelExecutionArgs(execution_id=member, reason=reason))
    except NotFound:
        return
    except ValidationError as error:
        if not error.already_terminal:
            raise
    except StateError as error:
        if error.kind is not StateKind.TERMINAL:
            raise


class Policy(Struct, frozen=True):
    """When a member may start: after `all_of`, `any_of` or a `quorum` of k of its upstreams."""

    kind: Literal["all_of", "any_of", "quorum"]
    k: U64 = 1
    on_satisfied: Literal["cancel_remaining", "let_run"] = "cancel_remaining"

    def edge_policy(self) -> model.EdgePolicy:
        match self.kind:
            case "all_of":
                return model.EdgePolicy.all_of()
            case "any_of":
                return model.EdgePolicy.any_of(self.on_satisfied)
        return model.EdgePolicy.quorum(clamp(self.k), self.on_satisfied)


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


@routes("POST", "/v1/flows/graph", bound=Bound.NAMESPACE, limit=route.BULK, answers=route.CREATED)
async def graph(request: ApiRequest, body: NewGraph) -> Reply:
    """Creates a whole graph in one transaction."""
    if any(node.execution_id is None for node in body.nodes):
        raise route.bad_request(
            "nodes: each node requires an execution_id, because edges refer to it"
        )
    args = route.args_from(
        model.SubmitFlowArgs,
        body,
        nodes=[
            args_of(structs.replace(node, namespace=node.namespace or body.namespace))
            for node in body.nodes
        ],
        edges=[
            model.GraphEdge(
                edge.upstream, edge.downstream, edge.data_passing_ref, edge.dependency_kind
            )
            for edge in body.edges
        ],
        policies={
            execution_id(name, "policies"): policy.edge_policy()
            for name, policy in body.policies.items()
        },
    )
    made = await request.engine.submit_flow(args)
    return route.created(made, model.FlowSubmitted, "Submitted", "AlreadySatisfied")


@routes("GET", "/v1/flows/{id}", role=Role.READ)
async def describe(request: ApiRequest) -> FlowSnapshot:
    """The state of a flow with its edge groups."""
    found = await request.engine.describe_flow(request.uuid())
    return route.existing(found, NotFound("flow", request.uuid()))


@routes("GET", "/v1/flows/{id}/members", role=Role.READ, answers={200: list[Any]})
async def members(request: ApiRequest) -> object:
    """The members of a flow."""
    await describe(request)
    return await request.engine.flow_members(request.uuid())


@routes("GET", "/v1/flows/{id}/edges", role=Role.READ, answers={200: list[Any]})
async def edges(request: ApiRequest) -> object:
    """The dependencies of a flow."""
    await describe(request)
    return await request.engine.flow_edges(request.uuid())


class GroupPolicy(Struct, frozen=True):
    policy: Policy


@routes("PUT", "/v1/flows/{id}/edge-groups/{downstream}", answers={200: dict[str, str]})
async def group_policy(request: ApiRequest, body: GroupPolicy) -> dict[str, str]:
    """Sets the policy of a member's dependencies, before its first one is staged."""
    result = await request.engine.set_edge_group_policy(
        request.uuid(), request.execution("downstream"), body.policy.edge_policy()
    )
    return {"status": result}
