"""What happened to an execution or a flow, as a story told in order."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId

MAX_HISTORY = 1_000


class What(StrEnum):
    """Everything a history can tell of, in the order in which it can happen within a
    millisecond.
    """

    FLOW_CREATED = "flow_created"
    CREATED = "created"
    PRIORITY_CHANGED = "priority_changed"
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
    ENDED = "ended"
    FLOW_ENDED = "flow_ended"
    REPLAYED = "replayed"


class HistoryEntry(Struct, frozen=True):
    """`execution_id` is None for what concerns the flow itself. A lease is named by its mark, never
    by its id.
    """

    at_ms: int
    what: What
    execution_id: ExecutionId | None
    attempt_index: int | None
    details: Mapping[str, str | int]


class Tried(Struct, frozen=True):
    """What a history needs of an attempt; the fields are columns of its row."""

    attempt_index: int
    lease_epoch: int
    terminal_at_ms: int | None
    failure_reason: str | None
    replay_reason: str | None
    replay_requested_by: str | None


class Awaited(Struct, frozen=True):
    """What a history needs of a waitpoint; the fields are columns of its row. Not the token."""

    suspension_id: UUID | None
    waitpoint_key: str
    activated_at_ms: int | None
    closed_at_ms: int | None
    close_reason: str | None


class Parked(Struct, frozen=True):
    """What a history needs of the last suspension; the fields are columns of its row."""

    suspension_id: UUID
    reason_code: str
    timeout_at_ms: int | None


class Charged(Struct, frozen=True):
    """What is on the account of an execution; the fields are columns of its row."""

    dimensions_key: str
    budget_id: UUID
    delta_total: int
    updated_at_ms: int


class Core(Struct, frozen=True):
    """What a history needs of an execution; the fields are columns of its row."""

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
    """An execution with what explains its events."""

    core: Core
    tries: tuple[Tried, ...] = ()
    waits: tuple[Awaited, ...] = ()
    parked: Parked | None = None
    charges: tuple[Charged, ...] = ()
