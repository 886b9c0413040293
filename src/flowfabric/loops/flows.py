"""The loops of flows: they finish what a crashed process left undone, and update summaries."""

from __future__ import annotations

import logging
from uuid import UUID

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import Loop

log = logging.getLogger("flowfabric.loops")

MAX_PROJECTED = 200


class DependencyReconciler(Loop):
    """Dispatches undispatched completions, rechecks blocked members, cancels orphaned children."""

    name = topic = "dependency_reconciler"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings)
        self._after: tuple[int, UUID] | None = None
        self._orphans_after: tuple[int, UUID] | None = None

    async def run(self, engine: Engine) -> int:
        done = await engine.dispatch_completions(self.wanted)
        rechecked, self._after = await engine.recheck_blocked(self._after)
        cancelled, self._orphans_after = await engine.cancel_orphans(self._orphans_after)
        return done + rechecked + cancelled


class EdgeCancelDispatcher(Loop):
    """Cancels the running siblings of satisfied edge groups."""

    name = "edge_cancel_dispatcher"
    topic = index = "cancel_groups"
    timed = True

    async def run(self, engine: Engine) -> int:
        return (await engine.dispatch_sibling_cancels(wanted=self.wanted))["dispatched"]


class EdgeCancelReconciler(Loop):
    """Removes edge groups with nothing left to cancel from the queue."""

    name = topic = "edge_cancel_reconciler"

    async def run(self, engine: Engine) -> int:
        return await engine.reconcile_sibling_cancels(wanted=self.wanted)


class CancelReconciler(Loop):
    """Cancels members of cancelled flows that are not cancelled yet."""

    name = "cancel_reconciler"
    topic = "cancel_backlog"

    async def run(self, engine: Engine) -> int:
        return await engine.reconcile_cancel_backlog(wanted=self.wanted)


class FlowProjector(Loop):
    """Updates the summaries of unsettled flows, one page per run."""

    name = topic = "flow_projector"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings)
        self._after: tuple[int, UUID] | None = None

    async def run(self, engine: Engine) -> int:
        flows = await engine.unsettled_flows(self._after, MAX_PROJECTED)
        done = 0
        for flow in flows:
            try:
                done += await engine.project_flow_summary(flow.flow_id)
            except Exception:
                log.exception("flow summary not updated", extra={"flow_id": str(flow.flow_id)})
        self._after = (
            (flows[-1].created_at_ms, flows[-1].flow_id) if len(flows) == MAX_PROJECTED else None
        )
        return done
