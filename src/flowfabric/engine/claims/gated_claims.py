"""Claims of lanes whose work is under limits. Claims that arrive during a round share the next one.

A round reads the heads of the lane's queues and the capacity of their quotas, distributes the
executions, and commits if no quota has admitted any other execution since the read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

from flowfabric.engine import retry
from flowfabric.engine.batcher import Batcher
from flowfabric.engine.claims.claimer import EXECUTION_ID, EXPIRES_AT_MS, Claimer
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.next_opening import NO_OPENING, NextOpening, Place, opening_of
from flowfabric.engine.claims.queue_reader import (
    LARGEST_PAGE,
    SMALLEST_PAGE,
    QueueHeads,
    QueueReader,
)
from flowfabric.engine.claims.quota_cache import QuotaCache
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.model.quota import QuotaPolicy
from flowfabric.plan import Plan, Refused
from flowfabric.rules.claims.admission import (
    CLAIM_COUNTED,
    CLAIM_GATED,
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
from flowfabric.store.port import Row, Store

MAX_GATES = 64
MAX_CLAIMS = 64
MAX_ROWS = 500
OPENING_FRESH_S = 1.0
"""A known opening is read again after this time, since another process may have claimed."""
MAX_LANES = 10_000


class GatedClaims:
    def __init__(
        self,
        store: Store,
        limit_cache: LimitCache,
        quota_cache: QuotaCache,
        telemetry: TelemetrySlot,
    ) -> None:
        self._store, self._limit_cache, self._telemetry = store, limit_cache, telemetry
        self._quota_cache, self._reader = quota_cache, QueueReader(store, quota_cache)
        self._claims: Batcher[Place, Claimer, tuple[list[Row], NextOpening]] = Batcher(
            self._serve_all, MAX_CLAIMS, fitting=_fitting
        )
        self._first_gate: dict[Place, int] = {}
        self._openings: dict[Place, NextOpening] = {}

    async def claim(self, claimer: Claimer) -> tuple[list[Row], NextOpening]:
        assert claimer.namespace is not None, "a round serves one namespace"
        place = (claimer.lane, claimer.namespace)
        return await self._claims.submit(place, claimer)

    async def finish(self) -> None:
        await self._claims.finish()

    async def _serve_all(
        self, place: Place, claimers: list[Claimer]
    ) -> list[tuple[list[Row], NextOpening]]:
        served, opening = await self._serve(place, claimers)
        self._remember(place, opening)
        return [(rows, opening) for rows in served]

    async def _serve(
        self, place: Place, claimers: list[Claimer]
    ) -> tuple[list[list[Row]], NextOpening]:
        """Goes through the gates in parts, until every claimer has rows."""
        served: list[list[Row]] = [[] for _ in claimers]
        opening = NO_OPENING
        parts = self._parts(place, await self._limit_cache.gates(*place))
        for gates in parts:
            unserved = [at for at, rows in enumerate(served) if not rows]
            found, next_opening = await self._round(place, gates, [claimers[at] for at in unserved])
            for at, rows in zip(unserved, found, strict=True):
                served[at] = rows
            opening = opening.combined_with(next_opening)
            if all(served):
                break
        return served, opening

    def _parts(self, place: Place, gates: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The gates in parts of `MAX_GATES`. The part that comes first changes with each call."""
        if len(gates) <= MAX_GATES:
            return [gates]
        start = self._first_gate.get(place, 0) % len(gates)
        self._first_gate[place] = start + MAX_GATES
        rotated = gates[start:] + gates[:start]
        return [rotated[at : at + MAX_GATES] for at in range(0, len(rotated), MAX_GATES)]

    async def _round(
        self, place: Place, gates: tuple[str, ...], claimers: list[Claimer]
    ) -> tuple[list[list[Row]], NextOpening]:
        requests = [Request(c.wanted, frozenset(c.capabilities), c.worker_id) for c in claimers]
        wanted = sum(c.wanted for c in claimers)
        for tries in count(1):
            heads = await self._reader.read(place, gates, wanted)
            shared = await self._decide(place, heads, requests)
            rows = await self._commit(heads, shared, claimers)
            if rows is not None:
                return rows, self._opening_after(heads, shared)
            await retry.pause(retry.CONTENDED, tries)
        raise AssertionError("the last pause raises")

    def _opening_after(self, heads: QueueHeads, shared: Distribution) -> NextOpening:
        closed = [
            self._quota_cache.capacity_of(heads.quotas[gate], heads.now_ms) for gate in shared.full
        ]
        for found in closed:
            if found.why:
                self._telemetry.listener.quota_hit(
                    "concurrency" if found.why == "concurrency" else "rate"
                )
        return opening_of(closed, heads.now_ms)

    async def next_opening(self, place: Place) -> NextOpening:
        """When the full quotas of a queue open, from the last claim of this process or a new read.

        A quota with capacity is left out: the work behind it can be claimed now.
        """
        known = self._openings.get(place)
        if known is not None and time.monotonic() - known.seen < OPENING_FRESH_S:
            return known
        opening = NO_OPENING
        for gates in self._parts(place, await self._limit_cache.gates(*place)):
            heads = await self._reader.read(place, gates, 1)
            waiting = {candidate.gate for candidate in heads.candidates}
            full = [
                found
                for gate, found in heads.capacities.items()
                if gate in waiting and found.left == 0
            ]
            opening = opening.combined_with(opening_of(full, heads.now_ms))
        self._remember(place, opening)
        return opening

    def _remember(self, place: Place, opening: NextOpening) -> None:
        """Keeps an earlier opening that is still ahead: this claim may have wanted other work."""
        former = self._openings.get(place)
        if former is None and len(self._openings) >= MAX_LANES:
            self._openings.clear()
        is_ahead = (
            former is not None
            and former.opens_at_ms is not None
            and former.opens_at_ms > opening.as_of_ms
        )
        self._openings[place] = (
            opening.combined_with(former) if former is not None and is_ahead else opening
        )

    async def _decide(
        self, place: Place, heads: QueueHeads, requests: list[Request]
    ) -> Distribution:
        """Distributes the heads; reads more of the queues while a claimer can run none of them."""
        page = SMALLEST_PAGE
        while True:
            left = {gate: found.left for gate, found in heads.capacities.items()}
            shared = distribute(
                requests, queue_order(heads.candidates), left, heads.breaches, heads.now_ms
            )
            gates = [gate for gate in heads.last_read if gate and gate not in shared.full]
            if not gates or not any(shared.unmet) or len(shared.denied) >= MAX_ROWS:
                return shared
            page = min(page * 4, LARGEST_PAGE)
            await self._reader.read_more(place, heads, gates, page)

    async def _commit(
        self, heads: QueueHeads, shared: Distribution, claimers: list[Claimer]
    ) -> list[list[Row]] | None:
        """The rows of each claimer; None if a quota changed, or if many heads were blocked."""
        if shared.denied:
            await self._block(heads, shared)
            if len(shared.denied) >= MAX_ROWS:
                return None
        shares = shared.shares + _plain_shares(heads, shared)
        served: list[list[Row]] = [[] for _ in claimers]
        if not shares:
            return served
        admitting = sorted({share.gate for share in shares if _admits(share, heads)})
        swept = await self._store.sweeps(
            [touch(heads.quotas[gate]) for gate in admitting],
            [
                (_plan(share, heads.quotas.get(share.gate), claimers[share.request]), share.count)
                for share in shares
            ],
        )
        if isinstance(swept, Refused):
            return None
        admitted: dict[str, list[int]] = {gate: [] for gate in admitting}
        for share, rows in zip(shares, swept, strict=True):
            served[share.request] += rows
            if _admits(share, heads):
                ttl_ms = claimers[share.request].ttl_ms
                admitted[share.gate] += [row[EXPIRES_AT_MS] - ttl_ms for row in rows]
        for gate, times in admitted.items():
            self._quota_cache.admitted(heads.quotas[gate], times)
        return [_in_queue_order(rows, heads) for rows in served]

    async def _block(self, heads: QueueHeads, shared: Distribution) -> None:
        await self._store.commit_many(
            [block_for_budget(found, breach, heads.now_ms) for found, breach in shared.denied]
        )
        for _, breach in shared.denied:
            self._telemetry.listener.budget_hit(breach.dimension)


def _fitting(claimers: Sequence[Claimer]) -> int:
    """How many of them ask for at most `MAX_ROWS` together."""
    rows = 0
    for at, claimer in enumerate(claimers):
        rows += claimer.wanted
        if rows > MAX_ROWS:
            return at
    return len(claimers)


def _plain_shares(heads: QueueHeads, shared: Distribution) -> list[Share]:
    """What is unmet may be behind the heads of the plain queue, where a claim needs no read."""
    if "" not in heads.last_read:
        return []
    return [Share(at, "", left) for at, left in enumerate(shared.unmet) if left]


def _admits(share: Share, heads: QueueHeads) -> bool:
    """Whether the share takes capacity of a quota. A reservation has its slot already."""
    return share.gate in heads.quotas and not share.holder


def _plan(share: Share, quota: QuotaPolicy | None, claimer: Claimer) -> Plan:
    values = {
        "lane_id": claimer.lane,
        "worker_id": claimer.worker_id,
        "worker_instance_id": claimer.instance,
        "lease_ttl_ms": claimer.ttl_ms,
        "renew_within_ms": renew_within_ms(claimer.ttl_ms),
    }
    if not share.gate:
        return CLAIM(**values, namespace=claimer.namespace, capabilities=claimer.capabilities)
    counts = quota is not None and quota.max_requests_per_window and not share.holder
    form = CLAIM_COUNTED if counts else CLAIM_GATED
    at = share.partition_key
    return form(**values, partition_key=at, ids=share.ids, holder=share.holder)


def _in_queue_order(rows: list[Row], heads: QueueHeads) -> list[Row]:
    """Rows that were not among the heads come last."""
    if len(rows) < 2:
        return rows
    order = {
        candidate.execution_id: at for at, candidate in enumerate(queue_order(heads.candidates))
    }
    return sorted(rows, key=lambda row: order.get(row[EXECUTION_ID], len(order)))
