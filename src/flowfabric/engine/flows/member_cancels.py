"""Cancels of flow members in bulk, and of the siblings of an edge group that has fired."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain
from uuid import UUID

from flowfabric.engine.flows.snapshots import PHASE_COLUMNS, MemberPhase, group_key
from flowfabric.engine.snapshots import load_all, load_one, reader_of
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import MAX_GRAPH_EDGES, CancelFlowPolicy, EdgeGroup
from flowfabric.plan import Applied
from flowfabric.rules.executions.operator_actions import cancel_plan
from flowfabric.rules.flows import cancels
from flowfabric.store.port import Get, GetAll, ScanAll, Store

MAX_TRIES = 10
FIRST_PAUSE_S = 0.002
MAX_SIBLINGS = 1_024
MAX_STATEMENT = 250
"""So many cancels share a statement; the statements run side by side."""
_CANCEL_COLUMNS = (
    "partition_key",
    "execution_id",
    "lifecycle_phase",
    "ownership_state",
    "terminal_outcome",
    "public_state",
    "attempt_index",
    "total_attempt_count",
    "current_attempt_id",
    "current_lease_id",
    "current_worker_instance_id",
    "lease_epoch",
    "version",
)
_partial_execution = reader_of(_CANCEL_COLUMNS)


class MemberCancels:
    """Cancels members and retries those that change meanwhile. The caller starts the cascade."""

    def __init__(self, store: Store, telemetry: TelemetrySlot) -> None:
        self._store, self._telemetry = store, telemetry

    async def siblings(self, group: EdgeGroup, by: UUID | None) -> list[UUID]:
        """Upstreams of a group that have not ended, except `by`."""
        inbound = ScanAll(
            "edges_in",
            [(group.partition_key, group.downstream_eid)],
            MAX_GRAPH_EDGES,
            ("flow_id", "upstream_eid"),
        )
        (rows,) = (await self._store.load((inbound,))).rows
        others = dict.fromkeys(
            upstream for flow, upstream in rows if flow == group.flow_id and upstream != by
        )
        keys = [(group.partition_key, other) for other in others]
        read = GetAll("ff_exec_core", keys, PHASE_COLUMNS)
        members = await load_all(self._store, read, MemberPhase)
        return [member.execution_id for member in members if not member.is_ended]

    async def cancel_siblings(self, group: EdgeGroup) -> list[ExecutionId]:
        """Cancels the siblings that a fired group has listed and dequeues the group.

        Returns the cancelled ones.
        """
        done: list[ExecutionId] = []
        for _ in range(MAX_TRIES):
            stored = await load_one(self._store, Get("ff_edge_group", group_key(group)), EdgeGroup)
            if stored is None or not stored.cancel_siblings_pending_flag:
                break
            pending = cancels.pending_siblings(stored)
            reason = stored.cancel_siblings_reason or "sibling_quorum_satisfied"
            for at in range(0, len(pending), MAX_SIBLINGS):
                batch = pending[at : at + MAX_SIBLINGS]
                cancelled, left = await self.cancel(stored.partition_key, batch, reason)
                done += cancelled
                ended_before = len(batch) - len(cancelled) - len(left)
                self._telemetry.listener.siblings_cancelled(reason, len(cancelled), ended_before)
                if left:
                    return done
            # Guarded by the version from before the cancels: a group that has fired again lists
            # other siblings.
            if isinstance(await self._store.commit(cancels.drain(stored)), Applied):
                break
        return done

    async def cancel(
        self,
        partition: int,
        members: Iterable[UUID],
        reason: str,
        by: str = "operator_override",
        *,
        always_revoked: bool = False,
        policy: str = CancelFlowPolicy.CANCEL_ALL,
    ) -> tuple[list[ExecutionId], set[UUID]]:
        """The cancelled members among those the policy selects, and those that kept changing.

        With `always_revoked`, a lease event is written for members without a lease too.
        """
        left = set(members)
        done: list[ExecutionId] = []
        for tries in range(MAX_TRIES):
            keys = [(partition, uid) for uid in left]
            loaded = await self._store.load((GetAll("ff_exec_core", keys, _CANCEL_COLUMNS),))
            (rows,) = loaded.rows
            alive = cancels.members_to_cancel([_partial_execution(row) for row in rows], policy)
            if not alive:
                return done, set()
            if tries:
                await asyncio.sleep(FIRST_PAUSE_S * tries)
            now = loaded.now_ms
            planned = [
                (cancel_plan(member, reason, by, now, always_revoked=always_revoked), member)
                for member in alive
            ]
            planned.sort(key=lambda pair: pair[0].form.name)
            plans = [plan for plan, _ in planned]
            answers = await asyncio.gather(
                *(
                    self._store.commit_many(plans[at : at + MAX_STATEMENT])
                    for at in range(0, len(plans), MAX_STATEMENT)
                )
            )
            left = set()
            for (_, member), answer in zip(planned, chain(*answers), strict=True):
                if isinstance(answer, Applied):
                    done.append(member.id)
                else:
                    left.add(member.execution_id)
        return done, left
