"""Building flows: creating them, adding members and edges, and submitting whole graphs."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.executions.create import CreateExecutions
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.flows.snapshots import MAX_PAGE, load_flow, load_graph, load_pages, owner_of
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.errors import (
    Contention,
    ContentionKind,
    NotFound,
    StateError,
    StateKind,
    TransportError,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import (
    FLOW_PARTITIONS,
    ExecutionId,
    execution_id,
    name,
    partition_of,
    time_ordered_uuid,
)
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    MAX_CYCLE_NODES,
    MAX_EDGE_TEXT_BYTES,
    Added,
    AddExecutionToFlowArgs,
    AlreadyMember,
    CreateFlowArgs,
    EdgePolicy,
    Flow,
    FlowAlreadyExists,
    FlowCreated,
    FlowSubmitted,
    GraphEdge,
    Staged,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
)
from flowfabric.model.policy import ExecutionPolicy, parse_policy
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Applied, Plan
from flowfabric.rules.decision import Decision
from flowfabric.rules.flows import flow_submit, flows
from flowfabric.rules.flows.flows import GraphSnapshot, MemberState
from flowfabric.store.port import GetAll, Scan, ScanAll, Store

Node = tuple[CreateExecutionArgs, ExecutionPolicy | None]


class FlowBuilds:
    """Creates flows, changes their graphs and tags, and stores their summaries."""

    def __init__(
        self, core: Core, leases: LeaseCache, create: CreateExecutions, lanes: Lanes
    ) -> None:
        self._core, self._store = core, core.store
        self._leases, self._create, self._lanes = leases, create, lanes

    async def create_flow(self, args: CreateFlowArgs) -> FlowCreated | FlowAlreadyExists:
        """Creates an empty flow.

        An id that is in use writes nothing, whatever the other arguments are.
        """
        ident = _check_flow(args)
        if await load_flow(self._store, ident) is not None:
            return FlowAlreadyExists(ident)
        plan = flows.create_flow(
            structs.replace(args, flow_id=ident),
            partition_of(ident, FLOW_PARTITIONS),
            await self._store.now_ms(),
        )
        if isinstance(await self._store.commit(plan), Applied):
            return FlowCreated(ident)
        return FlowAlreadyExists(ident)

    async def add_execution_to_flow(self, args: AddExecutionToFlowArgs) -> Added | AlreadyMember:
        """Makes an execution a member of a flow. Membership is permanent."""
        ident = execution_id(args.execution_id)
        flow = validation.flow_id(args.flow_id)
        validation.optional_timestamp(args.now, "now")
        checked = structs.replace(args, flow_id=flow, execution_id=ident)

        def rule(graph: GraphSnapshot) -> Decision:
            return flows.add_member(graph, checked)

        async with self._core.locks.of(flow):
            result: Added | AlreadyMember = await self._core.run(
                lambda: load_graph(self._store, flow, members=(ident,)), rule
            )
        return result

    async def stage_dependency_edge(self, args: StageDependencyEdgeArgs) -> Staged:
        """Records that one member waits for another. The edge takes effect when it is applied."""
        up = execution_id(args.upstream_execution_id, "upstream_execution_id")
        down = execution_id(args.downstream_execution_id, "downstream_execution_id")
        flow, edge = validation.flow_id(args.flow_id), validation.flow_id(args.edge_id, "edge_id")
        validation.whole(args.expected_graph_revision, "expected_graph_revision", 0, 2**63 - 1)
        _check_edge_text(args.dependency_kind, args.data_passing_ref)
        validation.optional_timestamp(args.now, "now")
        if up == down:
            raise ValidationError(ValidationKind.INVALID_INPUT, "self_referencing_edge")
        checked = structs.replace(
            args,
            flow_id=flow,
            edge_id=edge,
            upstream_execution_id=up,
            downstream_execution_id=down,
        )

        async def load() -> GraphSnapshot:
            graph = await load_graph(self._store, flow, members=(up, down), edge=edge)
            found = graph.flow
            if found is None or found.graph_revision != args.expected_graph_revision:
                return graph
            cyclic = await _has_path(self._store, found, down.uuid, up.uuid)
            return structs.replace(graph, cyclic=cyclic)

        async with self._core.locks.of(flow):
            result: Staged = await self._core.run(
                load, lambda graph: flows.stage_edge(graph, checked)
            )
        return result

    async def set_edge_group_policy(
        self, flow_id: UUID, downstream_execution_id: ExecutionId, policy: EdgePolicy
    ) -> str:
        """Sets how the inbound edges of a member combine.

        Call it before the first of them is staged.
        """
        flow = validation.flow_id(flow_id)
        down = execution_id(downstream_execution_id, "downstream_execution_id")
        if not isinstance(policy, EdgePolicy):
            raise invalid("policy", "an EdgePolicy", policy)
        problem = flows.check_policy(policy)
        if problem is not None:
            raise problem
        async with self._core.locks.of(flow):
            result: str = await self._core.run(
                lambda: load_graph(self._store, flow, group=down),
                lambda graph: flows.set_edge_policy(graph, down, policy),
            )
        self._core.telemetry.listener.edge_policy_set(policy.kind)
        return result

    async def set_flow_tag(self, flow_id: UUID, key: str, value: str) -> None:
        flow = validation.flow_id(flow_id)
        validation.flow_tag_key(key)
        validation.tags({key: value})

        async def load() -> tuple[Flow | None, int]:
            return await load_flow(self._store, flow), await self._store.now_ms()

        def rule(found: tuple[Flow | None, int]) -> Decision:
            stored, now = found
            return flows.set_flow_tag(stored, key, value, now)

        async with self._core.locks.of(flow):
            await self._core.run(load, rule)

    async def project_flow_summary(self, flow_id: UUID, *, now: int | None = None) -> bool:
        """Counts the members by state and stores the counts. False for a flow without members."""
        wanted = validation.flow_id(flow_id)
        validation.optional_timestamp(now, "now")
        flow = await load_flow(self._store, wanted)
        if flow is None:
            return False
        columns = MemberState.__struct_fields__
        scan = Scan("members", owner_of(flow), limit=MAX_PAGE, columns=columns)
        members = await load_pages(
            self._store, scan, MemberState, lambda member: (member.execution_id,)
        )
        if not members:
            return False
        at = await self._store.now_ms() if now is None else now
        return isinstance(await self._store.commit(flows.project(flow, members, at)), Applied)

    # ---- a whole graph

    async def submit_flow(self, args: SubmitFlowArgs) -> FlowSubmitted | FlowAlreadyExists:
        """Creates a flow with all its members, edges and policies in one transaction.

        Submitting the same graph again writes nothing and answers `FlowAlreadyExists`.
        """
        graph, nodes = _checked_graph(args)
        limits = await self._create.limits_of(nodes, graph.flow_id)
        for lane in {node.lane_id for node, _ in nodes}:
            await self._lanes.register(lane, "submit_flow")
        partition = partition_of(graph.flow_id, FLOW_PARTITIONS)
        now = await self._store.now_ms()
        plans = flow_submit.submit_graph(graph, nodes, partition, now, limits)
        if args.parent is not None:
            self._leases.forget_execution(args.parent.execution_id)
        return await self._commit_graph(graph, plans, now)

    async def _commit_graph(
        self, graph: SubmitFlowArgs, plans: Sequence[Plan], now: int
    ) -> FlowSubmitted | FlowAlreadyExists:
        ident, size = graph.flow_id, (len(graph.nodes), len(graph.edges))
        submitted = FlowSubmitted(ident, sum(size), *size)
        try:
            answer = await self._store.commit_together(plans)
        except TransportError as error:
            if not error.doubtful or not await self._is_submitted(graph):
                raise
            stored = await load_flow(self._store, ident)
            created_at = now if graph.now is None else graph.now
            is_ours = stored is not None and stored.created_at_ms == created_at
            return submitted if is_ours else FlowAlreadyExists(ident)
        if not isinstance(answer, Applied):
            return await self._explain_refusal(graph)
        for policy in graph.policies.values():
            self._core.telemetry.listener.edge_policy_set(policy.kind)
        return submitted

    async def _is_submitted(self, graph: SubmitFlowArgs) -> bool:
        """Whether all members of this graph are members of its flow."""
        keys = _node_keys(graph)
        read = GetAll("ff_exec_core", keys, ("flow_id",))
        (rows,) = (await self._store.load((read,))).rows
        return len(rows) == len(keys) and all(flow == graph.flow_id for (flow,) in rows)

    async def _explain_refusal(self, graph: SubmitFlowArgs) -> FlowAlreadyExists:
        """Raises why a graph was not committed, unless the same graph is stored already."""
        if await self._is_submitted(graph):
            return FlowAlreadyExists(graph.flow_id)
        if await load_flow(self._store, graph.flow_id) is not None:
            raise invalid(
                "flow_id",
                "an id that is not in use; a flow with this id and other members exists",
                graph.flow_id,
            )
        if graph.parent is not None:
            await self._check_parent(graph.parent.execution_id, graph.namespace)
        for node in graph.nodes:
            lane = await self._lanes.read_lane(node.lane_id)
            if lane is not None and lane.is_closed:
                raise StateError(StateKind.LANE_CLOSED, f"lane {node.lane_id!r} is {lane.state}")
        read = GetAll("ff_exec_core", _node_keys(graph), ("partition_key", "execution_id"))
        (taken,) = (await self._store.load((read,))).rows
        for key in taken:
            raise invalid("nodes", "execution ids that are not in use", str(ExecutionId.of(*key)))
        raise Contention(ContentionKind.RETRY_EXHAUSTED)

    async def _check_parent(self, parent: ExecutionId, namespace: str) -> None:
        found = (await self._core.snapshots.load(parent)).execution
        if found is None or found.namespace != namespace:
            raise NotFound("parent execution", parent)
        if found.lifecycle_phase in ENDED_PHASES:
            raise StateError(StateKind.TERMINAL, f"parent: {parent} has ended")


async def _has_path(store: Store, flow: Flow, start: UUID, wanted: UUID) -> bool:
    """Whether edges lead from one member to another.

    A walk over more than MAX_CYCLE_NODES counts as yes.
    """
    seen, level = {start}, [start]
    while level:
        groups = [(flow.partition_key, node) for node in level]
        columns = ("flow_id", "downstream_eid")
        read = ScanAll("edges_out", groups, MAX_CYCLE_NODES + 1, columns)
        (rows,) = (await store.load((read,))).rows
        level = list({down for owner, down in rows if owner == flow.flow_id} - seen)
        seen.update(level)
        if wanted in seen or len(seen) > MAX_CYCLE_NODES:
            return True
    return False


def _check_flow(args: CreateFlowArgs | SubmitFlowArgs) -> UUID:
    """The id of a new flow, with the arguments that every new flow has checked."""
    ident = validation.flow_id(args.flow_id)
    name(args.flow_kind, "flow_kind", empty=True)
    name(args.namespace, "namespace")
    validation.optional_timestamp(args.now, "now")
    return ident


def _checked_graph(args: SubmitFlowArgs) -> tuple[SubmitFlowArgs, list[Node]]:
    """The graph with ids in place of their texts, and its nodes with their policies."""
    ident = _check_flow(args)
    for key in validation.tags(args.tags):
        validation.flow_tag_key(key)
    problem = flow_submit.check_size(args)
    if problem is not None:
        raise problem
    checked = map(validation.creation, args.nodes)
    nodes = [(node, parse_policy(node.policy)) for node in checked]
    graph = structs.replace(
        args,
        flow_id=ident,
        nodes=[node for node, _ in nodes],
        edges=[_checked_edge(edge) for edge in args.edges],
    )
    problem = flow_submit.check_graph(graph, partition_of(ident, FLOW_PARTITIONS))
    if problem is not None:
        raise problem
    return graph, nodes


def _node_keys(graph: SubmitFlowArgs) -> list[tuple[int, UUID]]:
    return [(node.execution_id.partition_index, node.execution_id.uuid) for node in graph.nodes]


def _check_edge_text(kind: str, data_passing_ref: str | None) -> None:
    validation.text(kind, "dependency_kind", MAX_EDGE_TEXT_BYTES)
    validation.optional_text(data_passing_ref, "data_passing_ref", MAX_EDGE_TEXT_BYTES)


def _checked_edge(edge: object) -> GraphEdge:
    if not isinstance(edge, GraphEdge):
        raise invalid("edges", "GraphEdge(upstream, downstream)", edge)
    up = execution_id(edge.upstream, "edges.upstream")
    down = execution_id(edge.downstream, "edges.downstream")
    _check_edge_text(edge.dependency_kind, edge.data_passing_ref)
    ident = (
        time_ordered_uuid()
        if edge.edge_id is None
        else validation.flow_id(edge.edge_id, "edges.edge_id")
    )
    return GraphEdge(up, down, edge.data_passing_ref, edge.dependency_kind, ident)
