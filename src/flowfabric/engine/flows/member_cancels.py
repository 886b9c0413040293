"""Cancels of flow members, and of the siblings of a group that has fired."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import MAX_GRAPH_EDGES, CancelFlowPolicy, EdgeGroup
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Applied
from flowfabric.rules.flows import cancels
from flowfabric.store.port import GetAll, Row, ScanAll, Store

MAX_TRIES = 10
FIRST_PAUSE_S = 0.002
MAX_SIBLINGS = 1_024
_COLUMNS = Execution.__struct_fields__
_CANCELLED_BY = (
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
_AT = tuple(_COLUMNS.index(column) for column in _CANCELLED_BY)


def _narrow(row: Row) -> Execution:
    """An execution of which only what a cancel asks for was read."""
    values: list[Any] = [None] * len(_COLUMNS)
    for at, value in zip(_AT, row, strict=True):
        values[at] = value
    return Execution(*values)


class MemberCancels:
    """Cancels members one by one, whatever state they move to meanwhile. It starts no cascade: its caller does."""

    def __init__(self, store: Store, telemetry: TelemetrySlot) -> None:
        self._store, self._telemetry = store, telemetry

    async def siblings(self, group: EdgeGroup, by: UUID | None) -> list[UUID]:
        """Upstreams of a group that are not over yet."""
        inbound = ScanAll(
            "edges_in",
            [(group.partition_key, group.downstream_eid)],
            MAX_GRAPH_EDGES,
            ("flow_id", "upstream_eid"),
        )
        rows = (await self._store.load((inbound,))).rows[0]
        others = dict.fromkeys(
            upstream for flow, upstream in rows if flow == group.flow_id and upstream != by
        )
        keys = [(group.partition_key, other) for other in others]
        states = (
            await self._store.load(
                (GetAll("ff_exec_core", keys, ("execution_id", "lifecycle_phase")),)
            )
        ).rows[0]
        return [uid for uid, phase in states if phase not in ENDED_PHASES]

    async def cancel_siblings(self, group: EdgeGroup) -> list[ExecutionId]:
        """Cancels whom a fired group has listed and takes it off the queue; who was cancelled by this call."""
        done: list[ExecutionId] = []
        for _ in range(MAX_TRIES):
            stored = await self._group(group)
            if stored is None or not stored.cancel_siblings_pending_flag:
                break
            owed = cancels.owed_siblings(stored)
            reason = stored.cancel_siblings_reason or "sibling_quorum_satisfied"
            for at in range(0, len(owed), MAX_SIBLINGS):
                some, left = await self.cancel(
                    stored.partition_key, owed[at : at + MAX_SIBLINGS], reason
                )
                done += some
                self._telemetry.listener.siblings_cancelled(
                    reason, len(some), len(owed[at : at + MAX_SIBLINGS]) - len(some) - len(left)
                )
                if left:
                    return done
            # As it was before the cancels: a group that has fired anew since has others on its list.
            if isinstance(await self._store.commit(cancels.drain(stored)), Applied):
                break
        return done

    async def _group(self, group: EdgeGroup) -> EdgeGroup | None:
        key = (group.partition_key, group.flow_id, group.downstream_eid)
        rows = (await self._store.load((GetAll("ff_edge_group", [key]),))).rows[0]
        return EdgeGroup(*rows[0]) if rows else None

    async def cancel(
        self,
        partition: int,
        members: Iterable[UUID],
        reason: str,
        by: str = "operator_override",
        *,
        told: bool = False,
        policy: str = CancelFlowPolicy.CANCEL_ALL,
    ) -> tuple[list[ExecutionId], set[UUID]]:
        """Cancels those the policy is about, however they move meanwhile; whom, and who could not be settled."""
        left = set(members)
        done: list[ExecutionId] = []
        for tries in range(MAX_TRIES):
            loaded = await self._store.load(
                (GetAll("ff_exec_core", [(partition, uid) for uid in left], _CANCELLED_BY),)
            )
            alive = cancels.selected([_narrow(row) for row in loaded.rows[0]], policy)
            if not alive:
                return done, set()
            if tries:
                await asyncio.sleep(FIRST_PAUSE_S * tries)
            plans = [
                (m.id, cancels.cancel_member(m, reason, by, loaded.now_ms, told=told))
                for m in alive
            ]
            plans.sort(key=lambda pair: pair[1].form.name)
            answers = await self._store.commit_many([plan for _, plan in plans])
            gone = [
                ident
                for (ident, _), answer in zip(plans, answers, strict=True)
                if isinstance(answer, Applied)
            ]
            done += gone
            left = {member.execution_id for member in alive}.difference(
                ident.uuid for ident in gone
            )
        return done, left
