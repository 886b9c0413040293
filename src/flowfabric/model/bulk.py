"""Bulk actions: one operator action on every execution that matches a filter."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState

MAX_ERRORS = 10
"""How many texts of refusals a job keeps."""
MAX_PAGES = 1_000
"""How many pages one call may run."""


class BulkAction(StrEnum):
    """`retry` replays failed and expired executions, `replay` every ended one. `release` ends a
    delay or a hold. `delete` removes ended executions that nothing unfinished may read.
    `erase` is the action of a job that removes a namespace; see `erase_namespace`.
    """

    CANCEL = "cancel"
    RETRY = "retry"
    REPLAY = "replay"
    PRIORITY = "priority"
    MOVE = "move"
    RELEASE = "release"
    DELETE = "delete"
    ERASE = "erase"


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
    """A bulk action and its progress. `matched` is the sum of `changed`, `skipped` and `refused`.

    `skipped` executions matched when they were found and no longer when they were to be changed,
    or there was nothing to change. `errors` holds the first texts of refusals. A dry run changes
    nothing: it counts the executions that would be skipped and refused, and `changed` stays 0.
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


class Why(Struct, frozen=True):
    """Who asked for a change and why, as the operator event of each execution records it."""

    requested_by: str = ""
    reason: str = ""
    job_id: UUID | None = None


class Deleted(Struct, frozen=True):
    execution_id: ExecutionId


class Restarted(Struct, frozen=True):
    """`position` is that of the first step that runs again; `dropped` counts the dropped steps."""

    execution_id: ExecutionId
    position: int
    dropped: int
    public_state: PublicState = PublicState.WAITING


class JobRow(Struct, frozen=True):
    """A row of `ff_bulk_job`, column by column.

    `follow_ups` are the executions of the last page that need a further step, which is repeated
    after a crash.
    """

    job_id: UUID
    namespace: str | None
    action: str
    args: str
    state: str
    cursor: str | None
    matched: int
    changed: int
    skipped: int
    refused: int
    errors: str
    follow_ups: str
    created_at_ms: int
    updated_at_ms: int
    ended_at_ms: int | None
    version: int
