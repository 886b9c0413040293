"""Replay: an ended execution starts again."""

from __future__ import annotations

from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.flows.dependencies import Dependencies
from flowfabric.engine.flows.snapshots import load_inbound_edges
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId, execution_id, new_attempt_id
from flowfabric.model.execution import Replayed, ReplayExecutionArgs
from flowfabric.model.state import PublicState
from flowfabric.rules.decision import Decision, Snapshot
from flowfabric.rules.executions import replay
from flowfabric.store.port import Get, GetAll


class Replays:
    """Replays executions. A skipped member of a flow waits for its upstreams again."""

    def __init__(self, core: Core, dependencies: Dependencies) -> None:
        self._core, self._store = core, core.store
        self._dependencies = dependencies

    async def replay_execution(self, args: ReplayExecutionArgs) -> Replayed:
        """Starts an ended execution again, with a new generation of its attempt."""
        ident = execution_id(args.execution_id)
        validation.optional_timestamp(args.now, "now")
        validation.optional_text(args.reason, "reason")
        validation.optional_text(args.requested_by, "requested_by")
        refused = replay.check_upstreams(*await self._upstreams(ident))
        if refused is not None:
            raise refused
        attempt = new_attempt_id()

        def rule(snapshot: Snapshot) -> Decision:
            return replay.replay(
                snapshot,
                attempt_id=attempt,
                now_ms=args.now,
                reason=args.reason,
                requested_by=args.requested_by,
            )

        replayed: Replayed = await self._core.decide(ident, rule, groups=True)
        if replayed.public_state is PublicState.WAITING_CHILDREN:
            await self.resolve_ended_upstreams(ident)
        return replayed

    async def _upstreams(self, ident: ExecutionId) -> tuple[list[UUID], set[UUID]]:
        """The upstreams of a member, and those of them that are stored.

        Without its flow it has no upstreams.
        """
        found = await load_inbound_edges(self._store, ident)
        if not found:
            return [], set()
        wanted = [edge.upstream_eid for edge in found]
        keys = [(ident.partition_index, upstream) for upstream in wanted]
        reads = (
            GetAll("ff_exec_core", keys, ("execution_id",)),
            Get("ff_flow_core", (ident.partition_index, found[0].flow_id), ("flow_id",)),
        )
        stored, flow = (await self._store.load(reads)).rows
        return (wanted if flow else []), {upstream for (upstream,) in stored}

    async def resolve_ended_upstreams(self, ident: ExecutionId) -> None:
        """An upstream that ended before the replay does not end again: its end is counted now."""
        inbound = await load_inbound_edges(self._store, ident)
        waiting = [edge for edge in inbound if edge.is_open]
        if waiting:
            await self._core.cascade.ended(
                [ExecutionId.of(ident.partition_index, edge.upstream_eid) for edge in waiting]
            )
        try:
            await self._dependencies.promote_blocked_to_eligible(ident)
        except EngineError:
            return  # it still waits for an upstream, or has been promoted already
