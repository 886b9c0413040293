"""Calls of a lease holder: renew, progress, complete, cancel and delay."""

from __future__ import annotations

from uuid import uuid4

import pytest

from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, EngineError, NotFound, StateError
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.lease import (
    LeaseRenewal,
    Renewed,
    RenewLeaseArgs,
)
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .helpers import (
    LANE,
    TTL_MS,
    attempt,
    completed,
    create,
    dump,
    fence,
    fields,
    forged,
    invalid,
    new_id,
    refused,
    row,
    running,
    state,
    told,
    worker,
)

# ---- renew and progress


async def test_renew_counts_from_now_with_the_handles_own_ttl(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine, worker(ttl_ms=1_000))
    clock.advance(400)
    assert await engine.renew(handle) == LeaseRenewal(clock() + 1_000, 1)
    found = await row(engine, ident)
    assert (found.lease_expires_at_ms, found.lease_last_renewed_at) == (clock() + 1_000, clock())
    assert (found.lease_renewal_deadline, found.lease_epoch) == (clock() + 666, 1)
    assert (await attempt(engine, ident)).lease_expires_at_ms == clock() + 1_000
    assert (await told(engine, ident))["LEASE"] == ["acquired", "renewed"]


@pytest.mark.parametrize("said", [1, 3_600_000])
async def test_a_forged_ttl_neither_lengthens_nor_shortens_a_lease(
    engine: Engine, clock: ManualClock, said: int
) -> None:
    ident, handle = await running(engine, worker(ttl_ms=1_000))
    for _ in range(3):
        clock.advance(300)
        for shown in (forged(handle, lease_ttl_ms=said), handle):
            assert await engine.renew(shown) == LeaseRenewal(clock() + 1_000, 1)
    assert (await row(engine, ident)).lease_renewal_deadline == clock() + 666
    assert await engine.renew_lease(
        RenewLeaseArgs(execution_id=ident, attempt_index=0, fence=fence(handle), lease_ttl_ms=500)
    ) == Renewed(clock() + 500)
    assert await engine.renew(handle) == LeaseRenewal(clock() + 500, 1)


async def test_the_parts_of_a_handle_that_are_only_shown_decide_nothing(engine: Engine) -> None:
    ident, handle = await running(engine)
    shown = forged(handle, attempt_id=uuid4(), lane_id="elsewhere", lease_ttl_ms=7)
    await engine.progress(shown, 50)
    await engine.complete(shown, b"done")
    found = await row(engine, ident)
    assert (found.lane_id, found.result, found.progress_pct) == (LANE, b"done", 50)
    assert (await attempt(engine, ident)).attempt_id == fields(handle).attempt_id


@pytest.mark.parametrize(
    "change", ["lease_epoch", "attempt_index", "lease_id", "worker_instance_id"]
)
async def test_each_part_of_the_fence_is_compared(engine: Engine, change: str) -> None:
    _, handle = await running(engine)
    said = {
        "lease_epoch": 7,
        "attempt_index": 7,
        "lease_id": uuid4(),
        "worker_instance_id": "other",
    }
    before = await dump(engine)
    with pytest.raises(EngineError):
        await engine.renew(forged(handle, **{change: said[change]}))
    assert await dump(engine) == before


async def test_transitions_omit_the_events_of_renewals(engine: Engine, clock: ManualClock) -> None:
    quiet = Engine(engine.store, Settings(lease_events="transitions"))
    ident, handle = await running(quiet, worker(ttl_ms=1_000))
    clock.advance(600)
    assert await quiet.renew(handle) == LeaseRenewal(clock() + 1_000, 1)
    args = RenewLeaseArgs(
        execution_id=ident, attempt_index=0, fence=fence(handle), lease_ttl_ms=700
    )
    assert await quiet.renew_lease(args) == Renewed(clock() + 700)
    assert (await told(quiet, ident))["LEASE"] == ["acquired"]
    await quiet.complete(handle)
    assert check(snapshot_of(await quiet.store.dump(TABLES_READ))) == []


async def test_a_renewed_lease_outlives_its_first_end(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    clock.advance(TTL_MS - 1)
    await engine.renew(handle)
    clock.advance(TTL_MS - 1)
    await engine.complete(handle)
    assert await state(engine, ident) == "ENDED(success)"


async def test_renew_lease_may_shorten_and_always_needs_its_fence(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    args = RenewLeaseArgs(execution_id=ident, attempt_index=0, fence=fence(handle), lease_ttl_ms=10)
    assert await engine.renew_lease(args) == Renewed(clock() + 10)
    bare = RenewLeaseArgs(execution_id=ident, attempt_index=0, lease_ttl_ms=10)
    await invalid(engine.renew_lease(bare), "fence_required")


async def test_progress_keeps_omitted_fields(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.progress(handle, 10, "start")
    clock.advance(5)
    await engine.progress(handle, percent=20)
    await engine.progress(handle, message="more")
    found = await row(engine, ident)
    assert (found.progress_pct, found.progress_message) == (20, "more")
    assert found.progress_updated_at == found.last_mutation_at == clock()
    assert (await told(engine, ident))["LEASE"] == ["acquired"]


async def test_progress_without_fields_writes_nothing(engine: Engine) -> None:
    _, handle = await running(engine)
    before = await dump(engine)
    await engine.progress(handle)
    assert await dump(engine) == before


# ---- complete


@pytest.mark.parametrize(("payload", "kept"), [(None, None), (b"", b""), (b"\x00r", b"\x00r")])
async def test_complete_ends_with_its_result(
    engine: Engine, clock: ManualClock, payload: bytes | None, kept: bytes | None
) -> None:
    ident, handle = await running(engine)
    clock.advance(3)
    await engine.complete(handle, payload)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "ENDED(success)"
    assert (found.attempt_state, found.public_state, found.terminal_at_ms) == (
        "attempt_terminal",
        "completed",
        clock(),
    )
    assert (found.closing_epoch, found.closing_attempt_index, found.lease_epoch) == (1, 0, 1)
    released = (
        found.current_lease_id,
        found.current_worker_id,
        found.current_worker_instance_id,
        found.lease_expires_at_ms,
    )
    assert released == (None, None, None, None)
    assert (found.lease_last_renewed_at, found.lease_renewal_deadline, found.lease_expired_at) == (
        None,
        None,
        None,
    )
    assert (tried.attempt_state, tried.outcome, tried.terminal_at_ms) == (
        "ended_success",
        "success",
        clock(),
    )
    assert (tried.worker_id, tried.worker_instance_id, tried.lease_expires_at_ms) == (
        "w1",
        "w1-i1",
        None,
    )
    assert await engine.get_execution_result(ident) == kept


async def test_complete_many_answers_each_on_its_own(engine: Engine, clock: ManualClock) -> None:
    (_, stale), (good, one), (done, two) = [
        await running(engine, worker(ttl_ms=t)) for t in (1, 10_000, 10_000)
    ]
    await engine.complete(two, b"before")
    clock.advance(1)
    answers = await engine.complete_many(
        [(one, b"r"), (stale, None), (two, b"again"), (one, b"twice")]
    )
    assert [type(a) for a in answers] == [type(None), StateError, type(None), type(None)]
    assert await engine.get_execution_result(good) == b"r"
    assert await engine.get_execution_result(done) == b"before"
    assert (await told(engine, good))["DONE"] == ["success"]


async def test_complete_many_of_nothing(engine: Engine) -> None:
    assert await engine.complete_many([]) == []


async def test_a_hundred_completions_ride_together(engine: Engine) -> None:
    for _ in range(100):
        await create(engine)
    works = await engine.claim_many("default", (), worker(), 100)
    assert (
        await engine.complete_many([(w.handle, w.execution_id.encode()) for w in works])
        == [None] * 100
    )
    for work in works[::25]:
        assert await engine.get_execution_result(work.execution_id) == work.execution_id.encode()


# ---- giving up and delaying


async def test_a_holder_gives_its_own_execution_up(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.cancel(handle, "not mine")
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert (found.lifecycle_phase, found.cancellation_reason, found.cancelled_by) == (
        "cancelled",
        "not mine",
        "worker",
    )
    assert (found.lease_epoch, found.closing_epoch, found.closing_attempt_index) == (2, 1, 0)
    assert (tried.attempt_state, tried.outcome, tried.failure_reason) == (
        "ended_cancelled",
        "cancelled",
        "cancelled: not mine",
    )
    assert (tried.worker_instance_id, tried.lease_epoch) == (None, 2)
    await refused(engine.renew(handle), ContentionKind.LEASE_CONFLICT)


async def test_delay_parks_the_execution_and_keeps_the_attempt_open(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    clock.advance(5)
    until = clock() + 100
    await engine.delay(handle, until)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "DELAYED"
    assert (found.blocking_reason, found.blocking_detail) == (
        "waiting_for_delay",
        f"delayed until {until}",
    )
    assert (found.attempt_state, found.interrupt_cause, found.delay_until_ms) == (
        "attempt_interrupted",
        "delayed",
        until,
    )
    assert (found.lease_epoch, found.current_lease_id) == (1, None)
    assert (tried.attempt_state, tried.suspension_id, tried.suspended_at_ms) == (
        "suspended",
        "worker_delay",
        clock(),
    )
    assert (tried.outcome, tried.terminal_at_ms) == (None, None)
    await refused(engine.renew(handle), ContentionKind.EXECUTION_NOT_ACTIVE)


@pytest.mark.parametrize(
    ("ahead_ms", "status"),
    [(1, "not_yet_due"), (0, "promoted"), (-5, "promoted")],
    ids=["ahead", "now", "past"],
)
async def test_a_delayed_execution_is_promoted_when_due(
    engine: Engine, clock: ManualClock, ahead_ms: int, status: str
) -> None:
    ident, handle = await running(engine)
    await engine.delay(handle, clock() + ahead_ms)
    assert await engine.promote_delayed(ident) == status
    found = await row(engine, ident)
    assert await state(engine, ident) == ("READY" if status == "promoted" else "DELAYED")
    assert found.attempt_state == "attempt_interrupted"
    if status == "promoted":
        assert (found.delay_until_ms, found.blocking_detail) == (None, "")


async def test_promote_returns_what_it_found_and_never_raises(
    engine: Engine, clock: ManualClock
) -> None:
    assert await engine.promote_delayed(new_id()) == "not_found_cleaned"
    assert await engine.promote_delayed(await create(engine)) == "not_delayed_cleaned"
    assert (
        await engine.promote_delayed((await running(engine, lane_id="b"))[0])
        == "not_runnable_cleaned"
    )
    ident = await create(engine, delay_until=clock() + 10)
    assert await engine.promote_delayed(ident, now=clock() + 10) == "promoted"
    assert (await row(engine, ident)).last_transition_at == clock() + 10


# ---- a handle of nothing


async def test_a_handle_of_a_missing_execution_is_not_found(engine: Engine) -> None:
    _, handle = await running(engine)
    with pytest.raises(NotFound) as caught:
        await engine.complete(forged(handle, execution_id=new_id()))
    assert caught.value.code == "execution_not_found"


async def test_a_handle_of_a_missing_attempt_is_not_found(engine: Engine) -> None:
    _, handle = await running(engine)
    with pytest.raises(NotFound) as caught:
        await engine.complete(forged(handle, attempt_index=5))
    assert caught.value.code == "attempt_not_found"


async def test_another_engine_on_the_same_store_accepts_the_handle(engine: Engine) -> None:
    """Nothing about a lease lives only in the process that granted it."""
    ident, handle = await running(engine)
    other = Engine(engine.store)
    await other.renew(handle)
    assert isinstance(await other.fail(handle, "boom"), RetryScheduled)
    assert (await row(engine, ident)).retry_count == 1


async def test_the_result_is_only_shown_after_success(engine: Engine) -> None:
    ident, _ = await completed(engine)
    assert await engine.get_execution_result(ident) == b"done"
    waiting, handle = await running(engine, lane_id="x")
    assert await engine.get_execution_result(waiting) is None
    await engine.cancel(handle)
    assert await engine.get_execution_result(waiting) is None
