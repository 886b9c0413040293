"""Reads of flows, their members, edges, tags and summaries."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.flows.snapshots import (
    MAX_PAGE,
    load_edges,
    load_flow,
    load_groups,
    load_members,
    owner_of,
)
from flowfabric.engine.snapshots import load_all, load_one
from flowfabric.errors import invalid
from flowfabric.ids import ExecutionId, execution_id, partition_key
from flowfabric.model.execution import Page
from flowfabric.model.flow import Edge, EdgeGroup, Flow, stored_edge_policy
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
from flowfabric.rules.flows import edges, flows
from flowfabric.rules.flows.flow_fields import fields_of, namespace_of, number_in
from flowfabric.store.port import Get, GetAll, Scan

_STATUSES = {
    **dict.fromkeys(("open", "running", "blocked"), FlowStatus.ACTIVE),
    "completed": FlowStatus.COMPLETED,
    "failed": FlowStatus.FAILED,
    "cancelled": FlowStatus.CANCELLED,
}


class FlowQueries:
    """Reads flows."""

    def __init__(self, core: Core) -> None:
        self._store = core.store

    async def _flow(self, flow_id: UUID) -> Flow | None:
        return await load_flow(self._store, validation.flow_id(flow_id))

    async def get_flow_namespace(self, flow_id: UUID) -> str | None:
        """The namespace of a flow, or None if there is no such flow."""
        flow = await self._flow(flow_id)
        return None if flow is None else namespace_of(flow)

    async def describe_flow(self, flow_id: UUID) -> FlowSnapshot | None:
        """The stored flow with its edge groups. Counts of member states are in the summary."""
        flow = await self._flow(flow_id)
        if flow is None:
            return None
        fields = fields_of(flow)
        tags = {
            key: fields[key]
            for key in sorted(fields)
            if validation.is_flow_tag(key) and isinstance(fields[key], str)
        }
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
            tags,
            [_group_snapshot(group) for group in await load_groups(self._store, flow)],
        )

    async def flow_members(self, flow_id: UUID) -> list[Member]:
        """Every member with its state."""
        flow = await self._flow(flow_id)
        return [] if flow is None else await load_members(self._store, flow)

    async def list_flows(
        self, partition: int | str, cursor: UUID | None = None, limit: int = 100
    ) -> Page[FlowListed]:
        """Flows of a partition in the order of their ids, in any state."""
        at = partition_key(partition, "partition_key")
        size = validation.limit(limit, MAX_PAGE)
        after = None if cursor is None else (validation.flow_id(cursor, "cursor"),)
        if not size:
            return Page([])
        scan = Scan("flows", {"partition_key": at}, after, limit=size + 1)
        found = await load_all(self._store, scan, Flow)
        ends = await self._ends_of(found[:size])
        items = [
            FlowListed(
                flow.flow_id,
                flow.created_at_ms,
                _STATUSES.get(ends.get(flow.flow_id, flow.public_flow_state), FlowStatus.UNKNOWN),
            )
            for flow in found[:size]
        ]
        return Page(items, items[-1].flow_id if len(found) > size else None)

    async def _ends_of(self, found: Sequence[Flow]) -> dict[UUID, str]:
        """How the settled flows among these have ended, by their summaries."""
        keys = [
            (flow.partition_key, flow.flow_id)
            for flow in found
            if flow.settled_at_ms is not None and not flow.is_terminal
        ]
        if not keys:
            return {}
        read = GetAll("ff_flow_summary", keys, ("flow_id", "public_flow_state"))
        return dict((await self._store.load((read,))).rows[0])

    async def list_edges(self, flow_id: UUID, direction: Outgoing | Incoming) -> list[EdgeSnapshot]:
        """The edges that leave or enter one member."""
        flow = validation.flow_id(flow_id)
        if isinstance(direction, Outgoing):
            node, column = execution_id(direction.from_node, "from_node"), "upstream_eid"
            index = "edges_out"
        elif isinstance(direction, Incoming):
            node, column = execution_id(direction.to_node, "to_node"), "downstream_eid"
            index = "edges_in"
        else:
            raise invalid("direction", "Outgoing(from_node) or Incoming(to_node)", direction)
        group = {"partition_key": node.partition_index, column: node.uuid}
        found = await load_edges(self._store, index, group)
        return [flows.edge_snapshot(edge) for edge in found if edge.flow_id == flow]

    async def flow_edges(self, flow_id: UUID) -> list[Edge]:
        """Every edge of a flow, with its state."""
        flow = await self._flow(flow_id)
        return [] if flow is None else await load_edges(self._store, "edges", owner_of(flow))

    async def describe_edge(self, flow_id: UUID, edge_id: UUID) -> EdgeSnapshot | None:
        flow = await self._flow(flow_id)
        wanted = validation.flow_id(edge_id, "edge_id")
        if flow is None:
            return None
        key = (flow.partition_key, flow.flow_id, wanted)
        edge = await load_one(self._store, Get("ff_edge", key), Edge)
        return None if edge is None else flows.edge_snapshot(edge)

    async def get_flow_tag(self, flow_id: UUID, key: str) -> str | None:
        validation.flow_tag_key(key)
        flow = await self._flow(flow_id)
        value = None if flow is None else fields_of(flow).get(key)
        return value if isinstance(value, str) else None

    async def read_flow_summary(self, flow_id: UUID) -> FlowSummary | None:
        """The summary that was projected last."""
        flow = await self._flow(flow_id)
        if flow is None:
            return None
        read = Get("ff_flow_summary", (flow.partition_key, flow.flow_id))
        return await load_one(self._store, read, FlowSummary)

    async def unsettled_flows(self, after: tuple[int, UUID] | None, limit: int) -> list[Flow]:
        """Flows with members that may still change state, oldest first."""
        return await load_all(self._store, Scan("unsettled_flows", {}, after, limit=limit), Flow)


def _group_snapshot(group: EdgeGroup) -> EdgeGroupSnapshot:
    return EdgeGroupSnapshot(
        ExecutionId.of(group.partition_key, group.downstream_eid),
        stored_edge_policy(group.policy),
        group.total,
        group.success_count,
        group.fail_count,
        group.skip_count,
        group.running_count,
        edges.state_of(group),
    )
