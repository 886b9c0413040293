"""Limit scopes and gates of lanes, cached for a moment or until a wake-up announces a change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.snapshots import load_all
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


_SCOPE_KEY = ("scope_type", "scope_id", "kind", "limit_id")
_GATE_KEY = ("gate",)
_LANE_GATE_KEY = ("namespace", "gate")


class _Cached(Generic[T]):
    """A value that is fresh for a moment, unless its topic has rung since `rings`."""

    __slots__ = ("fresh_s", "rings", "until", "value")

    def __init__(self, value: T, rings: int, fresh_s: float) -> None:
        self.value, self.rings, self.fresh_s = value, rings, fresh_s
        self.until = time.monotonic() + fresh_s


class LimitCache:
    """One per engine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scopes: _Cached[Scopes] | None = None
        self._gates: dict[tuple[str, str], _Cached[tuple[str, ...]]] = {}
        self._gated: dict[str, _Cached[tuple[str, ...]]] = {}
        self._namespaces: dict[Limit, str] = {}
        self._opened: set[tuple[str, str, str]] = set()
        self._shared = SingleFlight()

    async def scopes(self) -> Scopes:
        cached = self._scopes
        if cached is None or not self._is_fresh(cached, (LIMITS, None)):
            rings = self._store.hub.follow((LIMITS, None))
            scopes = await self._all("limit_scopes", {}, LimitScope, _SCOPE_KEY)
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

    async def gates(self, lane: str, namespace: str) -> tuple[str, ...]:
        """The queues of a namespace in a lane besides the plain one; usually none."""
        cached = self._gates.get((lane, namespace))
        if cached is None or not self._is_fresh(cached, (GATES, lane)):
            if len(self._gates) >= MAX_LANES:
                self._gates.clear()
            rings = self._store.hub.follow((GATES, lane))
            # A read that began before the last ring may have missed its cause, so it is not shared.
            cached = await self._shared.once(
                (lane, namespace, rings), lambda: self._read_gates(lane, namespace, rings)
            )
        return cached.value

    async def gated_namespaces(self, lane: str) -> tuple[str, ...]:
        """The namespaces that have such queues in a lane."""
        cached = self._gated.get(lane)
        if cached is None or not self._is_fresh(cached, (GATES, lane)):
            if len(self._gated) >= MAX_LANES:
                self._gated.clear()
            rings = self._store.hub.follow((GATES, lane))
            cached = await self._shared.once(
                (lane, None, rings), lambda: self._read_gated_namespaces(lane, rings)
            )
        return cached.value

    async def _read_gates(self, lane: str, namespace: str, rings: int) -> _Cached[tuple[str, ...]]:
        group = {"lane_id": lane, "namespace": namespace}
        gates = await self._all("lane_gates", group, _Gate, _GATE_KEY)
        found = tuple(each.gate for each in gates)
        cached = self._gates[lane, namespace] = _Cached(found, rings, GATES_FRESH_S)
        return cached

    async def _read_gated_namespaces(self, lane: str, rings: int) -> _Cached[tuple[str, ...]]:
        gates = await self._all("gates_of_lane", {"lane_id": lane}, _Gate, _LANE_GATE_KEY)
        found = tuple(dict.fromkeys(each.namespace for each in gates))
        cached = self._gated[lane] = _Cached(found, rings, GATES_FRESH_S)
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

    async def _all(
        self, index: str, group: Mapping[str, str], kind: Callable[..., T], key: Sequence[str]
    ) -> list[T]:
        """The rows of an index, page after page; `key` names the fields of a position in it."""
        found: list[T] = []
        after: tuple[object, ...] | None = None
        while True:
            page = await load_all(self._store, Scan(index, group, after, limit=PAGE), kind)
            found += page
            if len(page) < PAGE:
                return found
            after = tuple(getattr(page[-1], field) for field in key)
