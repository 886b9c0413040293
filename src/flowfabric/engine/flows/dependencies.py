"""Dependencies between members of a flow: applying edges, waiting, and repair after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.filters import checked_filter, passes
from flowfabric.engine.flows.snapshots import MEMBER_COLUMNS, load_flow, partition_for
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row, load_all
from flowfabric.errors import EngineError, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import (
    MAX_GRAPH_EDGES,
    AlreadyApplied,
    ApplyDependencyArgs,
    Cascaded,
    DependencyApplied,
    Edge,
    EdgeGroup,
    Flow,
    Resolved,
    ResolveDependencyArgs,
)
from flowfabric.model.flow_links import Member
from flowfabric.model.lease import EndArgs, Handle
from flowfabric.plan import Applied
from flowfabric.rules.decision import Decision, Snapshot
from flowfabric.rules.fence import check_fence
from flowfabric.rules.flows import edges
from flowfabric.rules.flows import wait_children as children
from flowfabric.rules.flows.edges import ApplySnapshot, Child
from flowfabric.rules.flows.flows import counted_as, passes_data
from flowfabric.rules.leases import attempts
from flowfabric.store.port import Get, GetAll, Scan, ScanAll

MAX_EVENTS = 1_000
MAX_BLOCKED = 500
DISPATCH_GRACE_MS = 1_000
Position = tuple[int, UUID]


class _Blocked(Struct, frozen=True):
    """An execution that is blocked by dependencies."""

    partition_key: int
    execution_id: UUID
    last_transition_at: int
    flow_id: UUID | None

    @property
    def id(self) -> ExecutionId:
        return ExecutionId.of(self.partition_key, self.execution_id)


class Dependencies:
    """Applies and resolves edges, parks and promotes executions, and repairs flows."""

    def __init__(self, core: Core, leases: LeaseCache) -> None:
        self._core, self._store, self._leases = core, core.store, leases

    async def apply_dependency_to_child(
        self, args: ApplyDependencyArgs
    ) -> DependencyApplied | AlreadyApplied:
        """Applies a staged edge: from now on the child waits for its upstream."""
        up = execution_id(args.upstream_execution_id, "upstream_execution_id")
        down = execution_id(args.downstream_execution_id, "downstream_execution_id")
        flow, edge = validation.flow_id(args.flow_id), validation.flow_id(args.edge_id, "edge_id")
        validation.optional_timestamp(args.now, "now")
        checked = structs.replace(
            args,
            flow_id=flow,
            edge_id=edge,
            upstream_execution_id=up,
            downstream_execution_id=down,
        )
        async with self._core.locks.of(("group", down)):
            result: DependencyApplied | AlreadyApplied = await self._core.run(
                lambda: self._load(flow, edge, down),
                lambda snapshot: edges.apply(snapshot, checked),
            )
        if isinstance(result, DependencyApplied):
            # The upstream may have ended before this edge was stored.
            await self._core.cascade.ended((up,))
        return result

    async def _load(self, flow_id: UUID, edge: UUID, down: ExecutionId) -> ApplySnapshot:
        partition = partition_for(await load_flow(self._store, flow_id), flow_id)
        reads = (
            Get("ff_flow_core", (partition, flow_id)),
            Get("ff_edge", (partition, flow_id, edge)),
            Get("ff_edge_group", (partition, flow_id, down.uuid)),
            Get("ff_exec_core", (down.partition_index, down.uuid), MEMBER_COLUMNS),
        )
        loaded = await self._store.load(reads)
        flows, staged, groups, members = loaded.rows
        return ApplySnapshot(
            loaded.now_ms,
            partition,
            next(starmap(Flow, flows), None),
            next(starmap(Edge, staged), None),
            next(starmap(EdgeGroup, groups), None),
            next(starmap(Member, members), None),
        )

    async def resolve_dependency(self, args: ResolveDependencyArgs) -> Resolved:
        """Counts the end of an upstream for one edge. The cascade does so for all edges."""
        execution_id(args.upstream_execution_id, "upstream_execution_id")
        down = execution_id(args.downstream_execution_id, "downstream_execution_id")
        flow = validation.flow_id(args.flow_id)
        edge_id = validation.flow_id(args.edge_id, "edge_id")
        validation.text(args.upstream_outcome, "upstream_outcome")
        tries = 0
        while True:
            snapshot = await self._load(flow, edge_id, down)
            resolved = await self._resolve(snapshot, down, args.upstream_outcome)
            if resolved is not None:
                return resolved
            tries += 1
            await self._core.pause(tries)

    async def _resolve(
        self, snapshot: ApplySnapshot, down: ExecutionId, outcome: str
    ) -> Resolved | None:
        """None when the group changed meanwhile."""
        edge, group, child = snapshot.edge, snapshot.group, snapshot.child
        is_applied = edge is not None and edge.applied_at_ms is not None
        if edge is None or group is None or not is_applied or edge.downstream_eid != down.uuid:
            raise ValidationError(
                ValidationKind.INVALID_DEPENDENCY, "there is no applied edge with this edge_id"
            )
        if not edge.is_open:
            return Resolved("already_resolved", group.group_state)
        end = await self._end_of(edge, outcome)
        counted = edges.count_ends(group, (end,), snapshot.now_ms)
        cascade = self._core.cascade
        siblings = await cascade.members.siblings(group, counted.by) if counted.cancels else []
        plans = edges.resolve_group(
            counted, child, snapshot.now_ms, since=group.version, siblings=siblings
        )
        if not isinstance(await self._core.commit_together(plans), Applied):
            return None
        if counted.cancels:
            await cascade.end_siblings(counted.group)
        return Resolved(
            "satisfied" if end.outcome == "success" else "impossible",
            counted.group.group_state,
            counted.gives and child is not None and not child.is_ended,
            any(plan.form.ends for plan in plans),
        )

    async def _end_of(self, edge: Edge, outcome: str) -> edges.UpstreamEnd:
        if outcome != "success" or not passes_data(edge):
            return edges.UpstreamEnd(edge.edge_id, edge.upstream_eid, counted_as(edge, outcome))
        read = Get("ff_exec_core", (edge.partition_key, edge.upstream_eid), ("result",))
        (rows,) = (await self._store.load((read,))).rows
        result = next((data for (data,) in rows), None)
        return edges.UpstreamEnd(edge.edge_id, edge.upstream_eid, outcome, True, result)

    async def cascade_completion(self, execution: ExecutionId) -> Cascaded:
        """Counts an ended execution for every member that waits for it. It may be called again."""
        return await self._core.cascade.ended((execution_id(execution),))

    # ---- the downstream member

    async def wait_children(self, handle: Handle) -> None:
        """Parks the holder's attempt until its upstreams have ended.

        The same attempt continues after that.
        """
        fields = self._leases.fields(handle)
        await self._core.decide(
            fields.execution_id,
            lambda snapshot: children.wait_children(snapshot, fields),
            attempt_index=fields.attempt_index,
            groups=True,
        )
        self._leases.forget(handle)

    async def move_to_waiting_children(self, args: EndArgs) -> None:
        """As `wait_children`, for callers that name the lease instead of a handle."""

        def rule(snapshot: Snapshot) -> Decision:
            refused = check_fence(snapshot, args.fence, args.attempt_index, args.source)
            if refused is not None:
                return refused
            assert snapshot.execution is not None
            return children.park(snapshot, attempts.holder(snapshot.execution, self._store.tag))

        await self._core.decide(execution_id(args.execution_id), rule, groups=True)

    async def evaluate_flow_eligibility(self, execution: ExecutionId) -> str:
        """Whether the dependencies of an execution let it run."""
        return edges.eligibility(await self._child(execution_id(execution)))

    async def promote_blocked_to_eligible(self, execution: ExecutionId) -> str:
        """Releases a blocked execution that has nothing left to wait for."""
        ident = execution_id(execution)
        result: str = await self._core.run(lambda: self._child(ident), edges.promote)
        return result

    async def _child(self, ident: ExecutionId) -> Child:
        flow = await self._core.snapshots.flow_of(ident)
        group_keys = [] if flow is None else [(ident.partition_index, flow, ident.uuid)]
        reads = (
            Get("ff_exec_core", (ident.partition_index, ident.uuid), MEMBER_COLUMNS),
            GetAll("ff_edge_group", group_keys),
        )
        loaded = await self._store.load(reads)
        members, groups = loaded.rows
        return Child(
            loaded.now_ms,
            next(starmap(Member, members), None),
            next(starmap(EdgeGroup, groups), None),
        )

    # ---- after a crash

    async def dispatch_completions(
        self, wanted: ScannerFilter | None = None, grace_ms: int = DISPATCH_GRACE_MS
    ) -> int:
        """Starts the cascade for completion events without a mark. Returns their number."""
        checked_filter(wanted)
        upto = await self._store.now_ms() - validation.timestamp(grace_ms, "grace_ms")
        columns = ("partition_key", "execution_id")
        scan = Scan("undispatched", upto=upto, limit=MAX_EVENTS, columns=columns)
        (keys,) = (await self._store.load((scan,))).rows
        if keys and wanted is not None and not wanted.empty:
            read = GetAll("ff_exec_core", keys, CORE_COLUMNS)
            (rows,) = (await self._store.load((read,))).rows
            chosen = {
                each.execution_id for each in map(from_core_row, rows) if passes(each, wanted)
            }
            keys = [(partition, uid) for partition, uid in keys if uid in chosen]
        if keys:
            await self._core.cascade.ended(list(starmap(ExecutionId.of, keys)))
        return len(keys)

    async def cancel_orphans(self, after: Position | None = None) -> tuple[int, Position | None]:
        """Cancels the members of a page of flows whose parent has ended.

        Returns the number of cancelled members, and the position of the next page.
        """
        scan = Scan("unsettled_flows", {}, after, limit=MAX_BLOCKED)
        flows = await load_all(self._store, scan, Flow)
        cascade = self._core.cascade
        orphans = await cascade.children.orphans(flow for flow in flows if flow.parent is not None)
        cancelled = await cascade.end_children(orphans)
        if len(flows) < MAX_BLOCKED:
            return len(cancelled), None
        last = flows[-1]
        return len(cancelled), (last.created_at_ms, last.flow_id)

    async def recheck_blocked(self, after: Position | None = None) -> tuple[int, Position | None]:
        """Resolves edges of ended upstreams for a page of blocked executions, and releases these.

        Returns the number of resolved edges and released executions, and the position of the next
        page.
        """
        scan = Scan("dependent", {}, after, limit=MAX_BLOCKED, columns=_Blocked.__struct_fields__)
        blocked = await load_all(self._store, scan, _Blocked)
        if not blocked:
            return 0, None
        upstreams, waiting = await self._inbound(blocked)
        read = GetAll("ff_exec_core", upstreams, MEMBER_COLUMNS)
        members = await load_all(self._store, read, Member)
        ended = [member.id for member in members if member.is_ended]
        done = (await self._core.cascade.ended(ended)).resolved if ended else 0
        for execution in blocked:
            if execution.execution_id not in waiting:
                try:
                    await self.promote_blocked_to_eligible(execution.id)
                except EngineError:
                    continue
                done += 1
        if len(blocked) < MAX_BLOCKED:
            return done, None
        last = blocked[-1]
        return done, (last.last_transition_at, last.execution_id)

    async def _inbound(
        self, blocked: Sequence[_Blocked]
    ) -> tuple[list[tuple[int, UUID]], set[UUID]]:
        """The upstreams of unresolved inbound edges, and the executions whose group is waiting."""
        owners = [(each.partition_key, each.execution_id) for each in blocked]
        group_keys = [
            (each.partition_key, each.flow_id, each.execution_id)
            for each in blocked
            if each.flow_id is not None
        ]
        columns = ("partition_key", "upstream_eid", "dep_state")
        reads = (
            ScanAll("edges_in", owners, MAX_GRAPH_EDGES, columns),
            GetAll("ff_edge_group", group_keys),
        )
        inbound, groups = (await self._store.load(reads)).rows
        upstreams = {(partition, up) for partition, up, state in inbound if state == "unsatisfied"}
        waiting = {
            group.downstream_eid for group in starmap(EdgeGroup, groups) if edges.is_waiting(group)
        }
        return sorted(upstreams), waiting
