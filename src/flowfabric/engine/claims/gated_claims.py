"""Claims of lanes whose work is under limits: whoever asks meanwhile is served together, one round after the other.

A round looks at the heads of the lane's queues and at the room their quotas have, decides who gets what, and commits that if no
quota has admitted anybody since it was looked at.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.batcher import Batcher
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.quota_cache import (
    READS_PER_QUOTA,
    QuotaCache,
    budget_reads,
    budgets_in,
    over_limit,
)
from flowfabric.engine.executions.quarantine import sound
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.errors import Contention, ContentionKind
from flowfabric.model.quota import BUDGET_GATE, QuotaPolicy
from flowfabric.plan import Plan, Refused
from flowfabric.rules.claims.admission import (
    CLAIM_COUNTED,
    CLAIM_GATED,
    Breach,
    Candidate,
    Capacity,
    Distribution,
    Request,
    Share,
    block_for_budget,
    distribute,
    queue_order,
    touch,
)
from flowfabric.rules.claims.claims import CLAIM
from flowfabric.rules.leases.acquisition import renew_within_ms
from flowfabric.store.port import GetAll, Read, Row, Scan, ScanAll, Store

MOST_GATES = 64
MOST_JOBS = 64
MOST_ROWS = 500
MOST_USUAL = 256
SMALLEST_PAGE, LARGEST_PAGE = 4, 1_000
MAX_TRIES = 1_000
FIRST_PAUSE_S, LAST_PAUSE_S = 0.001, 0.02
SHORTEST_WAIT_S = 0.001
KNOWN_FOR_S = 1.0
"""How long a look at a lane's quotas answers for the lane. The last claim may have gone to another process."""
MAX_LANES = 10_000
_COLUMNS = Candidate.__struct_fields__
Place = tuple[str, str]
"""A lane and a namespace."""


class Claimer(Struct, frozen=True):
    """One who asks for work of a lane, of one namespace or of all of them."""

    lane: str
    namespace: str | None
    capabilities: tuple[str, ...]
    worker_id: str
    instance: str
    ttl_ms: int
    wanted: int
    waits: bool = False

    @property
    def place(self) -> tuple[str, str | None]:
        return self.lane, self.namespace


class NextOpening(Struct, frozen=True):
    """When it may be worth asking again: at a time, or (`busy`) whenever something that runs has ended.

    `as_of_ms` is the store's time of the look, `seen` the monotonic time of this process at its end.
    """

    opens_at_ms: int | None = None
    busy: bool = False
    as_of_ms: int = 0
    seen: float = 0.0

    def wait_s(self, most: float) -> float:
        """How long nothing changes by itself, as far as is known; not longer than `most`."""
        if self.opens_at_ms is None:
            return most
        return min(
            max(
                (self.opens_at_ms - self.as_of_ms) / 1_000 - (time.monotonic() - self.seen),
                SHORTEST_WAIT_S,
            ),
            most,
        )

    def beside(self, other: NextOpening) -> NextOpening:
        """Both looks as one."""
        times = [at for at in (self.opens_at_ms, other.opens_at_ms) if at is not None]
        as_of_ms, seen = max((self.as_of_ms, self.seen), (other.as_of_ms, other.seen))
        return NextOpening(min(times, default=None), self.busy or other.busy, as_of_ms, seen)


class _QueueView(Struct):
    """The heads of some queues of a lane, with the quotas and budgets they are under. `behind`: queues with more rows."""

    now_ms: int
    candidates: list[Candidate]
    behind: dict[str, Candidate]
    quotas: dict[str, QuotaPolicy]
    rooms: dict[str, Capacity]
    over: dict[str, Breach]


class GatedClaims:
    """One per engine."""

    def __init__(
        self,
        store: Store,
        limit_cache: LimitCache,
        quota_cache: QuotaCache,
        telemetry: TelemetrySlot,
    ) -> None:
        self._store, self._limit_cache, self._telemetry = store, limit_cache, telemetry
        self._quota_cache = quota_cache
        self._claims: Batcher[Place, Claimer, tuple[list[Row], NextOpening]] = Batcher(
            self._serve_all, MOST_JOBS, fitting=_fitting
        )
        self._start: dict[Place, int] = {}
        self._usual: dict[Place, frozenset[str]] = {}
        self._known: dict[Place, NextOpening] = {}

    async def claim(self, claimer: Claimer) -> tuple[list[Row], NextOpening]:
        assert claimer.namespace is not None, "a round serves one namespace"
        place = (claimer.lane, claimer.namespace)
        return await self._claims.submit(place, claimer)

    async def finish(self) -> None:
        await self._claims.finish()

    async def _serve_all(
        self, place: Place, claimers: list[Claimer]
    ) -> list[tuple[list[Row], NextOpening]]:
        served, later = await self._serve(place, claimers)
        self._remember(place, later)
        return [(rows, later) for rows in served]

    async def _serve(
        self, place: Place, claimers: list[Claimer]
    ) -> tuple[list[list[Row]], NextOpening]:
        """A part of the gates after the other, until everybody has something."""
        served: list[list[Row]] = [[] for _ in claimers]
        later = NextOpening()
        for gates in self._parts(place, await self._limit_cache.gates(*place)):
            asking = [at for at, rows in enumerate(served) if not rows]
            got, said = await self._round(place, gates, [claimers[at] for at in asking])
            for at, rows in zip(asking, got, strict=True):
                served[at] = rows
            later = later.beside(said)
            if all(served):
                break
        return served, later

    def _parts(self, place: Place, gates: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Where there are many, each time another part comes first."""
        if len(gates) <= MOST_GATES:
            return [gates]
        start = self._start.get(place, 0) % len(gates)
        self._start[place] = start + MOST_GATES
        turned = gates[start:] + gates[:start]
        return [turned[at : at + MOST_GATES] for at in range(0, len(turned), MOST_GATES)]

    async def _round(
        self, place: Place, gates: tuple[str, ...], claimers: list[Claimer]
    ) -> tuple[list[list[Row]], NextOpening]:
        requests = [Request(c.wanted, frozenset(c.capabilities), c.worker_id) for c in claimers]
        for tries in range(MAX_TRIES):
            sight = await self._look(place, gates, sum(c.wanted for c in claimers))
            shared = await self._decide(place, sight, requests)
            rows = await self._take(sight, shared, claimers)
            if rows is not None:
                return rows, self._later(sight, shared)
            pause = min(FIRST_PAUSE_S * 2 ** min(tries, 5), LAST_PAUSE_S)
            await asyncio.sleep(pause * random.random())  # noqa: S311 - so that two who met do not meet again
        raise Contention(ContentionKind.RETRY_EXHAUSTED)

    def _later(self, sight: _QueueView, shared: Distribution) -> NextOpening:
        closed = [
            self._quota_cache.capacity_of(sight.quotas[gate], sight.now_ms) for gate in shared.full
        ]
        for found in closed:
            if found.why:
                self._telemetry.listener.quota_hit(
                    "concurrency" if found.why == "concurrency" else "rate"
                )
        return _later(closed, sight.now_ms)

    async def later(self, place: Place) -> NextOpening:
        """When the full quotas of a place open: as the last claim of this process found it, or as a look of its own does.

        A quota that has room is left out: what waits behind it could have been claimed.
        """
        known = self._known.get(place)
        if known is not None and time.monotonic() - known.seen < KNOWN_FOR_S:
            return known
        found = NextOpening()
        for gates in self._parts(place, await self._limit_cache.gates(*place)):
            sight = await self._look(place, gates, 1)
            full = {candidate.gate for candidate in sight.candidates} & {
                g for g, found in sight.rooms.items() if found.left == 0
            }
            found = found.beside(_later([sight.rooms[gate] for gate in full], sight.now_ms))
        self._remember(place, found)
        return found

    def _remember(self, place: Place, later: NextOpening) -> None:
        """An opening ahead that another caller was told of stays known: this one may not have asked for that work."""
        former = self._known.get(place)
        if former is None and len(self._known) >= MAX_LANES:
            self._known.clear()
        is_ahead = (
            former is not None
            and former.opens_at_ms is not None
            and former.opens_at_ms > later.as_of_ms
        )
        self._known[place] = later.beside(former) if former is not None and is_ahead else later

    # ---- looking

    async def _look(self, place: Place, gates: Sequence[str], wanted: int) -> _QueueView:
        ids = {gate: UUID(gate) for gate in gates if gate != BUDGET_GATE}
        page = min(max(wanted, SMALLEST_PAGE), LARGEST_PAGE)
        heads = ScanAll("ready", [(*place, gate) for gate in (*gates, "")], page, _COLUMNS)
        usual = self._usual.get(place, frozenset())
        expected = [
            quota
            for ident in ids.values()
            if (quota := self._quota_cache.expected(ident, wanted)) is not None
        ]
        now = await self._store.now_ms()
        reads: list[Read] = [GetAll("ff_quota_policy", [(ident,) for ident in ids.values()]), heads]
        reads += budget_reads(usual) if usual else []
        looks = [self._quota_cache.reads(quota, now) for quota in expected]
        loaded = await self._store.load([*reads, *chain.from_iterable(looks)])
        quotas = {row[0]: QuotaPolicy(*row) for row in loaded.rows[0]}
        looked_at = self._learn(expected, quotas, looks, loaded.rows[len(reads) :], loaded.now_ms)
        found = [Candidate(*row) for row in loaded.rows[1]]
        counts = Counter(candidate.gate for candidate in found)
        last = {candidate.gate: candidate for candidate in found}
        behind = {gate: last[gate] for gate, count in counts.items() if count >= page}
        found = await sound(self._store, found, of_budgets=True)
        over = over_limit(budgets_in(loaded.rows[2], loaded.rows[3])) if usual else {}
        stale = [
            q
            for q in quotas.values()
            if q.quota_policy_id not in looked_at and not self._quota_cache.is_enough(q, wanted)
        ]
        met = _budgets_of(found)
        await self._look_again(stale, met - usual, quotas, over)
        self._usual[place] = frozenset(sorted(met)[:MOST_USUAL])
        known = {gate: quotas[ident] for gate, ident in ids.items() if ident in quotas}
        rooms = {
            gate: self._quota_cache.capacity_of(quota, loaded.now_ms)
            for gate, quota in known.items()
        }
        return _QueueView(loaded.now_ms, found, behind, known, rooms, over)

    async def _look_again(
        self,
        stale: list[QuotaPolicy],
        budgets: set[str],
        quotas: dict[UUID, QuotaPolicy],
        over: dict[str, Breach],
    ) -> None:
        """At quotas that were not expected to need it, and at budgets not met before."""
        if not stale and not budgets:
            return
        now = await self._store.now_ms()
        reads: list[Read] = [
            GetAll("ff_quota_policy", [(quota.quota_policy_id,) for quota in stale])
        ]
        reads += budget_reads(budgets) if budgets else []
        looks = [self._quota_cache.reads(quota, now) for quota in stale]
        loaded = await self._store.load([*reads, *chain.from_iterable(looks)])
        fresh = {row[0]: QuotaPolicy(*row) for row in loaded.rows[0]}
        learnt = self._learn(stale, fresh, looks, loaded.rows[len(reads) :], loaded.now_ms)
        quotas.update(
            {ident: fresh[ident] for ident in learnt}
        )  # of the others the former version is refused at the commit
        if budgets:
            over.update(over_limit(budgets_in(loaded.rows[1], loaded.rows[2])))

    def _learn(
        self,
        read_for: list[QuotaPolicy],
        fresh: dict[UUID, QuotaPolicy],
        looks: list[list[Read]],
        rows: list[list[Row]],
        now_ms: int,
    ) -> set[UUID]:
        """Those whose limits are still the ones they were read for."""
        learnt = set()
        for at, (quota, reads) in enumerate(zip(read_for, looks, strict=True)):
            several = rows[at * READS_PER_QUOTA : (at + 1) * READS_PER_QUOTA]
            if self._quota_cache.learn(quota, fresh[quota.quota_policy_id], reads, several, now_ms):
                learnt.add(quota.quota_policy_id)
        return learnt

    # ---- deciding

    async def _decide(
        self, place: Place, sight: _QueueView, requests: list[Request]
    ) -> Distribution:
        """Looks further where those at the head suit nobody."""
        page = SMALLEST_PAGE
        while True:
            rooms = {gate: found.left for gate, found in sight.rooms.items()}
            shared = distribute(
                requests, queue_order(sight.candidates), rooms, sight.over, sight.now_ms
            )
            gates = [gate for gate in sight.behind if gate and gate not in shared.full]
            if not gates or not any(shared.unmet) or len(shared.denied) >= MOST_ROWS:
                return shared
            page = min(page * 4, LARGEST_PAGE)
            await self._read_on(place, sight, gates, page)

    async def _read_on(self, place: Place, sight: _QueueView, gates: list[str], page: int) -> None:
        lane, namespace = place
        reads = [
            Scan(
                "ready",
                {"lane_id": lane, "namespace": namespace, "gate": gate},
                _position(sight.behind[gate]),
                limit=page,
                columns=_COLUMNS,
            )
            for gate in gates
        ]
        found: list[Candidate] = []
        for gate, rows in zip(gates, (await self._store.load(reads)).rows, strict=True):
            found += [Candidate(*row) for row in rows]
            if len(rows) < page:
                del sight.behind[gate]
            else:
                sight.behind[gate] = found[-1]
        found = await sound(self._store, found, of_budgets=True)
        budgets = _budgets_of(found) - _budgets_of(sight.candidates)
        if budgets:
            policies, usage = (await self._store.load(budget_reads(budgets))).rows
            sight.over.update(over_limit(budgets_in(policies, usage)))
        sight.candidates += found

    # ---- taking

    async def _take(
        self, sight: _QueueView, shared: Distribution, claimers: list[Claimer]
    ) -> list[list[Row]] | None:
        """What each gets, or None when a quota moved meanwhile, or so many were held back that it has to be looked again."""
        if shared.denied:
            await self._store.commit_many(
                [block_for_budget(c, breach, sight.now_ms) for c, breach in shared.denied]
            )
            for _, breach in shared.denied:
                self._telemetry.listener.budget_hit(breach.dimension)
            if len(shared.denied) >= MOST_ROWS:
                return None
        shares = shared.shares + _hopes(sight, shared)
        served: list[list[Row]] = [[] for _ in claimers]
        if not shares:
            return served
        touched = sorted(
            {share.gate for share in shares if share.gate in sight.quotas and not share.holder}
        )
        swept = await self._store.sweeps(
            [touch(sight.quotas[gate]) for gate in touched],
            [
                (_plan(share, sight.quotas.get(share.gate), claimers[share.request]), share.count)
                for share in shares
            ],
        )
        if isinstance(swept, Refused):
            return None
        admitted: dict[str, list[int]] = {gate: [] for gate in touched}
        for share, rows in zip(shares, swept, strict=True):
            served[share.request] += rows
            if share.gate in admitted and not share.holder:
                ttl_ms = claimers[share.request].ttl_ms
                admitted[share.gate] += [row[6] - ttl_ms for row in rows]
        for gate, times in admitted.items():
            self._quota_cache.admitted(sight.quotas[gate], times)
        return [_in_order(rows, sight) for rows in served]


def _later(closed: Sequence[Capacity], now_ms: int) -> NextOpening:
    times = [found.opens_at_ms for found in closed if found.opens_at_ms is not None]
    return NextOpening(
        min(times, default=None),
        any(found.why == "concurrency" for found in closed),
        now_ms,
        time.monotonic(),
    )


def _fitting(claimers: Sequence[Claimer]) -> int:
    """How many of them ask for at most `MOST_ROWS` together."""
    rows = 0
    for at, claimer in enumerate(claimers):
        rows += claimer.wanted
        if rows > MOST_ROWS:
            return at
    return len(claimers)


def _position(candidate: Candidate) -> tuple[int, int, UUID]:
    return candidate.priority, candidate.created_at_ms, candidate.execution_id


def _hopes(sight: _QueueView, shared: Distribution) -> list[Share]:
    """Behind no gate a claim finds by itself what lies behind the rows that were looked at."""
    if "" not in sight.behind:
        return []
    return [Share(at, "", left) for at, left in enumerate(shared.unmet) if left]


def _plan(share: Share, quota: QuotaPolicy | None, claimer: Claimer) -> Plan:
    said = {
        "lane_id": claimer.lane,
        "worker_id": claimer.worker_id,
        "worker_instance_id": claimer.instance,
        "lease_ttl_ms": claimer.ttl_ms,
        "renew_within_ms": renew_within_ms(claimer.ttl_ms),
    }
    if not share.gate:
        return CLAIM(0, **said, namespace=claimer.namespace, capabilities=claimer.capabilities)
    counts = quota is not None and quota.max_requests_per_window and not share.holder
    form = CLAIM_COUNTED if counts else CLAIM_GATED
    at = share.partition_key
    return form(at, **said, partition_key=at, ids=share.ids, holder=share.holder)


def _in_order(rows: list[Row], sight: _QueueView) -> list[Row]:
    """As they waited; what came in meanwhile last."""
    if len(rows) < 2:
        return rows
    place = {
        candidate.execution_id: at for at, candidate in enumerate(queue_order(sight.candidates))
    }
    return sorted(rows, key=lambda row: place.get(row[1], len(place)))


def _budgets_of(candidates: list[Candidate]) -> set[str]:
    return {budget for candidate in candidates for budget in candidate.budget_ids}
