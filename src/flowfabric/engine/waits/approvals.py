"""Lists of open waitpoints with what people need to decide about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from flowfabric.engine.core import Core
from flowfabric.engine.waits.waitpoint_queries import WaitpointQueries
from flowfabric.model.approval import ApprovalListed
from flowfabric.model.execution import Page
from flowfabric.model.waitpoint import Count, CountKind, WaitpointListed
from flowfabric.rules.executions.explain_waits import THEN
from flowfabric.rules.waits import conditions
from flowfabric.store.port import GetAll, Row

READ_BATCH = 500
_COUNTED = {
    CountKind.DISTINCT_WAITPOINTS: "waitpoints",
    CountKind.DISTINCT_SIGNALS: "signals",
    CountKind.DISTINCT_SOURCES: "sources",
}
_WAIT_COLUMNS = (
    *("execution_id", "reason_code", "condition", "satisfied_set"),
    *("timeout_at_ms", "timeout_behavior", "closed_at_ms"),
)


class Approvals:
    def __init__(self, core: Core, waitpoints: WaitpointQueries) -> None:
        self._store, self._waitpoints = core.store, waitpoints

    async def list_approvals(
        self, after: tuple[int, UUID] | None = None, limit: int = 50
    ) -> Page[ApprovalListed]:
        """Open waitpoints with their executions, conditions and timeouts, oldest first."""
        page = await self._waitpoints.list_open_waitpoints(after, limit)
        return Page(await self.listed(page.items), page.next_cursor)

    async def listed(self, waitpoints: Sequence[WaitpointListed]) -> list[ApprovalListed]:
        """Open waitpoints as `list_approvals` shows them."""
        found: list[ApprovalListed] = []
        for at in range(0, len(waitpoints), READ_BATCH):
            found += await self._listed(waitpoints[at : at + READ_BATCH])
        return found

    async def _listed(self, part: Sequence[WaitpointListed]) -> list[ApprovalListed]:
        keys = sorted({(w.execution_id.partition_index, w.execution_id.uuid) for w in part})
        reads = (
            GetAll("ff_exec_core", keys, ("execution_id", "execution_kind", "lane_id")),
            GetAll("ff_suspension_current", keys, _WAIT_COLUMNS),
        )
        loaded = await self._store.load(reads)
        work: dict[UUID, Row] = {row[0]: row[1:] for row in loaded.rows[0]}
        waits: dict[UUID, Row] = {row[0]: row[1:] for row in loaded.rows[1] if row[6] is None}
        return [
            _listed(w, work.get(w.execution_id.uuid), waits.get(w.execution_id.uuid), loaded.now_ms)
            for w in part
        ]


def _listed(
    waitpoint: WaitpointListed, work: Row | None, waits: Row | None, now: int
) -> ApprovalListed:
    """Combine the rows of one waitpoint.

    The timeout of the suspension overrides that of the waitpoint: escalation to an operator may
    have removed it.
    """
    kind, lane = work or ("", "")
    reason, counted, until, then = "", "", waitpoint.expires_at, ""
    if waitpoint.state == "active" and waits is not None:
        reason, condition, satisfied, until, behaviour = waits[:5]
        counted = _progress(condition, satisfied)
        then = THEN.get(behaviour or "fail", THEN["fail"]) if until is not None else ""
    return ApprovalListed(
        str(waitpoint.execution_id),
        str(waitpoint.waitpoint_id),
        waitpoint.waitpoint_key,
        waitpoint.state,
        kind,
        lane,
        reason,
        waitpoint.required_signal_names,
        counted,
        max(now - waitpoint.created_at, 0),
        None if until is None else until - now,
        then,
        waitpoint.token_kid,
        waitpoint.token_fingerprint,
    )


def _progress(condition: str, satisfied: str) -> str:
    """The progress of a count condition; other conditions show their signal names only."""
    found = conditions.decode(condition)
    if not isinstance(found, Count):
        return ""
    return f"{len(json.loads(satisfied))} of {found.n} {_COUNTED[found.count_kind]}"
