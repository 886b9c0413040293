"""Appends against the end of their attempt: a reader that has seen the end has seen every frame."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy, Handle, RevokeLeaseArgs
from flowfabric.model.stream import BestEffortLive, Durable, DurableSummary, Frame, FrameKind
from flowfabric.store.postgres.connections import Options
from flowfabric.testing import ManualClock

from .helpers import create_all, engines, ident, sound_world
from .hunting import deadlocks, gate

TTL_MS = 60_000
WHO = ident(0)
STREAMS = 40
ROWS = 60
Ending = Callable[[Engine, ExecutionId, Handle, ManualClock], Awaitable[Any]]


async def _lapse(engine: Engine, who: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(who)


ENDINGS: dict[str, Ending] = {
    "complete": lambda e, i, h, c: e.complete(h),
    "cancel": lambda e, i, h, c: e.cancel_execution(CancelExecutionArgs(execution_id=i)),
    "fail and retry": lambda e, i, h, c: e.fail(h, "no"),
    "revoke": lambda e, i, h, c: e.revoke_lease(RevokeLeaseArgs(execution_id=i)),
    "lapse": _lapse,
}


def frame(text: str, mode: Any = None) -> Frame:
    return Frame(text.encode(), FrameKind.Event, mode=mode or Durable())


async def hold(
    engine: Engine, count: int, partition: int | None = None
) -> dict[ExecutionId, Handle]:
    await create_all(
        engine, (CreateExecutionArgs(execution_id=ident(n, partition)) for n in range(count))
    )
    works = await engine.claim_many("default", (), ClaimPolicy("w", "w-1", TTL_MS, None), count)
    return {work.execution_id: work.handle for work in works}


async def drained(engine: Engine, who: ExecutionId) -> list[str]:
    """Tails to the end as a consumer does: at the end it reads once more from its cursor."""
    seen: list[str] = []
    while True:
        page = await engine.tail_stream(who, 0, seen[-1] if seen else "0-0", 30_000, 10_000)
        seen += [each.id for each in page.frames]
        if page.closed:
            rest = await engine.read_stream(
                who, 0, seen[-1] if seen else "start", count_limit=10_000
            )
            return seen + [each.id for each in rest.frames if each.id not in seen]


async def stored(engine: Engine, who: ExecutionId) -> list[str]:
    return [each.id for each in (await engine.read_stream(who, 0, count_limit=10_000)).frames]


# ---- stopped half way


@asynccontextmanager
async def same_stream(options: Options, who: ExecutionId) -> AsyncIterator[None]:
    """A transaction begins the same stream and rolls back: another that begins it waits
    meanwhile.
    """
    db = await asyncpg.connect(options.url)
    begin = db.transaction()
    await begin.start()
    sql = (
        "INSERT INTO ff_stream_meta (partition_key, execution_id, attempt_index, "
        "created_at_ms) VALUES ($1, $2, 0, 0)"
    )
    await db.execute(sql, who.partition_index, who.uuid)
    try:
        yield
    finally:
        await begin.rollback()
        await db.close()


async def waiting(options: Options, count: int) -> bool:
    """Whether so many sessions wait for a lock within the time."""
    db = await asyncpg.connect(options.url)
    sql = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
        "wait_event_type = 'Lock'"
    )
    try:
        for _ in range(100):
            if await db.fetchval(sql) >= count:
                return True
            await asyncio.sleep(0.005)
        return False
    finally:
        await db.close()


@pytest.mark.parametrize("begun", [True, False], ids=["goes on", "begins"])
@pytest.mark.parametrize("how", ENDINGS)
async def test_an_end_waits_for_the_append_that_is_under_way(
    options: Options, clock: ManualClock, how: str, begun: bool
) -> None:
    async with engines(options, 3, clock) as (writer, ender, reader):
        handle = (await hold(writer, 1))[WHO]
        if begun:
            await writer.append_frame(handle, frame("first"))
        seen: list[str] | None = None
        async with gate(options, "ff_stream_meta", WHO) if begun else same_stream(options, WHO):
            append = asyncio.create_task(writer.append_frame(handle, frame("late")))
            assert await waiting(options, 1)
            ending = asyncio.create_task(ENDINGS[how](ender, WHO, handle, clock))
            if not await waiting(options, 2):
                seen = await drained(reader, WHO)
        (said,) = await asyncio.gather(append, return_exceptions=True)
        await ending
        seen = await drained(reader, WHO) if seen is None else seen
        assert await stored(reader, WHO) == seen, "nothing comes behind the end"
        assert (not isinstance(said, EngineError)) == (len(seen) == 1 + begun)
        await sound_world(reader)


# ---- in a storm


async def write(
    engine: Engine, who: ExecutionId, handle: Handle, told: dict[ExecutionId, set[str]]
) -> None:
    """Until it is refused."""
    for n in itertools.count():
        mode = (Durable(), DurableSummary(), BestEffortLive(30_000, 10_000))[n % 3]
        several = [frame("{}", mode)] * (n % 4 + 1)
        try:
            told[who] |= {
                outcome.frame_id for outcome in await engine.append_frames(handle, several)
            }
        except EngineError:
            return


async def end(
    engine: Engine, who: ExecutionId, handle: Handle, clock: ManualClock, dice: random.Random
) -> None:
    for _ in range(dice.randrange(2, 30)):
        await engine.parts.core.snapshots.execution(who)
    how = dice.choice(["complete", "cancel", "fail and retry", "fail for good"])
    if how == "fail for good":
        await engine.fail(handle, "no", FailureClass.PERMANENT)
    else:
        await ENDINGS[how](engine, who, handle, clock)


async def test_no_frame_follows_the_end_of_a_stream(clock: ManualClock, options: Options) -> None:
    async with engines(options, 4, clock) as (first, second, ender, reader):
        handles = await hold(first, STREAMS)
        told: dict[ExecutionId, set[str]] = {who: set() for who in handles}
        reading = {who: asyncio.create_task(drained(reader, who)) for who in handles}
        writing = [
            write(engine, who, handle, told)
            for who, handle in handles.items()
            for engine in (first, second)
        ]
        ending = [
            end(ender, who, handle, clock, random.Random(at))
            for at, (who, handle) in enumerate(handles.items())
        ]
        await asyncio.gather(*writing, *ending)
        seen = {who: await tail for who, tail in reading.items()}
        for who in handles:
            found = await stored(reader, who)
            assert [each for each in found if each not in seen[who]] == [], "it came behind the end"
            kept = set(await _durable(reader, who))
            assert kept <= set(seen[who]) and set(found) <= told[who]
        assert sum(map(len, told.values())) > 10 * STREAMS, "there was something to race with"
        await sound_world(reader)
    assert await deadlocks(options) == 0


async def _durable(engine: Engine, who: ExecutionId) -> list[str]:
    return [
        each.id
        for each in (await engine.read_stream(who, 0, count_limit=10_000)).frames
        if each.mode == "durable"
    ]


# ---- in each other's way


def _orders(handles: dict[ExecutionId, Handle]) -> list[list[tuple[ExecutionId, Handle]]]:
    rising = sorted(handles.items(), key=lambda each: each[0].uuid)
    shuffled = random.Random(1).sample(rising, len(rising))
    return [rising, rising[::-1], shuffled, shuffled[::-1]]


@pytest.mark.parametrize("table", ["ff_exec_core", "ff_stream_meta"])
async def test_appends_in_opposite_orders(options: Options, clock: ManualClock, table: str) -> None:
    """Four engines write to all streams at once, each in another order; a locked row stops them
    midway.
    """
    async with engines(options, 4, clock) as several:
        handles = await hold(several[0], ROWS, 0)
        orders = _orders(handles)

        async def append(
            engine: Engine, order: list[tuple[ExecutionId, Handle]], text: str
        ) -> None:
            await asyncio.gather(*(engine.append_frame(handle, frame(text)) for _, handle in order))

        for engine, order in zip(several, orders, strict=True):
            await append(engine, order, "known")
        async with gate(options, table, ident(ROWS // 2, 0)) as stopped:
            running = asyncio.gather(
                *(
                    append(e, o, f"by {at}")
                    for at, (e, o) in enumerate(zip(several, orders, strict=True))
                )
            )
            await stopped(4)
        await running
        for who in handles:
            assert len(await stored(several[0], who)) == 8
        await sound_world(several[0])
    assert await deadlocks(options) == 0


async def test_appends_beside_everything_else(options: Options, clock: ManualClock) -> None:
    """Renewals, progress, ends, cancels and trims of the same executions, in any order."""
    async with engines(options, 4, clock) as several:
        for turn in range(4):
            handles = await hold(several[0], ROWS, 0)
            calls: list[Any] = []
            for at, (engine, order) in enumerate(zip(several, _orders(handles), strict=True)):
                for n, (who, handle) in enumerate(order):
                    calls += [
                        engine.append_frame(handle, frame(f"{n}")),
                        engine.append_frames(handle, _mixed()),
                    ]
                    calls.append(
                        engine.renew(handle) if n % 2 else engine.progress(handle, n, "on")
                    )
                    if (n + at) % 4 == 0:
                        calls.append(
                            ENDINGS[("complete", "cancel", "revoke", "fail and retry")[at]](
                                engine, who, handle, clock
                            )
                        )
            random.Random(turn).shuffle(calls)
            trims = [engine.trim_retention("default", 0, batch=1_000) for engine in several]
            found = await asyncio.gather(
                *calls, *trims, *(e.forget_live_frames() for e in several), return_exceptions=True
            )
            assert [
                each
                for each in found
                if isinstance(each, BaseException) and not isinstance(each, EngineError)
            ] == []
            for who in handles:
                await asyncio.gather(
                    several[0].cancel_execution(CancelExecutionArgs(execution_id=who)),
                    return_exceptions=True,
                )
            await several[0].trim_retention("default", 0, batch=1_000)
        world = await sound_world(several[0])
        left = await several[0].store.dump(
            ["ff_stream_meta", "ff_stream_frame", "ff_stream_summary"]
        )
    assert world.executions == {} and left == {
        "ff_stream_meta": [],
        "ff_stream_frame": [],
        "ff_stream_summary": [],
    }
    assert await deadlocks(options) == 0


def _mixed() -> list[Frame]:
    return [
        frame("x"),
        frame('{"a":1}', DurableSummary()),
        frame("tick", BestEffortLive(1, 2, 2)),
        frame("tick", BestEffortLive(1, 2, 2)),
    ]
