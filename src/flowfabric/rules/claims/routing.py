"""Who is parked because no live worker can take it, and who goes on because one can."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from flowfabric.model.worker import Routed, WorkerInfo
from flowfabric.plan import Plan
from flowfabric.rules.claims.grants import BLOCK, UNBLOCK
from flowfabric.rules.fragments import named
from flowfabric.rules.workers import registry

WAITING = "waiting_for_capable_worker"
NO_WORKER_COVERS = "no connected worker satisfies required_capabilities"


def passed_over(heads: Iterable[Routed], offered: Collection[str]) -> list[Routed]:
    """Those that a worker with these capabilities cannot take."""
    return [head for head in heads if not set(head.required_capabilities) <= set(offered)]


def nobody_covers(
    waiting: Iterable[Routed], live: Collection[WorkerInfo], asking: Iterable[Collection[str]] = ()
) -> list[Routed]:
    """Those that neither a live worker of their namespace can take nor one of those who have been asking for work.

    Where no worker is registered, nothing is known about anybody.
    """
    known, offers = {worker.namespace for worker in live}, [set(offered) for offered in asking]
    return [
        w
        for w in waiting
        if w.namespace in known
        and not registry.covers(live, w.namespace, w.required_capabilities)
        and not any(set(w.required_capabilities) <= offered for offered in offers)
    ]


def covered(waiting: Iterable[Routed], live: Collection[WorkerInfo]) -> list[Routed]:
    """Of the parked, those that one live worker of their namespace can take."""
    return [
        w
        for w in waiting
        if w.blocking_reason == WAITING
        and registry.covers(live, w.namespace, w.required_capabilities)
    ]


def coverable(waiting: Iterable[Routed], namespace: str, offered: Collection[str]) -> list[Routed]:
    """Of the parked of a namespace, those that a worker with these capabilities can take."""
    return [
        w
        for w in waiting
        if w.blocking_reason == WAITING
        and w.namespace == namespace
        and set(w.required_capabilities) <= set(offered)
    ]


def within_reach(
    waiting: Iterable[Routed], lane: str, namespace: str | None, offered: Collection[str]
) -> list[Routed]:
    """Of the parked, those that a worker that asks this lane for work can take, be it registered or not."""
    return [
        w
        for w in waiting
        if w.lane_id == lane
        and (namespace is None or w.namespace == namespace)
        and w.blocking_reason == WAITING
        and w.required_capabilities
        and set(w.required_capabilities) <= set(offered)
    ]


def park(waiting: Routed, now: int) -> Plan:
    return BLOCK[WAITING](**named(waiting), detail=NO_WORKER_COVERS, blocked_on=None, now=now)


def release(parked: Routed, now: int) -> Plan:
    return UNBLOCK(**named(parked), now=now)
