"""Executions: the row, the arguments of operations, and the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.errors import Corruption
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import ATTEMPT_TIMEOUT
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.state import OPERATOR_OVERRIDE, PublicState

T = TypeVar("T")
MAX_PAYLOAD_BYTES = 1_048_576
MAX_TAGS = 64
MAX_TAGS_BYTES = 16_384
MAX_BULK_CREATE = 10_000
MAX_PRIORITY = 9_000
MAX_REASON_BYTES = 4_096
UNREADABLE = ("\0unreadable",)
"""The value of a stored list that cannot be read. No caller can send it, so nothing covers it."""
_decode_tags = msgspec.json.Decoder(dict[str, str]).decode


def stored_tags(text: str, about: object = None) -> dict[str, str]:
    """`about` is named by the error for tags that cannot be read."""
    try:
        return {} if text == "{}" else _decode_tags(text)
    except ValueError:
        raise Corruption("tags cannot be read", about) from None


class Execution(Struct, frozen=True):
    """A row of `ff_exec_core`, column by column."""

    partition_key: int
    execution_id: UUID
    flow_id: UUID | None
    lane_id: str
    namespace: str
    instance_tag: str | None
    execution_kind: str
    creator_identity: str
    idempotency_key: str | None
    payload_encoding: str | None
    required_capabilities: tuple[str, ...]
    budget_ids: tuple[str, ...]
    quota_policy_id: UUID | None
    gate: str
    blocked_on: str | None
    lifecycle_phase: str
    ownership_state: str
    eligibility_state: str
    blocking_reason: str
    blocking_detail: str
    terminal_outcome: str
    attempt_state: str
    public_state: str
    priority: int
    created_at_ms: int
    started_at_ms: int | None
    terminal_at_ms: int | None
    last_transition_at: int
    last_mutation_at: int
    delay_until_ms: int | None
    deadline_at_ms: int | None
    deadline_origin: str | None
    attempt_index: int
    total_attempt_count: int
    retry_count: int
    replay_count: int
    lease_reclaim_count: int
    max_reclaim_count: int | None
    attempt_timeout_ms: int | None
    attempt_timeout_at_ms: int | None
    attempt_timeout_remaining_ms: int | None
    retention_ttl_ms: int | None
    failed_retention_ttl_ms: int | None
    retain_until_ms: int | None
    current_attempt_id: UUID | None
    current_lease_id: UUID | None
    lease_epoch: int
    version: int
    current_worker_id: str | None
    current_worker_instance_id: str | None
    lease_acquired_at: int | None
    lease_expires_at_ms: int | None
    lease_last_renewed_at: int | None
    lease_renewal_deadline: int | None
    lease_expired_at: int | None
    expired_epoch: int | None
    interrupt_cause: str | None
    closing_epoch: int | None
    closing_attempt_index: int | None
    pending_retry_reason: str | None
    pending_replay_reason: str | None
    pending_replay_requested_by: str | None
    pending_previous_attempt_index: int | None
    pending_attempt_policy: str | None
    reserved_for: str | None
    reserved_until_ms: int | None
    failure_reason: str | None
    last_failure_message: str | None
    cancellation_reason: str | None
    cancelled_by: str | None
    progress_pct: int | None
    progress_message: str | None
    progress_updated_at: int | None
    last_capability_mismatch_at: int | None
    current_suspension_id: UUID | None
    current_waitpoint_id: UUID | None
    last_hmac_validation_failed_at: int | None
    result_encoding: str | None
    tags: str
    raw_fields: str
    policy: str | None
    payload: bytes | None
    result: bytes | None

    @property
    def id(self) -> ExecutionId:
        return ExecutionId.of(self.partition_key, self.execution_id)


class CreateExecutionArgs(Struct, frozen=True, gc=False, kw_only=True):
    """`partition_id`, if given, must be that of the id; `now` defaults to the engine's clock."""

    execution_id: ExecutionId
    lane_id: str = "default"
    namespace: str = "default"
    execution_kind: str = "default"
    input_payload: bytes = b""
    payload_encoding: str | None = None
    priority: int = 0
    creator_identity: str = ""
    idempotency_key: str | None = None
    key_digest: str | None = None
    tags: Mapping[str, str] = {}
    policy: ExecutionPolicy | Mapping[str, Any] | str | bytes | None = None
    delay_until: int | None = None
    execution_deadline_at: int | None = None
    partition_id: int | None = None
    now: int | None = None


class Created(Struct, frozen=True, tag=True, gc=False):
    execution_id: ExecutionId
    public_state: PublicState


class Duplicate(Struct, frozen=True, tag=True, gc=False, omit_defaults=True):
    """The execution exists. `key_digest`, if one was sent, is the digest stored with the key."""

    execution_id: ExecutionId
    key_digest: str | None = None


class CancelExecutionArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    reason: str = ""
    source: str = OPERATOR_OVERRIDE
    lease_id: UUID | None = None
    lease_epoch: int | None = None
    attempt_id: UUID | None = None
    now: int | None = None


class Cancelled(Struct, frozen=True):
    execution_id: ExecutionId
    public_state: PublicState = PublicState.CANCELLED


class ChangePriorityArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    new_priority: int
    lane_id: str = ""
    now: int | None = None


class Changed(Struct, frozen=True):
    execution_id: ExecutionId


class ReplayExecutionArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    reason: str | None = None
    requested_by: str | None = None
    now: int | None = None


class Replayed(Struct, frozen=True):
    public_state: PublicState


class Expired(Struct, frozen=True, tag=True):
    execution_id: ExecutionId


class AlreadyTerminal(Struct, frozen=True, tag=True):
    pass


class Blocked(Struct, frozen=True, tag=True):
    execution_id: ExecutionId
    reason: str


class LuaRejected(Struct, frozen=True, tag=True):
    """The execution is no longer blockable; the scheduler logs it. The name is that of the wire."""

    message: str


class StateVector(Struct, frozen=True):
    lifecycle_phase: str
    ownership_state: str
    eligibility_state: str
    blocking_reason: str
    terminal_outcome: str
    attempt_state: str
    public_state: str


class ExecutionInfo(Struct, frozen=True):
    execution_id: ExecutionId
    namespace: str
    lane_id: str
    priority: int
    execution_kind: str
    state_vector: StateVector
    public_state: PublicState
    created_at: int
    started_at: int | None
    completed_at: int | None
    current_attempt_index: int
    flow_id: UUID | None
    blocking_detail: str


class ExecutionOutcome(Struct, frozen=True):
    """The state of an execution, and its result once it has ended."""

    public_state: str
    terminal_outcome: str
    result: bytes | None
    failure_reason: str | None
    last_failure_message: str | None
    cancellation_reason: str | None
    total_attempt_count: int
    terminal_at_ms: int | None = None

    @property
    def ended(self) -> bool:
        return self.terminal_outcome != "none"

    @property
    def reason(self) -> str:
        """Why it did not succeed. The failure of an earlier attempt is not the reason."""
        if self.terminal_outcome == "cancelled":
            return self.cancellation_reason or self.terminal_outcome
        timeout = self.last_failure_message if self.failure_reason == ATTEMPT_TIMEOUT else None
        return timeout or self.failure_reason or self.last_failure_message or self.terminal_outcome


class AttemptRef(Struct, frozen=True):
    attempt_id: UUID
    attempt_index: int


class LeaseView(Struct, frozen=True):
    """`lease_id` is the lease's mark: the id itself is a credential of the holder."""

    lease_epoch: int
    worker_instance_id: str
    expires_at: int
    lease_id: UUID | None
    attempt_index: int
    last_heartbeat_at: int | None


class ExecutionSnapshot(Struct, frozen=True):
    execution_id: ExecutionId
    flow_id: UUID | None
    lane_id: str
    namespace: str
    public_state: PublicState
    blocking_reason: str | None
    blocking_detail: str | None
    current_attempt: AttemptRef | None
    current_lease: LeaseView | None
    current_waitpoint: UUID | None
    created_at: int
    last_mutation_at: int
    total_attempt_count: int
    tags: dict[str, str]


class ExecutionContext(Struct, frozen=True):
    input_payload: bytes
    execution_kind: str
    tags: dict[str, str]


class Page(Struct, Generic[T], frozen=True):
    """One page of a listing, and the cursor of the next."""

    items: list[T]
    next_cursor: Any = None


class Lane(Struct, frozen=True):
    """A row of `ff_lane_registry`."""

    lane_id: str
    registered_at_ms: int
    registered_by: str
    state: str
    updated_at_ms: int

    @property
    def is_held(self) -> bool:
        """Whether no claim is granted."""
        return self.state in ("paused", "disabled")

    @property
    def is_closed(self) -> bool:
        """Whether no execution can be created."""
        return self.state in ("draining", "disabled")
