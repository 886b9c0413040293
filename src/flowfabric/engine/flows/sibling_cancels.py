"""The queue of edge groups that have fired and have siblings to cancel."""

from __future__ import annotations

import logging
from itertools import starmap
from typing import cast
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.flows.snapshots import (
    MEMBER_COLUMNS,
    GroupKey,
    QueuedGroup,
    load_flow,
    of_wanted_flows,
    partition_for,
)
from flowfabric.engine.snapshots import load_all, load_one
from flowfabric.errors import EngineError, ValidationError, ValidationKind
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import EdgeGroup, Reconciled
from flowfabric.model.flow_links import Member
from flowfabric.rules.decision import Return
from flowfabric.rules.flows import cancels
from flowfabric.rules.flows.cancels import pending_siblings
from flowfabric.store.port import Get, GetAll, Scan

log = logging.getLogger("flowfabric.flows")

MAX_GROUPS = 50


class SiblingCancels:
    """Dispatches queued groups after a crash, and removes groups that are done."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def dispatch_sibling_cancels(
        self, limit: int = MAX_GROUPS, wanted: ScannerFilter | None = None
    ) -> dict[str, int]:
        """Cancels the siblings of queued groups. Returns the number of groups by result."""
        results = dict.fromkeys(("orphaned", "skipped_for_reconciler", "dispatched"), 0)
        for queued in await self._queue(limit, wanted):
            try:
                results[await self._dispatch(queued.key)] += 1
            except EngineError:
                _log_postponed(queued)
        return results

    async def _queue(self, limit: int, wanted: ScannerFilter | None) -> list[QueuedGroup]:
        size = validation.limit(limit, MAX_GROUPS)
        scan = Scan("cancel_groups", limit=size, columns=QueuedGroup.__struct_fields__)
        return await of_wanted_flows(
            self._store, await load_all(self._store, scan, QueuedGroup), wanted
        )

    async def _dispatch(self, key: GroupKey) -> str:
        group = await load_one(self._store, Get("ff_edge_group", key), EdgeGroup)
        if group is None:
            await self._store.commit(cancels.leave_queue(*key))
            return "orphaned"
        if not group.cancel_siblings_pending_flag:
            return "skipped_for_reconciler"
        await self._core.cascade.end_siblings(group)
        return "dispatched"

    async def drain_sibling_cancel_group(self, flow_id: UUID, downstream: UUID) -> str:
        """Removes a group from the queue of sibling cancels."""
        key = await self._group_key(flow_id, downstream)
        is_queued, group = await self._queued(key)
        if not is_queued:
            return "already_drained"
        if group is None:
            await self._store.commit(cancels.leave_queue(*key))
            return "drained_sans_group"
        await self._core.run(
            lambda: load_one(self._store, Get("ff_edge_group", key), EdgeGroup),
            cancels.drain_if_read,
        )
        return "drained"

    async def reconcile_sibling_cancel_group(self, flow_id: UUID, downstream: UUID) -> Reconciled:
        """Removes a group from the queue when it has no siblings left to cancel.

        It never cancels anything.
        """
        key = await self._group_key(flow_id, downstream)
        is_queued, group = await self._queued(key)
        running = group is not None and await self._any_running(group)
        decision = cancels.reconcile(is_queued, group, running, cancels.group_key(*key))
        if not isinstance(decision, Return):
            await self._store.commit(decision.plan)
        result = cast(Reconciled, decision.result)
        self._core.telemetry.listener.siblings_reconciled(result.action)
        return result

    async def reconcile_sibling_cancels(
        self, limit: int = MAX_GROUPS, wanted: ScannerFilter | None = None
    ) -> int:
        """Reconciles every queued group. Returns the number removed from the queue."""
        done = 0
        for queued in await self._queue(limit, wanted):
            try:
                result = await self.reconcile_sibling_cancel_group(
                    queued.flow_id, queued.downstream_eid
                )
                done += result.action != "no_op"
            except EngineError:
                _log_postponed(queued)
        return done

    async def _group_key(self, flow_id: UUID, downstream: UUID) -> GroupKey:
        if not flow_id or not downstream:
            raise ValidationError(
                ValidationKind.INVALID_INPUT, "flow_id and downstream_eid required"
            )
        ident, down = validation.flow_id(flow_id), validation.flow_id(downstream, "downstream_eid")
        return partition_for(await load_flow(self._store, ident), ident), ident, down

    async def _queued(self, key: GroupKey) -> tuple[bool, EdgeGroup | None]:
        """Whether a group is queued, and the group."""
        reads = (Get("ff_pending_cancel_groups", key), Get("ff_edge_group", key))
        queued, groups = (await self._store.load(reads)).rows
        return bool(queued), next(starmap(EdgeGroup, groups), None)

    async def _any_running(self, group: EdgeGroup) -> bool:
        keys = [(group.partition_key, uid) for uid in pending_siblings(group)]
        members = await load_all(self._store, GetAll("ff_exec_core", keys, MEMBER_COLUMNS), Member)
        return any(not member.is_ended for member in members)


def _log_postponed(queued: QueuedGroup) -> None:
    log.exception(
        "sibling cancels of a group failed; the next pass tries again",
        extra={"flow": str(queued.flow_id), "downstream": str(queued.downstream_eid)},
    )
