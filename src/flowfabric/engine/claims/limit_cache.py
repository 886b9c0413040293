"""What is attached to what, and which queues a lane has: read now and then, kept at hand in between."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from flowfabric.model.quota import Attached, LimitScope
from flowfabric.rules.limits.limit_scopes import GATES, LIMITS, Limit, Scopes, open_gate, scopes_of
from flowfabric.store.port import Get, Row, Scan, Store
from flowfabric.store.single_flight import SingleFlight
from flowfabric.store.wakeups import Topic

FRESH_S = 1.0
GATES_FRESH_S = 5.0
"""A new gate rings; should that be missed, claims that wait look as seldom as this anyway."""
PAGE = 1_000
MAX_LANES = 10_000
_TABLES = {"budget": "ff_budget_policy", "quota": "ff_quota_policy"}


class _Kept:
    """Something read, good for a moment unless a bell says otherwise."""

    __slots__ = ("fresh_s", "heard", "until", "value")

    def __init__(self, value: Any, heard: int, fresh_s: float) -> None:
        self.value, self.heard, self.fresh_s, self.until = (
            value,
            heard,
            fresh_s,
            time.monotonic() + fresh_s,
        )


class LimitCache:
    """One per engine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scopes: _Kept | None = None
        self._gates: dict[tuple[str, str], _Kept] = {}
        self._gated: dict[str, _Kept] = {}
        self._spaces: dict[Limit, str] = {}
        self._opened: set[tuple[str, str, str]] = set()
        self._shared = SingleFlight()

    async def scopes(self) -> Scopes:
        kept = self._scopes
        if kept is None or not self._is_good(kept, (LIMITS, None)):
            heard = self._store.hub.follow((LIMITS, None))
            rows = await self._all("limit_scopes", {}, slice(0, 4))
            kept = self._scopes = _Kept(scopes_of(LimitScope(*row) for row in rows), heard, FRESH_S)
        scopes: Scopes = kept.value
        return scopes

    async def namespaces(self, limits: Iterable[Limit]) -> Mapping[Limit, str]:
        """Where limits belong. That never changes, so it is asked once; what is not there is asked for again."""
        wanted = [limit for limit in dict.fromkeys(limits) if limit not in self._spaces]
        if wanted:
            if len(self._spaces) >= MAX_LANES:
                self._spaces.clear()
            reads = [Get(_TABLES[kind], (ident,), ("namespace",)) for kind, ident in wanted]
            found = (await self._store.load(reads)).rows
            self._spaces.update(
                {limit: rows[0][0] for limit, rows in zip(wanted, found, strict=True) if rows}
            )
        return self._spaces

    def forget(self) -> None:
        """This process has changed what is attached."""
        self._scopes = None

    async def know_gate(self, lane: str, namespace: str, limits: Attached) -> None:
        """Before the first execution of a namespace waits behind a gate of a lane, its claims learn of it."""
        gate = limits.gate
        if not gate or (lane, namespace, gate) in self._opened:
            return
        await self._store.commit(open_gate(lane, namespace, limits))
        self._opened.add((lane, namespace, gate))

    async def gates(self, lane: str, namespace: str) -> tuple[str, ...]:
        """The queues of a namespace in a lane besides the plain one. Usually there are none."""
        kept = self._gates.get((lane, namespace))
        if kept is None or not self._is_good(kept, (GATES, lane)):
            if len(self._gates) >= MAX_LANES:
                self._gates.clear()
            heard = self._store.hub.follow(
                (GATES, lane)
            )  # in the key: a look begun before the bell rang may have missed why
            kept = await self._shared.once(
                (lane, namespace, heard), lambda: self._look_for_gates(lane, namespace, heard)
            )
        gates: tuple[str, ...] = kept.value
        return gates

    async def gated_namespaces(self, lane: str) -> tuple[str, ...]:
        """The namespaces that have such queues in a lane."""
        kept = self._gated.get(lane)
        if kept is None or not self._is_good(kept, (GATES, lane)):
            if len(self._gated) >= MAX_LANES:
                self._gated.clear()
            heard = self._store.hub.follow((GATES, lane))
            kept = await self._shared.once(
                (lane, None, heard), lambda: self._look_for_namespaces(lane, heard)
            )
        namespaces: tuple[str, ...] = kept.value
        return namespaces

    async def _look_for_gates(self, lane: str, namespace: str, heard: int) -> _Kept:
        rows = await self._all("lane_gates", {"lane_id": lane, "namespace": namespace}, slice(2, 3))
        kept = self._gates[lane, namespace] = _Kept(
            tuple(row[2] for row in rows), heard, GATES_FRESH_S
        )
        return kept

    async def _look_for_namespaces(self, lane: str, heard: int) -> _Kept:
        rows = await self._all("gates_of_lane", {"lane_id": lane}, slice(1, 3))
        kept = self._gated[lane] = _Kept(
            tuple(dict.fromkeys(row[1] for row in rows)), heard, GATES_FRESH_S
        )
        return kept

    def _is_good(self, kept: _Kept, topic: Topic) -> bool:
        """What is only old is read again by whoever finds it so; the others go on with it meanwhile."""
        if kept.heard != self._store.hub.follow(topic):
            return False
        now = time.monotonic()
        if kept.until > now:
            return True
        kept.until = now + kept.fresh_s
        return False

    async def _all(self, index: str, group: dict[str, Any], position: slice) -> list[Row]:
        found: list[Row] = []
        after = None
        while True:
            page = (await self._store.load((Scan(index, group, after, limit=PAGE),))).rows[0]
            found += page
            if len(page) < PAGE:
                return found
            after = tuple(page[-1][position])
