"""The history of an execution or a flow, in order."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId

MAX_HISTORY = 1_000


class What(StrEnum):
    """The kinds of entries, in their possible order within a millisecond."""

    FLOW_CREATED = "flow_created"
    CREATED = "created"
    PRIORITY_CHANGED = "priority_changed"
    MOVED = "moved"
    RELEASED = "released"
    CLAIMED = "claimed"
    RECLAIMED = "reclaimed"
    RENEWED = "renewed"
    PROGRESSED = "progressed"
    SPENT = "spent"
    SUSPENDED = "suspended"
    SIGNALLED = "signalled"
    RESUMED = "resumed"
    DELAYED = "delayed"
    WAITED = "waited_for_children"
    HELD_BACK = "held_back"
    RETRIED = "retried"
    LEASE_EXPIRED = "lease_expired"
    REVOKED = "revoked"
    BUDGET_BREACHED = "budget_breached"
    FLOW_CANCEL_REQUESTED = "flow_cancel_requested"
    CANCEL_REQUESTED = "cancel_requested"
    ENDED = "ended"
    FLOW_ENDED = "flow_ended"
    REPLAYED = "replayed"


class HistoryEntry(Struct, frozen=True):
    """`execution_id` is None for the flow itself. A lease is named by its mark, not by its id."""

    at_ms: int
    what: What
    execution_id: ExecutionId | None
    attempt_index: int | None
    details: Mapping[str, str | int]


class Tried(Struct, frozen=True):
    """The columns of an attempt that a history uses."""

    attempt_index: int
    lease_epoch: int
    terminal_at_ms: int | None
    failure_reason: str | None
    replay_reason: str | None
    replay_requested_by: str | None


class Awaited(Struct, frozen=True):
    """The columns of a waitpoint that a history uses, without the token."""

    suspension_id: UUID | None
    waitpoint_key: str
    activated_at_ms: int | None
    closed_at_ms: int | None
    close_reason: str | None


class Parked(Struct, frozen=True):
    """The columns of the last suspension that a history uses."""

    suspension_id: UUID
    reason_code: str
    timeout_at_ms: int | None


class Charged(Struct, frozen=True):
    """The columns of an execution's budget account that a history uses."""

    dimensions_key: str
    budget_id: UUID
    delta_total: int
    updated_at_ms: int


class Core(Struct, frozen=True):
    """The columns of an execution that a history uses."""

    partition_key: int
    execution_id: UUID
    flow_id: UUID | None
    lane_id: str
    namespace: str
    execution_kind: str
    creator_identity: str
    priority: int
    created_at_ms: int
    delay_until_ms: int | None
    terminal_at_ms: int | None
    attempt_index: int
    attempt_state: str
    failure_reason: str | None
    cancellation_reason: str | None
    cancelled_by: str | None
    progress_pct: int | None
    progress_message: str | None
    progress_updated_at: int | None

    @property
    def id(self) -> ExecutionId:
        return ExecutionId.of(self.partition_key, self.execution_id)


class Life(Struct, frozen=True):
    """An execution with the rows that explain its events."""

    core: Core
    tries: tuple[Tried, ...] = ()
    waits: tuple[Awaited, ...] = ()
    parked: Parked | None = None
    charges: tuple[Charged, ...] = ()
