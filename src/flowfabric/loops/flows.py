"""What keeps flows going when somebody crashed in the middle: lost completions, siblings, owed cancels, and the summaries."""

from __future__ import annotations

import logging
from uuid import UUID

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine

log = logging.getLogger("flowfabric.loops")

MAX_PROJECTED = 200


class DependencyReconciler:
    """Completions whose consequences nobody saw to, a page of what is blocked, and children whose parent has ended."""

    name = topic = "dependency_reconciler"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.dependency_reconciler_ms
        self._wanted = settings.wanted
        self._after: tuple[int, UUID] | None = None
        self._orphans_after: tuple[int, UUID] | None = None

    async def run(self, engine: Engine) -> int:
        done = await engine.dispatch_completions(self._wanted)
        rechecked, self._after = await engine.recheck_blocked(self._after)
        cancelled, self._orphans_after = await engine.cancel_orphans(self._orphans_after)
        return done + rechecked + cancelled

    async def next_due(self, engine: Engine) -> int | None:
        return None


class EdgeCancelDispatcher:
    """Groups that have fired and whose siblings still run."""

    name = "edge_cancel_dispatcher"
    topic = "cancel_groups"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.edge_cancel_dispatcher_ms
        self._wanted = settings.wanted

    async def run(self, engine: Engine) -> int:
        return (await engine.dispatch_sibling_cancels(wanted=self._wanted))["dispatched"]

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due("cancel_groups")


class EdgeCancelReconciler:
    """Groups on the queue that have nothing left to cancel."""

    name = topic = "edge_cancel_reconciler"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.edge_cancel_reconciler_ms
        self._wanted = settings.wanted

    async def run(self, engine: Engine) -> int:
        return await engine.reconcile_sibling_cancels(wanted=self._wanted)

    async def next_due(self, engine: Engine) -> int | None:
        return None


class CancelReconciler:
    """Cancels that a flow owes its members."""

    name = "cancel_reconciler"
    topic = "cancel_backlog"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.cancel_reconciler_ms
        self._wanted = settings.wanted

    async def run(self, engine: Engine) -> int:
        return await engine.reconcile_cancel_backlog(wanted=self._wanted)

    async def next_due(self, engine: Engine) -> int | None:
        return None


class FlowProjector:
    """Summaries of flows that still move, some at a time."""

    name = topic = "flow_projector"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.flow_projector_ms
        self._after: tuple[int, UUID] | None = None

    async def run(self, engine: Engine) -> int:
        flows = await engine.unsettled_flows(self._after, MAX_PROJECTED)
        done = 0
        for flow in flows:
            try:
                done += await engine.project_flow_summary(flow.flow_id)
            except Exception:
                log.exception("the summary of flow %s has to wait", flow.flow_id)
        self._after = (
            (flows[-1].created_at_ms, flows[-1].flow_id) if len(flows) == MAX_PROJECTED else None
        )
        return done

    async def next_due(self, engine: Engine) -> int | None:
        return None
