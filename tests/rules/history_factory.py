"""An execution and the rows of its outboxes, as the rules of histories read them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec import structs

from flowfabric.ids import ExecutionId
from flowfabric.model.history import Core, HistoryEntry, Life, Tried
from flowfabric.rules.executions.history import (
    EventReader,
)

WHO = ExecutionId.of(3, UUID(int=9))
LEASE, FLOW = UUID(int=77), UUID(int=5)
CORE = Core(
    partition_key=3,
    execution_id=WHO.uuid,
    flow_id=None,
    lane_id="lane",
    namespace="ns",
    execution_kind="render",
    creator_identity="alice",
    priority=4,
    created_at_ms=100,
    delay_until_ms=None,
    terminal_at_ms=None,
    attempt_index=0,
    attempt_state="running_attempt",
    failure_reason=None,
    cancellation_reason=None,
    cancelled_by=None,
    progress_pct=None,
    progress_message=None,
    progress_updated_at=None,
)
TRIED = Tried(0, 2, None, None, None, None)


def life(*tries: Tried, **said: Any) -> Life:
    parts = {k: said.pop(k) for k in ("waits", "parked", "charges") if k in said}
    return Life(structs.replace(CORE, **said), tries, **parts)


def entries(about: Life, source: int, *rows: tuple[Any, ...]) -> list[HistoryEntry]:
    reader = EventReader(about, source)
    return [
        line.entry
        for line in (*(line for row in rows for line in reader.read(row)), *reader.flush())
    ]


def lease(
    number: int, kind: str, at: int, reason: str | None = None, epoch: int = 1, **said: Any
) -> tuple[Any, ...]:
    return (
        number,
        WHO.uuid,
        said.get("lease", LEASE),
        epoch,
        said.get("worker", "w-1"),
        kind,
        reason,
        at,
    )
