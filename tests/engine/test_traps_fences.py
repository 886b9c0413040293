"""The traps around leases: each test keeps the state valid and varies one thing only."""

from __future__ import annotations

from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, StateKind
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.testing import ManualClock

from .helpers import (
    TTL_MS,
    HolderCall,
    claim,
    dump,
    fields,
    forged,
    holder_call,
    lost,
    refused,
    requeued,
    row,
    running,
    state,
    told,
    two_stores,
    worker,
)

# ---- the fence: everything valid but one thing


@two_stores
@holder_call
@pytest.mark.parametrize("epoch", [0, 2, 999], ids=["older", "newer", "far"])
async def test_a_forged_epoch_alone_is_a_lease_conflict(
    engine: Engine, call: HolderCall, epoch: int
) -> None:
    ident, handle = await running(engine)
    before = await dump(engine)
    await refused(call(engine, forged(handle, lease_epoch=epoch)), ContentionKind.LEASE_CONFLICT)
    assert await dump(engine) == before
    await engine.complete(handle, b"true")
    assert await engine.get_execution_result(ident) == b"true"


@two_stores
@holder_call
async def test_a_forged_lease_id_alone_is_a_lease_conflict(
    engine: Engine, call: HolderCall
) -> None:
    ident, handle = await running(engine)
    before = await dump(engine)
    await refused(call(engine, forged(handle, lease_id=uuid4())), ContentionKind.LEASE_CONFLICT)
    assert await dump(engine) == before
    await engine.complete(handle)
    assert await state(engine, ident) == "ENDED(success)"


@two_stores
@holder_call
async def test_a_zombie_of_the_same_worker_is_fenced_by_the_epoch_alone(
    engine: Engine, call: HolderCall
) -> None:
    """Same execution, same attempt, same worker, a live lease: only epoch and lease id tell the two
    apart.
    """
    ident, zombie = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    successor = await claim(engine)
    assert fields(successor).attempt_id == fields(zombie).attempt_id
    before = await dump(engine)
    await refused(call(engine, zombie), ContentionKind.LEASE_CONFLICT)
    assert await dump(engine) == before
    await engine.complete(successor)


@two_stores
@holder_call
async def test_a_worker_of_attempt_0_cannot_touch_attempt_1(
    engine: Engine, clock: ManualClock, call: HolderCall
) -> None:
    ident, first = await running(engine)
    scheduled = await engine.fail(first, "boom")
    assert isinstance(scheduled, RetryScheduled)
    clock.advance(1_000)
    await engine.promote_delayed(ident)
    second = await claim(engine)
    assert (fields(first).attempt_index, fields(second).attempt_index) == (0, 1)
    before = await dump(engine)
    await refused(call(engine, first), ContentionKind.LEASE_CONFLICT)
    assert await dump(engine) == before


@two_stores
@holder_call
async def test_attempt_0_is_fenced_even_with_the_epoch_of_attempt_1(
    engine: Engine, clock: ManualClock, call: HolderCall
) -> None:
    """Only the attempt index is wrong."""
    ident, first = await running(engine)
    await engine.fail(first, "boom")
    clock.advance(1_000)
    await engine.promote_delayed(ident)
    second = await claim(engine)
    await refused(call(engine, forged(second, attempt_index=0)), ContentionKind.LEASE_CONFLICT)
    await engine.complete(second)


async def test_the_epoch_never_restarts(engine: Engine, clock: ManualClock) -> None:
    """Released, retried, revoked, lost and replayed: each owner has a higher epoch than
    all before.
    """
    ident, handle = await running(engine)
    seen = [fields(handle).lease_epoch]
    await engine.fail(handle, "boom")
    clock.advance(1_000)
    await engine.promote_delayed(ident)
    seen.append(fields(await claim(engine)).lease_epoch)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    seen.append(fields(await claim(engine)).lease_epoch)
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    assert await engine.requeue_lost(ident, 0) == "requeued"
    handle = await claim(engine)
    seen.append(fields(handle).lease_epoch)
    await engine.complete(handle)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    seen.append(fields(await claim(engine)).lease_epoch)
    assert seen == [1, 2, 4, 5, 7]


async def test_a_zombie_heartbeat_does_not_extend_its_successors_lease(
    engine: Engine, clock: ManualClock
) -> None:
    ident, zombie = await requeued(engine, clock)
    await claim(engine)
    expires = (await row(engine, ident)).lease_expires_at_ms
    clock.advance(1_000)
    await refused(engine.renew(zombie), StateKind.LEASE_EXPIRED)
    assert (await row(engine, ident)).lease_expires_at_ms == expires


async def test_a_late_complete_does_not_overwrite_the_newer_owners_result(
    engine: Engine, clock: ManualClock
) -> None:
    ident, zombie = await requeued(engine, clock)
    successor = await claim(engine)
    await engine.complete(successor, b"new")
    await refused(engine.complete(zombie, b"old"), StateKind.LEASE_EXPIRED)
    assert await engine.get_execution_result(ident) == b"new"


# ---- expiry


@two_stores
@holder_call
async def test_a_call_after_the_lease_ran_out_is_lease_expired(
    engine: Engine, clock: ManualClock, call: HolderCall
) -> None:
    """Without a takeover and before any loop marked it: the boundary itself counts as expired."""
    ident, handle = await running(engine)
    clock.advance(TTL_MS)
    await refused(call(engine, handle), StateKind.LEASE_EXPIRED)
    assert (await told(engine, ident))["DONE"] == []


@two_stores
@holder_call
async def test_a_call_on_a_marked_lease_is_lease_expired(
    engine: Engine, clock: ManualClock, call: HolderCall
) -> None:
    _, handle = await lost(engine, clock)
    before = await dump(engine)
    await refused(call(engine, handle), StateKind.LEASE_EXPIRED)
    assert await dump(engine) == before


@two_stores
@holder_call
async def test_a_late_call_is_lease_expired_even_after_a_takeover(
    engine: Engine, clock: ManualClock, call: HolderCall
) -> None:
    _, handle = await requeued(engine, clock)
    await claim(engine, worker(2))
    before = await dump(engine)
    await refused(call(engine, handle), StateKind.LEASE_EXPIRED)
    assert await dump(engine) == before


async def test_one_millisecond_before_its_end_a_lease_still_counts(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    clock.advance(TTL_MS - 1)
    await engine.complete(handle)
    assert await state(engine, ident) == "ENDED(success)"


async def test_a_fence_that_meets_an_expired_lease_keeps_the_mark(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    clock.advance(TTL_MS)
    await refused(engine.complete(handle), StateKind.LEASE_EXPIRED)
    assert await state(engine, ident) == "LOST"
    assert (await told(engine, ident))["LEASE"] == ["acquired", "expired"]


async def test_progress_on_an_expired_lease_leaves_no_mark(
    engine: Engine, clock: ManualClock
) -> None:
    _, handle = await running(engine)
    clock.advance(TTL_MS)
    before = await dump(engine)
    await refused(engine.progress(handle, 10), StateKind.LEASE_EXPIRED)
    assert await dump(engine) == before
