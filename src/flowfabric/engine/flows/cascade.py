"""The cascade: the consequences of ended executions for flow members, children and parents.

It starts after the commit that ended an execution. Ends that arrive while it runs are handled
together in the next round. Every step can be repeated: after a crash the completion event has no
mark, and the reconciler starts the cascade again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import starmap
from uuid import UUID

from flowfabric.engine.batcher import Batcher
from flowfabric.engine.flows.child_flows import PARENT_ENDED, ChildFlows, Wake
from flowfabric.engine.flows.completion_marks import CompletionMarks
from flowfabric.engine.flows.edge_resolver import EdgeResolver, EndedUpstream, Resolution
from flowfabric.engine.flows.member_cancels import MemberCancels
from flowfabric.engine.flows.snapshots import group_key
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import MAX_GRAPH_EDGES, Cascaded, Edge, EdgeGroup, Flow
from flowfabric.model.flow_links import Upstream
from flowfabric.rules.flows import edges
from flowfabric.store.port import GetAll, ScanAll, Store

log = logging.getLogger("flowfabric.flows")

MAX_DEPTH = 50
MAX_ROUND = 500
MAX_BATCHES = 1
MAX_CALLS = 10_000
MAX_CHILD_FLOWS = 10_000


class Cascade:
    """Queues ended executions and handles them in rounds. One per engine."""

    def __init__(self, store: Store, wake: Wake, telemetry: TelemetrySlot) -> None:
        self._store = store
        self.members = MemberCancels(store, telemetry)
        self.children = ChildFlows(store, self._cancel_children, wake)
        self.resolver = EdgeResolver(store, self.members)
        self._marks = CompletionMarks(store)
        self._ends: Batcher[None, Sequence[ExecutionId], Cascaded] = Batcher(
            self._follow,
            MAX_CALLS,
            in_flight=MAX_BATCHES,
            keeps_cancelled=True,
            idle=self._marks.next_batch,
        )

    def ended(self, idents: Sequence[ExecutionId]) -> asyncio.Future[Cascaded]:
        """Handles the ends of these executions.

        The answer never fails: errors are logged and left to the reconciler.
        """
        return self._ends.submit(None, idents)

    async def end_members(
        self, partition: int, members: Iterable[UUID], reason: str, policy: str
    ) -> set[UUID]:
        """Cancels members and handles their ends; returns those that could not be cancelled."""
        cancelled, left = await self.members.cancel(partition, members, reason, policy=policy)
        await self._cancelled(cancelled)
        return left

    async def end_siblings(self, group: EdgeGroup) -> None:
        """Cancels the siblings that a fired group has listed."""
        await self._cancelled(await self.members.cancel_siblings(group))

    async def end_children(self, flows: Sequence[Flow]) -> list[ExecutionId]:
        """Cancels the members of flows whose parent has ended."""
        return await self._cancelled(await self.children.cancel(flows))

    async def _cancelled(self, idents: list[ExecutionId]) -> list[ExecutionId]:
        if idents:
            await self.ended(idents)
        return idents

    @property
    def is_behind(self) -> bool:
        """Whether the backlog is so long that callers must wait for it."""
        return self._ends.backlog(None) >= MAX_ROUND

    async def finish(self) -> None:
        """Waits until no end waits and no batch is in flight."""
        await self._ends.finish()

    async def _follow(self, _: None, ends: list[Sequence[ExecutionId]]) -> list[Cascaded]:
        ended = [ident for idents in ends for ident in idents]
        log.debug("cascade started", extra={"executions": len(ended)})
        tally = Cascaded()
        try:
            tally = await self._run(ended)
        except Exception:
            log.exception(
                "cascade failed; its executions are left to the reconciler",
                extra={"executions": len(ended)},
            )
        return [tally] * len(ends)

    async def _run(self, idents: Sequence[ExecutionId]) -> Cascaded:
        resolved = cascaded = 0
        level = list(dict.fromkeys(idents))
        for depth in range(MAX_DEPTH + 1):
            cascaded += len(level) if depth else 0
            following: list[ExecutionId] = []
            for at in range(0, len(level), MAX_ROUND):
                count, ended = await self._round(level[at : at + MAX_ROUND])
                resolved += count
                following += ended
            if not following:
                break
            level = list(dict.fromkeys(following))
        return Cascaded(resolved, cascaded)

    async def _round(self, idents: Sequence[ExecutionId]) -> tuple[int, list[ExecutionId]]:
        """The number of resolved edges, and the executions that ended as a result."""
        upstreams, child_flows = await self._load(idents)
        resolution = await self.resolver.resolve(upstreams)
        ended = resolution.ended
        for group in resolution.fired:
            try:
                ended += await self.members.cancel_siblings(group)
            except Exception:  # the group stays queued for the dispatcher
                log.exception(
                    "siblings could not be cancelled",
                    extra={"flow": str(group.flow_id), "downstream": str(group.downstream_eid)},
                )
        ended += await self.children.cancel(child_flows)
        await self._wake_parents(upstreams, resolution)
        return sum(len(upstream.open_edges) for upstream in upstreams), ended

    async def _wake_parents(
        self, upstreams: Sequence[EndedUpstream], resolution: Resolution
    ) -> None:
        """Wakes the parents of finished flows, then queues marks for the ends that are handled."""
        done = [
            each.upstream
            for each in upstreams
            if each.upstream.execution_id not in resolution.marked
            and not each.groups & resolution.unresolved
        ]
        flows = [(up.partition_key, up.flow_id) for up in done if up.flow_id and up.is_ended]
        failed = await self.children.wake_parents(flows)
        self._marks.add(
            up.execution_id for up in done if (up.partition_key, up.flow_id) not in failed
        )

    async def _load(self, idents: Sequence[ExecutionId]) -> tuple[list[EndedUpstream], list[Flow]]:
        """Flow members with their open outgoing edges, and the flows of children of all these."""
        keys = [(ident.partition_index, ident.uuid) for ident in idents]
        reads = (
            GetAll("ff_exec_core", keys, Upstream.__struct_fields__),
            ScanAll("edges_out", keys, MAX_GRAPH_EDGES),
            ScanAll("children_of", keys, MAX_CHILD_FLOWS),
        )
        executions, outgoing, child_flows = (await self._store.load(reads)).rows
        found = list(starmap(Upstream, executions))
        ended = {upstream.execution_id for upstream in found if upstream.is_ended}
        members = {
            upstream.execution_id: EndedUpstream(upstream, [], set())
            for upstream in found
            if upstream.flow_id is not None
        }
        open_edges = [
            edge
            for edge in starmap(Edge, outgoing)
            if edge.upstream_eid in members and edge.upstream_eid in ended and edge.is_open
        ]
        undispatched = await self._marks.undispatched(
            {edge.upstream_eid for edge in open_edges if edge.reset_at_ms is not None}
        )
        for edge in open_edges:
            member, is_new = members[edge.upstream_eid], edge.upstream_eid in undispatched
            if edges.counts_after_replay(edge, member.upstream, unheard=is_new):
                member.open_edges.append(edge)
                member.groups.add(group_key(edge))
        flows = [flow for flow in starmap(Flow, child_flows) if flow.parent_execution_id in ended]
        return list(members.values()), flows

    async def _cancel_children(self, partition: int, members: list[UUID]) -> list[ExecutionId]:
        cancelled, _ = await self.members.cancel(
            partition, members, PARENT_ENDED, "parent", always_revoked=True
        )
        return cancelled
