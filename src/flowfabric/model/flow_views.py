"""What readers of flows get: snapshots, listings and summaries."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.flow import EdgePolicy


class EdgeGroupSnapshot(Struct, frozen=True):
    downstream_execution_id: ExecutionId
    policy: EdgePolicy
    total_deps: int
    satisfied_count: int
    failed_count: int
    skipped_count: int
    running_count: int
    group_state: str


class FlowSnapshot(Struct, frozen=True):
    flow_id: UUID
    flow_kind: str
    namespace: str
    public_flow_state: str
    graph_revision: int
    node_count: int
    edge_count: int
    created_at: int
    last_mutation_at: int
    cancelled_at: int | None
    cancel_reason: str | None
    cancellation_policy: str | None
    tags: dict[str, str]
    edge_groups: list[EdgeGroupSnapshot]


class FlowStatus(StrEnum):
    ACTIVE = "Active"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    UNKNOWN = "Unknown"


class FlowListed(Struct, frozen=True):
    flow_id: UUID
    created_at: int
    status: FlowStatus


class EdgeSnapshot(Struct, frozen=True):
    edge_id: UUID
    flow_id: UUID
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: str
    satisfaction_condition: str
    data_passing_ref: str | None
    edge_state: str
    created_at: int
    created_by: str


class Outgoing(Struct, frozen=True, tag=True):
    from_node: ExecutionId


class Incoming(Struct, frozen=True, tag=True):
    """Edges that arrive at this node."""

    to_node: ExecutionId


class FlowSummary(Struct, frozen=True):
    """A row of `ff_flow_summary`: members by state, and the state of the flow."""

    partition_key: int
    flow_id: UUID
    total_members: int
    sampled_members: int
    members_completed: int
    members_failed: int
    members_cancelled: int
    members_expired: int
    members_skipped: int
    members_active: int
    members_suspended: int
    members_waiting: int
    members_delayed: int
    members_rate_limited: int
    members_waiting_children: int
    public_flow_state: str
    last_summary_update_at: int
