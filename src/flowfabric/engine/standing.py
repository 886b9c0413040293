"""How limits stand: what is read of quotas and budgets, and what this process remembers of a quota between admissions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.ids import ExecutionId
from flowfabric.model.quota import DEFAULT_DIMENSION, BudgetState, QuotaPolicy, Standing
from flowfabric.rules.admission import Room, Spent, holders, room, spent
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

MAX_TALLIES = 10_000
MAX_DIMENSIONS = 1_000
SLACK_MS = 1_000
MOST_READ = 1_000_000
LAST = UUID(int=2**128 - 1)
READS_PER_QUOTA = 4


def quota_reads(quota: QuotaPolicy, now_ms: int, since_ms: int | None = None, dimension: str = DEFAULT_DIMENSION) -> list[Read]:
    """Who holds a place, and who was admitted within the window, or since a time."""
    group = {"quota_policy_id": quota.quota_policy_id}
    cap, rate = (min(most, MOST_READ) for most in (quota.active_concurrency_cap, quota.max_requests_per_window))
    start = max(now_ms - quota.window_ms, -1)
    after = start if since_ms is None else max(since_ms, start)
    return [
        Scan("held", group, limit=cap, columns=("execution_id",)),
        Scan("reserved", group, (now_ms - 1, LAST), limit=cap, columns=("execution_id", "reserved_until_ms")),
        Scan("quota_admitted", group, limit=cap, columns=("execution_id",)),
        Scan(
            "quota_window",
            {**group, "dimension": dimension},
            (after, LAST),
            limit=2 * rate,
            columns=("admitted_at_ms", "execution_id"),
        ),
    ]


def standing_of(quota: QuotaPolicy | None, rows: Sequence[list[Row]], now_ms: int) -> Standing:
    """From what `quota_reads` asked for."""
    leased, reserved, admitted, window = rows
    return Standing(
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


class Limited(Struct, frozen=True):
    """The limits of one execution, to be looked at beside it."""

    quota: QuotaPolicy | None
    budget_ids: tuple[str, ...]

    def reads(self, ident: ExecutionId, now_ms: int) -> list[Read]:
        reads: list[Read] = []
        if self.quota is not None:
            key = self.quota.quota_policy_id
            reads += [Get("ff_quota_policy", (key,)), Get("ff_quota_admitted", (key, str(ident)), ("execution_id",))]
            reads += quota_reads(self.quota, now_ms)
        return reads + (budget_reads(self.budget_ids) if self.budget_ids else [])

    def standing(self, rows: Iterator[list[Row]], now_ms: int) -> Standing:
        found = Standing()
        if self.quota is not None:
            policy, own = next(rows), next(rows)
            found = standing_of(QuotaPolicy(*policy[0]), [next(rows) for _ in range(READS_PER_QUOTA)], now_ms)
            mine = frozenset(ExecutionId(row[0]).uuid for row in own)
            found = structs.replace(found, admitted=found.admitted | mine)
        if self.budget_ids:
            found = structs.replace(found, budgets=tuple(budgets_in(next(rows), next(rows))))
        return found


class Tally(Struct):
    """A quota as of a version. Only admissions add to it, and each makes a new version; so as long as the version is
    the same, no more than `held` hold a place, and the admissions are these.
    """

    quota: QuotaPolicy
    held: int
    window: list[tuple[int, UUID]]


class Tallies:
    """Saves reading all holders and the whole window for every claim."""

    def __init__(self) -> None:
        self._known: dict[UUID, Tally] = {}

    def is_enough(self, quota: QuotaPolicy, wanted: int) -> bool:
        """Whether what is remembered tells all that has to be known to admit so many."""
        cap = quota.active_concurrency_cap
        if not cap and not quota.max_requests_per_window:
            return True
        tally = self._known.get(quota.quota_policy_id)
        return tally is not None and tally.quota.version == quota.version and (not cap or tally.held + wanted <= cap)

    def expected(self, quota_policy_id: UUID, wanted: int) -> QuotaPolicy | None:
        """A quota that will have to be looked at, as far as one can tell beforehand."""
        tally = self._known.get(quota_policy_id)
        return None if tally is None or self.is_enough(tally.quota, wanted) else tally.quota

    def reads(self, quota: QuotaPolicy, now_ms: int) -> list[Read]:
        """Of a window known in part, what came after that."""
        tally = self._known.get(quota.quota_policy_id)
        since = None if tally is None or not tally.window else tally.window[-1][0] - SLACK_MS
        return quota_reads(quota, now_ms, since)

    def learn(self, quota: QuotaPolicy, rows: Sequence[list[Row]], now_ms: int) -> None:
        held = len(holders(standing_of(quota, rows, now_ms)))
        old = self._known.get(quota.quota_policy_id)
        window = sorted({*(old.window if old is not None else ()), *((row[0], row[1]) for row in rows[3])})
        self._keep(Tally(quota, held, _recent(window, now_ms - quota.window_ms)))

    def admitted(self, quota: QuotaPolicy, entries: list[tuple[int, UUID]]) -> None:
        """This process has admitted some, and the version is one further."""
        old = self._known.get(quota.quota_policy_id)
        if old is None or old.quota.version != quota.version:
            return
        old.quota = structs.replace(quota, version=quota.version + 1)
        old.held += len(entries)
        if entries and quota.max_requests_per_window:
            old.window = _recent([*old.window, *sorted(entries)], entries[-1][0] - quota.window_ms)

    def forget(self, quota_policy_id: UUID) -> None:
        self._known.pop(quota_policy_id, None)

    def room(self, quota: QuotaPolicy, now_ms: int) -> Room:
        tally = self._known.get(quota.quota_policy_id)
        if tally is None:
            return room(quota, 0, (), now_ms)
        return room(quota, tally.held, [at for at, _ in tally.window], now_ms)

    def _keep(self, tally: Tally) -> None:
        if len(self._known) >= MAX_TALLIES:
            del self._known[next(iter(self._known))]
        self._known[tally.quota.quota_policy_id] = tally


def _recent(window: list[tuple[int, UUID]], upto_ms: int) -> list[tuple[int, UUID]]:
    return window[bisect_right(window, (upto_ms, LAST)) :]
