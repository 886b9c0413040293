"""Limit scopes and gates of lanes, cached for a moment or until a wake-up announces a change."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.snapshots import every
from flowfabric.model.quota import Attached, LimitScope
from flowfabric.rules.limits.limit_scopes import GATES, LIMITS, Limit, Scopes, open_gate, scopes_of
from flowfabric.store.port import Get, Scan, Store
from flowfabric.store.single_flight import SingleFlight
from flowfabric.store.wakeups import Topic

T = TypeVar("T")

FRESH_S = 1.0
GATES_FRESH_S = 5.0
"""A new gate wakes its lane. After a missed wake-up, waiting claims find the gate in this time."""
PAGE = 1_000
MAX_LANES = 10_000
_TABLES = {"budget": "ff_budget_policy", "quota": "ff_quota_policy"}


class _Gate(Struct, frozen=True):
    """A row of `ff_lane_gate`."""

    lane_id: str
    namespace: str
    gate: str
    quota_policy_id: UUID | None


class _Cached(Generic[T]):
    """A value that is fresh for a moment, unless its topic has rung since `rings`."""

    __slots__ = ("fresh_s", "rings", "until", "value")

    def __init__(self, value: T, rings: int, fresh_s: float) -> None:
        self.value, self.rings, self.fresh_s = value, rings, fresh_s
        self.until = time.monotonic() + fresh_s


class LimitCache:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._scopes: _Cached[Scopes] | None = None
        self._gates: dict[tuple[str, str | None], _Cached[tuple[str, ...]]] = {}
        self._namespaces: dict[Limit, str] = {}
        self._opened: set[tuple[str, str, str]] = set()
        self._shared = SingleFlight()

    async def scopes(self) -> Scopes:
        cached = self._scopes
        if cached is None or not self._is_fresh(cached, (LIMITS, None)):
            rings = self._store.hub.follow((LIMITS, None))
            scopes = await every(self._store, Scan("limit_scopes", limit=PAGE), LimitScope)
            cached = self._scopes = _Cached(scopes_of(scopes), rings, FRESH_S)
        return cached.value

    async def namespaces(self, limits: Iterable[Limit]) -> Mapping[Limit, str]:
        """The namespaces of limits that exist. They never change, so each is read once."""
        wanted = [limit for limit in dict.fromkeys(limits) if limit not in self._namespaces]
        if wanted:
            if len(self._namespaces) >= MAX_LANES:
                self._namespaces.clear()
            reads = [Get(_TABLES[kind], (ident,), ("namespace",)) for kind, ident in wanted]
            found = (await self._store.load(reads)).rows
            self._namespaces.update(
                (limit, namespace)
                for limit, rows in zip(wanted, found, strict=True)
                for (namespace,) in rows
            )
        return self._namespaces

    def forget(self) -> None:
        """This process has changed the limit scopes."""
        self._scopes = None

    async def register_gate(self, lane: str, namespace: str, limits: Attached) -> None:
        """Registers the gate of these limits before the first execution waits behind it."""
        gate = limits.gate
        if not gate or (lane, namespace, gate) in self._opened:
            return
        await self._store.commit(open_gate(lane, namespace, limits))
        self._opened.add((lane, namespace, gate))

    def gates(self, lane: str, namespace: str) -> Awaitable[tuple[str, ...]]:
        """The queues of a namespace in a lane besides the plain one; usually none."""
        return self._names(lane, namespace)

    def gated_namespaces(self, lane: str) -> Awaitable[tuple[str, ...]]:
        """The namespaces that have such queues in a lane."""
        return self._names(lane, None)

    async def _names(self, lane: str, namespace: str | None) -> tuple[str, ...]:
        cached = self._gates.get((lane, namespace))
        if cached is None or not self._is_fresh(cached, (GATES, lane)):
            if len(self._gates) >= MAX_LANES:
                self._gates.clear()
            rings = self._store.hub.follow((GATES, lane))
            # A read that began before the last ring may have missed its cause, so it is not shared.
            cached = await self._shared.once(
                (lane, namespace, rings), lambda: self._read(lane, namespace, rings)
            )
        return cached.value

    async def _read(self, lane: str, namespace: str | None, rings: int) -> _Cached[tuple[str, ...]]:
        if namespace is None:
            scan = Scan("gates_of_lane", {"lane_id": lane}, limit=PAGE)
            names = [each.namespace for each in await every(self._store, scan, _Gate)]
        else:
            scan = Scan("lane_gates", {"lane_id": lane, "namespace": namespace}, limit=PAGE)
            names = [each.gate for each in await every(self._store, scan, _Gate)]
        found = tuple(dict.fromkeys(names))
        cached = self._gates[lane, namespace] = _Cached(found, rings, GATES_FRESH_S)
        return cached

    def _is_fresh(self, cached: _Cached[T], topic: Topic) -> bool:
        """The first caller after the time reads again; the others use the old value meanwhile."""
        if cached.rings != self._store.hub.follow(topic):
            return False
        now = time.monotonic()
        if cached.until > now:
            return True
        cached.until = now + cached.fresh_s
        return False
