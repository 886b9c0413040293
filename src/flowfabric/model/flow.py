"""Flows, the edges between their members, and the groups that combine a member's inbound edges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow_links import Parent

MAX_GRAPH_NODES = 100_000
MAX_GRAPH_EDGES = 200_000
MAX_CYCLE_NODES = 1_000
MAX_QUORUM = 2**31 - 1
MAX_EDGE_TEXT_BYTES = 4_096
LONGEST_CANCEL_WAIT_MS = 300_000
SUCCESS_ONLY, ENDED = "success_only", "ended"
"""The end of its upstream that satisfies an edge: success (also for unknown kinds), or any end."""
LOST_JOIN = "sibling_quorum_satisfied"
"""The cancellation reason of an execution that a satisfied join no longer needs."""
TERMINAL_FLOW_STATES = ("cancelled", "completed", "failed", "terminal")


class OnSatisfied(StrEnum):
    """What happens to the siblings that have not ended when a group fires."""

    CANCEL_REMAINING = "cancel_remaining"
    LET_RUN = "let_run"


class EdgePolicy(Struct, frozen=True):
    """How the inbound edges of an execution combine: all of them, any one, or a quorum of k."""

    kind: str = "all_of"
    k: int = 0
    on_satisfied: str | None = None

    @classmethod
    def all_of(cls) -> EdgePolicy:
        return cls()

    @classmethod
    def any_of(cls, on_satisfied: OnSatisfied | str = OnSatisfied.CANCEL_REMAINING) -> EdgePolicy:
        return cls("any_of", 1, str(on_satisfied))

    @classmethod
    def quorum(
        cls, k: int, on_satisfied: OnSatisfied | str = OnSatisfied.CANCEL_REMAINING
    ) -> EdgePolicy:
        return cls("quorum", k, str(on_satisfied))

    @property
    def cancels(self) -> bool:
        """Whether siblings are cancelled when the group fires."""
        return self.kind != "all_of" and self.on_satisfied == OnSatisfied.CANCEL_REMAINING

    def encoded(self) -> str:
        fields: dict[str, object] = {"kind": self.kind}
        if self.kind == "quorum":
            fields["k"] = self.k
        if self.kind != "all_of":
            fields["on_satisfied"] = self.on_satisfied
        return json.dumps(fields, separators=(",", ":"))


@lru_cache(maxsize=1_024)
def stored_edge_policy(text: str) -> EdgePolicy:
    """An unknown policy reads as all_of."""
    try:
        fields = json.loads(text)
    except ValueError:
        fields = {}
    kind = fields.get("kind") if isinstance(fields, dict) else None
    if kind not in ("any_of", "quorum"):
        return EdgePolicy()
    on = fields.get("on_satisfied")
    on = on if on in tuple(OnSatisfied) else OnSatisfied.CANCEL_REMAINING.value
    k = fields.get("k", 1)
    return EdgePolicy(kind, 1 if kind == "any_of" or not isinstance(k, int) else k, on)


class Flow(Struct, frozen=True):
    """A row of `ff_flow_core`."""

    partition_key: int
    flow_id: UUID
    graph_revision: int
    public_flow_state: str
    created_at_ms: int
    terminal_at_ms: int | None
    version: int
    settled_at_ms: int | None
    parent_partition: int | None
    parent_execution_id: UUID | None
    raw_fields: str

    @property
    def is_terminal(self) -> bool:
        return self.public_flow_state in TERMINAL_FLOW_STATES

    @property
    def parent(self) -> ExecutionId | None:
        if self.parent_partition is None or self.parent_execution_id is None:
            return None
        return ExecutionId.of(self.parent_partition, self.parent_execution_id)


class Edge(Struct, frozen=True):
    """A row of `ff_edge`: `downstream_eid` waits for `upstream_eid`."""

    partition_key: int
    flow_id: UUID
    edge_id: UUID
    upstream_eid: UUID
    downstream_eid: UUID
    edge_state: str
    dep_state: str | None
    applied_at_ms: int | None
    last_resolved_at_ms: int | None
    reset_at_ms: int | None
    policy: str
    policy_version: int

    @property
    def is_open(self) -> bool:
        """Applied, and the end of its upstream is not counted yet."""
        return self.applied_at_ms is not None and self.dep_state == "unsatisfied"


class EdgeGroup(Struct, frozen=True):
    """A row of `ff_edge_group`: the inbound edges of one execution, counted."""

    partition_key: int
    flow_id: UUID
    downstream_eid: UUID
    policy: str
    k_target: int
    success_count: int
    fail_count: int
    skip_count: int
    running_count: int
    group_state: str
    satisfied_at_ms: int | None
    cancel_siblings_pending_flag: int
    cancel_siblings_pending_members: str
    cancel_siblings_reason: str | None
    version: int

    @property
    def total(self) -> int:
        """Inbound edges applied so far."""
        return self.success_count + self.fail_count + self.skip_count + self.running_count


class CreateFlowArgs(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    flow_kind: str = "dag"
    namespace: str = "default"
    now: int | None = None


class FlowCreated(Struct, frozen=True, tag=True):
    flow_id: UUID


class FlowAlreadyExists(Struct, frozen=True, tag=True):
    flow_id: UUID


class AddExecutionToFlowArgs(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    execution_id: ExecutionId
    now: int | None = None


class Added(Struct, frozen=True, tag=True):
    execution_id: ExecutionId
    new_node_count: int


class AlreadyMember(Struct, frozen=True, tag=True):
    execution_id: ExecutionId
    node_count: int


class _EdgeArgs(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    edge_id: UUID
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    now: int | None = None


class StageDependencyEdgeArgs(_EdgeArgs, frozen=True, kw_only=True):
    expected_graph_revision: int
    dependency_kind: str = SUCCESS_ONLY
    data_passing_ref: str | None = None


class Staged(Struct, frozen=True):
    edge_id: UUID
    new_graph_revision: int


class ApplyDependencyArgs(_EdgeArgs, frozen=True, kw_only=True):
    """`graph_revision`, kind and reference are ignored: those of the staged edge apply."""

    graph_revision: int = 0
    dependency_kind: str = SUCCESS_ONLY
    data_passing_ref: str | None = None


class DependencyApplied(Struct, frozen=True, tag=True):
    unsatisfied_count: int


class AlreadyApplied(Struct, frozen=True, tag=True):
    pass


class ResolveDependencyArgs(_EdgeArgs, frozen=True, kw_only=True):
    upstream_outcome: str


class Resolved(Struct, frozen=True):
    """`status` of the edge: satisfied, impossible or already_resolved; then its consequences."""

    status: str
    group_state: str = "pending"
    data_injected: bool = False
    child_skipped: bool = False


class Cascaded(Struct, frozen=True):
    """The number of edges resolved, and of children that ended in turn."""

    resolved: int = 0
    cascaded_children: int = 0
    synchronous: bool = True


class CancelFlowPolicy(StrEnum):
    FLOW_ONLY = "cancel_flow_only"
    CANCEL_ALL = "cancel_all"
    CANCEL_PENDING = "cancel_pending"


class CancelFlowArgs(Struct, frozen=True, kw_only=True):
    flow_id: UUID
    reason: str = ""
    cancellation_policy: str = CancelFlowPolicy.CANCEL_ALL.value
    now: int | None = None


class WaitTimeout(Struct, frozen=True):
    """How long to wait at most until a flow is cancelled."""

    timeout_ms: int


class Reconciled(Struct, frozen=True):
    """`action` is no_op, sremmed_stale or completed_drain."""

    action: str
    detail: str = ""


class FlowCancelled(Struct, frozen=True, tag=True):
    """The listed members were cancelled by this call."""

    cancellation_policy: str
    member_execution_ids: list[ExecutionId]


class PartiallyCancelled(FlowCancelled, frozen=True, tag=True):
    """The flow is cancelled. The failed members stay in its backlog, for the reconciler."""

    failed_member_execution_ids: list[ExecutionId]


class FlowAlreadyTerminal(Struct, frozen=True, tag=True):
    stored_cancellation_policy: str | None
    stored_cancel_reason: str | None
    member_execution_ids: list[ExecutionId]


class GraphEdge(Struct, frozen=True, gc=False):
    """`downstream` waits for `upstream`. `data_passing_ref`: the result becomes the input."""

    upstream: ExecutionId
    downstream: ExecutionId
    data_passing_ref: str | None = None
    dependency_kind: str = SUCCESS_ONLY
    edge_id: UUID | None = None


class SubmitFlowArgs(Struct, frozen=True, kw_only=True):
    """Nodes, edges, and the policies of nodes whose policy is not all_of."""

    flow_id: UUID
    nodes: Sequence[CreateExecutionArgs]
    edges: Sequence[GraphEdge] = ()
    policies: Mapping[ExecutionId, EdgePolicy] = {}
    flow_kind: str = "dag"
    namespace: str = "default"
    tags: Mapping[str, str] = {}
    now: int | None = None
    parent: Parent | None = None


class FlowSubmitted(Struct, frozen=True, tag=True):
    flow_id: UUID
    graph_revision: int
    node_count: int
    edge_count: int
