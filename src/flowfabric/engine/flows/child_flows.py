"""Flows whose members are the children of an execution: cancelled when it ends, and it is woken when they have ended."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.flow import Flow
from flowfabric.model.state import ENDED_PHASES
from flowfabric.rules.flows.flow_fields import detached_of, fields_of
from flowfabric.store.port import GetAll, Row, Scan, Store

log = logging.getLogger("flowfabric.flows")

PARENT_ENDED = "parent_ended"
MAX_PAGE = 1_000
MAX_KNOWN = 10_000
Wake = Callable[[ExecutionId, str], Awaitable[None]]
CancelMembers = Callable[[int, list[UUID]], Awaitable[list[ExecutionId]]]


class ChildFlows:
    """One per cascade. Both operations can be repeated."""

    def __init__(self, store: Store, cancel_members: CancelMembers, wake: Wake) -> None:
        self._store, self._cancel_members, self._wake = store, cancel_members, wake
        self._without_parent: dict[tuple[int, UUID], None] = {}

    async def cancel(self, flows: Sequence[Flow]) -> list[ExecutionId]:
        """Cancels the unfinished members of flows whose parent has ended, except the detached ones."""
        done: list[ExecutionId] = []
        for flow in flows:
            try:
                done += await self._cancel_one(flow)
            except Exception:  # of this flow only: the reconciler finds it again as an orphan
                log.exception("children in flow %s have to wait for their cancel", flow.flow_id)
        return done

    async def _cancel_one(self, flow: Flow) -> list[ExecutionId]:
        spared = detached_of(flow)
        alive = [uid for uid in await self._unfinished(flow) if uid not in spared]
        return await self._cancel_members(flow.partition_key, alive) if alive else []

    async def orphans(self, flows: Sequence[Flow]) -> list[Flow]:
        """Those of these flows whose parent has ended, or has been removed."""
        keys = list(
            {
                (parent.partition_index, parent.uuid)
                for flow in flows
                if (parent := flow.parent) is not None
            }
        )
        rows = (
            await self._store.load(
                (GetAll("ff_exec_core", keys, ("execution_id", "lifecycle_phase")),)
            )
        ).rows[0]
        alive = {uid for uid, phase in rows if phase not in ENDED_PHASES}
        return [
            flow
            for flow in flows
            if flow.parent is not None and flow.parent_execution_id not in alive
        ]

    async def wake_parents(self, keys: Sequence[tuple[int, UUID]]) -> set[tuple[int, UUID]]:
        """Signals the parents of those flows of which every member has ended; the flows of which it could not be done."""
        failed: set[tuple[int, UUID]] = set()
        unknown = [key for key in dict.fromkeys(keys) if key not in self._without_parent]
        if not unknown:
            return failed
        rows = (await self._store.load((GetAll("ff_flow_core", unknown),))).rows[0]
        with_parent = [flow for flow in (Flow(*row) for row in rows) if flow.parent is not None]
        self._remember(set(unknown) - {(flow.partition_key, flow.flow_id) for flow in with_parent})
        for flow in with_parent:
            assert flow.parent is not None
            try:
                if not await self._unfinished(flow):
                    await self._wake(flow.parent, str(fields_of(flow).get("waitpoint_key", "")))
            except Exception:  # one that cannot be read must not hold up the others
                log.exception("the parent of flow %s could not be woken", flow.flow_id)
                failed.add((flow.partition_key, flow.flow_id))
        return failed

    def _remember(self, keys: set[tuple[int, UUID]]) -> None:
        """A flow never gets a parent later."""
        while self._without_parent and len(self._without_parent) + len(keys) > MAX_KNOWN:
            del self._without_parent[next(iter(self._without_parent))]
        self._without_parent.update(dict.fromkeys(keys))

    async def _unfinished(self, flow: Flow) -> list[UUID]:
        owner = {"partition_key": flow.partition_key, "flow_id": flow.flow_id}
        found: list[UUID] = []
        after: tuple[UUID] | None = None
        while True:
            read = Scan(
                "members", owner, after, limit=MAX_PAGE, columns=("execution_id", "lifecycle_phase")
            )
            rows: list[Row] = (await self._store.load((read,))).rows[0]
            found += [uid for uid, phase in rows if phase not in ENDED_PHASES]
            if len(rows) < MAX_PAGE:
                return found
            after = (rows[-1][0],)
