"""Suspensions, their waitpoints, and resume conditions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.state import PublicState
from flowfabric.model.state import TimeoutBehavior as TimeoutBehavior

MAX_SIGNAL_BYTES = 65_536
MAX_CONDITION_DEPTH = 4
MAX_CONDITION_NODES = 256
MAX_BINDINGS = 64
MAX_SIGNALS = 10_000
MAX_APPROVERS = 64
SIGNAL_HISTORY = 1_000
SIGNAL_DEDUP_MS = 86_400_000
LONGEST_SUSPEND_DEDUP_MS = 604_800_000
SUSPEND_DEDUP_MARGIN_MS = 60_000
LATE_TIMEOUT_MS = 600_000
APPROVED, REJECTED = "approved", "rejected"
ENGINE_SOURCES = ("engine", "operator")
"""Source types that only the engine writes; a signal with a token cannot have them."""
OPEN_STATES = ("pending", "active")
BOUND_STATES = ("active",)


class ReasonCode(StrEnum):
    WAITING_FOR_SIGNAL = "waiting_for_signal"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_CALLBACK = "waiting_for_callback"
    WAITING_FOR_TOOL_RESULT = "waiting_for_tool_result"
    WAITING_FOR_OPERATOR_REVIEW = "waiting_for_operator_review"
    PAUSED_BY_POLICY = "paused_by_policy"
    PAUSED_BY_BUDGET = "paused_by_budget"
    STEP_BOUNDARY = "step_boundary"
    MANUAL_PAUSE = "manual_pause"


class CountKind(StrEnum):
    DISTINCT_WAITPOINTS = "DistinctWaitpoints"
    DISTINCT_SIGNALS = "DistinctSignals"
    DISTINCT_SOURCES = "DistinctSources"


class Single(Struct, frozen=True, tag=True):
    """One signal at this key, of this name if there is one."""

    waitpoint_key: str
    name: str | None = None


class OperatorOnly(Struct, frozen=True, tag=True):
    """Only an operator or a timeout ends it."""


class TimeoutOnly(Struct, frozen=True, tag=True):
    """Only its timeout ends it."""


class AllOf(Struct, frozen=True, tag=True):
    """All members, in any order."""

    members: tuple[Condition, ...]


class Count(Struct, frozen=True, tag=True):
    """At least n different waitpoints, signals or sources over these keys.

    With a `veto`, a signal of that name ends the whole wait, and other names are refused.
    """

    n: int
    count_kind: CountKind
    waitpoints: tuple[str, ...]
    name: str | None = None
    veto: str | None = None


Condition = Single | OperatorOnly | TimeoutOnly | AllOf | Count


def all_of_waitpoints(*keys: str) -> AllOf:
    return AllOf(tuple(Single(key) for key in keys))


def any_of_waitpoints(*keys: str) -> Count:
    return Count(1, CountKind.DISTINCT_WAITPOINTS, keys)


class ResumePolicy(Struct, frozen=True):
    """Only the delay has an effect; the rest is stored and shown."""

    resume_target: str = "runnable"
    consume_matched_signals: bool = True
    retain_signal_buffer_until_closed: bool = False
    resume_delay_ms: int | None = None
    close_waitpoint_on_resume: bool = True


class FreshWaitpoint(Struct, frozen=True, tag=True):
    """A new waitpoint. The default key is made from its id. The JSON schema checks payloads."""

    waitpoint_id: UUID
    waitpoint_key: str = ""
    payload_schema: dict[str, object] | None = None


class UsePending(Struct, frozen=True, tag=True):
    """A waitpoint that was created ahead, with its buffered signals."""

    waitpoint_id: UUID


Binding = FreshWaitpoint | UsePending


class Suspension(Struct, frozen=True):
    """A row of `ff_suspension_current`: the latest suspension of an execution, open or closed."""

    partition_key: int
    execution_id: UUID
    suspension_id: UUID
    suspended_at_ms: int
    timeout_at_ms: int | None
    reason_code: str
    condition: str
    satisfied_set: str
    timeout_behavior: str | None
    attempt_index: int
    requested_by: str
    resume_policy: str
    continuation_metadata_pointer: str | None
    primary_waitpoint_id: UUID | None
    last_signal_at_ms: int | None
    closer_signal_id: UUID | None
    satisfier_signal_ids: str
    closed_at_ms: int | None
    close_reason: str | None
    version: int

    @property
    def is_open(self) -> bool:
        return self.closed_at_ms is None


class Waitpoint(Struct, frozen=True):
    """A row of `ff_waitpoint_pending`. It has a digest of the token; the signing key remakes it."""

    partition_key: int
    waitpoint_id: UUID
    execution_id: UUID
    token_kid: str
    token_digest: str
    created_at_ms: int
    expires_at_ms: int | None
    waitpoint_key: str
    state: str
    required_signal_names: str
    activated_at_ms: int | None
    attempt_index: int
    suspension_id: UUID | None
    signal_count: int
    matched_signal_count: int
    last_signal_at_ms: int | None
    satisfied_at_ms: int | None
    closed_at_ms: int | None
    close_reason: str | None
    version: int
    signals_trimmed: int
    payload_schema: str | None = None
    approvers: str = "[]"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    def __repr__(self) -> str:
        return f"Waitpoint({self.waitpoint_id}, {self.waitpoint_key!r}, {self.state})"


class Signal(Struct, frozen=True):
    """A row of `ff_signal`."""

    partition_key: int
    execution_id: UUID
    signal_id: UUID
    waitpoint_id: UUID
    waitpoint_key: str
    suspension_id: UUID | None
    attempt_index: int
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    correlation_id: str
    payload_encoding: str | None
    target_scope: str
    idempotency_key: str | None
    created_at_ms: int
    accepted_at_ms: int
    observed_effect: str
    matched: int
    payload: bytes | None
    comment: str = ""
    link: str = ""


class SuspendArgs(Struct, frozen=True, kw_only=True):
    suspension_id: UUID
    waitpoints: Sequence[Binding]
    resume_condition: Condition
    reason_code: str = ReasonCode.WAITING_FOR_SIGNAL
    resume_policy: ResumePolicy = ResumePolicy()
    requested_by: str = "worker"
    timeout_at: int | None = None
    timeout_behavior: str = TimeoutBehavior.FAIL
    continuation_metadata_pointer: str | None = None
    idempotency_key: str | None = None
    now: int | None = None


class BoundWaitpoint(Struct, frozen=True):
    waitpoint_id: UUID
    waitpoint_key: str
    waitpoint_token: str

    def __repr__(self) -> str:
        return f"BoundWaitpoint({self.waitpoint_id}, {self.waitpoint_key!r})"


class ResumeSignal(Struct, frozen=True):
    signal_id: UUID
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    correlation_id: str
    accepted_at: int
    payload: bytes | None
    comment: str = ""
    link: str = ""


class SuspensionDetails(Struct, frozen=True):
    """The first waitpoint is the primary one."""

    suspension_id: UUID
    waitpoints: tuple[BoundWaitpoint, ...]
    signals: tuple[ResumeSignal, ...] = ()

    @property
    def waitpoint_id(self) -> UUID:
        return self.waitpoints[0].waitpoint_id

    @property
    def waitpoint_key(self) -> str:
        return self.waitpoints[0].waitpoint_key

    @property
    def waitpoint_token(self) -> str:
        return self.waitpoints[0].waitpoint_token

    @property
    def additional_waitpoints(self) -> tuple[BoundWaitpoint, ...]:
        return self.waitpoints[1:]


class Suspended(Struct, frozen=True, tag=True):
    details: SuspensionDetails
    handle: Handle


class ConditionMet(Struct, frozen=True, tag=True):
    """Buffered signals satisfied the condition: nothing was suspended, the handle stays valid."""

    details: SuspensionDetails


class PendingWaitpoint(Struct, frozen=True):
    """`links` are the approvers with their tokens."""

    waitpoint_id: UUID
    hmac_token: str
    links: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"PendingWaitpoint({self.waitpoint_id})"


class DeliverSignalArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    waitpoint_id: UUID
    signal_id: UUID
    waitpoint_token: str
    signal_name: str = ""
    signal_category: str = ""
    source_type: str = ""
    source_identity: str = ""
    payload: bytes | None = None
    payload_encoding: str = "json"
    comment: str = ""
    correlation_id: str = ""
    idempotency_key: str | None = None
    target_scope: str = "waitpoint"
    created_at: int | None = None
    dedup_ttl_ms: int = SIGNAL_DEDUP_MS
    resume_delay_ms: int | None = None
    max_signals_per_execution: int = MAX_SIGNALS
    signal_maxlen: int = SIGNAL_HISTORY
    now: int | None = None

    def __repr__(self) -> str:
        return f"DeliverSignalArgs({self.execution_id}, {self.waitpoint_id}, {self.signal_name!r})"


class ApprovalSignalArgs(Struct, frozen=True, kw_only=True):
    """`source_identity`: who decides."""

    execution_id: ExecutionId
    lane_id: str
    waitpoint_id: UUID
    signal_name: str = "approved"
    source_identity: str = ""
    idempotency_suffix: str = ""
    signal_dedup_ttl_ms: int = SIGNAL_DEDUP_MS
    maxlen: int = SIGNAL_HISTORY
    max_signals_per_execution: int = MAX_SIGNALS


class SignalAccepted(Struct, frozen=True, tag=True):
    signal_id: UUID
    effect: str


class SignalDuplicate(Struct, frozen=True, tag=True):
    existing_signal_id: UUID


class Resumed(Struct, frozen=True):
    public_state: PublicState


class WaitpointListed(Struct, frozen=True):
    """The public view of an open waitpoint: a fingerprint instead of its token."""

    waitpoint_id: UUID
    waitpoint_key: str
    state: str
    required_signal_names: tuple[str, ...]
    created_at: int
    activated_at: int | None
    expires_at: int | None
    execution_id: ExecutionId
    token_kid: str
    token_fingerprint: str
    payload_schema: dict[str, object] | None = None


class SuspendedListed(Struct, frozen=True):
    execution_id: ExecutionId
    suspended_at_ms: int
    reason: str
