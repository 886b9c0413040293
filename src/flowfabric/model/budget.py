"""Budgets: their limits, their usage, and the results of a usage report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.errors import Corruption
from flowfabric.ids import ExecutionId

MAX_DIMENSIONS = 64
MAX_AMOUNT = 2**63 - 1
USAGE_DEDUP_MS = 86_400_000
MAX_DIMENSION_BYTES = 256
MAX_USAGE_KEY_BYTES = 1_024


class HardLimitAction(StrEnum):
    """What a refused report does to its execution. Other values only refuse the report."""

    REJECT = "reject"
    FAIL_EXECUTION = "fail_execution"
    SUSPEND_EXECUTION = "suspend_execution"
    CANCEL_FLOW_PENDING = "cancel_flow_pending"


RESERVED_ACTIONS = ("cancel_execution",)
ACTIONS = (
    HardLimitAction.FAIL_EXECUTION,
    HardLimitAction.SUSPEND_EXECUTION,
    HardLimitAction.CANCEL_FLOW_PENDING,
)


class BudgetLimitsArgs(Struct, frozen=True, kw_only=True):
    """Limits are in the order of the dimensions; 0 is no limit. Without an interval, no resets."""

    budget_id: UUID
    on_hard_limit: str = HardLimitAction.REJECT
    on_soft_limit: str = "warn"
    reset_interval_ms: int = 0
    dimensions: Sequence[str] = ()
    hard_limits: Sequence[int] = ()
    soft_limits: Sequence[int] = ()


class CreateBudgetArgs(BudgetLimitsArgs, frozen=True, kw_only=True):
    """The default namespace is `default`; over HTTP, the namespace of the token."""

    scope_type: str = ""
    scope_id: str = ""
    enforcement_mode: str = "strict"
    now: int | None = None
    namespace: str | None = None


class UpdateBudgetArgs(BudgetLimitsArgs, frozen=True, kw_only=True):
    """The new limits of a budget; unnamed dimensions have none. The event contains `by`."""

    by: str = ""


class BudgetCreated(Struct, frozen=True, tag=True):
    budget_id: UUID


class BudgetAlreadySatisfied(Struct, frozen=True, tag=True):
    """The budget exists; nothing was compared or changed."""

    budget_id: UUID


class Limits(Struct, frozen=True):
    """The limits of a budget, and what happens when a report is refused."""

    hard_limits: dict[str, int] = {}
    soft_limits: dict[str, int] = {}
    reset_interval_ms: int = 0
    on_hard_limit: str = HardLimitAction.REJECT
    on_soft_limit: str = "warn"


class BudgetUpdated(Struct, frozen=True, tag=True):
    budget_id: UUID
    old: Limits
    new: Limits


class BudgetUnchanged(Struct, frozen=True, tag=True):
    """The budget has these limits already; nothing was written."""

    budget_id: UUID


class UsageDimensions(Struct, frozen=True, kw_only=True):
    """The usage that a worker reports. Tokens and time are dimensions of these names."""

    custom: Mapping[str, int] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    wall_ms: int | None = None
    dedup_key: str | None = None


class ReportUsageAdminArgs(Struct, frozen=True, kw_only=True):
    dimensions: Sequence[str]
    deltas: Sequence[int]
    dedup_key: str | None = None
    now: int | None = None


class RecordSpendArgs(Struct, frozen=True, kw_only=True):
    """Usage of one execution, which can be released. An empty key disables deduplication."""

    budget_id: UUID
    execution_id: ExecutionId
    deltas: Mapping[str, int]
    idempotency_key: str = ""


class UsageOk(Struct, frozen=True, tag=True):
    pass


class SoftBreach(Struct, frozen=True, tag=True):
    """Counted, and above the soft limit; `current_usage` includes this report."""

    dimension: str
    current_usage: int
    soft_limit: int


class HardBreach(Struct, frozen=True, tag=True):
    """Not counted. `current_usage` is the stored value, `action` what was done to the execution."""

    dimension: str
    current_usage: int
    hard_limit: int
    action: str | None = None


class UsageAlreadyApplied(Struct, frozen=True, tag=True):
    pass


UsageResult = UsageOk | SoftBreach | HardBreach | UsageAlreadyApplied


class BudgetReset(Struct, frozen=True):
    """The time of the next reset; 0 without an interval."""

    next_reset_at: int


class BudgetStatus(Struct, frozen=True):
    budget_id: str
    scope_type: str
    scope_id: str
    enforcement_mode: str
    usage: dict[str, int]
    hard_limits: dict[str, int]
    soft_limits: dict[str, int]
    breach_count: int
    soft_breach_count: int
    last_breach_at: str | None
    last_breach_dim: str | None
    next_reset_at: str | None
    created_at: str


class UsageAndLimits(Struct, frozen=True):
    limits: dict[str, str]
    usage: dict[str, int]

    def hard(self) -> list[tuple[str, int, int]]:
        """Each dimension with a hard limit: its name, its usage, the limit."""
        hard = (
            (n.removeprefix("hard:"), int(most)) for n, most in self.limits.items() if "hard:" in n
        )
        return [(name, self.usage.get(name, 0), most) for name, most in hard if most > 0]


class Reconciliation(Struct, frozen=True):
    """`processed` counts the errors found, not the rows checked."""

    processed: int
    errors: int = 0


class StoredLimits(Limits, frozen=True):
    """The content of `policy_json`. `formerly`: lowered hard limits, up to which usage may be."""

    formerly: dict[str, int] = {}


class BudgetPolicy(Struct, frozen=True):
    """A row of `ff_budget_policy`."""

    budget_id: UUID
    partition_key: int
    namespace: str
    policy_json: str
    scope_type: str
    scope_id: str
    enforcement_mode: str
    breach_count: int
    soft_breach_count: int
    last_breach_at_ms: int | None
    last_breach_dim: str | None
    next_reset_at_ms: int | None
    changed_at_ms: int | None
    created_at_ms: int
    updated_at_ms: int
    version: int

    @property
    def limits(self) -> StoredLimits:
        return limits_of(self.policy_json)


@lru_cache(4_096)
def limits_of(text: str) -> StoredLimits:
    try:
        return msgspec.json.decode(text, type=StoredLimits)
    except msgspec.MsgspecError as error:
        raise Corruption(f"policy_json of a budget: {error}") from error
