"""Numbers are drawn before their commit, in any order or never. Readers of an outbox lose no
event.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from msgspec import structs

from flowfabric.codec.event_cursor import BEGINNING, encode_cursor
from flowfabric.engine.engine import Engine
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.model.event import CompletionEvent
from flowfabric.model.execution import CancelExecutionArgs, CreateExecutionArgs
from flowfabric.store.postgres import events
from flowfabric.store.postgres.events import GapReader
from flowfabric.store.postgres.store import PostgresStore
from tests.patience import patient
from tests.postgres import clean_database

from .helpers import create_all, engines, ident

CHANNEL = "ff_completion_event"
WRITERS, ROUNDS, CANCELLED = 6, 40, 60
INSERT = (
    f"INSERT INTO {CHANNEL} (execution_id, outcome, occurred_at_ms) VALUES ($1, 'success', "
    f"0) RETURNING event_id"
)


class Writer:
    """A transaction that has its id before it draws numbers, as those of the store have."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection, self._transaction = connection, connection.transaction()

    async def draw(self, count: int = 1) -> list[int]:
        await self._transaction.start()
        await self.connection.fetchval("SELECT pg_current_xact_id()")
        return [await self.connection.fetchval(INSERT, UUID(int=1)) for _ in range(count)]

    async def end(self, *, commit: bool = True) -> None:
        await (self._transaction.commit() if commit else self._transaction.rollback())


class Load:
    """Writers that commit late, out of order, or not at all; `began` is the number of commits that
    had begun before an event's own.
    """

    def __init__(self) -> None:
        self.began: dict[int, int] = {}
        self.commits = 0

    async def write(self, url: str, seed: int) -> None:
        chance = random.Random(seed)
        connection = await asyncpg.connect(url)
        try:
            for _ in range(ROUNDS):
                writer = Writer(connection)
                numbers = await writer.draw(chance.randint(1, 3))
                await asyncio.sleep(chance.random() * 0.01)
                stands = chance.random() >= 0.1
                if stands:
                    self.commits += 1
                    self.began.update(dict.fromkeys(numbers, self.commits))
                await writer.end(commit=stands)
        finally:
            await connection.close()

    async def cancel(self, engine: Engine) -> None:
        for n in range(CANCELLED):
            await engine.cancel_execution(CancelExecutionArgs(execution_id=ident(n)))


async def numbers_in(engine: Engine) -> list[int]:
    return sorted(row[0] for row in (await engine.store.dump([CHANNEL]))[CHANNEL])


async def follow(store: Any, over: asyncio.Event, seed: int) -> list[int]:
    """Reads events in order; returns to an earlier position at times and reads on from there."""
    chance = random.Random(seed)
    seen: list[int] = []
    while True:
        ending = over.is_set()
        rows = await store.read_events(CHANNEL, seen[-1] if seen else 0, chance.choice((1, 7, 50)))
        seen += [row[0] for row in rows]
        if not rows:
            if ending:
                return seen
            await asyncio.sleep(0.001)
        elif chance.random() < 0.1:
            del seen[chance.randrange(len(seen)) :]


async def follow_plainly(url: str, over: asyncio.Event) -> list[int]:
    """The simple reader: everything above the last number seen."""
    connection = await asyncpg.connect(url)
    seen: list[int] = []
    while True:
        ending = over.is_set()
        rows = await connection.fetch(
            f"SELECT event_id FROM {CHANNEL} WHERE event_id > $1 ORDER BY event_id",
            seen[-1] if seen else 0,
        )
        seen += [row[0] for row in rows]
        if ending and not rows:
            await connection.close()
            return seen
        await asyncio.sleep(0.001)


async def keep_opening(
    engine: Engine, over: asyncio.Event, opened: list[tuple[int, int]], load: Load
) -> None:
    """The start position of a subscription without a cursor, repeatedly during the load, with the
    number of commits that had begun before.
    """
    while not over.is_set():
        position = await engine.store.last_event(CHANNEL)
        opened.append((load.commits, position))
        await asyncio.sleep(0.005)


async def test_late_and_abandoned_commits_lose_nothing_and_repeat_nothing() -> None:
    options = clean_database()
    load, over = Load(), asyncio.Event()
    opened: list[tuple[int, int]] = []
    async with engines(options, 3) as (first, second, third):
        await create_all(
            first, (CreateExecutionArgs(execution_id=ident(n)) for n in range(CANCELLED))
        )
        readers = [
            asyncio.create_task(follow(e.store, over, at))
            for at, e in enumerate((first, first, second))
        ]
        readers.append(asyncio.create_task(follow_plainly(options.url, over)))
        openings = asyncio.create_task(keep_opening(third, over, opened, load))
        await asyncio.gather(
            *(load.write(options.url, seed) for seed in range(WRITERS)), load.cancel(third)
        )
        over.set()
        *careful, plain = await asyncio.gather(*readers)
        await openings
        stored = await numbers_in(first)
        last = await third.store.last_event(CHANNEL)
    assert len(stored) == len(load.began) + CANCELLED
    assert stored[-1] > len(stored), "some were rolled back, and left gaps"
    for seen in careful:
        assert seen == stored
    assert plain != stored and set(plain) < set(stored), "the same load must be able to lose events"
    assert len(opened) > 5 and last == stored[-1]
    for commits, position in opened:
        late = [number for number, began in load.began.items() if began > commits]
        assert not late or min(late) > position


async def subscribed(
    following: Subscription[CompletionEvent], until: bytes, chance: random.Random
) -> list[int]:
    """Reads through the subscription itself, at its own pace, up to an event."""
    seen: list[int] = []
    async for event in following:
        seen.append(int.from_bytes(event.cursor[1:], "big"))
        if event.cursor == until:
            return seen
        if chance.random() < 0.05:
            await asyncio.sleep(chance.random() * 0.01)
    raise AssertionError("closed")


async def test_subscribers_at_different_positions_see_everything_behind_their_own() -> None:
    """One from the beginning, one that resumes during the load, one that starts with it on another
    engine.
    """
    options = clean_database()
    load = Load()
    async with engines(options, 2) as (first, second), patient(60):
        await create_all(
            first, (CreateExecutionArgs(execution_id=ident(n)) for n in range(CANCELLED + 1))
        )
        tailing = await second.subscribe_completion()
        writing = [asyncio.create_task(load.write(options.url, seed)) for seed in range(WRITERS)]
        halfway = first.subscribe_completion(BEGINNING)
        before = [int.from_bytes((await anext(halfway)).cursor[1:], "big") for _ in range(50)]
        resumed = second.subscribe_completion(halfway.cursor)
        behind = first.subscribe_completion(BEGINNING)
        await asyncio.gather(*writing, load.cancel(second))
        await first.cancel_execution(CancelExecutionArgs(execution_id=ident(CANCELLED)))
        stored = await numbers_in(first)
        until = encode_cursor(stored[-1])
        positions = (tailing, resumed, behind)
        seen = await asyncio.gather(
            *(subscribed(each, until, random.Random(at)) for at, each in enumerate(positions))
        )
    assert stored[-1] > len(stored), "some were rolled back, and left gaps"
    assert seen[0] == stored and seen[2] == stored
    assert before + seen[1] == stored


@asynccontextmanager
async def writers(url: str, count: int) -> AsyncIterator[list[Writer]]:
    connections = [await asyncpg.connect(url) for _ in range(count)]
    try:
        yield [Writer(connection) for connection in connections]
    finally:
        for connection in connections:
            await connection.close()


async def commits_go_through(engine: Engine) -> None:
    """A commit of this engine waits until a subscription that is being opened has its start
    position.
    """
    await engine.set_lane_state("any", "active")


@pytest.mark.parametrize("before", ["nothing", "something", "something trimmed"])
async def test_a_subscription_begins_before_open_transactions(before: str) -> None:
    options = clean_database()
    async with engines(options, 1) as (engine,), writers(options.url, 3) as (old, slow, fast):
        if before != "nothing":
            await old.draw(5)
            await old.end()
        if before == "something trimmed":
            await _trim_all(engine)
        (late,) = await slow.draw()
        (early,) = await fast.draw()
        await fast.end()
        assert late < early
        opening = asyncio.ensure_future(engine.store.last_event(CHANNEL))
        await commits_go_through(engine)
        await slow.end()
        position = await opening
        assert position < late
        assert {row[0] for row in await engine.store.read_events(CHANNEL, position, 100)} >= {
            late,
            early,
        }


async def _trim_all(engine: Engine) -> None:
    assert isinstance(engine.store, PostgresStore)
    await engine.store.execute_for_test(f"DELETE FROM {CHANNEL}")
    await engine.store.execute_for_test(
        f"INSERT INTO ff_outbox_trim (channel, event_id) VALUES ('{CHANNEL}', 5)"
    )


async def test_a_subscription_at_its_time_limit_begins_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It receives events twice, and loses none."""
    monkeypatch.setattr(events, "MAX_PAUSES", 3)
    options = clean_database()
    async with engines(options, 1) as (engine,), writers(options.url, 3) as (old, slow, fast):
        await old.draw(3)
        await old.end()
        (late,) = await slow.draw()
        await fast.draw()
        await fast.end()
        assert await engine.store.last_event(CHANNEL) < late
        await slow.end()


class HeldBack:
    """A session that holds back its answers until released."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.arrived, self.let_go = asyncio.Event(), asyncio.Event()

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        rows = await self.connection.fetch(sql, *args)
        self.arrived.set()
        await self.let_go.wait()
        return rows

    def transaction(self) -> Any:
        return self.connection.transaction()


async def test_known_gaps_of_one_reader_do_not_apply_to_an_older_page_of_another() -> None:
    """Readers share their knowledge of gaps; a page that was read before the gap was filled lacks
    the event that filled it.
    """
    options = clean_database()
    reader = GapReader(CHANNEL)
    async with writers(options.url, 4) as (slow, fast, quick, held):
        (late,) = await slow.draw()
        (early,) = await fast.draw()
        await fast.end()
        prompt = asyncio.create_task(reader.read(lambda work: work(quick.connection), 0, 10))
        session = HeldBack(held.connection)
        behind = asyncio.create_task(reader.read(lambda work: work(session), 0, 10))
        await session.arrived.wait()
        await slow.end()
        assert [row[0] for row in await prompt] == [late, early]
        session.let_go.set()
        assert [row[0] for row in await behind] == [late, early]


async def test_a_reader_that_waits_at_a_gap_holds_no_connection() -> None:
    options = structs.replace(clean_database(), readers=1)
    async with engines(options, 1) as (engine,), writers(options.url, 2) as (slow, fast):
        await slow.draw()
        await fast.draw()
        await fast.end()
        reading = asyncio.create_task(engine.store.read_events(CHANNEL, 0, 10))
        for _ in range(3):
            await asyncio.wait_for(engine.list_lanes(), 2)
        assert not reading.done()
        await slow.end()
        assert len(await reading) == 2


async def test_a_reader_continues_as_soon_as_a_gap_is_dead() -> None:
    options = clean_database()
    async with engines(options, 1) as (engine,), writers(options.url, 2) as (slow, fast):
        await slow.draw()
        (early,) = await fast.draw()
        await fast.end()
        reading = asyncio.create_task(engine.store.read_events(CHANNEL, 0, 10))
        done, _ = await asyncio.wait({reading}, timeout=0.05)
        assert not done, "the one that drew the first number may still commit it"
        await slow.end(commit=False)
        assert [row[0] for row in await reading] == [early]
