"""Expired leases: marking, requeue and listing."""

from __future__ import annotations

from flowfabric.connect import memory_engine
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.ids import lease_mark
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.lease import (
    AlreadySatisfied,
    ExpiredLeaseInfo,
    MarkedExpired,
)
from flowfabric.testing import ManualClock

from .helpers import (
    GRACE_MS,
    TTL_MS,
    attempt,
    claim,
    create,
    fields,
    grant_args,
    lost,
    new_id,
    row,
    running,
    state,
    told,
    worker,
)

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


async def test_marking_returns_why_there_is_nothing_to_mark(engine: Engine) -> None:
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
