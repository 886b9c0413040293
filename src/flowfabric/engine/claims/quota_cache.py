"""The usage of quotas and budgets: how it is read, and what is cached between admissions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.ids import ExecutionId
from flowfabric.model.quota import DEFAULT_DIMENSION, BudgetState, LimitState, QuotaPolicy
from flowfabric.rules.claims.admission import Breach, Capacity, breach_of, capacity_of, slot_holders
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

MAX_QUOTAS = 10_000
MAX_DIMENSIONS = 1_000
SLACK_MS = 1_000
MAX_READ = 1_000_000
LAST_UUID = UUID(int=2**128 - 1)
READS_PER_QUOTA = 4


def quota_reads(
    quota: QuotaPolicy, now_ms: int, since_ms: int | None = None, dimension: str = DEFAULT_DIMENSION
) -> list[Read]:
    """The slot holders of a quota, and its admissions within the window or since a time."""
    group = {"quota_policy_id": quota.quota_policy_id}
    cap, rate = (
        min(most, MAX_READ)
        for most in (quota.active_concurrency_cap, quota.max_requests_per_window)
    )
    start = max(now_ms - quota.window_ms, -1)
    after = start if since_ms is None else max(since_ms, start)
    return [
        Scan("held", group, limit=cap, columns=("execution_id",)),
        Scan(
            "reserved",
            group,
            (now_ms - 1, LAST_UUID),
            limit=cap,
            columns=("execution_id", "reserved_until_ms"),
        ),
        Scan("quota_admitted", group, limit=cap, columns=("execution_id",)),
        Scan(
            "quota_window",
            {**group, "dimension": dimension},
            (after, LAST_UUID),
            limit=2 * rate,
            columns=("admitted_at_ms",),
        ),
    ]


def standing_of(quota: QuotaPolicy | None, rows: Sequence[list[Row]], now_ms: int) -> LimitState:
    """The usage of a quota, from the rows of `quota_reads`."""
    leased, reserved, admitted, window = rows
    return LimitState(
        quota,
        frozenset(ident for (ident,) in leased),
        frozenset(ident for ident, until_ms in reserved if until_ms >= now_ms),
        frozenset(ExecutionId(text).uuid for (text,) in admitted),
        tuple(admitted_at_ms for (admitted_at_ms,) in window),
    )


def budget_reads(budget_ids: Iterable[str]) -> list[Read]:
    keys = [(UUID(text),) for text in budget_ids]
    return [
        GetAll("ff_budget_policy", keys, ("budget_id", "policy_json")),
        ScanAll("usage_of", keys, MAX_DIMENSIONS, ("budget_id", "dimensions_key", "current_value")),
    ]


def budget_states(policies: Sequence[Row], usage: Sequence[Row]) -> list[BudgetState]:
    used: dict[UUID, dict[str, int]] = {}
    for budget_id, dimension, value in usage:
        used.setdefault(budget_id, {})[dimension] = value
    return [BudgetState(str(ident), policy, used.get(ident, {})) for ident, policy in policies]


def breaches_of(budgets: Iterable[BudgetState]) -> dict[str, Breach]:
    found = ((budget.budget_id, breach_of(budget)) for budget in budgets)
    return {ident: breach for ident, breach in found if breach is not None}


class ExecutionLimits(Struct, frozen=True):
    """The limits of one execution, read beside it."""

    quota: QuotaPolicy | None
    budget_ids: tuple[str, ...]

    def reads(self, ident: ExecutionId, now_ms: int) -> list[Read]:
        reads: list[Read] = []
        if self.quota is not None:
            key = self.quota.quota_policy_id
            reads += [
                Get("ff_quota_policy", (key,)),
                Get("ff_quota_admitted", (key, str(ident)), ("execution_id",)),
            ]
            reads += quota_reads(self.quota, now_ms)
        return reads + (budget_reads(self.budget_ids) if self.budget_ids else [])

    def standing(self, rows: Iterator[list[Row]], now_ms: int) -> LimitState:
        found = LimitState()
        if self.quota is not None:
            (current,), own = starmap(QuotaPolicy, next(rows)), next(rows)
            # With other limits the usage was read for the former ones, whose version is refused.
            quota = current if current.admits_as(self.quota) else self.quota
            found = standing_of(quota, [next(rows) for _ in range(READS_PER_QUOTA)], now_ms)
            mine = frozenset(ExecutionId(text).uuid for (text,) in own)
            found = structs.replace(found, admitted=found.admitted | mine)
        if self.budget_ids:
            found = structs.replace(found, budgets=tuple(budget_states(next(rows), next(rows))))
        return found


class CachedQuota(Struct):
    """The usage of a quota at a version. `window` holds the times of admissions, ascending.

    Only admissions add to it, and each makes a new version: at this version at most `held`
    executions hold a slot.
    """

    quota: QuotaPolicy
    held: int
    window: list[int]


class QuotaCache:
    """Saves reading all slot holders and the whole window for every claim."""

    def __init__(self) -> None:
        self._cached: dict[UUID, CachedQuota] = {}

    def is_enough(self, quota: QuotaPolicy, wanted: int) -> bool:
        """Whether the cached usage suffices to admit `wanted` executions."""
        cap = quota.active_concurrency_cap
        if not cap and not quota.max_requests_per_window:
            return True
        cached = self._cached.get(quota.quota_policy_id)
        return (
            cached is not None
            and cached.quota.version == quota.version
            and (not cap or cached.held + wanted <= cap)
        )

    def expected(self, quota_policy_id: UUID, wanted: int) -> QuotaPolicy | None:
        """The quota, if its usage will probably have to be read."""
        cached = self._cached.get(quota_policy_id)
        return None if cached is None or self.is_enough(cached.quota, wanted) else cached.quota

    def reads(self, quota: QuotaPolicy, now_ms: int) -> list[Read]:
        """The reads of its usage. A window cached for the same limits is read from its end."""
        cached = self._cached.get(quota.quota_policy_id)
        is_known = cached is not None and cached.window and cached.quota.admits_as(quota)
        since = cached.window[-1] - SLACK_MS if cached is not None and is_known else None
        return quota_reads(quota, now_ms, since)

    def learn(
        self,
        read_for: QuotaPolicy,
        quota: QuotaPolicy,
        reads: Sequence[Read],
        rows: Sequence[list[Row]],
        now_ms: int,
    ) -> bool:
        """Caches what `reads` found, and keeps earlier times. False if the limits have changed."""
        if not read_for.admits_as(quota):
            self.forget(quota.quota_policy_id)
            return False
        *_, asked = reads
        assert isinstance(asked, Scan) and asked.after is not None
        old = self._cached.get(quota.quota_policy_id)
        if old is not None and old.quota.version > quota.version:
            return True  # this process has admitted since the read; a decision by it is refused
        since_ms, _ = asked.after
        earlier = [] if old is None else old.window[: bisect_right(old.window, since_ms)]
        *_, admissions = rows
        window = earlier + [admitted_at_ms for (admitted_at_ms,) in admissions]
        del window[: bisect_right(window, now_ms - quota.window_ms)]
        if len(self._cached) >= MAX_QUOTAS and old is None:
            del self._cached[next(iter(self._cached))]
        held = len(slot_holders(standing_of(quota, rows, now_ms)))
        # Operators can admit more than the policy allows; such a window is not cached as complete.
        is_cut = 0 < asked.limit <= len(admissions)
        self._cached[quota.quota_policy_id] = CachedQuota(
            structs.replace(quota, version=-1) if is_cut else quota, held, window
        )
        return True

    def admitted(self, quota: QuotaPolicy, times: list[int]) -> None:
        """This process admitted executions at these times, which made the next version."""
        cached = self._cached.get(quota.quota_policy_id)
        if cached is None or cached.quota.version != quota.version:
            return
        cached.quota = structs.replace(quota, version=quota.version + 1)
        cached.held += len(times)
        if times and quota.max_requests_per_window:
            cached.window += sorted(times)
            del cached.window[: bisect_right(cached.window, times[0] - quota.window_ms)]

    def forget(self, quota_policy_id: UUID) -> None:
        self._cached.pop(quota_policy_id, None)

    def capacity_of(self, quota: QuotaPolicy, now_ms: int) -> Capacity:
        cached = self._cached.get(quota.quota_policy_id)
        if cached is None:
            return capacity_of(quota, 0, (), now_ms)
        return capacity_of(quota, cached.held, cached.window, now_ms)
