"""Requests for work of a lane, and the claimed rows as leases, handles and work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.ids import ExecutionId, lane_id
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import stored_tags
from flowfabric.model.lease import (
    MAX_CLAIM_BATCH,
    BackendTag,
    Claimed,
    ClaimPolicy,
    HandleFields,
    HandleKind,
    Work,
)
from flowfabric.model.policy import check_worker_capabilities, stored_policy
from flowfabric.plan import Plan
from flowfabric.rules.claims import claims
from flowfabric.rules.leases.acquisition import CLAIMED
from flowfabric.store.port import Row

EXECUTION_ID = CLAIMED.index("execution_id")
EXPIRES_AT_MS = CLAIMED.index("lease_expires_at_ms")
LEASE_WIDTH = CLAIMED.index("lane_id") + 1
"""The columns before it name the lease, those behind it describe the work."""
CLAIMERS_KEPT = 1_000
_ATTEMPT_TYPES = {"pending_retry_attempt": "retry", "pending_replay_attempt": "replay"}


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
    """The checked arguments of a claim. A worker repeats them, so they are checked once."""
    given = validation.instance(policy, ClaimPolicy, "policy")
    said = (given.worker_id, given.worker_instance_id, given.lease_ttl_ms, given.max_wait_ms)
    if type(capabilities) is tuple:
        try:
            return _checked(lane, capabilities, n, *said, given.namespace)
        except TypeError:  # an argument that cannot be hashed, and is refused with its name
            pass
    return _check(lane, capabilities, n, *said, given.namespace)


def _check(
    lane: str,
    capabilities: Iterable[str],
    n: int,
    worker_id: str,
    instance: str,
    ttl_ms: int,
    max_wait_ms: int | None,
    namespace: str | None,
) -> Claimer:
    policy = ClaimPolicy(worker_id, instance, ttl_ms, max_wait_ms, namespace)
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


_checked = lru_cache(CLAIMERS_KEPT, typed=True)(_check)


@lru_cache(CLAIMERS_KEPT)
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


class ClaimedRows:
    """Reads rows of the columns `CLAIMED`. A row stays a tuple: one struct per claim, the work."""

    def __init__(self, tag: BackendTag, leases: LeaseCache) -> None:
        self._tag, self._leases = tag, leases

    def lease(self, row: Row, ttl_ms: int, instance: str) -> HandleFields:
        partition, uuid, index, attempt_id, lease_id, epoch, _, lane = row[:LEASE_WIDTH]
        ident = ExecutionId.of(partition, uuid)
        return HandleFields(
            self._tag, ident, index, attempt_id, lease_id, epoch, ttl_ms, lane, instance
        )

    def work(self, row: Row, lease: HandleFields, policy: ClaimPolicy) -> Work:
        """Raises `Corruption` for unreadable tags and policies."""
        (
            retry_count,
            stored,
            kind,
            payload,
            tags_json,
            attempt_state,
            timeout_ms,
            timeout_at_ms,
        ) = row[LEASE_WIDTH:]
        tags = stored_tags(tags_json)
        if stored is not None:
            stored_policy(stored)
        expires_at_ms: int = row[EXPIRES_AT_MS]
        now_ms = expires_at_ms - policy.lease_ttl_ms
        return Work(
            self._leases.handle(
                lease, claims.kind_after(attempt_state), retry_count=retry_count, policy=stored
            ),
            lease.execution_id,
            lease.attempt_index,
            lease.lease_epoch,
            expires_at_ms,
            kind,
            payload or b"",
            tags,
            claims.time_used_ms(now_ms, timeout_ms, timeout_at_ms),
        )

    def claimed(
        self,
        row: Row,
        ttl_ms: int,
        instance: str,
        attempt: Attempt | None,
        kind: HandleKind | None,
    ) -> Claimed:
        """The answer of a claim of one execution, whose attempt was `attempt` before."""
        lease = self.lease(row, ttl_ms, instance)
        retry_count, stored, _, _, _, attempt_state, _, _ = row[LEASE_WIDTH:]
        handle = self._leases.handle(
            lease,
            kind or claims.kind_after(attempt_state),
            retry_count=retry_count,
            policy=stored,
        )
        return Claimed(
            lease.execution_id,
            lease.lease_id,
            lease.lease_epoch,
            lease.attempt_index,
            lease.attempt_id,
            _attempt_type(attempt_state, attempt, kind),
            row[EXPIRES_AT_MS],
            handle,
        )


def _attempt_type(attempt_state: str, attempt: Attempt | None, kind: HandleKind | None) -> str:
    if kind is HandleKind.RECLAIMED:
        return "reclaim"
    if attempt_state == "attempt_interrupted" and attempt is not None:
        return attempt.attempt_type
    return _ATTEMPT_TYPES.get(attempt_state, "initial")


def claimed_at(rows: Sequence[Row], ttl_ms: int) -> int | None:
    """The store's time of a claim, known from the expiry of what it claimed."""
    return rows[0][EXPIRES_AT_MS] - ttl_ms if rows else None
