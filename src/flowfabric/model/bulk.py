"""Bulk actions: one operator action on every execution that matches a filter."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.model.search import ExecutionFilter


class BulkAction(StrEnum):
    """`retry` replays failed and expired executions, `replay` every ended one. `release` ends a
    delay or a hold. `delete` removes ended executions that nothing unfinished may read.
    """

    CANCEL = "cancel"
    RETRY = "retry"
    REPLAY = "replay"
    PRIORITY = "priority"
    MOVE = "move"
    RELEASE = "release"
    DELETE = "delete"


class BulkState(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"


class BulkArgs(Struct, frozen=True, kw_only=True):
    """`priority` is that of the action `priority`, `lane` that of `move`."""

    action: BulkAction
    where: ExecutionFilter
    requested_by: str = ""
    reason: str = ""
    priority: int | None = None
    lane: str | None = None
    dry_run: bool = False


class BulkJob(Struct, frozen=True):
    """A bulk action and its progress. A dry run counts matches and changes nothing.

    `skipped` executions matched when they were found and no longer when they were to be changed.
    `errors` holds the first texts of refusals.
    """

    job_id: UUID
    args: BulkArgs
    state: BulkState
    matched: int
    changed: int
    skipped: int
    refused: int
    errors: tuple[str, ...]
    created_at: int
    updated_at: int
    ended_at: int | None
