"""Reclaims of lost executions, and the cap on losses."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import (
    Claimed,
    GrantNotFound,
    HandleKind,
    NotReclaimable,
    ReclaimCapExceeded,
    ReclaimExecutionArgs,
    ReclaimGrant,
    RevokeLeaseArgs,
)
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    TTL_MS,
    attempt,
    attempts,
    claim,
    completed,
    create,
    dump,
    grant_args,
    grant_count,
    invalid,
    lost,
    new_id,
    refused,
    requeued,
    row,
    running,
    state,
    told,
)

NO_LOSSES = ExecutionPolicy(max_reclaim_count=0)


def reclaiming(ident: ExecutionId, number: int = 2, **said: Any) -> ReclaimExecutionArgs:
    base: dict[str, Any] = {
        "worker_id": f"w{number}",
        "worker_instance_id": f"w{number}-i9",
        "lease_ttl_ms": 500,
    }
    return ReclaimExecutionArgs(execution_id=ident, **{**base, **said})


# ---- reclaim grants


async def test_a_reclaim_grant_leaves_the_state_alone(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await lost(engine, clock)
    got = await engine.issue_reclaim_grant(grant_args(ident, 2, 700))
    assert isinstance(got, ReclaimGrant)
    assert (got.execution_id, got.partition_key, got.lane_id) == (ident, "{fp:0}", LANE)
    assert got.expires_at_ms == clock() + 700
    assert await state(engine, ident) == "LOST"
    assert [e.execution_id for e in (await engine.list_expired_leases()).items] == [ident]
    await refused(engine.issue_reclaim_grant(grant_args(ident, 3)), StateKind.GRANT_ALREADY_EXISTS)


async def test_a_reclaim_grant_marks_a_lease_that_ran_out_unnoticed(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine)
    clock.advance(TTL_MS)
    assert isinstance(await engine.issue_reclaim_grant(grant_args(ident, 2)), ReclaimGrant)
    assert (await told(engine, ident))["LEASE"] == ["acquired", "expired"]


async def test_a_refused_reclaim_has_its_reason(engine: Engine, clock: ManualClock) -> None:
    with pytest.raises(NotFound):
        await engine.issue_reclaim_grant(grant_args(new_id()))
    ready = await create(engine, lane_id="a")
    ended, _ = await completed(engine, lane_id="b")
    held, _ = await running(engine, lane_id="c")
    for ident, detail in (
        (ready, "lifecycle_phase=runnable (expected active)"),
        (ended, "lifecycle_phase=terminal (expected active)"),
        (held, "ownership_state=leased (expected lease_expired_reclaimable | lease_revoked)"),
    ):
        before = await dump(engine)
        assert await engine.issue_reclaim_grant(grant_args(ident)) == NotReclaimable(ident, detail)
        assert await dump(engine) == before


async def test_a_reclaim_grant_needs_the_capabilities(engine: Engine, clock: ManualClock) -> None:
    policy = {"routing_requirements": {"required_capabilities": ["gpu"]}}
    ident = await create(engine, policy=policy)
    await claim(engine, capabilities=("gpu",))
    clock.advance(TTL_MS)
    got = await engine.issue_reclaim_grant(grant_args(ident, 2))
    assert got == NotReclaimable(ident, "capability_mismatch: gpu")
    assert (await row(engine, ident)).last_capability_mismatch_at == clock()
    assert await grant_count(engine) == 0


# ---- reclaim


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("lost", "lease_lease_expired_reclaimable"),
        ("requeued", "lease_lease_expired_reclaimable"),
        ("revoked", "lease_lease_revoked"),
    ],
)
async def test_a_reclaim_starts_a_new_attempt(
    engine: Engine, clock: ManualClock, how: str, reason: str
) -> None:
    said = {"policy": ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=200_000))}
    if how == "revoked":
        ident, before = await running(engine, **said)
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    else:
        ident, before = await (
            lost(engine, clock, **said) if how == "lost" else requeued(engine, clock, **said)
        )
    epoch = (await row(engine, ident)).lease_epoch
    await engine.issue_reclaim_grant(grant_args(ident, 2))
    lease, tried_id = uuid4(), uuid4()
    got = await engine.reclaim_execution(
        reclaiming(ident, lease_id=lease, attempt_id=tried_id, attempt_policy_json='{"a":1}')
    )
    assert isinstance(got, Claimed) and got.handle.kind is HandleKind.RECLAIMED
    assert (got.lease_id, got.attempt_id, got.attempt_index, got.lease_epoch) == (
        lease,
        tried_id,
        1,
        epoch + 1,
    )
    assert (got.attempt_type, got.lease_expires_at) == ("reclaim", clock() + 500)
    old, new = await attempts(engine, ident)
    assert (old.attempt_state, old.outcome, old.failure_reason) == (
        "interrupted_reclaimed",
        "interrupted_reclaimed",
        reason,
    )
    assert old.terminal_at_ms == clock()
    assert (new.attempt_type, new.reclaim_reason, new.previous_attempt_index) == (
        "reclaim",
        reason,
        0,
    )
    assert (new.attempt_state, new.policy, new.worker_instance_id) == (
        "started",
        '{"a":1}',
        "w2-i9",
    )
    found = await row(engine, ident)
    assert (found.attempt_index, found.total_attempt_count, found.lease_reclaim_count) == (1, 2, 1)
    assert found.attempt_timeout_at_ms == clock() + 200_000
    assert await grant_count(engine) == 0
    assert (await told(engine, ident))["LEASE"][-1] == "reclaimed"
    assert await engine.reclaim_execution(reclaiming(ident)) == GrantNotFound(ident)
    kind = "lease_conflict" if how == "revoked" else "lease_expired"
    with pytest.raises(Exception, match=kind):
        await engine.complete(before)
    await engine.complete(got.handle)


async def test_a_reclaim_needs_its_own_live_grant(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await lost(engine, clock)
    assert await engine.reclaim_execution(reclaiming(ident)) == GrantNotFound(ident)
    await engine.issue_reclaim_grant(grant_args(ident, 2, 100))
    await invalid(
        engine.reclaim_execution(reclaiming(ident, 3)),
        "reclaim_execution: grant worker_id=w2 mismatches caller w3",
    )
    clock.advance(101)
    assert await engine.reclaim_execution(reclaiming(ident, 2)) == GrantNotFound(ident)
    assert await grant_count(engine) == 0
    assert await state(engine, ident) == "LOST"


async def test_a_claim_grant_is_no_reclaim_grant(engine: Engine) -> None:
    ident, _ = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    await engine.issue_claim_grant(grant_args(ident, 2))
    assert await engine.reclaim_execution(reclaiming(ident, 2)) == GrantNotFound(ident)


# ---- the cap


async def capped(engine: Engine, ident: ExecutionId, count: int = 0) -> None:
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "ENDED(failed)"
    assert (found.failure_reason, found.lease_reclaim_count) == ("max_reclaims_exceeded", count)
    assert (found.current_lease_id, found.lease_expires_at_ms) == (None, None)
    assert (tried.attempt_state, tried.outcome) == (
        "interrupted_reclaimed",
        "interrupted_reclaimed",
    )
    assert (await told(engine, ident))["LEASE"][-2:] == ["expired", "revoked"]
    assert (await told(engine, ident))["DONE"] == ["failed"]


async def test_with_no_losses_allowed_the_first_ends_the_execution(
    engine: Engine, clock: ManualClock
) -> None:
    first, _ = await lost(engine, clock, policy=NO_LOSSES, lane_id="a")
    assert await engine.issue_reclaim_grant(grant_args(first)) == ReclaimCapExceeded(first, 0)
    await capped(engine, first)
    second, _ = await lost(engine, clock, policy=NO_LOSSES, lane_id="b")
    assert await engine.requeue_lost(second, 0) == ReclaimCapExceeded(second, 0)
    await capped(engine, second)


async def test_the_callers_cap_counts_only_without_a_policy(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await lost(engine, clock)
    await engine.issue_reclaim_grant(grant_args(ident, 2))
    assert await engine.reclaim_execution(
        reclaiming(ident, max_reclaim_count=0)
    ) == ReclaimCapExceeded(ident, 0)
    await capped(engine, ident)
    assert await grant_count(engine) == 0
    other, _ = await lost(engine, clock, policy=ExecutionPolicy(), lane_id="b")
    await engine.issue_reclaim_grant(grant_args(other, 2))
    assert isinstance(
        await engine.reclaim_execution(reclaiming(other, max_reclaim_count=0)), Claimed
    )


async def test_losses_add_up_over_requeues(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await requeued(engine, clock, policy=ExecutionPolicy(max_reclaim_count=2))
    for losses in (1, 2):
        await claim(engine)
        assert (await row(engine, ident)).lease_reclaim_count == losses
        clock.advance(TTL_MS)
        await engine.mark_lease_expired_if_due(ident)
        answer = await engine.requeue_lost(ident, 0)
    assert answer == ReclaimCapExceeded(ident, 2)
    await capped(engine, ident, 2)


@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        (ExecutionPolicy(), 100),
        (ExecutionPolicy(max_reclaim_count=7), 7),
        (ExecutionPolicy(timeout_policy=TimeoutPolicy(max_reclaim_count=4)), 4),
        (
            ExecutionPolicy(max_reclaim_count=7, timeout_policy=TimeoutPolicy(max_reclaim_count=4)),
            7,
        ),
        (None, None),
    ],
)
async def test_which_limit_is_stored(
    engine: Engine, policy: ExecutionPolicy | None, limit: int | None
) -> None:
    assert (await row(engine, await create(engine, policy=policy))).max_reclaim_count == limit
