"""Flows with a parent: their members are the children of an execution.

When the parent ends, its children are cancelled. When all children have ended, the parent is woken.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from uuid import UUID

from flowfabric.engine.flows.snapshots import (
    MAX_PAGE,
    PHASE_COLUMNS,
    FlowKey,
    MemberPhase,
    load_pages,
    owner_of,
)
from flowfabric.engine.snapshots import load_all
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import Flow
from flowfabric.rules.flows.flow_fields import detached_of, fields_of
from flowfabric.store.port import GetAll, Scan, Store

log = logging.getLogger("flowfabric.flows")

PARENT_ENDED = "parent_ended"
MAX_KNOWN = 10_000
Wake = Callable[[ExecutionId, str], Awaitable[None]]
CancelMembers = Callable[[int, list[UUID]], Awaitable[list[ExecutionId]]]


class ChildFlows:
    """Cancels children and wakes parents. Both operations can be repeated."""

    def __init__(self, store: Store, cancel_members: CancelMembers, wake: Wake) -> None:
        self._store, self._cancel_members, self._wake = store, cancel_members, wake
        self._without_parent: dict[FlowKey, None] = {}

    async def cancel(self, flows: Sequence[Flow]) -> list[ExecutionId]:
        """Cancels the unfinished members of flows whose parent has ended, except detached ones."""
        done: list[ExecutionId] = []
        for flow in flows:
            try:
                done += await self._cancel_one(flow)
            except Exception:  # the reconciler finds this flow again as an orphan
                log.exception("children could not be cancelled", extra={"flow": str(flow.flow_id)})
        return done

    async def _cancel_one(self, flow: Flow) -> list[ExecutionId]:
        detached = detached_of(flow)
        alive = [uid for uid in await self._unfinished(flow) if uid not in detached]
        return await self._cancel_members(flow.partition_key, alive) if alive else []

    async def orphans(self, flows: Iterable[Flow]) -> list[Flow]:
        """The flows among these whose parent has ended or has been removed."""
        parents = [(flow, flow.parent) for flow in flows]
        keys = {
            (parent.partition_index, parent.uuid) for _, parent in parents if parent is not None
        }
        read = GetAll("ff_exec_core", list(keys), PHASE_COLUMNS)
        found = await load_all(self._store, read, MemberPhase)
        alive = {execution.execution_id for execution in found if not execution.is_ended}
        return [flow for flow, parent in parents if parent is not None and parent.uuid not in alive]

    async def wake_parents(self, keys: Sequence[FlowKey]) -> set[FlowKey]:
        """Signals the parents of the flows whose members have all ended.

        Returns the flows whose parent could not be woken.
        """
        failed: set[FlowKey] = set()
        unknown = [key for key in dict.fromkeys(keys) if key not in self._without_parent]
        if not unknown:
            return failed
        flows = await load_all(self._store, GetAll("ff_flow_core", unknown), Flow)
        with_parent = {
            (flow.partition_key, flow.flow_id): (flow, parent)
            for flow in flows
            if (parent := flow.parent) is not None
        }
        self._remember_without_parent(set(unknown) - set(with_parent))
        for key, (flow, parent) in with_parent.items():
            try:
                if not await self._unfinished(flow):
                    await self._wake(parent, str(fields_of(flow).get("waitpoint_key", "")))
            except Exception:  # an unreadable flow does not block the others
                log.exception("parent could not be woken", extra={"flow": str(flow.flow_id)})
                failed.add(key)
        return failed

    def _remember_without_parent(self, keys: set[FlowKey]) -> None:
        """A flow without a parent never gets one later."""
        while self._without_parent and len(self._without_parent) + len(keys) > MAX_KNOWN:
            del self._without_parent[next(iter(self._without_parent))]
        self._without_parent.update(dict.fromkeys(keys))

    async def _unfinished(self, flow: Flow) -> list[UUID]:
        scan = Scan("members", owner_of(flow), limit=MAX_PAGE, columns=PHASE_COLUMNS)
        members = await load_pages(
            self._store, scan, MemberPhase, lambda member: (member.execution_id,)
        )
        return [member.execution_id for member in members if not member.is_ended]
