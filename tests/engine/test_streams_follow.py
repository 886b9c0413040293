"""Following an execution's output: every frame once, in order, over attempts, to the end and no
longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.streams import stream_watcher, streams
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import Claimed, Handle, ReclaimExecutionArgs, RevokeLeaseArgs
from flowfabric.model.stream import StreamFrame
from flowfabric.testing import ManualClock
from tests.patience import patient

from .helpers import GRACE_MS, TTL_MS, claim, create, fields, grant_args, running, worker
from .stream_helpers import KEPT, SOON_S, asleep, frame, live, patch, say
from .suspend_helpers import claim_resumed, park_held, seed, signal

Seen = tuple[int, str]


class Follower:
    """Reads along in the background."""

    def __init__(self, engine: Engine, ident: ExecutionId, *given: Any, **said: Any) -> None:
        self.seen: list[tuple[int, StreamFrame]] = []
        self._moved = asyncio.Event()
        self._reading = asyncio.create_task(self._read(engine.follow_stream(ident, *given, **said)))

    async def _read(self, following: AsyncIterator[tuple[int, StreamFrame]]) -> None:
        async for each in following:
            self.seen.append(each)
            self._moved.set()

    @property
    def texts(self) -> list[Seen]:
        return [(attempt, found.payload.decode()) for attempt, found in self.seen]

    @property
    def place(self) -> tuple[int, str]:
        return self.seen[-1][0], self.seen[-1][1].id

    @property
    def ended(self) -> bool:
        return self._reading.done()

    async def reads(self, count: int) -> None:
        async with patient(SOON_S):
            while len(self.seen) < count:
                self._moved.clear()
                await self._moved.wait()

    async def ends(self) -> list[Seen]:
        async with patient(SOON_S):
            await self._reading
        return self.texts

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


async def fail(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> Handle:
    """Tried again by another worker."""
    await engine.fail(handle, "once more")
    clock.advance(600_000)
    await engine.promote_delayed(ident)
    return await claim(engine, worker(2))


async def reclaim(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> Handle:
    clock.advance(TTL_MS)
    await engine.issue_reclaim_grant(grant_args(ident, 2))
    args = ReclaimExecutionArgs(
        execution_id=ident, worker_id="w2", worker_instance_id="w2-i1", lease_ttl_ms=TTL_MS
    )
    got = await engine.reclaim_execution(args)
    assert isinstance(got, Claimed)
    return got.handle


async def test_every_frame_once_and_in_order_to_the_end(engine: Engine) -> None:
    ident, handle = await running(engine)
    early = Follower(engine, ident)
    for n in range(20):
        await say(engine, handle, str(n))
        if n == 7:
            late = Follower(engine, ident)
    await engine.append_frames(handle, [frame("x"), live("y"), patch("{}")])
    await engine.complete(handle)
    expected = [(0, text) for text in [*(str(n) for n in range(20)), "x", "y", "{}"]]
    assert await early.ends() == expected
    assert await late.ends() == expected
    assert await Follower(engine, ident).ends() == expected
    assert await Follower(engine, ident, visibility=KEPT).ends() == [
        each for each in expected if each[1] != "y"
    ]


@pytest.mark.parametrize("way", [fail, reclaim], ids=["a retry", "a reclaim"])
async def test_a_follower_continues_with_the_next_attempt(
    engine: Engine, clock: ManualClock, way: Any
) -> None:
    ident, handle = await running(engine)
    follower, first_only = Follower(engine, ident), Follower(engine, ident, later_attempts=False)
    await say(engine, handle, "a", "b")
    again = await way(engine, ident, handle, clock)
    assert fields(again).attempt_index == 1
    await say(engine, again, "c")
    await follower.reads(3)
    assert await first_only.ends() == [(0, "a"), (0, "b")]
    await say(engine, again, "d")
    assert not follower.ended
    await engine.complete(again)
    everything = [(0, "a"), (0, "b"), (1, "c"), (1, "d")]
    assert await follower.ends() == everything
    assert await Follower(engine, ident).ends() == everything
    assert await Follower(engine, ident, 1).ends() == everything[2:]


async def test_an_attempt_without_a_word_is_passed(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    follower = Follower(engine, ident)
    handle = await fail(engine, ident, handle, clock)
    handle = await reclaim(engine, ident, handle, clock)
    assert fields(handle).attempt_index == 2
    await say(engine, handle, "only here")
    await engine.fail(handle, "no", FailureClass.PERMANENT)
    assert await follower.ends() == [(2, "only here")]


async def test_a_follower_resumes_after_a_break(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    seen: list[Seen] = []
    place: tuple[int, str] = (0, "0-0")
    for turn in range(6):
        follower = Follower(engine, ident, *place)
        await say(engine, handle, f"{turn}.0", f"{turn}.1")
        await follower.reads(2)
        await follower.stop()
        seen, place = seen + follower.texts, follower.place
        await say(engine, handle, f"{turn}.2")
        catching_up = Follower(engine, ident, *place)
        await catching_up.reads(1)
        await catching_up.stop()
        seen, place = seen + catching_up.texts, catching_up.place
        if turn == 2:
            handle = await fail(engine, ident, handle, clock)
    assert seen == [(int(turn > 2), f"{turn}.{n}") for turn in range(6) for n in range(3)]


async def test_one_that_comes_before_the_first_claim_waits_for_it(engine: Engine) -> None:
    ident = await create(engine)
    follower = Follower(engine, ident)
    await asleep(engine, ident)
    handle = await claim(engine)
    await asleep(engine, ident)
    await say(engine, handle, "a")
    await follower.reads(1)
    await engine.complete(handle)
    assert await follower.ends() == [(0, "a")]


async def test_one_that_waits_for_a_claim_that_never_comes_ends_with_the_execution(
    engine: Engine,
) -> None:
    ident = await create(engine)
    follower = Follower(engine, ident)
    await asleep(engine, ident)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident))
    assert await follower.ends() == []


async def test_a_lease_that_is_lost_and_found_is_no_end(engine: Engine, clock: ManualClock) -> None:
    """The same attempt continues under another lease; also for a follower of that attempt only."""
    await seed(engine)
    ident, handle = await running(engine)
    followers = [Follower(engine, ident), Follower(engine, ident, later_attempts=False)]
    await say(engine, handle, "a")
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    await asleep(engine, ident, 2)
    clock.advance(GRACE_MS)
    await engine.requeue_lost(ident)
    handle = await claim(engine, worker(2))
    await say(engine, handle, "b")
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    handle = await claim(engine, worker(3))
    await say(engine, handle, "c")
    parked = await park_held(engine, ident, handle)
    await signal(engine, parked)
    handle = (await claim_resumed(engine, ident)).handle
    await say(engine, handle, "d")
    for follower in followers:
        await follower.reads(4)
        assert not follower.ended
    await engine.complete(handle)
    for follower in followers:
        assert await follower.ends() == [(0, text) for text in "abcd"]


async def test_long_streams_come_in_pages(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FOLLOWED_PAGE", 7)
    ident, handle = await running(engine)
    await engine.append_frames(handle, [frame(str(n)) for n in range(50)])
    follower = Follower(engine, ident)
    await follower.reads(50)
    await engine.append_frames(handle, [frame(str(n)) for n in range(50, 100)])
    await engine.complete(handle)
    assert await follower.ends() == [(0, str(n)) for n in range(100)]


async def test_a_follower_outlives_its_own_patience(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.events.long_poll.MAX_TAIL_BLOCK_MS", 20)
    ident, handle = await running(engine)
    follower = Follower(engine, ident)
    await asyncio.sleep(0.1)
    await say(engine, handle, "a")
    await follower.reads(1)
    await asyncio.sleep(0.1)
    assert not follower.ended
    await engine.complete(handle)
    assert await follower.ends() == [(0, "a")]


async def test_a_follower_without_wakeups_sees_every_frame(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_watcher, "POLL_S", 0.03)
    monkeypatch.setattr(engine.store.hub, "announce", lambda *_: None)
    ident, handle = await running(engine)
    follower = Follower(engine, ident)
    for n in range(5):
        await asleep(engine, ident)
        await say(engine, handle, str(n))
        await follower.reads(n + 1)
    await asleep(engine, ident)
    await engine.complete(handle)
    assert await follower.ends() == [(0, str(n)) for n in range(5)]


async def test_a_follower_ends_with_its_engine(engine: Engine) -> None:
    ident, _ = await running(engine)
    follower = Follower(engine, ident)
    await asleep(engine, ident)
    await engine.close()
    with pytest.raises(TransportError):
        await follower.ends()
