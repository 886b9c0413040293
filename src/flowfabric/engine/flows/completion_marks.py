"""Marks of completion events whose consequences are committed."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.snapshots import load_all
from flowfabric.model.event import is_end
from flowfabric.rules.flows import edge_forms
from flowfabric.store.port import ScanAll, Store

log = logging.getLogger("flowfabric.flows")

MAX_MARKS = 500
MAX_EVENTS = 100


class _Completion(Struct, frozen=True):
    execution_id: UUID
    event_id: int
    dispatched_at_ms: int | None
    outcome: str

    @property
    def is_undispatched_end(self) -> bool:
        return self.dispatched_at_ms is None and is_end(self.outcome)


class CompletionMarks:
    """Queues marks until the cascade is idle.

    After a crash the reconciler finds the events without a mark.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: list[UUID] = []

    def add(self, ended: Iterable[UUID]) -> None:
        self._queue += ended

    def next_batch(self) -> Coroutine[None, None, None] | None:
        """The commit of the next marks, or None when no mark waits."""
        if not self._queue:
            return None
        ended, self._queue = self._queue[:MAX_MARKS], self._queue[MAX_MARKS:]
        return self._commit(ended)

    async def _commit(self, ended: list[UUID]) -> None:
        try:
            plans = [
                edge_forms.MARK_DISPATCHED(event_id=event.event_id)
                for event in await self._events(ended)
                if event.is_undispatched_end
            ]
            if plans:
                await self._store.commit_many(plans)
        except Exception:
            log.warning(
                "completion events stay undispatched until the reconciler runs",
                extra={"executions": len(ended)},
                exc_info=True,
            )

    async def undispatched(self, ended: Iterable[UUID]) -> set[UUID]:
        """Those of these executions whose end has no mark yet."""
        found = await self._events(ended)
        return {event.execution_id for event in found if event.is_undispatched_end}

    async def _events(self, ended: Iterable[UUID]) -> list[_Completion]:
        groups = [(ident,) for ident in ended]
        if not groups:
            return []
        read = ScanAll("completion_events_of", groups, MAX_EVENTS, _Completion.__struct_fields__)
        return await load_all(self._store, read, _Completion)
