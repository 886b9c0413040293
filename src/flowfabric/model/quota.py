"""Quotas: limits of concurrency and rate, their scopes, and the results of admission."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId

MAX_LIMIT_VALUE = 2**63 - 1
DEFAULT_WINDOW_S = 60
DEFAULT_DIMENSION = "default"
MAX_DIMENSION_BYTES = 256
MAX_LIMIT_SCOPES = 10_000
SCOPE_TYPES = ("task", "flow", "tag", "lane", "namespace")
"""What a limit can be attached to, besides an execution; nearest first."""
LIMIT_KINDS = ("budget", "quota")
BUDGET_GATE = "budget"


class QuotaPolicy(Struct, frozen=True):
    """A row of `ff_quota_policy`. A limit of 0 is none."""

    quota_policy_id: UUID
    partition_key: int
    namespace: str
    requests_per_window_seconds: int
    max_requests_per_window: int
    active_concurrency_cap: int
    active_concurrency: int
    jitter_ms: int
    closed_until_ms: int | None
    changed_at_ms: int | None
    created_at_ms: int
    updated_at_ms: int
    version: int

    @property
    def window_ms(self) -> int:
        return (self.requests_per_window_seconds or DEFAULT_WINDOW_S) * 1_000

    def admits_as(self, other: QuotaPolicy) -> bool:
        """Whether both have the same limits, so that a count for one is valid for the other."""
        mine = (self.window_ms, self.max_requests_per_window, self.active_concurrency_cap)
        return mine == (
            other.window_ms,
            other.max_requests_per_window,
            other.active_concurrency_cap,
        )


class LimitScope(Struct, frozen=True):
    """A row of `ff_limit_scope`: later executions of this scope and namespace have this limit."""

    scope_type: str
    scope_id: str
    kind: str
    limit_id: UUID
    attached_at_ms: int
    namespace: str = "default"


class BudgetState(Struct, frozen=True):
    """A budget as admission reads it: its stored limits and its usage."""

    budget_id: str
    policy_json: str
    usage: dict[str, int]


class LimitState(Struct, frozen=True):
    """The limits of an execution as read: holders and window of its quota, and its budgets."""

    quota: QuotaPolicy | None = None
    leased: frozenset[UUID] = frozenset()
    reserved: frozenset[UUID] = frozenset()
    admitted: frozenset[UUID] = frozenset()
    window: tuple[int, ...] = ()
    budgets: tuple[BudgetState, ...] = ()


class Attached(Struct, frozen=True):
    """The limits of an execution. `gate` names its queue; empty without limits, at no cost."""

    budget_ids: tuple[str, ...] = ()
    quota_policy_id: UUID | None = None

    @property
    def gate(self) -> str:
        if self.quota_policy_id is not None:
            return str(self.quota_policy_id)
        return BUDGET_GATE if self.budget_ids else ""


class QuotaLimitsArgs(Struct, frozen=True, kw_only=True):
    """A limit of 0 is none; a window of 0 seconds is one of 60."""

    quota_policy_id: UUID
    window_seconds: int = DEFAULT_WINDOW_S
    max_requests_per_window: int = 0
    max_concurrent: int = 0
    jitter_ms: int = 0


class CreateQuotaPolicyArgs(QuotaLimitsArgs, frozen=True, kw_only=True):
    """The default namespace is `default`; over HTTP, the namespace of the token."""

    now: int | None = None
    namespace: str | None = None


class UpdateQuotaPolicyArgs(QuotaLimitsArgs, frozen=True, kw_only=True):
    """The new limits of a quota. The event contains `by`."""

    by: str = ""


class QuotaPolicyCreated(Struct, frozen=True, tag=True):
    quota_policy_id: UUID


class QuotaPolicyAlreadySatisfied(Struct, frozen=True, tag=True):
    """The quota exists; the other arguments are ignored."""

    quota_policy_id: UUID


class QuotaLimits(Struct, frozen=True):
    max_requests_per_window: int
    requests_per_window_seconds: int
    active_concurrency_cap: int
    jitter_ms: int

    @property
    def unlimited(self) -> bool:
        return not self.max_requests_per_window and not self.active_concurrency_cap


class QuotaPolicyUpdated(Struct, frozen=True, tag=True):
    quota_policy_id: UUID
    old: QuotaLimits
    new: QuotaLimits


class QuotaPolicyUnchanged(Struct, frozen=True, tag=True):
    """The quota has these limits already; nothing was written."""

    quota_policy_id: UUID


class CheckAdmissionArgs(Struct, frozen=True, kw_only=True):
    """The limits of the arguments apply, not those of the stored policy."""

    quota_policy_id: UUID
    execution_id: ExecutionId
    window_seconds: int = DEFAULT_WINDOW_S
    rate_limit: int = 0
    concurrency_cap: int = 0
    jitter_ms: int | None = None
    dimension: str = ""
    now: int | None = None


class Admitted(Struct, frozen=True, tag=True):
    pass


class AlreadyAdmitted(Struct, frozen=True, tag=True):
    """The execution holds a slot of this policy."""


class RateExceeded(Struct, frozen=True, tag=True):
    retry_after_ms: int


class ConcurrencyExceeded(Struct, frozen=True, tag=True):
    pass


Admission = Admitted | AlreadyAdmitted | RateExceeded | ConcurrencyExceeded


class Released(Struct, frozen=True):
    pass


class BlockForAdmissionArgs(Struct, frozen=True, kw_only=True):
    """`blocked_on` is budget:<uuid> or quota:<uuid>; by default the quota of the execution."""

    execution_id: ExecutionId
    reason: str
    lane_id: str = ""
    partition: int | str | None = None
    reason_detail: str | None = None
    blocked_on: str | None = None
    now: int | None = None


class Rejected(Struct, frozen=True, tag=True):
    """The execution is no longer blockable; the scheduler only logs it."""

    message: str


class Reconciled(Struct, frozen=True):
    """How many objects were corrected, and how many could not be checked."""

    processed: int = 0
    errors: int = 0
