"""Flows and their graphs: building them, one piece at a time or whole, and reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.executions.history import History
from flowfabric.engine.flows.cascade import MEMBER_COLUMNS
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
    partition_key,
    partition_of,
    time_ordered_uuid,
)
from flowfabric.model.execution import Page
from flowfabric.model.flow import (
    MAX_CYCLE_NODES,
    MAX_EDGE_TEXT_BYTES,
    Added,
    AddExecutionToFlowArgs,
    AlreadyMember,
    CreateFlowArgs,
    Edge,
    EdgeGroup,
    EdgePolicy,
    Flow,
    FlowAlreadyExists,
    FlowCreated,
    FlowSubmitted,
    GraphEdge,
    Staged,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
    stored_edge_policy,
)
from flowfabric.model.flow_links import Member
from flowfabric.model.flow_views import (
    EdgeGroupSnapshot,
    EdgeSnapshot,
    FlowListed,
    FlowSnapshot,
    FlowStatus,
    FlowSummary,
    Incoming,
    Outgoing,
)
from flowfabric.model.policy import parse_policy
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Applied
from flowfabric.rules.decision import Decision
from flowfabric.rules.flows import edges as edge_rules
from flowfabric.rules.flows import flow_submit, flows
from flowfabric.rules.flows.flow_fields import fields_of, namespace_of, number_in
from flowfabric.rules.flows.flows import GraphSnapshot
from flowfabric.store.port import Get, GetAll, Read, Scan, ScanAll

MAX_PAGE = 1_000
_STATUSES = {
    **dict.fromkeys(("open", "running", "blocked"), FlowStatus.ACTIVE),
    "completed": FlowStatus.COMPLETED,
    "failed": FlowStatus.FAILED,
    "cancelled": FlowStatus.CANCELLED,
}


class FlowBuilds(History):
    async def create_flow(self, args: CreateFlowArgs) -> FlowCreated | FlowAlreadyExists:
        """An empty flow. Creating it again writes nothing, whatever else is said about it then."""
        ident = validation.flow_id(args.flow_id)
        name(args.flow_kind, "flow_kind", empty=True)
        name(args.namespace, "namespace")
        validation.optional_timestamp(args.now, "now")
        if await self._flow(ident) is not None:
            return FlowAlreadyExists(ident)
        said = structs.replace(args, flow_id=ident)
        plan = flows.create_flow(
            said, partition_of(ident, FLOW_PARTITIONS), await self.store.now_ms()
        )
        return (
            FlowCreated(ident)
            if isinstance(await self.store.commit(plan), Applied)
            else FlowAlreadyExists(ident)
        )

    async def add_execution_to_flow(self, args: AddExecutionToFlowArgs) -> Added | AlreadyMember:
        """Makes an execution a member of a flow; it cannot be taken out again."""
        ident = execution_id(args.execution_id)
        flow = validation.flow_id(args.flow_id)
        validation.optional_timestamp(args.now, "now")
        said = structs.replace(args, flow_id=flow, execution_id=ident)

        def rule(around: GraphSnapshot) -> Decision:
            return flows.add_member(around, said)

        async with self._turns.of(flow):
            result: Added | AlreadyMember = await self.settle(
                lambda: self._around(flow, members=(ident,)), rule
            )
        return result

    async def stage_dependency_edge(self, args: StageDependencyEdgeArgs) -> Staged:
        """Records that one member waits for another. It takes effect when it is applied."""
        up = execution_id(args.upstream_execution_id, "upstream_execution_id")
        down = execution_id(args.downstream_execution_id, "downstream_execution_id")
        flow, edge = validation.flow_id(args.flow_id), validation.flow_id(args.edge_id, "edge_id")
        validation.whole(args.expected_graph_revision, "expected_graph_revision", 0, 2**63 - 1)
        _check_edge_text(args.dependency_kind, args.data_passing_ref)
        validation.optional_timestamp(args.now, "now")
        if up == down:
            raise ValidationError(ValidationKind.INVALID_INPUT, "self_referencing_edge")

        async def around() -> GraphSnapshot:
            found = await self._around(flow, members=(up, down), edge=edge)
            if found.flow is None or found.flow.graph_revision != args.expected_graph_revision:
                return found
            return structs.replace(
                found, cyclic=await self._leads_to(found.flow, down.uuid, up.uuid)
            )

        ids = {
            "flow_id": flow,
            "edge_id": edge,
            "upstream_execution_id": up,
            "downstream_execution_id": down,
        }
        said = structs.replace(args, **ids)
        async with self._turns.of(flow):
            result: Staged = await self.settle(around, lambda found: flows.stage_edge(found, said))
        return result

    async def _leads_to(self, flow: Flow, start: UUID, wanted: UUID) -> bool:
        """Whether edges lead from one member to another. A walk that gets too long counts as yes."""
        seen, level = {start}, [start]
        while level:
            groups = [(flow.partition_key, node) for node in level]
            rows = (
                await self.store.load((ScanAll("edges_out", groups, MAX_CYCLE_NODES + 1, _ENDS),))
            ).rows[0]
            level = [
                node
                for node in {row[1] for row in rows if row[0] == flow.flow_id}
                if node not in seen
            ]
            seen.update(level)
            if wanted in seen or len(seen) > MAX_CYCLE_NODES:
                return True
        return False

    async def set_edge_group_policy(
        self, flow_id: UUID, downstream_execution_id: ExecutionId, policy: EdgePolicy
    ) -> str:
        """How the inbound edges of one member combine; before the first of them is staged."""
        flow = validation.flow_id(flow_id)
        down = execution_id(downstream_execution_id, "downstream_execution_id")
        if not isinstance(policy, EdgePolicy):
            raise invalid("policy", "an EdgePolicy", policy)
        problem = flows.check_policy(policy)
        if problem is not None:
            raise problem
        async with self._turns.of(flow):
            result: str = await self.settle(
                lambda: self._around(flow, group=down),
                lambda around: flows.set_edge_policy(around, down, policy),
            )
        return result

    async def _around(
        self,
        flow_id: UUID,
        *,
        members: tuple[ExecutionId, ...] = (),
        edge: UUID | None = None,
        group: ExecutionId | None = None,
    ) -> GraphSnapshot:
        flow = await self._flow(flow_id)
        partition = (
            flow.partition_key if flow is not None else partition_of(flow_id, FLOW_PARTITIONS)
        )
        reads: list[Read] = [
            Get("ff_flow_core", (partition, flow_id)),
            GetAll("ff_exec_core", [(m.partition_index, m.uuid) for m in members], MEMBER_COLUMNS),
        ]
        if edge is not None:
            reads.append(Get("ff_edge", (partition, flow_id, edge)))
        if group is not None:
            reads.append(Get("ff_edge_group", (partition, flow_id, group.uuid)))
            reads.append(
                Scan(
                    "edges_in", {"partition_key": partition, "downstream_eid": group.uuid}, limit=1
                )
            )
        loaded = await self.store.load(reads)
        rest = loaded.rows[2:]
        return GraphSnapshot(
            loaded.now_ms,
            partition,
            Flow(*loaded.rows[0][0]) if loaded.rows[0] else None,
            {row[1]: Member(*row) for row in loaded.rows[1]},
            Edge(*rest[0][0]) if edge is not None and rest[0] else None,
            EdgeGroup(*rest[0][0]) if group is not None and rest[0] else None,
            has_edges=group is not None and bool(rest[1]),
        )

    async def _flow(self, flow_id: UUID) -> Flow | None:
        """Where its id places it, or in the first partition, where rows made by hand are."""
        keys = [(partition, flow_id) for partition in {partition_of(flow_id, FLOW_PARTITIONS), 0}]
        rows = (await self.store.load((GetAll("ff_flow_core", keys),))).rows[0]
        return Flow(*rows[0]) if rows else None

    # ---- a whole graph

    async def submit_flow(self, args: SubmitFlowArgs) -> FlowSubmitted | FlowAlreadyExists:
        """A flow with all its members, edges and policies, or nothing of it. The same graph again answers that it is there."""
        ident = validation.flow_id(args.flow_id)
        name(args.flow_kind, "flow_kind", empty=True)
        name(args.namespace, "namespace")
        validation.optional_timestamp(args.now, "now")
        for key in validation.tags(args.tags):
            validation.flow_tag_key(key)
        problem = flow_submit.check_size(args)
        if problem is not None:
            raise problem
        nodes = [
            (checked, parse_policy(checked.policy))
            for checked in map(validation.creation, args.nodes)
        ]
        partition = partition_of(ident, FLOW_PARTITIONS)
        whole = structs.replace(
            args,
            flow_id=ident,
            nodes=[node for node, _ in nodes],
            edges=[_checked_edge(e) for e in args.edges],
        )
        problem = flow_submit.check_graph(whole, partition)
        if problem is not None:
            raise problem
        limits = await self._limits_of(nodes, ident)
        for lane in {node.lane_id for node, _ in nodes}:
            await self._know_lane(lane, "submit_flow")
        now = await self.store.now_ms()
        plans = flow_submit.submit_graph(whole, nodes, partition, now, limits)
        if args.parent is not None:
            self._forget_facts(args.parent.execution_id)
        submitted = FlowSubmitted(
            ident, len(nodes) + len(whole.edges), len(nodes), len(whole.edges)
        )
        try:
            answer = await self.store.commit_together(plans)
        except TransportError as error:
            if not error.doubtful or not await self._is_submitted(whole):
                raise
            stored = await self._flow(ident)
            mine = stored is not None and stored.created_at_ms == (
                now if args.now is None else args.now
            )
            return submitted if mine else FlowAlreadyExists(ident)
        return submitted if isinstance(answer, Applied) else await self._why_not_submitted(whole)

    async def _check_parent(self, parent: ExecutionId, namespace: str) -> None:
        found = (await self.snapshot(parent)).execution
        if found is None or found.namespace != namespace:
            raise NotFound("parent execution", parent)
        if found.lifecycle_phase in ENDED_PHASES:
            raise StateError(StateKind.TERMINAL, f"parent: {parent} has ended")

    async def _is_submitted(self, args: SubmitFlowArgs) -> bool:
        """Whether this very graph is there already: its members are."""
        keys = [(node.execution_id.partition_index, node.execution_id.uuid) for node in args.nodes]
        rows = (await self.store.load((GetAll("ff_exec_core", keys, ("flow_id",)),))).rows[0]
        return len(rows) == len(keys) and all(row[0] == args.flow_id for row in rows)

    async def _why_not_submitted(self, args: SubmitFlowArgs) -> FlowAlreadyExists:
        if await self._is_submitted(args):
            return FlowAlreadyExists(args.flow_id)
        if await self._flow(args.flow_id) is not None:
            raise invalid(
                "flow_id",
                "a flow that does not exist yet; this one does, with other members",
                args.flow_id,
            )
        if args.parent is not None:
            await self._check_parent(args.parent.execution_id, args.namespace)
        for node in args.nodes:
            lane = await self.read_lane(node.lane_id)
            if lane is not None and lane.is_closed:
                raise StateError(StateKind.LANE_CLOSED, f"lane {node.lane_id!r} is {lane.state}")
        keys = [(node.execution_id.partition_index, node.execution_id.uuid) for node in args.nodes]
        rows = (
            await self.store.load(
                (GetAll("ff_exec_core", keys, ("partition_key", "execution_id")),)
            )
        ).rows[0]
        if rows:
            raise invalid(
                "nodes", "execution ids that are not taken yet", str(ExecutionId.of(*rows[0]))
            )
        raise Contention(ContentionKind.RETRY_EXHAUSTED)

    # ---- reads

    async def get_flow_namespace(self, flow_id: UUID) -> str | None:
        """The namespace of a flow, or None if there is no such flow."""
        flow = await self._flow(validation.flow_id(flow_id))
        return None if flow is None else namespace_of(flow)

    async def describe_flow(self, flow_id: UUID) -> FlowSnapshot | None:
        """The flow as it is decided; what its members add up to is in its summary."""
        flow = await self._flow(validation.flow_id(flow_id))
        if flow is None:
            return None
        fields = fields_of(flow)
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        groups = [
            EdgeGroup(*row)
            for row in await self._all("groups_of_flow", owner, lambda row: (row[2],))
        ]
        return FlowSnapshot(
            flow.flow_id,
            fields.get("flow_kind", ""),
            fields.get("namespace", "default"),
            flow.public_flow_state,
            flow.graph_revision,
            number_in(fields, "node_count"),
            number_in(fields, "edge_count"),
            flow.created_at_ms,
            number_in(fields, "last_mutation_at_ms", flow.created_at_ms),
            flow.terminal_at_ms,
            fields.get("cancel_reason"),
            fields.get("cancellation_policy"),
            {
                key: fields[key]
                for key in sorted(fields)
                if validation.is_flow_tag(key) and isinstance(fields[key], str)
            },
            [_group_snapshot(group) for group in groups],
        )

    async def _all(
        self,
        index: str,
        group: dict[str, Any],
        position: Callable[[Any], tuple[Any, ...]],
        columns: tuple[str, ...] = (),
    ) -> list[Any]:
        """Every row of a group of an index, page by page."""
        found: list[Any] = []
        after = None
        while True:
            page = (
                await self.store.load((Scan(index, group, after, limit=MAX_PAGE, columns=columns),))
            ).rows[0]
            found += page
            if len(page) < MAX_PAGE:
                return found
            after = position(page[-1])

    async def flow_members(self, flow_id: UUID) -> list[Member]:
        """Every member with its state."""
        flow = await self._flow(validation.flow_id(flow_id))
        if flow is None:
            return []
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        return [
            Member(*row)
            for row in await self._all("members", owner, lambda row: (row[1],), MEMBER_COLUMNS)
        ]

    async def list_flows(
        self, partition: int | str, cursor: UUID | None = None, limit: int = 100
    ) -> Page[FlowListed]:
        """Flows of a partition by id, whatever their state."""
        at = partition_key(partition, "partition_key")
        size = validation.limit(limit, MAX_PAGE)
        after = None if cursor is None else (validation.flow_id(cursor, "cursor"),)
        if not size:
            return Page([])
        loaded = await self.store.load(
            (Scan("flows", {"partition_key": at}, after, limit=size + 1),)
        )
        found = [Flow(*row) for row in loaded.rows[0]]
        items = [
            FlowListed(
                f.flow_id, f.created_at_ms, _STATUSES.get(f.public_flow_state, FlowStatus.UNKNOWN)
            )
            for f in found[:size]
        ]
        return Page(items, items[-1].flow_id if len(found) > size else None)

    async def list_edges(self, flow_id: UUID, direction: Outgoing | Incoming) -> list[EdgeSnapshot]:
        """The edges that leave or enter one member."""
        flow = validation.flow_id(flow_id)
        if isinstance(direction, Outgoing):
            index, node, column = (
                "edges_out",
                execution_id(direction.from_node, "from_node"),
                "upstream_eid",
            )
        elif isinstance(direction, Incoming):
            index, node, column = (
                "edges_in",
                execution_id(direction.to_node, "to_node"),
                "downstream_eid",
            )
        else:
            raise invalid("direction", "Outgoing(from_node) or Incoming(to_node)", direction)
        rows = await self._all(
            index, {"partition_key": node.partition_index, column: node.uuid}, lambda row: (row[2],)
        )
        return [
            flows.edge_snapshot(edge)
            for edge in (Edge(*row) for row in rows)
            if edge.flow_id == flow
        ]

    async def flow_edges(self, flow_id: UUID) -> list[Edge]:
        """Every edge of a flow, with how far it is."""
        flow = await self._flow(validation.flow_id(flow_id))
        if flow is None:
            return []
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        return [Edge(*row) for row in await self._all("edges", owner, lambda row: (row[2],))]

    async def describe_edge(self, flow_id: UUID, edge_id: UUID) -> EdgeSnapshot | None:
        flow = await self._flow(validation.flow_id(flow_id))
        wanted = validation.flow_id(edge_id, "edge_id")
        if flow is None:
            return None
        rows = (
            await self.store.load((Get("ff_edge", (flow.partition_key, flow.flow_id, wanted)),))
        ).rows[0]
        return flows.edge_snapshot(Edge(*rows[0])) if rows else None

    async def resolve_execution_flow_id(self, execution: ExecutionId) -> UUID | None:
        return await self._flow_of(execution_id(execution))

    # ---- tags

    async def set_flow_tag(self, flow_id: UUID, key: str, value: str) -> None:
        flow = validation.flow_id(flow_id)
        validation.flow_tag_key(key)
        validation.tags({key: value})

        async def load() -> tuple[Flow | None, int]:
            return await self._flow(flow), await self.store.now_ms()

        async with self._turns.of(flow):
            await self.settle(
                load, lambda found: flows.set_flow_tag(found[0], key, value, found[1])
            )

    async def get_flow_tag(self, flow_id: UUID, key: str) -> str | None:
        validation.flow_tag_key(key)
        flow = await self._flow(validation.flow_id(flow_id))
        found = None if flow is None else fields_of(flow).get(key)
        return found if isinstance(found, str) else None

    # ---- what the members add up to

    async def project_flow_summary(self, flow_id: UUID, *, now: int | None = None) -> bool:
        """Counts the members by state and stores that; whether there was anything to store."""
        wanted = validation.flow_id(flow_id)
        validation.optional_timestamp(now, "now")
        flow = await self._flow(wanted)
        if flow is None:
            return False
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        rows = await self._all(
            "members", owner, lambda row: (row[0],), ("execution_id", "public_state")
        )
        if not rows:
            return False
        at = await self.store.now_ms() if now is None else now
        plan = flows.project(flow, flows.count_members(row[1] for row in rows), at)
        return isinstance(await self.store.commit(plan), Applied)

    async def read_flow_summary(self, flow_id: UUID) -> FlowSummary | None:
        """The last summary that was projected."""
        flow = await self._flow(validation.flow_id(flow_id))
        if flow is None:
            return None
        rows = (
            await self.store.load((Get("ff_flow_summary", (flow.partition_key, flow.flow_id)),))
        ).rows[0]
        return FlowSummary(*rows[0]) if rows else None

    async def unsettled_flows(self, after: tuple[int, UUID] | None, limit: int) -> list[Flow]:
        """Flows with members that may still move, oldest first."""
        return [
            Flow(*row)
            for row in (
                await self.store.load((Scan("unsettled_flows", {}, after, limit=limit),))
            ).rows[0]
        ]


_ENDS = ("flow_id", "downstream_eid")


def _check_edge_text(kind: str, data_passing_ref: str | None) -> None:
    validation.text(kind, "dependency_kind", MAX_EDGE_TEXT_BYTES)
    validation.optional_text(data_passing_ref, "data_passing_ref", MAX_EDGE_TEXT_BYTES)


def _checked_edge(edge: object) -> GraphEdge:
    if not isinstance(edge, GraphEdge):
        raise invalid("edges", "GraphEdge(upstream, downstream)", edge)
    up, down = (
        execution_id(edge.upstream, "edges.upstream"),
        execution_id(edge.downstream, "edges.downstream"),
    )
    _check_edge_text(edge.dependency_kind, edge.data_passing_ref)
    ident = (
        time_ordered_uuid()
        if edge.edge_id is None
        else validation.flow_id(edge.edge_id, "edges.edge_id")
    )
    return GraphEdge(up, down, edge.data_passing_ref, edge.dependency_kind, ident)


def _group_snapshot(group: EdgeGroup) -> EdgeGroupSnapshot:
    return EdgeGroupSnapshot(
        ExecutionId.of(group.partition_key, group.downstream_eid),
        stored_edge_policy(group.policy),
        group.total,
        group.success_count,
        group.fail_count,
        group.skip_count,
        group.running_count,
        edge_rules.state_of(group),
    )
