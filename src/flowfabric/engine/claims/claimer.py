"""Requests for work of a lane."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.ids import lane_id
from flowfabric.model.lease import MAX_CLAIM_BATCH, ClaimPolicy
from flowfabric.model.policy import check_worker_capabilities
from flowfabric.plan import Plan
from flowfabric.rules.claims import claims


class Claimer(Struct, frozen=True):
    """A request for up to `wanted` executions of a lane; `namespace` None stands for all."""

    lane: str
    namespace: str | None
    capabilities: tuple[str, ...]
    worker_id: str
    instance: str
    ttl_ms: int
    wanted: int
    waits: bool = False

    @property
    def queue(self) -> tuple[str, str | None]:
        return self.lane, self.namespace


def claimer_of(lane: str, capabilities: Iterable[str], policy: ClaimPolicy, n: int) -> Claimer:
    """The checked arguments of a claim."""
    checked, tokens = lane_id(lane), check_worker_capabilities(capabilities)
    validation.claim_policy(policy)
    validation.whole(n, "n", 1, MAX_CLAIM_BATCH)
    return Claimer(
        checked,
        policy.namespace,
        tokens,
        policy.worker_id,
        policy.worker_instance_id,
        policy.lease_ttl_ms,
        n,
        bool(policy.max_wait_ms),
    )


def sweep_plan(claimer: Claimer) -> Plan:
    assert claimer.namespace is not None, "one statement claims in one namespace"
    return claims.claim(
        lane=claimer.lane,
        namespace=claimer.namespace,
        capabilities=claimer.capabilities,
        worker_id=claimer.worker_id,
        instance=claimer.instance,
        ttl_ms=claimer.ttl_ms,
    )
