"""Lost leases: marking, requeueing, reclaiming, and the cap on losses."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.connect import memory_engine
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, StateKind
from flowfabric.ids import ExecutionId, lease_mark
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.lease import (
    AlreadySatisfied,
    Claimed,
    ExpiredLeaseInfo,
    GrantNotFound,
    HandleKind,
    MarkedExpired,
    NotReclaimable,
    ReclaimCapExceeded,
    ReclaimExecutionArgs,
    ReclaimGrant,
    RevokeLeaseArgs,
)
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.testing import ManualClock

from .helpers import (
    GRACE_MS,
    LANE,
    TTL_MS,
    attempt,
    attempts,
    claim,
    completed,
    create,
    dump,
    fields,
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
    worker,
)

NO_LOSSES = ExecutionPolicy(max_reclaim_count=0)


def reclaiming(ident: ExecutionId, number: int = 2, **said: Any) -> ReclaimExecutionArgs:
    base: dict[str, Any] = {
        "worker_id": f"w{number}",
        "worker_instance_id": f"w{number}-i9",
        "lease_ttl_ms": 500,
    }
    return ReclaimExecutionArgs(execution_id=ident, **{**base, **said})


# ---- marking


async def test_a_due_lease_is_marked_once(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    clock.advance(TTL_MS - 1)
    assert await engine.mark_lease_expired_if_due(ident) == AlreadySatisfied("not_yet_expired")
    clock.advance(1)
    assert await engine.mark_lease_expired_if_due(ident) == MarkedExpired()
    assert await engine.mark_lease_expired_if_due(ident) == AlreadySatisfied("already_expired")
    found = await row(engine, ident)
    assert await state(engine, ident) == "LOST"
    assert (found.blocking_detail, found.lease_expired_at) == (
        "lease expired, awaiting reclaim",
        clock(),
    )
    assert (found.interrupt_cause, found.lease_epoch) == ("lease_expired", 1)
    assert found.current_lease_id == fields(handle).lease_id
    assert (found.current_worker_instance_id, found.lease_expires_at_ms) == ("w1-i1", clock())
    assert (await told(engine, ident))["LEASE"] == ["acquired", "expired"]


async def test_marking_says_why_there_is_nothing_to_mark(engine: Engine) -> None:
    assert await engine.mark_lease_expired_if_due(new_id()) == AlreadySatisfied(
        "execution_not_found"
    )
    assert await engine.mark_lease_expired_if_due(await create(engine)) == AlreadySatisfied(
        "not_active"
    )


# ---- requeue


async def test_a_lost_execution_goes_back_after_the_grace(
    engine: Engine, clock: ManualClock
) -> None:
    ident, before = await lost(engine, clock)
    clock.advance(GRACE_MS - 1)
    assert await engine.requeue_lost(ident) == "not_yet_due"
    clock.advance(1)
    events = await told(engine, ident)
    assert await engine.requeue_lost(ident) == "requeued"
    assert await engine.requeue_lost(ident) == "not_lost"
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "READY"
    assert (found.attempt_state, found.interrupt_cause, found.blocking_detail) == (
        "attempt_interrupted",
        "lease_expired",
        "",
    )
    assert (found.current_lease_id, found.lease_expired_at, found.lease_epoch) == (None, None, 1)
    assert (tried.attempt_state, tried.outcome, tried.lease_expires_at_ms) == (
        "suspended",
        None,
        None,
    )
    assert await told(engine, ident) == events
    handle = await claim(engine, worker(2))
    assert fields(handle).attempt_id == fields(before).attempt_id
    assert (await row(engine, ident)).lease_reclaim_count == 1


async def test_the_grace_counts_from_when_the_loss_was_noticed(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine)
    clock.advance(TTL_MS + 60_000)
    await engine.mark_lease_expired_if_due(ident)
    assert await engine.requeue_lost(ident) == "not_yet_due"


async def test_a_reclaim_grant_holds_the_requeue_back(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await lost(engine, clock)
    await engine.issue_reclaim_grant(grant_args(ident, 2, GRACE_MS + 100))
    clock.advance(GRACE_MS)
    assert await engine.requeue_lost(ident) == "granted"
    clock.advance(101)
    assert await engine.requeue_lost(ident) == "requeued"


async def test_what_is_not_lost_is_not_requeued(engine: Engine) -> None:
    for ident in (new_id(), await create(engine, lane_id="a"), (await running(engine))[0]):
        assert await engine.requeue_lost(ident) == "not_lost"


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


async def test_what_cannot_be_reclaimed_says_why(engine: Engine, clock: ManualClock) -> None:
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


# ---- the list


async def test_expired_leases_are_listed_oldest_first_and_paged(
    engine: Engine, clock: ManualClock
) -> None:
    made = {}
    for n, ttl in enumerate((300, 100, 200)):
        space = f"ns{n % 2}"
        made[ttl] = await running(
            engine, worker(n, ttl_ms=ttl, namespace=space), lane_id=f"l{n}", namespace=space
        )
    await running(engine, lane_id="live")
    clock.advance(300)
    await engine.mark_lease_expired_if_due(made[200][0])
    page = await engine.list_expired_leases()
    assert [e.execution_id for e in page.items] == [made[t][0] for t in (100, 200, 300)]
    assert page.next_cursor is None
    ident, handle = made[100]
    expires = clock() - 200
    assert page.items[0] == ExpiredLeaseInfo(
        ident, lease_mark(fields(handle).lease_id), 1, "w1-i1", expires, 0
    )
    first = await engine.list_expired_leases(limit=2)
    assert first.next_cursor == (expires + 100, made[200][0])
    rest = await engine.list_expired_leases(after=first.next_cursor, limit=2)
    assert [e.execution_id for e in rest.items] == [made[300][0]] and rest.next_cursor is None
    assert [e.execution_id for e in (await engine.list_expired_leases(namespace="ns1")).items] == [
        ident
    ]
    assert [e.execution_id for e in (await engine.list_expired_leases(expires)).items] == [ident]
    assert (await engine.list_expired_leases(expires - 1)).items == []
    assert (await engine.list_expired_leases(limit=0)).items == []


async def test_a_negative_grace_switches_the_requeue_off(clock: ManualClock) -> None:
    engine = memory_engine(clock, Settings(lease_reclaim_grace_ms=-1))
    ident, _ = await running(engine)
    clock.advance(TTL_MS + 10**9)
    await Supervisor(engine).run_once()
    clock.advance(10**9)
    await Supervisor(engine).run_once()
    assert await state(engine, ident) == "LOST"
