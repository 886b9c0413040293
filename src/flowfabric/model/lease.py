"""Handles, leases, grants, and the results of operations on them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.state import OPERATOR_OVERRIDE

MAX_LEASE_TTL_MS = 86_400_000
MAX_GRANT_TTL_MS = 86_400_000
MAX_CLAIM_BATCH = 256
MAX_WAIT_MS = 600_000


class BackendTag(IntEnum):
    """The kind of store that made a handle. The in-memory store counts as embedded, like SQLite."""

    VALKEY = 1
    POSTGRES = 2
    SQLITE = 3

    @property
    def label(self) -> str:
        return self.name.capitalize()


class HandleKind(StrEnum):
    FRESH = "Fresh"
    RESUMED = "Resumed"
    SUSPENDED = "Suspended"
    RECLAIMED = "Reclaimed"


class Handle(Struct, frozen=True, gc=False):
    """Proves that a worker owns an attempt. The bytes are a credential: never log or list them."""

    backend: str
    kind: HandleKind
    opaque: bytes

    def __repr__(self) -> str:
        return f"Handle({self.backend}, {self.kind.value}, <{len(self.opaque)} bytes>)"


class HandleFields(Struct, frozen=True, gc=False):
    """The decoded bytes of a handle."""

    tag: BackendTag
    execution_id: ExecutionId
    attempt_index: int
    attempt_id: UUID
    lease_id: UUID
    lease_epoch: int
    lease_ttl_ms: int
    lane_id: str
    worker_instance_id: str


class LeaseFence(Struct, frozen=True):
    lease_id: UUID
    lease_epoch: int
    attempt_id: UUID


class ClaimPolicy(Struct, frozen=True, gc=False):
    """The worker, the lease time, and the namespace to claim from; None is all namespaces."""

    worker_id: str
    worker_instance_id: str
    lease_ttl_ms: int = 30_000
    max_wait_ms: int | None = None
    namespace: str | None = "default"


class Work(Struct, frozen=True, gc=False):
    """A claimed execution. `time_used_ms`: the part of its timeout that was used before."""

    handle: Handle
    execution_id: ExecutionId
    attempt_index: int
    lease_epoch: int
    lease_expires_at: int
    execution_kind: str
    input_payload: bytes
    tags: dict[str, str]
    time_used_ms: int = 0


class LeaseRenewal(Struct, frozen=True, gc=False):
    expires_at_ms: int
    lease_epoch: int


class Grant(Struct, frozen=True):
    """A row of `ff_claim_grant`."""

    partition_key: int
    execution_id: UUID
    grant_id: str
    kind: str
    worker_id: str
    worker_instance_id: str
    lane_id: str
    capability_hash: str | None
    worker_capabilities: tuple[str, ...]
    route_snapshot_json: str | None
    admission_summary: str | None
    grant_ttl_ms: int
    issued_at_ms: int
    expires_at_ms: int


class _IssuedGrant(Struct, frozen=True):
    execution_id: ExecutionId
    partition_key: str
    grant_key: str
    expires_at_ms: int


class ClaimGrant(_IssuedGrant, frozen=True, tag=True):
    pass


class ResumeGrant(_IssuedGrant, frozen=True):
    lane_id: str


class ReclaimGrant(ResumeGrant, frozen=True, tag=True):
    pass


class ResumeToken(Struct, frozen=True):
    grant: ResumeGrant
    worker_id: str
    worker_instance_id: str
    lease_ttl_ms: int


class IssueGrantArgs(Struct, frozen=True, kw_only=True):
    """The result for a claim grant or a reclaim grant."""

    execution_id: ExecutionId
    worker_id: str
    worker_instance_id: str
    lane_id: str = ""
    grant_ttl_ms: int
    worker_capabilities: frozenset[str] = frozenset()
    capability_hash: str | None = None
    route_snapshot_json: str | None = None
    admission_summary: str | None = None
    partition: int | str | None = None
    now: int | None = None


class Granted(Struct, frozen=True):
    execution_id: ExecutionId


class _LeaseRequest(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    worker_id: str
    worker_instance_id: str
    lease_ttl_ms: int
    lane_id: str = ""
    lease_id: UUID | None = None


class ClaimExecutionArgs(_LeaseRequest, frozen=True, kw_only=True):
    attempt_id: UUID | None = None
    expected_attempt_index: int = 0
    attempt_policy_json: str = ""
    attempt_timeout_ms: int | None = None
    execution_deadline_at: int | None = None
    now: int | None = None


class ClaimResumedArgs(_LeaseRequest, frozen=True, kw_only=True):
    current_attempt_index: int = 0
    remaining_attempt_timeout_ms: int | None = None
    now: int | None = None


class ReclaimExecutionArgs(_LeaseRequest, frozen=True, kw_only=True):
    capability_hash: str | None = None
    attempt_id: UUID | None = None
    attempt_policy_json: str = ""
    max_reclaim_count: int | None = None
    old_worker_instance_id: str = ""
    current_attempt_index: int = 0


class Claimed(Struct, frozen=True, tag=True):
    execution_id: ExecutionId
    lease_id: UUID
    lease_epoch: int
    attempt_index: int
    attempt_id: UUID
    attempt_type: str
    lease_expires_at: int
    handle: Handle


class GrantNotFound(Struct, frozen=True, tag=True):
    execution_id: ExecutionId


class NotReclaimable(Struct, frozen=True, tag=True):
    execution_id: ExecutionId
    detail: str


class ReclaimCapExceeded(Struct, frozen=True, tag=True):
    execution_id: ExecutionId
    reclaim_count: int


class NoWork(Struct, frozen=True, tag=True):
    pass


class Revoked(Struct, frozen=True, tag=True):
    """The revoked lease as composite text, and the epoch that replaced it as decimal text."""

    lease_id: str
    lease_epoch: str


class AlreadySatisfied(Struct, frozen=True, tag=True):
    reason: str


class MarkedExpired(Struct, frozen=True, tag=True):
    pass


class RevokeLeaseArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    expected_lease_id: str | UUID | None = None
    worker_instance_id: str = ""
    reason: str = ""


class RenewLeaseArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    attempt_index: int
    fence: LeaseFence | None = None
    lease_ttl_ms: int
    lease_history_grace_ms: int = 60_000


class Renewed(Struct, frozen=True):
    expires_at: int


class UpdateProgressArgs(Struct, frozen=True, kw_only=True):
    execution_id: ExecutionId
    lease_id: UUID
    lease_epoch: int
    attempt_id: UUID
    progress_pct: int | None = None
    progress_message: str | None = None


class EndArgs(Struct, frozen=True, kw_only=True):
    """The common fields of complete, fail and delay."""

    execution_id: ExecutionId
    fence: LeaseFence | None = None
    attempt_index: int = 0
    source: str = OPERATOR_OVERRIDE


class CompleteExecutionArgs(EndArgs, frozen=True, kw_only=True):
    result_payload: bytes | None = None
    result_encoding: str | None = None


class FailExecutionArgs(EndArgs, frozen=True, kw_only=True):
    failure_reason: str
    failure_category: str
    retry_policy_json: str = ""
    next_attempt_policy_json: str = ""


class DelayExecutionArgs(EndArgs, frozen=True, kw_only=True):
    delay_until: int


class Completed(Struct, frozen=True):
    execution_id: ExecutionId
    public_state: str = "completed"


class ExpiredLeaseInfo(Struct, frozen=True):
    """`lease_id` is the lease's mark, not the id itself."""

    execution_id: ExecutionId
    lease_id: UUID | None
    lease_epoch: int
    worker_instance_id: str | None
    expires_at_ms: int
    attempt_index: int


class IssuedAndClaimed(Struct, frozen=True):
    lease_id: UUID
    lease_epoch: int
    attempt_index: int
    handle: Handle


class Capabilities(Struct, frozen=True):
    identity: Mapping[str, object]
    supports: dict[str, bool]
