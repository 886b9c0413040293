"""Executions that no live worker can run are parked, and released when a worker can."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from flowfabric.model.worker import Routed, WorkerInfo
from flowfabric.plan import Plan
from flowfabric.rules.claims.grants import BLOCK, UNBLOCK
from flowfabric.rules.fragments import named
from flowfabric.rules.workers import registry

WAITING = "waiting_for_capable_worker"
NO_WORKER_COVERS = "no connected worker satisfies required_capabilities"


def _is_covered(waiting: Routed, offered: Collection[str]) -> bool:
    return set(waiting.required_capabilities) <= set(offered)


def not_covered_by(heads: Iterable[Routed], offered: Collection[str]) -> list[Routed]:
    """The executions that a worker with these capabilities cannot run."""
    return [head for head in heads if not _is_covered(head, offered)]


def uncovered(
    waiting: Iterable[Routed], live: Collection[WorkerInfo], asking: Iterable[Collection[str]] = ()
) -> list[Routed]:
    """The executions that no live worker of their namespace and no claimer in `asking` can run.

    Empty for a namespace without registered workers.
    """
    known, offers = {worker.namespace for worker in live}, list(asking)
    return [
        w
        for w in waiting
        if w.namespace in known
        and not registry.covers(live, w.namespace, w.required_capabilities)
        and not any(_is_covered(w, offered) for offered in offers)
    ]


def covered(waiting: Iterable[Routed], live: Collection[WorkerInfo]) -> list[Routed]:
    """The parked executions that one live worker of their namespace can run."""
    parked = [w for w in waiting if w.blocking_reason == WAITING]
    return [w for w in parked if registry.covers(live, w.namespace, w.required_capabilities)]


def covered_by(waiting: Iterable[Routed], namespace: str, offered: Collection[str]) -> list[Routed]:
    """The parked executions of a namespace that a worker with these capabilities can run."""
    parked = [w for w in waiting if w.blocking_reason == WAITING]
    return [w for w in parked if w.namespace == namespace and _is_covered(w, offered)]


def claimable(
    waiting: Iterable[Routed], lane: str, namespace: str | None, offered: Collection[str]
) -> list[Routed]:
    """The parked executions that a claimer of this lane can run, registered or not."""
    parked = [w for w in waiting if w.blocking_reason == WAITING and w.lane_id == lane]
    theirs = [w for w in parked if namespace in (None, w.namespace) and w.required_capabilities]
    return [w for w in theirs if _is_covered(w, offered)]


def park(waiting: Routed, now: int) -> Plan:
    return BLOCK[WAITING](**named(waiting), detail=NO_WORKER_COVERS, blocked_on=None, now=now)


def release(parked: Routed, now: int) -> Plan:
    return UNBLOCK(**named(parked), now=now)
