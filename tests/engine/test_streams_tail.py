"""Tailing a stream: asleep until something comes, awake at once when it has ended,
however it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import Claimed, Handle, ReclaimExecutionArgs, RevokeLeaseArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.testing import ManualClock
from tests.patience import patient

from .helpers import GRACE_MS, TTL_MS, claim, create, grant_args, running, worker
from .stream_helpers import KEPT, asleep, frame, live, patch, say, soon, tailing
from .suspend_helpers import claim_resumed, park_held, seed, signal

IN_MS = 1_000
TIMED = ExecutionPolicy(
    timeout_policy=TimeoutPolicy(attempt_timeout_ms=IN_MS),
    retry_policy=RetryPolicy(max_retries=0, backoff={}),
)
Step = Callable[[Engine, ExecutionId, Handle, ManualClock], Awaitable[Any]]


async def nothing(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    pass


def parks(**said: Any) -> Step:
    async def step(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
        await seed(engine)
        until = {"timeout_at": clock() + IN_MS} if "timeout_behavior" in said else {}
        await park_held(engine, ident, handle, **said, **until)

    return step


async def run_out(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    clock.advance(TTL_MS)


async def lose(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)


async def sweep(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    clock.advance(TTL_MS)
    assert len(await engine.store.sweep(SWEEP_EXPIRED(), 10)) == 1


async def reclaim(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    await engine.issue_reclaim_grant(grant_args(ident, 2))
    args = ReclaimExecutionArgs(
        execution_id=ident, worker_id="w2", worker_instance_id="w2-i1", lease_ttl_ms=TTL_MS
    )
    assert isinstance(await engine.reclaim_execution(args), Claimed)


async def lose_and_reclaim(
    engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock
) -> None:
    await run_out(engine, ident, handle, clock)
    await reclaim(engine, ident, handle, clock)


def expires(word: str) -> Step:
    async def step(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
        clock.advance(IN_MS)
        assert await engine.expire_execution(ident, word) is not None  # type: ignore[arg-type]

    return step


async def wait_too_long(
    engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock
) -> None:
    clock.advance(IN_MS)
    await engine.expire_suspension(ident)


async def put_off(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    await engine.delay(handle, clock() + IN_MS)


async def stop(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))


# what leads up to it, what ends the attempt, and what is told
ENDS: dict[str, tuple[Step, Step, str]] = {
    "complete": (nothing, lambda e, i, h, c: e.complete(h), "attempt_success"),
    "fail and retry": (nothing, lambda e, i, h, c: e.fail(h, "no"), "attempt_failure"),
    "fail for good": (
        nothing,
        lambda e, i, h, c: e.fail(h, "no", FailureClass.PERMANENT),
        "attempt_failure",
    ),
    "cancel by the holder": (
        nothing,
        lambda e, i, h, c: e.cancel(h, "enough"),
        "attempt_cancelled",
    ),
    "cancel while active": (nothing, stop, "attempt_cancelled"),
    "cancel while suspended": (parks(), stop, "attempt_cancelled"),
    "cancel while delayed": (put_off, stop, "attempt_cancelled"),
    "lease noticed as lapsed": (nothing, lose, "lease_expired"),
    "lease swept up": (nothing, sweep, "lease_expired"),
    "revoke": (
        nothing,
        lambda e, i, h, c: e.revoke_lease(RevokeLeaseArgs(execution_id=i)),
        "lease_revoked",
    ),
    "reclaim of a lapsed lease": (nothing, lose_and_reclaim, "reclaimed"),
    "attempt timeout": (nothing, expires("attempt_timeout"), "expired"),
    "deadline while active": (nothing, expires("execution_deadline"), "expired"),
    "deadline while suspended": (parks(), expires("execution_deadline"), "expired"),
    "deadline while delayed": (put_off, expires("execution_deadline"), "expired"),
    "suspension timeout, fail": (
        parks(timeout_behavior="fail"),
        wait_too_long,
        "suspension_timeout",
    ),
    "suspension timeout, cancel": (
        parks(timeout_behavior="cancel"),
        wait_too_long,
        "suspension_timeout",
    ),
    "suspension timeout, expire": (
        parks(timeout_behavior="expire"),
        wait_too_long,
        "suspension_timeout",
    ),
}


async def started(engine: Engine, clock: ManualClock) -> tuple[ExecutionId, Handle, str]:
    """An execution with every time limit, which has written frames; and its end."""
    ident, handle = await running(engine, policy=TIMED, execution_deadline_at=clock() + IN_MS)
    return ident, handle, (await say(engine, handle, "a"))[0].frame_id


@pytest.mark.parametrize("how", ENDS)
async def test_a_sleeping_tail_returns_at_every_end(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    ident, handle, after = await started(engine, clock)
    before, end, reason = ENDS[how]
    await before(engine, ident, handle, clock)
    tail = await tailing(engine, ident, after=after)
    await end(engine, ident, handle, clock)
    page = await soon(tail)
    assert (page.frames, page.closed_at) == ((), clock())
    assert page.closed_reason in (reason, *(["lease_expired"] if reason == "reclaimed" else [])), (
        "the loss is noticed first"
    )


@pytest.mark.parametrize("how", ENDS)
async def test_who_comes_after_the_end_does_not_wait(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    ident, handle, after = await started(engine, clock)
    before, end, reason = ENDS[how]
    await before(engine, ident, handle, clock)
    assert not (await engine.read_stream(ident, 0)).closed, (
        "neither waiting nor being put off ends it"
    )
    await end(engine, ident, handle, clock)
    async with patient(10):
        page = await engine.tail_stream(ident, 0, after, 30_000)
        assert (page.frames, page.closed_reason, page.closed_at) == ((), reason, clock())
        page = await engine.tail_stream(ident, 0, "0-0", 30_000)
        assert [f.payload for f in page.frames] == [b"a"] and page.closed_reason == reason
    assert (await engine.read_stream(ident, 0)).closed_reason == reason


async def test_a_resumed_attempt_is_open_again(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await say(engine, handle, "a")
    await lose(engine, ident, handle, clock)
    assert (await engine.read_stream(ident, 0)).closed_reason == "lease_expired"
    clock.advance(GRACE_MS)
    await engine.requeue_lost(ident)
    assert (await engine.read_stream(ident, 0)).closed_reason == "lease_expired"
    again = await claim(engine, worker(2))
    assert not (await engine.read_stream(ident, 0)).closed
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    assert (await engine.read_stream(ident, 0)).closed_reason == "lease_revoked"
    again = await claim(engine, worker(3))
    await say(engine, again, "b")
    assert not (await engine.read_stream(ident, 0)).closed
    await engine.complete(again)
    assert (await engine.read_stream(ident, 0)).closed_reason == "attempt_success"


# ---- frames


@pytest.mark.parametrize(
    "given",
    [frame("b"), live("b"), patch('{"b":1}'), frame("b", seq=1)],
    ids=["durable", "live", "patch", "numbered"],
)
async def test_a_frame_wakes_a_tail(engine: Engine, given: Any) -> None:
    ident, handle = await running(engine)
    for begun in ("0-0", None):
        tail = await tailing(
            engine, ident, after=begun or (await engine.tail_stream(ident, 0)).next_after
        )
        outcome = await engine.append_frame(handle, given if begun else frame("another"))
        page = await soon(tail)
        assert [f.id for f in page.frames] == [outcome.frame_id] and not page.closed


async def test_a_tail_that_hides_live_frames_sleeps_through_them(engine: Engine) -> None:
    ident, handle = await running(engine)
    tail = await tailing(engine, ident, visibility=KEPT)
    for _ in range(3):
        await engine.append_frame(handle, live())
        await asleep(engine, ident)
    assert not tail.done()
    await say(engine, handle, "kept")
    assert [f.payload for f in (await soon(tail)).frames] == [b"kept"]


async def test_other_streams_and_other_news_do_not_end_a_tail(engine: Engine) -> None:
    ident, handle = await running(engine)
    other, busy = await running(engine)
    tail = await tailing(engine, ident)
    await say(engine, busy, "elsewhere")
    await engine.renew(handle)
    await engine.progress(handle, 50, "half")
    await engine.complete(busy)
    await asleep(engine, ident)
    assert not tail.done() and (await engine.read_stream(other, 0)).closed
    await seed(engine)
    parked = await park_held(engine, ident, handle)
    await signal(engine, parked)
    resumed = (await claim_resumed(engine, ident)).handle
    await asleep(engine, ident)
    assert not tail.done(), "through a suspension"
    await say(engine, resumed, "at last")
    assert [f.payload for f in (await soon(tail)).frames] == [b"at last"]


@pytest.mark.parametrize("block_ms", [0, 1, 30])
async def test_when_the_time_is_up_there_is_nothing_and_it_is_open(
    engine: Engine, block_ms: int
) -> None:
    ident, _ = await running(engine)
    async with patient(10):
        page = await engine.tail_stream(ident, 0, block_ms=block_ms)
    assert (page.frames, page.closed, page.next_after) == ((), False, None)
    assert (
        "frames",
        ident.uuid,
    ) not in engine.store.hub.waiters and not engine.parts.streams.watcher.followers


async def test_a_tail_that_is_given_up_leaves_nothing_behind(engine: Engine) -> None:
    ident, handle = await running(engine)
    tail = await tailing(engine, ident)
    other = await tailing(engine, ident)
    await asleep(engine, ident, 2)
    tail.cancel()
    with pytest.raises(asyncio.CancelledError):
        await tail
    assert list(engine.parts.streams.watcher.followers.values()) == [1]
    await say(engine, handle, "a")
    assert len((await soon(other)).frames) == 1
    assert (
        not engine.parts.streams.watcher.followers and engine.parts.streams.shared_reads.is_idle()
    )


async def test_a_tail_ends_with_its_engine(engine: Engine) -> None:
    ident, _ = await running(engine)
    tail = await tailing(engine, ident)
    await engine.close()
    async with patient(10):
        with pytest.raises(TransportError):
            await tail
    assert not engine.parts.streams.watcher.followers


async def test_a_tail_waits_for_an_attempt_that_is_not_claimed_yet(engine: Engine) -> None:
    ident = await create(engine)
    waiting = await tailing(engine, ident)
    handle = await claim(engine)
    await say(engine, handle, "a")
    assert [each.payload for each in (await soon(waiting)).frames] == [b"a"]


async def test_a_tail_of_an_attempt_that_never_comes_answers(engine: Engine) -> None:
    ident = await create(engine)
    with pytest.raises(NotFound):
        await engine.tail_stream(ident, 0)
    waiting = await tailing(engine, ident)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    for tail in (waiting, asyncio.create_task(engine.tail_stream(ident, 0, block_ms=30_000))):
        with pytest.raises(NotFound):
            await soon(tail)
