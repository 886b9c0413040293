"""Reads the heads of a lane's queues together with the quotas and budgets that limit them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, starmap
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.claims import quota_cache
from flowfabric.engine.claims.next_opening import Place
from flowfabric.engine.executions.quarantine import readable_rows
from flowfabric.model.quota import BUDGET_GATE, QuotaPolicy
from flowfabric.rules.claims.admission import Breach, Candidate, Capacity
from flowfabric.store.port import GetAll, Read, Row, Scan, ScanAll, Store

MAX_KNOWN_BUDGETS = 256
SMALLEST_PAGE, LARGEST_PAGE = 4, 1_000
_COLUMNS = Candidate.__struct_fields__


class QueueHeads(Struct):
    """The first rows of some queues of a lane. `last_read` holds the queues that have more rows."""

    now_ms: int
    candidates: list[Candidate]
    last_read: dict[str, Candidate]
    quotas: dict[str, QuotaPolicy]
    capacities: dict[str, Capacity]
    breaches: dict[str, Breach]


class _Counted(Struct):
    """Quotas by id, those whose usage is now known, and the rows of the other reads."""

    now_ms: int
    quotas: dict[UUID, QuotaPolicy]
    known: set[UUID]
    rows: list[list[Row]]


class QueueReader:
    """One per engine. Expects the budgets of the last read, so most reads are one round trip."""

    def __init__(self, store: Store, quota_cache: quota_cache.QuotaCache) -> None:
        self._store, self._quota_cache = store, quota_cache
        self._budgets: dict[Place, frozenset[str]] = {}

    async def read(self, place: Place, gates: Sequence[str], wanted: int) -> QueueHeads:
        ids = {gate: UUID(gate) for gate in gates if gate != BUDGET_GATE}
        page = min(max(wanted, SMALLEST_PAGE), LARGEST_PAGE)
        reads: list[Read] = [
            ScanAll("ready", [(*place, gate) for gate in (*gates, "")], page, _COLUMNS)
        ]
        expected = self._budgets.get(place, frozenset())
        reads += quota_cache.budget_reads(expected) if expected else []
        to_count = [
            quota
            for ident in ids.values()
            if (quota := self._quota_cache.expected(ident, wanted)) is not None
        ]
        found = await self._count(ids.values(), to_count, reads)
        rows, *budget_rows = found.rows
        candidates = list(starmap(Candidate, rows))
        last_read = _queues_with_more(candidates, page)
        candidates = await readable_rows(self._store, candidates, of_budgets=True)
        breaches = (
            quota_cache.breaches_of(quota_cache.budget_states(*budget_rows)) if expected else {}
        )
        budgets = _budgets_of(candidates)
        uncounted = [
            quota
            for ident, quota in found.quotas.items()
            if ident not in found.known and not self._quota_cache.is_enough(quota, wanted)
        ]
        await self._read_unexpected(uncounted, budgets - expected, found.quotas, breaches)
        self._budgets[place] = frozenset(sorted(budgets)[:MAX_KNOWN_BUDGETS])
        quotas = {gate: found.quotas[ident] for gate, ident in ids.items() if ident in found.quotas}
        capacities = {
            gate: self._quota_cache.capacity_of(quota, found.now_ms)
            for gate, quota in quotas.items()
        }
        return QueueHeads(found.now_ms, candidates, last_read, quotas, capacities, breaches)

    async def read_more(
        self, place: Place, heads: QueueHeads, gates: Sequence[str], page: int
    ) -> None:
        """The next page of these queues, with the budgets that are new in it."""
        lane, namespace = place
        reads = [
            Scan(
                "ready",
                {"lane_id": lane, "namespace": namespace, "gate": gate},
                _position(heads.last_read[gate]),
                limit=page,
                columns=_COLUMNS,
            )
            for gate in gates
        ]
        found: list[Candidate] = []
        for gate, rows in zip(gates, (await self._store.load(reads)).rows, strict=True):
            found += starmap(Candidate, rows)
            if len(rows) < page:
                del heads.last_read[gate]
            else:
                heads.last_read[gate] = found[-1]
        found = await readable_rows(self._store, found, of_budgets=True)
        budgets = _budgets_of(found) - _budgets_of(heads.candidates)
        if budgets:
            policies, usage = (await self._store.load(quota_cache.budget_reads(budgets))).rows
            heads.breaches.update(
                quota_cache.breaches_of(quota_cache.budget_states(policies, usage))
            )
        heads.candidates += found

    async def _read_unexpected(
        self,
        uncounted: list[QuotaPolicy],
        budgets: set[str],
        quotas: dict[UUID, QuotaPolicy],
        breaches: dict[str, Breach],
    ) -> None:
        """A second round trip, for quotas and budgets that the first one did not count.

        A quota that stays uncounted keeps its former version, so the commit refuses it.
        """
        if not uncounted and not budgets:
            return
        reads = quota_cache.budget_reads(budgets) if budgets else []
        found = await self._count([q.quota_policy_id for q in uncounted], uncounted, reads)
        quotas.update({ident: found.quotas[ident] for ident in found.known})
        if budgets:
            breaches.update(quota_cache.breaches_of(quota_cache.budget_states(*found.rows)))

    async def _count(
        self, quota_ids: Iterable[UUID], to_count: Collection[QuotaPolicy], reads: Sequence[Read]
    ) -> _Counted:
        """Reads the policies of quotas, the usage of some of them, and `reads`, in one load."""
        now = await self._store.now_ms()
        usage = [self._quota_cache.reads(quota, now) for quota in to_count]
        policies = GetAll("ff_quota_policy", [(ident,) for ident in quota_ids])
        loaded = await self._store.load([policies, *reads, *chain.from_iterable(usage)])
        stored, *rows = loaded.rows
        quotas = {quota.quota_policy_id: quota for quota in starmap(QuotaPolicy, stored)}
        known = set()
        start = len(reads)
        for quota, asked in zip(to_count, usage, strict=True):
            ident, counted = (
                quota.quota_policy_id,
                rows[start : start + quota_cache.READS_PER_QUOTA],
            )
            if self._quota_cache.learn(quota, quotas[ident], asked, counted, loaded.now_ms):
                known.add(ident)
            start += quota_cache.READS_PER_QUOTA
        return _Counted(loaded.now_ms, quotas, known, rows[: len(reads)])


def _queues_with_more(candidates: Sequence[Candidate], page: int) -> dict[str, Candidate]:
    counts = Counter(candidate.gate for candidate in candidates)
    last = {candidate.gate: candidate for candidate in candidates}
    return {gate: last[gate] for gate, count in counts.items() if count >= page}


def _position(candidate: Candidate) -> tuple[int, int, UUID]:
    return candidate.priority, candidate.created_at_ms, candidate.execution_id


def _budgets_of(candidates: Iterable[Candidate]) -> set[str]:
    return {budget for candidate in candidates for budget in candidate.budget_ids}
