"""Dependencies as operations: applying an edge, counting an end by hand, waiting for children, repairing what a crash left."""

from __future__ import annotations

from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.core import CORE_COLUMNS, from_core_row
from flowfabric.engine.filters import checked_filter, passes
from flowfabric.engine.flows.build import FlowBuilds
from flowfabric.engine.flows.cascade import MEMBER_COLUMNS
from flowfabric.errors import EngineError, ValidationError, ValidationKind
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, execution_id, partition_of
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import Replayed, ReplayExecutionArgs
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
from flowfabric.model.state import PublicState
from flowfabric.plan import Applied
from flowfabric.rules.decision import Decision, Snapshot
from flowfabric.rules.executions import replay
from flowfabric.rules.fence import check_fence
from flowfabric.rules.flows import edges
from flowfabric.rules.flows import wait_children as children
from flowfabric.rules.flows.edges import ApplySnapshot, Child
from flowfabric.rules.flows.flows import counted_as, passes_data
from flowfabric.rules.leases import attempts
from flowfabric.store.port import Get, GetAll, Read, Scan, ScanAll

MAX_EVENTS = 1_000
MAX_BLOCKED = 500
DISPATCH_GRACE_MS = 1_000


class Dependencies(FlowBuilds):
    async def apply_dependency_to_child(
        self, args: ApplyDependencyArgs
    ) -> DependencyApplied | AlreadyApplied:
        """A staged edge takes effect: from now on the child waits for its upstream."""
        up = execution_id(args.upstream_execution_id, "upstream_execution_id")
        down = execution_id(args.downstream_execution_id, "downstream_execution_id")
        flow, edge = validation.flow_id(args.flow_id), validation.flow_id(args.edge_id, "edge_id")
        validation.optional_timestamp(args.now, "now")
        ids = {
            "flow_id": flow,
            "edge_id": edge,
            "upstream_execution_id": up,
            "downstream_execution_id": down,
        }
        said = structs.replace(args, **ids)
        async with self._turns.of(("group", down)):
            result: DependencyApplied | AlreadyApplied = await self.settle(
                lambda: self._applying(flow, edge, down), lambda around: edges.apply(around, said)
            )
        if isinstance(result, DependencyApplied):
            await self._cascade.ended(
                (up,)
            )  # it may have ended already, and whoever ended it did not know of this edge
        return result

    async def _applying(self, flow_id: UUID, edge: UUID, down: ExecutionId) -> ApplySnapshot:
        flow = await self._flow(flow_id)
        partition = (
            flow.partition_key if flow is not None else partition_of(flow_id, FLOW_PARTITIONS)
        )
        reads: list[Read] = [
            Get("ff_flow_core", (partition, flow_id)),
            Get("ff_edge", (partition, flow_id, edge)),
            Get("ff_edge_group", (partition, flow_id, down.uuid)),
            Get("ff_exec_core", (down.partition_index, down.uuid), MEMBER_COLUMNS),
        ]
        loaded = await self.store.load(reads)
        flows, staged, groups, members = loaded.rows
        return ApplySnapshot(
            loaded.now_ms,
            partition,
            Flow(*flows[0]) if flows else None,
            Edge(*staged[0]) if staged else None,
            EdgeGroup(*groups[0]) if groups else None,
            Member(*members[0]) if members else None,
        )

    async def resolve_dependency(self, args: ResolveDependencyArgs) -> Resolved:
        """Counts one upstream's end for one edge. The engine does this by itself; here is the same by hand."""
        execution_id(args.upstream_execution_id, "upstream_execution_id")
        down = execution_id(args.downstream_execution_id, "downstream_execution_id")
        flow, edge_id = (
            validation.flow_id(args.flow_id),
            validation.flow_id(args.edge_id, "edge_id"),
        )
        validation.text(args.upstream_outcome, "upstream_outcome")
        tries = 0
        while True:
            around = await self._applying(flow, edge_id, down)
            edge, group, child = around.edge, around.group, around.child
            if (
                edge is None
                or edge.applied_at_ms is None
                or group is None
                or edge.downstream_eid != down.uuid
            ):
                raise ValidationError(
                    ValidationKind.INVALID_DEPENDENCY, "no applied edge of that name"
                )
            if not edge.is_open:
                return Resolved("already_resolved", group.group_state)
            end = await self._end_of(edge, args.upstream_outcome)
            counted = edges.count_ends(group, (end,), around.now_ms)
            siblings = await self._cascade.siblings(group, counted.by) if counted.cancels else []
            plans = edges.resolve_group(
                counted, child, around.now_ms, since=group.version, siblings=siblings
            )
            if isinstance(await self.store.commit_together(plans), Applied):
                break
            tries += 1
            await self._pause(tries)
        skipped = any(plan.form.ends for plan in plans)
        if counted.cancels:
            await self._cascade.ended(await self._cascade.cancel_siblings(counted.group))
        if skipped:
            await self._cascade.ended((down,))
        status = "satisfied" if end.outcome == "success" else "impossible"
        given = counted.gives and child is not None and not child.is_ended
        return Resolved(status, counted.group.group_state, given, skipped)

    async def _end_of(self, edge: Edge, outcome: str) -> edges.UpstreamEnd:
        passes = outcome == "success" and passes_data(edge)
        if not passes:
            return edges.UpstreamEnd(edge.edge_id, edge.upstream_eid, counted_as(edge, outcome))
        rows = (
            await self.store.load(
                (Get("ff_exec_core", (edge.partition_key, edge.upstream_eid), ("result",)),)
            )
        ).rows[0]
        return edges.UpstreamEnd(
            edge.edge_id, edge.upstream_eid, outcome, True, rows[0][0] if rows else None
        )

    async def cascade_completion(self, execution: ExecutionId) -> Cascaded:
        """Counts an ended execution for everything that waits for it. Again is fine."""
        return await self._cascade.ended((execution_id(execution),))

    # ---- the child's side

    async def wait_children(self, handle: Handle) -> None:
        """Parks the holder's attempt until the executions it depends on are over; the same attempt goes on then."""
        fields = self.fields(handle)
        await self.settle(
            lambda: self.snapshot(
                fields.execution_id, attempt_index=fields.attempt_index, groups=True
            ),
            lambda snapshot: children.wait_children(snapshot, fields),
        )
        self.forget(handle)

    async def move_to_waiting_children(self, args: EndArgs) -> None:
        """As `wait_children`, for callers who name the lease instead of holding a handle."""

        def rule(snapshot: Snapshot) -> Decision:
            refused = check_fence(snapshot, args.fence, args.attempt_index, args.source)
            if refused is not None:
                return refused
            assert snapshot.execution is not None
            return children.park(snapshot, attempts.holder(snapshot.execution, self.store.tag))

        await self.decide(execution_id(args.execution_id), rule, groups=True)

    async def evaluate_flow_eligibility(self, execution: ExecutionId) -> str:
        """Whether it could run now as far as its dependencies go, in a word."""
        return edges.eligibility(await self._child(execution_id(execution)))

    async def promote_blocked_to_eligible(self, execution: ExecutionId) -> str:
        """Lets go of an execution that has nothing left to wait for."""
        ident = execution_id(execution)
        result: str = await self.settle(lambda: self._child(ident), edges.promote)
        return result

    async def _child(self, ident: ExecutionId) -> Child:
        flow = await self._flow_of(ident)
        inbound = GetAll(
            "ff_edge_group", [] if flow is None else [(ident.partition_index, flow, ident.uuid)]
        )
        loaded = await self.store.load(
            (Get("ff_exec_core", (ident.partition_index, ident.uuid), MEMBER_COLUMNS), inbound)
        )
        members, groups = loaded.rows
        return Child(
            loaded.now_ms,
            Member(*members[0]) if members else None,
            EdgeGroup(*groups[0]) if groups else None,
        )

    async def replay_execution(self, args: ReplayExecutionArgs) -> Replayed:
        """Starts an ended execution again, as a new generation; a skipped member of a flow waits for its upstreams again."""
        ident = execution_id(args.execution_id)
        refused = replay.check_upstreams(*await self._upstreams(ident))
        if refused is not None:
            raise refused
        replayed = await super().replay_execution(args)
        if replayed.public_state is PublicState.WAITING_CHILDREN:
            await self._look_again(ident)
        return replayed

    async def _upstreams(self, ident: ExecutionId) -> tuple[list[UUID], set[UUID]]:
        """What a member comes after, and what of it is kept. Edges without a flow have no upstreams to be removed."""
        owner = (ident.partition_index, ident.uuid)
        rows = (await self.store.load((ScanAll("edges_in", [owner], MAX_GRAPH_EDGES),))).rows[0]
        found = [Edge(*row) for row in rows]
        if not found:
            return [], set()
        wanted = [edge.upstream_eid for edge in found]
        upstreams = GetAll(
            "ff_exec_core", [(ident.partition_index, each) for each in wanted], ("execution_id",)
        )
        flow = Get("ff_flow_core", (ident.partition_index, found[0].flow_id), ("flow_id",))
        kept, header = (await self.store.load((upstreams, flow))).rows
        return (wanted if header else []), {row[0] for row in kept}

    async def _look_again(self, ident: ExecutionId) -> None:
        """What a blocked execution waits for may be over already; then it waits for nothing."""
        owner = (ident.partition_index, ident.uuid)
        rows = (await self.store.load((ScanAll("edges_in", [owner], MAX_GRAPH_EDGES),))).rows[0]
        waiting = [edge for edge in (Edge(*row) for row in rows) if edge.is_open]
        if waiting:
            await self._cascade.ended(
                [ExecutionId.of(ident.partition_index, edge.upstream_eid) for edge in waiting]
            )
        try:
            await self.promote_blocked_to_eligible(ident)
        except EngineError:
            return  # it waits for somebody, or has gone on

    # ---- after a crash

    async def dispatch_completions(
        self, wanted: ScannerFilter | None = None, grace_ms: int = DISPATCH_GRACE_MS
    ) -> int:
        """Completion events of flow members whose consequences nobody saw to; how many."""
        checked_filter(wanted)
        upto = await self.store.now_ms() - validation.timestamp(grace_ms, "grace_ms")
        columns = ("partition_key", "execution_id")
        rows = (
            await self.store.load(
                (Scan("undispatched", upto=upto, limit=MAX_EVENTS, columns=columns),)
            )
        ).rows[0]
        if rows and wanted is not None and not wanted.empty:
            found = (await self.store.load((GetAll("ff_exec_core", rows, CORE_COLUMNS),))).rows[0]
            chosen = {
                each.execution_id for each in map(from_core_row, found) if passes(each, wanted)
            }
            rows = [row for row in rows if row[1] in chosen]
        if rows:
            await self._cascade.ended([ExecutionId.of(row[0], row[1]) for row in rows])
        return len(rows)

    async def cancel_orphans(
        self, after: tuple[int, UUID] | None = None
    ) -> tuple[int, tuple[int, UUID] | None]:
        """A page of flows whose parent has ended: their members are cancelled; how many, and where the next page begins."""
        flows = await self.unsettled_flows(after, MAX_BLOCKED)
        orphans = await self._cascade.children.orphans(
            [flow for flow in flows if flow.parent is not None]
        )
        cancelled = await self._cascade.children.cancel(orphans)
        if cancelled:
            await self._cascade.ended(cancelled)
        return len(cancelled), (flows[-1].created_at_ms, flows[-1].flow_id) if len(
            flows
        ) == MAX_BLOCKED else None

    async def recheck_blocked(
        self, after: tuple[int, UUID] | None = None
    ) -> tuple[int, tuple[int, UUID] | None]:
        """A page of blocked executions that may wait for what is over; how many went on, and where the next page begins."""
        columns = ("partition_key", "execution_id", "last_transition_at", "flow_id")
        rows = (
            await self.store.load(
                (Scan("dependent", {}, after, limit=MAX_BLOCKED, columns=columns),)
            )
        ).rows[0]
        if not rows:
            return 0, None
        owners = [(row[0], row[1]) for row in rows]
        groups = GetAll(
            "ff_edge_group", [(row[0], row[3], row[1]) for row in rows if row[3] is not None]
        )
        inbound = ScanAll(
            "edges_in", owners, MAX_GRAPH_EDGES, ("partition_key", "upstream_eid", "dep_state")
        )
        found = (await self.store.load((inbound, groups))).rows
        ups = sorted({row[:2] for row in found[0] if row[2] == "unsatisfied"})
        members = (await self.store.load((GetAll("ff_exec_core", ups, MEMBER_COLUMNS),))).rows[0]
        over = [member.id for member in (Member(*row) for row in members) if member.is_ended]
        cascaded = await self._cascade.ended(over) if over else Cascaded()
        done = cascaded.resolved
        held = {
            group.downstream_eid
            for group in (EdgeGroup(*row) for row in found[1])
            if edges.is_waiting(group)
        }
        for partition, uid in owners:
            if uid not in held:
                try:
                    await self.promote_blocked_to_eligible(ExecutionId.of(partition, uid))
                except EngineError:
                    continue
                done += 1
        last = rows[-1]
        return done, (last[2], last[1]) if len(rows) == MAX_BLOCKED else None
