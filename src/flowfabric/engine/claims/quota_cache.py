"""How limits stand: what is read of quotas and budgets, and what this process remembers of a quota between admissions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.ids import ExecutionId
from flowfabric.model.quota import DEFAULT_DIMENSION, BudgetState, LimitState, QuotaPolicy
from flowfabric.rules.claims.admission import Room, Spent, holders, room, spent
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

MAX_TALLIES = 10_000
MAX_DIMENSIONS = 1_000
SLACK_MS = 1_000
MOST_READ = 1_000_000
LAST = UUID(int=2**128 - 1)
READS_PER_QUOTA = 4


def quota_reads(
    quota: QuotaPolicy, now_ms: int, since_ms: int | None = None, dimension: str = DEFAULT_DIMENSION
) -> list[Read]:
    """Who holds a place, and who was admitted within the window, or since a time."""
    group = {"quota_policy_id": quota.quota_policy_id}
    cap, rate = (
        min(most, MOST_READ)
        for most in (quota.active_concurrency_cap, quota.max_requests_per_window)
    )
    start = max(now_ms - quota.window_ms, -1)
    after = start if since_ms is None else max(since_ms, start)
    return [
        Scan("held", group, limit=cap, columns=("execution_id",)),
        Scan(
            "reserved",
            group,
            (now_ms - 1, LAST),
            limit=cap,
            columns=("execution_id", "reserved_until_ms"),
        ),
        Scan("quota_admitted", group, limit=cap, columns=("execution_id",)),
        Scan(
            "quota_window",
            {**group, "dimension": dimension},
            (after, LAST),
            limit=2 * rate,
            columns=("admitted_at_ms",),
        ),
    ]


def standing_of(quota: QuotaPolicy | None, rows: Sequence[list[Row]], now_ms: int) -> LimitState:
    """From what `quota_reads` asked for."""
    leased, reserved, admitted, window = rows
    return LimitState(
        quota,
        frozenset(row[0] for row in leased),
        frozenset(row[0] for row in reserved if row[1] >= now_ms),
        frozenset(ExecutionId(row[0]).uuid for row in admitted),
        tuple(row[0] for row in window),
    )


def budget_reads(budget_ids: Iterable[str]) -> list[Read]:
    keys = [(UUID(text),) for text in budget_ids]
    return [
        GetAll("ff_budget_policy", keys, ("budget_id", "policy_json")),
        ScanAll("usage_of", keys, MAX_DIMENSIONS, ("budget_id", "dimensions_key", "current_value")),
    ]


def budgets_in(policies: Sequence[Row], usage: Sequence[Row]) -> list[BudgetState]:
    used: dict[UUID, dict[str, int]] = {}
    for budget_id, dimension, value in usage:
        used.setdefault(budget_id, {})[dimension] = value
    return [BudgetState(str(row[0]), row[1], used.get(row[0], {})) for row in policies]


def over_limit(budgets: Iterable[BudgetState]) -> dict[str, Spent]:
    found = ((budget.budget_id, spent(budget)) for budget in budgets)
    return {ident: breach for ident, breach in found if breach is not None}


class ExecutionLimits(Struct, frozen=True):
    """The limits of one execution, to be looked at beside it."""

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
            policy, own = next(rows), next(rows)
            current = QuotaPolicy(*policy[0])
            quota = (
                current if current.admits_as(self.quota) else self.quota
            )  # whose version is refused: it is counted anew
            found = standing_of(quota, [next(rows) for _ in range(READS_PER_QUOTA)], now_ms)
            mine = frozenset(ExecutionId(row[0]).uuid for row in own)
            found = structs.replace(found, admitted=found.admitted | mine)
        if self.budget_ids:
            found = structs.replace(found, budgets=tuple(budgets_in(next(rows), next(rows))))
        return found


class CachedQuota(Struct):
    """A quota as of a version. Only admissions add to it, and each makes a new version; so as long as the version is
    the same, no more than `held` hold a place, and these are the times of the admissions, ascending.
    """

    quota: QuotaPolicy
    held: int
    window: list[int]


class QuotaCache:
    """Saves reading all holders and the whole window for every claim."""

    def __init__(self) -> None:
        self._known: dict[UUID, CachedQuota] = {}

    def is_enough(self, quota: QuotaPolicy, wanted: int) -> bool:
        """Whether what is remembered tells all that has to be known to admit so many."""
        cap = quota.active_concurrency_cap
        if not cap and not quota.max_requests_per_window:
            return True
        tally = self._known.get(quota.quota_policy_id)
        return (
            tally is not None
            and tally.quota.version == quota.version
            and (not cap or tally.held + wanted <= cap)
        )

    def expected(self, quota_policy_id: UUID, wanted: int) -> QuotaPolicy | None:
        """A quota that will have to be looked at, as far as one can tell beforehand."""
        tally = self._known.get(quota_policy_id)
        return None if tally is None or self.is_enough(tally.quota, wanted) else tally.quota

    def reads(self, quota: QuotaPolicy, now_ms: int) -> list[Read]:
        """Of a window known in part, what came after that. A window of other limits may have been a shorter one."""
        tally = self._known.get(quota.quota_policy_id)
        is_known = tally is not None and tally.window and tally.quota.admits_as(quota)
        since = tally.window[-1] - SLACK_MS if tally is not None and is_known else None
        return quota_reads(quota, now_ms, since)

    def learn(
        self,
        read_for: QuotaPolicy,
        quota: QuotaPolicy,
        reads: Sequence[Read],
        rows: Sequence[list[Row]],
        now_ms: int,
    ) -> bool:
        """What `reads` found. Times before those it asked for are known from earlier. False where it read for other limits."""
        if not read_for.admits_as(quota):
            self.forget(quota.quota_policy_id)
            return False
        asked = reads[-1]
        assert isinstance(asked, Scan) and asked.after is not None
        old = self._known.get(quota.quota_policy_id)
        if old is not None and old.quota.version > quota.version:
            return True  # this process has admitted others since that was read; who decides by it will be refused
        known = [] if old is None else old.window[: bisect_right(old.window, asked.after[0])]
        window = known + [row[0] for row in rows[-1]]
        del window[: bisect_right(window, now_ms - quota.window_ms)]
        if len(self._known) >= MAX_TALLIES and old is None:
            del self._known[next(iter(self._known))]
        held = len(holders(standing_of(quota, rows, now_ms)))
        cut_off = (
            asked.limit > 0 and len(rows[-1]) >= asked.limit
        )  # by hand more can be admitted than the policy allows
        self._known[quota.quota_policy_id] = CachedQuota(
            structs.replace(quota, version=-1) if cut_off else quota, held, window
        )
        return True

    def admitted(self, quota: QuotaPolicy, times: list[int]) -> None:
        """This process has admitted some, and the version is one further."""
        tally = self._known.get(quota.quota_policy_id)
        if tally is None or tally.quota.version != quota.version:
            return
        tally.quota = structs.replace(quota, version=quota.version + 1)
        tally.held += len(times)
        if times and quota.max_requests_per_window:
            tally.window += sorted(times)
            del tally.window[: bisect_right(tally.window, times[0] - quota.window_ms)]

    def forget(self, quota_policy_id: UUID) -> None:
        self._known.pop(quota_policy_id, None)

    def room(self, quota: QuotaPolicy, now_ms: int) -> Room:
        tally = self._known.get(quota.quota_policy_id)
        return (
            room(quota, 0, (), now_ms)
            if tally is None
            else room(quota, tally.held, tally.window, now_ms)
        )
