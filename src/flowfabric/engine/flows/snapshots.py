"""Typed loaders of flows, their members, edges and edge groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import starmap
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine.snapshots import load_all, load_one
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import MAX_GRAPH_EDGES, Edge, EdgeGroup, Flow
from flowfabric.model.flow_links import Member
from flowfabric.model.state import ENDED_PHASES
from flowfabric.rules.flows.flow_fields import namespace_of
from flowfabric.rules.flows.flows import GraphSnapshot
from flowfabric.store.port import Get, GetAll, Read, Scan, ScanAll, Store

MAX_PAGE = 1_000
MEMBER_COLUMNS = Member.__struct_fields__
GroupKey = tuple[int, UUID, UUID]
FlowKey = tuple[int, UUID]
T = TypeVar("T")


class MemberPhase(Struct, frozen=True, gc=False):
    """An execution and whether it has ended."""

    execution_id: UUID
    lifecycle_phase: str

    @property
    def is_ended(self) -> bool:
        return self.lifecycle_phase in ENDED_PHASES


PHASE_COLUMNS = MemberPhase.__struct_fields__


class QueuedGroup(Struct, frozen=True):
    """A row of `ff_pending_cancel_groups`."""

    partition_key: int
    flow_id: UUID
    downstream_eid: UUID

    @property
    def key(self) -> GroupKey:
        return self.partition_key, self.flow_id, self.downstream_eid


class Backlog(Struct, frozen=True):
    """A flow with members whose cancel is pending: columns of `ff_cancel_backlog`."""

    partition_key: int
    flow_id: UUID
    reason: str
    cancellation_policy: str
    status: str


class BacklogMember(Struct, frozen=True):
    """A row of `ff_cancel_backlog_member`."""

    partition_key: int
    flow_id: UUID
    execution_id: str


Scanned = TypeVar("Scanned", QueuedGroup, Backlog)


def owner_of(flow: Flow) -> dict[str, Any]:
    """The index group of a flow's rows."""
    return {"partition_key": flow.partition_key, "flow_id": flow.flow_id}


def group_key(row: Edge | EdgeGroup) -> GroupKey:
    return row.partition_key, row.flow_id, row.downstream_eid


def partition_for(flow: Flow | None, flow_id: UUID) -> int:
    return partition_of(flow_id, FLOW_PARTITIONS) if flow is None else flow.partition_key


async def load_flow(store: Store, flow_id: UUID) -> Flow | None:
    """A flow is in the partition of its id; a row inserted by hand may be in partition 0."""
    keys = [(partition, flow_id) for partition in {partition_of(flow_id, FLOW_PARTITIONS), 0}]
    return await load_one(store, GetAll("ff_flow_core", keys), Flow)


async def load_pages(
    store: Store, scan: Scan, kind: Callable[..., T], position: Callable[[T], tuple[Any, ...]]
) -> list[T]:
    """All rows of a scan, one page of its limit after the other."""
    return [row async for page in pages(store, scan, kind, position) for row in page]


async def pages(
    store: Store, scan: Scan, kind: Callable[..., T], position: Callable[[T], tuple[Any, ...]]
) -> AsyncIterator[list[T]]:
    """The pages of a scan that are not empty."""
    while True:
        page = await load_all(store, scan, kind)
        if page:
            yield page
        if len(page) < scan.limit:
            return
        scan = structs.replace(scan, after=position(page[-1]))


async def load_members(store: Store, flow: Flow) -> list[Member]:
    scan = Scan("members", owner_of(flow), limit=MAX_PAGE, columns=MEMBER_COLUMNS)
    return await load_pages(store, scan, Member, lambda member: (member.execution_id,))


async def load_groups(store: Store, flow: Flow) -> list[EdgeGroup]:
    scan = Scan("groups_of_flow", owner_of(flow), limit=MAX_PAGE)
    return await load_pages(store, scan, EdgeGroup, lambda group: (group.downstream_eid,))


async def load_edges(store: Store, index: str, group: dict[str, Any]) -> list[Edge]:
    scan = Scan(index, group, limit=MAX_PAGE)
    return await load_pages(store, scan, Edge, lambda edge: (edge.edge_id,))


async def load_inbound_edges(store: Store, ident: ExecutionId) -> list[Edge]:
    owner = (ident.partition_index, ident.uuid)
    return await load_all(store, ScanAll("edges_in", [owner], MAX_GRAPH_EDGES), Edge)


async def load_backlog_members(store: Store, flow: Flow) -> list[BacklogMember]:
    scan = Scan("cancel_backlog_members", owner_of(flow), limit=MAX_PAGE)
    return await load_pages(store, scan, BacklogMember, lambda member: (member.execution_id,))


async def of_wanted_flows(
    store: Store, rows: list[Scanned], wanted: ScannerFilter | None
) -> list[Scanned]:
    """The rows whose flow passes the filter. A flow has a namespace and no instance tag."""
    if wanted is None or wanted.empty or not rows:
        return rows
    if wanted.instance_tag is not None:
        return []
    keys = list(dict.fromkeys((row.partition_key, row.flow_id) for row in rows))
    flows = await load_all(store, GetAll("ff_flow_core", keys), Flow)
    namespaces = {(flow.partition_key, flow.flow_id): namespace_of(flow) for flow in flows}
    return [
        row for row in rows if namespaces.get((row.partition_key, row.flow_id)) == wanted.namespace
    ]


async def load_graph(
    store: Store,
    flow_id: UUID,
    *,
    members: tuple[ExecutionId, ...] = (),
    edge: UUID | None = None,
    group: ExecutionId | None = None,
) -> GraphSnapshot:
    """A flow with the members, the edge and the inbound group that a change concerns."""
    partition = partition_for(await load_flow(store, flow_id), flow_id)
    reads: list[Read] = [
        Get("ff_flow_core", (partition, flow_id)),
        GetAll("ff_exec_core", [(m.partition_index, m.uuid) for m in members], MEMBER_COLUMNS),
    ]
    if edge is not None:
        reads.append(Get("ff_edge", (partition, flow_id, edge)))
    if group is not None:
        inbound = {"partition_key": partition, "downstream_eid": group.uuid}
        reads.append(Get("ff_edge_group", (partition, flow_id, group.uuid)))
        reads.append(Scan("edges_in", inbound, limit=1))
    loaded = await store.load(reads)
    rows = iter(loaded.rows)
    return GraphSnapshot(
        loaded.now_ms,
        partition,
        next(starmap(Flow, next(rows)), None),
        {member.execution_id: member for member in starmap(Member, next(rows))},
        None if edge is None else next(starmap(Edge, next(rows)), None),
        None if group is None else next(starmap(EdgeGroup, next(rows)), None),
        has_edges=group is not None and bool(next(rows)),
    )
