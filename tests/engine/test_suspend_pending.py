"""Mailboxes made ahead: what arrives early is kept, and counts once a suspend uses them."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.codec.token import sealed
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, StateKind, ValidationError, ValidationKind
from flowfabric.loops.timers import PendingWaitpointExpiry
from flowfabric.model.waitpoint import (
    AllOf,
    BoundWaitpoint,
    Condition,
    Count,
    CountKind,
    Single,
    SuspendArgs,
    Suspended,
    UsePending,
)
from flowfabric.testing import ManualClock

from .flow_helpers import change_row
from .helpers import (
    attempt,
    claim,
    dump,
    fields,
    other_uuid,
    outbox,
    refused,
    requeued,
    row,
    running,
    state,
    told,
    worker,
)
from .suspend_helpers import (
    KEY,
    bad_token,
    claim_resumed,
    met,
    park,
    park_held,
    pending,
    seed,
    signal,
    signal_args,
    signals,
    sound,
    suspend_args,
    suspension,
    waitpoint,
    waitpoints,
)

BUFFERED = "buffered_for_pending_waitpoint"
MAX_MS = 2**63 - 1


def using(ahead: BoundWaitpoint, condition: Condition | None = None, **said: Any) -> SuspendArgs:
    return suspend_args(
        waitpoints=[UsePending(ahead.waitpoint_id)],
        resume_condition=condition or Single(ahead.waitpoint_key),
        **said,
    )


async def early(
    engine: Engine, ident: Any, ahead: BoundWaitpoint, name: str = "go", **said: Any
) -> str:
    answer = await engine.deliver_signal(signal_args(ident, ahead, name, **said))
    return getattr(answer, "effect", "duplicate")


async def test_a_mailbox_ahead_changes_nothing_else(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    tried, events = await attempt(engine, ident), await told(engine, ident)
    one, two = await pending(engine, held), await pending(engine, held)
    assert one.waitpoint_id != two.waitpoint_id and one.waitpoint_token != two.waitpoint_token
    stored = await waitpoint(engine, ident, one)
    assert (stored.state, stored.created_at_ms, stored.expires_at_ms) == (
        "pending",
        clock(),
        clock() + 3_600_000,
    )
    assert (stored.required_signal_names, stored.attempt_index, stored.suspension_id) == (
        "[]",
        0,
        None,
    )
    assert (await attempt(engine, ident), await told(engine, ident)) == (tried, events)
    assert await state(engine, ident) == "RUNNING"
    named = await engine.create_waitpoint(held)
    assert (await waitpoints(engine, ident))[
        named.waitpoint_id
    ].waitpoint_key == f"wpk:{named.waitpoint_id}"
    longest = await engine.create_waitpoint(held, "long", MAX_MS)
    assert (await waitpoints(engine, ident))[longest.waitpoint_id].expires_at_ms == MAX_MS
    await sound(engine)


async def test_an_early_signal_is_enough(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    assert await early(engine, ident, ahead, payload=b"\x00\xff") == BUFFERED
    before = await row(engine, ident)
    found = met(await engine.suspend(held, using(ahead)))
    assert [(s.signal_name, s.payload) for s in found.details.signals] == [("go", b"\x00\xff")]
    assert found.details.waitpoint_token == ahead.waitpoint_token
    assert await row(engine, ident) == before
    assert (await engine.store.dump(["ff_suspension_current"]))["ff_suspension_current"] == []
    closed = await waitpoint(engine, ident, ahead)
    assert (closed.state, closed.close_reason, closed.satisfied_at_ms) == (
        "closed",
        "resumed",
        clock(),
    )
    assert (await told(engine, ident))["LEASE"] == ["acquired"]
    assert [e["event_type"] for e in await outbox(engine, "ff_signal_event", ident)] == [BUFFERED]
    await refused(engine.suspend(held, using(ahead)), StateKind.WAITPOINT_NOT_PENDING)
    await sound(engine)
    await engine.complete(held)


async def test_an_early_signal_that_does_not_match_is_kept(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    await early(engine, ident, ahead, "other", payload=b"kept")
    parked = await park_held(
        engine,
        ident,
        held,
        waitpoints=[UsePending(ahead.waitpoint_id)],
        resume_condition=Single(KEY, "go"),
    )
    assert [s.payload for s in await engine.observe_signals(parked.handle)] == [b"kept"]
    assert parked.waitpoint.waitpoint_token == ahead.waitpoint_token
    assert await signal(engine, parked, "go") == "resume_condition_satisfied"
    taken = await claim_resumed(engine, ident)
    assert [s.signal_name for s in await engine.observe_signals(taken.handle)] == ["go"]
    assert [s.signal_name for s in await engine.read_resume_signals(parked.ident)] == ["go"]
    assert [s.suspension_id for s in await signals(engine, ident)] == [parked.suspension_id] * 2
    await sound(engine)


@pytest.mark.parametrize(
    ("condition", "enough"),
    [
        (AllOf((Single(KEY, "a"), Single(KEY, "b"))), True),
        (AllOf((Single(KEY, "a"), Single(KEY, "c"))), False),
        (Count(2, CountKind.DISTINCT_SIGNALS, (KEY,)), True),
        (Count(2, CountKind.DISTINCT_SOURCES, (KEY,)), False),
        (Count(1, CountKind.DISTINCT_WAITPOINTS, (KEY,), "b"), True),
    ],
    ids=["all", "one is missing", "signals", "one source", "by name"],
)
async def test_composites_count_what_came_early(
    engine: Engine, condition: Condition, enough: bool
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    for name in "ab":
        await early(engine, ident, ahead, name)
    done = await engine.suspend(held, using(ahead, condition))
    assert isinstance(done, Suspended) is not enough
    if not enough:
        assert (
            await early(engine, ident, ahead, "c", source_identity="else")
            == "resume_condition_satisfied"
        )
        counted = (await suspension(engine, ident)).satisfier_signal_ids
        assert counted.count("-") // 4 == 2
    await sound(engine)


async def test_a_token_stays_across_activation_and_rotation(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    created = (await waitpoint(engine, ident, ahead)).created_at_ms
    clock.advance(5)
    await engine.rotate_waitpoint_hmac_secret_all("k2", "3b" * 32, 60_000)
    timeout = clock() + 5_000
    done = await engine.suspend(held, using(ahead, timeout_at=timeout))
    assert isinstance(done, Suspended) and done.details.waitpoint_token == ahead.waitpoint_token
    stored = await waitpoint(engine, ident, ahead)
    assert (stored.state, stored.token_digest, stored.token_kid) == (
        "active",
        sealed(ahead.waitpoint_token),
        "k1",
    )
    assert (stored.created_at_ms, stored.activated_at_ms, stored.expires_at_ms) == (
        created,
        clock(),
        timeout,
    )
    assert await early(engine, ident, ahead) == "resume_condition_satisfied"
    other = await park(engine, made={"lane_id": "other"})
    assert other.waitpoint.waitpoint_token.startswith("k2:")


async def test_what_cannot_be_used(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    _, stranger = await running(engine, worker(2))
    foreign, short, mine = (
        await pending(engine, stranger),
        await pending(engine, held, KEY, 100),
        await pending(engine, held),
    )
    unsigned = await pending(engine, held)
    where = {"partition_key": ident.partition_index, "waitpoint_id": unsigned.waitpoint_id}
    await change_row(engine, "ff_waitpoint_pending", where, token_digest="")
    clock.advance(100)
    before = await dump(engine)
    await refused(
        engine.suspend(held, suspend_args(waitpoints=[UsePending(other_uuid())])),
        ContentionKind.WAITPOINT_NOT_FOUND,
    )
    await refused(engine.suspend(held, using(short)), StateKind.PENDING_WAITPOINT_EXPIRED)
    await refused(engine.deliver_signal(signal_args(ident, short)), StateKind.WAITPOINT_CLOSED)
    for ahead, condition, kind in (
        (foreign, None, ValidationKind.INVALID_WAITPOINT_FOR_EXECUTION),
        (unsigned, None, ValidationKind.WAITPOINT_NOT_TOKEN_BOUND),
        (mine, Single("another key"), ValidationKind.INVALID_INPUT),
    ):
        with pytest.raises(ValidationError) as caught:
            await engine.suspend(held, using(ahead, condition))
        assert caught.value.kind is kind
    assert await dump(engine) == before


async def test_a_mailbox_of_a_later_attempt_is_not_ours(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    where = {"partition_key": ident.partition_index, "waitpoint_id": ahead.waitpoint_id}
    await change_row(engine, "ff_waitpoint_pending", where, attempt_index=5)
    with pytest.raises(ValidationError) as caught:
        await engine.suspend(held, using(ahead))
    assert caught.value.kind is ValidationKind.INVALID_WAITPOINT_FOR_EXECUTION


@pytest.mark.meets("suspend", "retry")
async def test_the_mailbox_of_an_attempt_that_failed_and_what_is_in_it_are_the_next_attempts(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    full, empty = await pending(engine, held, "full"), await pending(engine, held, "empty")
    assert await early(engine, ident, full) == BUFFERED
    await engine.fail(held, "boom")
    clock.advance(1_000)
    await engine.promote_delayed(ident)
    again = await claim(engine)
    found = met(await engine.suspend(again, using(full)))
    assert [s.signal_name for s in found.details.signals] == ["go"]
    assert isinstance(await engine.suspend(again, using(empty)), Suspended)
    assert await early(engine, ident, empty) == "resume_condition_satisfied"
    await engine.complete((await claim_resumed(engine, ident)).handle)
    await sound(engine)


async def test_leftovers_survive_and_are_used_later(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    later = await pending(engine, held, "later")
    parked = await park_held(engine, ident, held)
    assert await early(engine, ident, later) == BUFFERED
    await signal(engine, parked)
    clock.advance(1)
    assert await early(engine, ident, later, "second") == BUFFERED
    taken = await claim_resumed(engine, ident)
    found = met(await engine.suspend(taken.handle, using(later)))
    assert [s.signal_name for s in found.details.signals] == ["go"]
    await sound(engine)


async def test_a_pending_waitpoint_that_is_not_used_in_time_expires(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    short, long = await pending(engine, held, "s", 100), await pending(engine, held, "l", 101)
    zero = await pending(engine, held, "z", 0)
    await refused(engine.deliver_signal(signal_args(ident, zero)), StateKind.WAITPOINT_CLOSED)
    loop = PendingWaitpointExpiry(LoopSettings())
    assert await loop.next_due(engine) == clock()
    assert await loop.run(engine) == 1
    assert await loop.next_due(engine) == clock() + 100
    clock.advance(99)
    before = await dump(engine)
    assert await loop.run(engine) == 0
    assert await dump(engine) == before
    clock.advance(1)
    assert await loop.run(engine) == 1
    found = await waitpoints(engine, ident)
    assert [found[w.waitpoint_id].state for w in (short, long, zero)] == [
        "closed",
        "pending",
        "closed",
    ]
    assert found[short.waitpoint_id].close_reason == "never_committed"
    assert await engine.read_waitpoint_token(ident.partition_index, short.waitpoint_id) is None
    await refused(engine.suspend(held, using(short)), StateKind.WAITPOINT_NOT_PENDING)


async def test_the_expiry_loop_leaves_a_waitpoint_in_use(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    parked = await park(engine, timeout_at=clock() + 10)
    clock.advance(1_000)
    assert await PendingWaitpointExpiry(LoopSettings()).run(engine) == 0
    assert (await waitpoint(engine, parked.ident, parked.waitpoint)).state == "active"


async def test_closing_one(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "later")
    parked = await park_held(engine, ident, held)
    await refused(engine.close_waitpoint(ident, other_uuid()), ContentionKind.WAITPOINT_NOT_FOUND)
    assert await engine.close_waitpoint(ident, ahead.waitpoint_id, "why not") == "closed"
    assert await engine.close_waitpoint(ident, parked.waitpoint.waitpoint_id) == "closed"
    before = await dump(engine)
    assert await engine.close_waitpoint(ident, ahead.waitpoint_id) == "already_closed"
    assert await dump(engine) == before
    assert (await waitpoint(engine, ident, ahead)).close_reason == "why not"
    assert (await waitpoint(engine, ident, parked.waitpoint)).close_reason == "proactive_close"
    assert await state(engine, ident) == "SUSPENDED"
    await refused(
        engine.deliver_signal(signal_args(ident, parked.waitpoint)), StateKind.WAITPOINT_CLOSED
    )
    await engine.resume_execution(ident)
    assert (await waitpoint(engine, ident, parked.waitpoint)).close_reason == "proactive_close"
    await sound(engine)


async def test_after_an_attempt_ends_its_pending_waitpoint_takes_no_signal(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, KEY, 50_000)
    await engine.complete(held)
    await refused(engine.deliver_signal(signal_args(ident, ahead)), StateKind.TARGET_NOT_SIGNALABLE)
    await bad_token(
        engine.deliver_signal(signal_args(ident, ahead, waitpoint_token="")), "missing_token"
    )
    clock.advance(50_000)
    await engine.expire_waitpoints()
    assert (await waitpoint(engine, ident, ahead)).state == "closed"
    await sound(engine)


async def test_a_lost_lease_creates_no_waitpoint(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await requeued(engine, clock)
    before = await dump(engine)
    await refused(engine.create_waitpoint(held), StateKind.LEASE_EXPIRED)
    assert await dump(engine) == before
    assert fields(held).execution_id == ident
