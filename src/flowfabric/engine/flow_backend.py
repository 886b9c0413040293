"""The documented protocol, the part about flows."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import Page
from flowfabric.model.flow import (
    Added,
    AddExecutionToFlowArgs,
    AlreadyApplied,
    AlreadyMember,
    ApplyDependencyArgs,
    CancelFlowArgs,
    CancelFlowPolicy,
    Cascaded,
    CreateFlowArgs,
    DependencyApplied,
    Edge,
    EdgePolicy,
    Flow,
    FlowAlreadyExists,
    FlowAlreadyTerminal,
    FlowCancelled,
    FlowCreated,
    FlowSubmitted,
    PartiallyCancelled,
    Reconciled,
    Resolved,
    ResolveDependencyArgs,
    Staged,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
    WaitTimeout,
)
from flowfabric.model.flow_links import Member
from flowfabric.model.flow_views import (
    EdgeSnapshot,
    FlowListed,
    FlowSnapshot,
    FlowSummary,
    Incoming,
    Outgoing,
)
from flowfabric.model.lease import EndArgs, Handle


class FlowBackend(Protocol):
    # ---- building

    async def create_flow(self, args: CreateFlowArgs) -> FlowCreated | FlowAlreadyExists:
        """An empty flow. Creating it again writes nothing, whatever else is said about it then."""

    async def submit_flow(self, args: SubmitFlowArgs) -> FlowSubmitted | FlowAlreadyExists:
        """A flow with all its members, edges and policies, or nothing of it. The same graph again answers that it is there."""

    async def add_execution_to_flow(self, args: AddExecutionToFlowArgs) -> Added | AlreadyMember:
        """Makes an execution a member of a flow; it cannot be taken out again."""

    async def stage_dependency_edge(self, args: StageDependencyEdgeArgs) -> Staged:
        """Records that one member waits for another. It takes effect when it is applied."""

    async def set_edge_group_policy(
        self, flow_id: UUID, downstream_execution_id: ExecutionId, policy: EdgePolicy
    ) -> str:
        """How the inbound edges of one member combine; before the first of them is staged. Set or AlreadySet."""

    async def apply_dependency_to_child(
        self, args: ApplyDependencyArgs
    ) -> DependencyApplied | AlreadyApplied:
        """A staged edge takes effect: from now on the child waits for its upstream."""

    async def set_flow_tag(self, flow_id: UUID, key: str, value: str) -> None: ...

    async def get_flow_tag(self, flow_id: UUID, key: str) -> str | None: ...

    # ---- dependencies

    async def resolve_dependency(self, args: ResolveDependencyArgs) -> Resolved:
        """Counts one upstream's end for one edge. The engine does this by itself; here is the same by hand."""

    async def cascade_completion(self, execution: ExecutionId) -> Cascaded:
        """Counts an ended execution for everything that waits for it. Again is fine."""

    async def wait_children(self, handle: Handle) -> None:
        """Parks the holder's attempt until the executions it depends on are over; the same attempt goes on then."""

    async def move_to_waiting_children(self, args: EndArgs) -> None:
        """As `wait_children`, for callers who name the lease instead of holding a handle."""

    async def evaluate_flow_eligibility(self, execution: ExecutionId) -> str:
        """Whether it could run now as far as its dependencies go, in a word."""

    async def promote_blocked_to_eligible(self, execution: ExecutionId) -> str:
        """Lets go of an execution that has nothing left to wait for."""

    # ---- cancelling

    async def cancel_flow(
        self,
        flow_id: UUID,
        policy: CancelFlowPolicy | str = CancelFlowPolicy.CANCEL_ALL,
        wait: WaitTimeout | None = None,
    ) -> FlowCancelled | PartiallyCancelled:
        """Cancels a flow and, as the policy says, its members. Doing it again sweeps up what has come since."""

    async def cancel_flow_header(
        self, args: CancelFlowArgs
    ) -> FlowCancelled | PartiallyCancelled | FlowAlreadyTerminal:
        """Cancels a flow as an operator's request, with its reason, and remembers which members are owed an answer."""

    async def ack_cancel_member(self, flow_id: UUID, execution: ExecutionId) -> None:
        """A member that was owed a cancel has had it. Again is fine."""

    async def drain_sibling_cancel_group(self, flow_id: UUID, downstream: UUID) -> str:
        """Takes a group off the queue of those whose siblings are to be cancelled."""

    async def reconcile_sibling_cancel_group(self, flow_id: UUID, downstream: UUID) -> Reconciled:
        """Tidies what a dispatcher left behind; never cancels anything."""

    # ---- reading

    async def get_flow_namespace(self, flow_id: UUID) -> str | None:
        """The namespace of a flow, or None if there is no such flow."""

    async def describe_flow(self, flow_id: UUID) -> FlowSnapshot | None:
        """The flow as it is decided; what its members add up to is in its summary."""

    async def flow_members(self, flow_id: UUID) -> list[Member]:
        """Every member with its state."""

    async def flow_edges(self, flow_id: UUID) -> list[Edge]:
        """Every edge of a flow, with how far it is."""

    async def list_flows(
        self, partition: int | str, cursor: UUID | None = None, limit: int = 100
    ) -> Page[FlowListed]:
        """Flows of a partition by id, whatever their state."""

    async def list_edges(self, flow_id: UUID, direction: Outgoing | Incoming) -> list[EdgeSnapshot]:
        """The edges that leave or enter one member."""

    async def describe_edge(self, flow_id: UUID, edge_id: UUID) -> EdgeSnapshot | None: ...

    async def resolve_execution_flow_id(self, execution: ExecutionId) -> UUID | None: ...

    async def project_flow_summary(self, flow_id: UUID, *, now: int | None = None) -> bool:
        """Counts the members by state and stores that; whether there was anything to store."""

    async def read_flow_summary(self, flow_id: UUID) -> FlowSummary | None:
        """The last summary that was projected."""

    # ---- what the loops call

    async def unsettled_flows(self, after: tuple[int, UUID] | None, limit: int) -> list[Flow]:
        """Flows with members that may still move, oldest first."""

    async def dispatch_completions(
        self, wanted: ScannerFilter | None = None, grace_ms: int = 1_000
    ) -> int:
        """Completion events of flow members whose consequences nobody saw to; how many."""

    async def cancel_orphans(
        self, after: tuple[int, UUID] | None = None
    ) -> tuple[int, tuple[int, UUID] | None]:
        """A page of flows whose parent has ended: their members are cancelled; how many, and where the next page begins."""

    async def recheck_blocked(
        self, after: tuple[int, UUID] | None = None
    ) -> tuple[int, tuple[int, UUID] | None]:
        """A page of blocked executions that may wait for what is over; how many went on, and where the next page begins."""

    async def dispatch_sibling_cancels(
        self, limit: int = 50, wanted: ScannerFilter | None = None
    ) -> dict[str, int]:
        """Groups that have fired cancel whom they listed; how many groups met which fate."""

    async def reconcile_sibling_cancels(
        self, limit: int = 50, wanted: ScannerFilter | None = None
    ) -> int:
        """A pass over the queue; how many groups were taken off it."""

    async def reconcile_cancel_backlog(
        self, limit: int = 50, wanted: ScannerFilter | None = None
    ) -> int:
        """Finishes cancels that somebody began; how many members were seen to."""
