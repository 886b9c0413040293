"""What a subscriber is promised when it is slow, away, in trouble, or reads what is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric.codec.event_cursor import BEGINNING, encode_cursor
from flowfabric.connect import SqliteBackend
from flowfabric.engine.engine import Engine
from flowfabric.engine.events import subscriptions
from flowfabric.errors import (
    StreamBackpressure,
    StreamDisconnected,
    ValidationError,
    ValidationKind,
)
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import ChangePriorityArgs
from flowfabric.store.port import CATCH_UP_PAGE, EVENT_PAGE
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.testing import ManualClock
from tests.postgres import clean_database

from .helpers import LANE, claim, completed, create, new_id
from .suspend_helpers import park, seed, signal
from .test_subscriptions import cancelled, nxt, silent, take

CHANNELS = (
    "subscribe_lease_history",
    "subscribe_completion",
    "subscribe_signal_delivery",
    "subscribe_operator_events",
)
PARTITIONS = (0, 7, 128, 255)


async def busy_life(engine: Engine, partition: int) -> Any:
    """An execution with events on every channel."""
    parked = await park(engine, made={"execution_id": new_id(partition)})
    await signal(engine, parked)
    await engine.change_priority(ChangePriorityArgs(execution_id=parked.ident, new_priority=3))
    await engine.complete(await claim(engine))
    return parked.ident


@pytest.mark.parametrize("method", CHANNELS)
async def test_every_channel_tells_of_every_partition(engine: Engine, method: str) -> None:
    await seed(engine)
    made = [await busy_life(engine, partition) for partition in PARTITIONS]
    per = {"subscribe_lease_history": 4, "subscribe_completion": 2}.get(method, 1)
    following = getattr(engine, method)(BEGINNING)
    seen = await take(following, per * len(made))
    assert [e.execution_id for e in seen] == [ident for ident in made for _ in range(per)]
    assert [e.cursor for e in seen] == sorted({e.cursor for e in seen})


@pytest.mark.parametrize(
    "cursor",
    [
        b"\x01" + bytes(16),
        b"\x02" + bytes(7),
        b"\x02" + bytes(9),
        b"\x03" + bytes(8),
        b"\x02\xff" + bytes(7),
    ],
    ids=["another backend's", "short", "long", "another family", "too large"],
)
@pytest.mark.parametrize("method", CHANNELS)
async def test_a_bad_cursor_is_refused_at_the_call(
    engine: Engine, method: str, cursor: bytes
) -> None:
    with pytest.raises(ValidationError) as caught:
        getattr(engine, method)(cursor)
    assert caught.value.kind is ValidationKind.INVALID_INPUT
    assert caught.value.detail == f"cursor: not an event cursor for {engine.backend_label}.{method}"


async def test_signals_are_filtered_like_the_others(engine: Engine) -> None:
    await seed(engine)
    for said in (
        {"namespace": "other", "lane_id": "a"},
        {"namespace": "mine", "tags": {"app.colour": "blue"}},
    ):
        await signal(engine, await park(engine, made=said))
    for wanted in (
        ScannerFilter(namespace="mine"),
        ScannerFilter(instance_tag=("app.colour", "blue")),
    ):
        following = engine.subscribe_signal_delivery(BEGINNING, wanted)
        assert (await nxt(following)).cursor == encode_cursor(2)
        assert await silent(engine, following, "ff_signal_event")


async def test_tags_of_a_page_are_looked_up_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await cancelled(engine, 40, tags={"app.colour": "blue"})
    load, asked = engine.store.load, []

    async def counted(reads: Any) -> Any:
        asked.append(reads)
        return await load(reads)

    monkeypatch.setattr(engine.store, "load", counted)
    wanted = ScannerFilter(instance_tag=("app.colour", "blue"))
    seen = await take(engine.subscribe_completion(BEGINNING, wanted), 40)
    assert {e.execution_id for e in seen} == set(made)
    assert len(asked) == 2, "what was trimmed, and the tags"


# ---- slow and away


def watched(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Every page asked for: how many events at the most, and how many there were."""
    read, pages = engine.store.read_events, []

    async def counted(channel: str, after: int, limit: int) -> Any:
        rows = await read(channel, after, limit)
        pages.append((limit, len(rows)))
        return rows

    monkeypatch.setattr(engine.store, "read_events", counted)
    return pages


async def test_a_slow_reader_holds_one_page_and_loses_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = watched(engine, monkeypatch)
    total = EVENT_PAGE + CATCH_UP_PAGE + 20
    following = await engine.subscribe_completion()
    made = set(await cancelled(engine, total))
    seen = await take(following, EVENT_PAGE)
    assert pages == [(EVENT_PAGE, EVENT_PAGE)], "the next page is read when this one was taken"
    seen += await take(following, 1)
    assert pages[1:] == [(CATCH_UP_PAGE, CATCH_UP_PAGE)]
    made |= set(await cancelled(engine, 5))
    seen += await take(following, total + 5 - len(seen))
    assert pages[2:] == [(CATCH_UP_PAGE, 25)]
    assert [e.cursor for e in seen] == sorted({e.cursor for e in seen})
    assert {e.execution_id for e in seen} == made and len(seen) == total + 5
    assert await silent(engine, following)
    assert pages[3] == (EVENT_PAGE, 0)


async def test_buffered_events_cause_no_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cancelled(engine, 10)
    following = engine.subscribe_completion(BEGINNING)
    first = await nxt(following)

    def never(*_: Any) -> Any:
        raise AssertionError("asked")

    for name in ("read_events", "load", "last_event"):
        monkeypatch.setattr(engine.store, name, never)
    monkeypatch.setattr(engine.store.hub, "waiter", never)
    rest = await take(following, 9)
    assert [first.cursor, *(e.cursor for e in rest)] == [encode_cursor(n) for n in range(1, 11)]
    assert following.cursor == encode_cursor(10)


async def test_two_readers_of_a_subscription_get_each_event_once(engine: Engine) -> None:
    following = await engine.subscribe_completion()
    tasks = [asyncio.create_task(take(following, 10)) for _ in range(2)]
    made = await cancelled(engine, 20)
    seen = [e.execution_id for part in await asyncio.gather(*tasks) for e in part]
    assert sorted(seen) == sorted(made)


async def test_a_reader_given_up_on_in_the_middle_loses_nothing(engine: Engine) -> None:
    following = await engine.subscribe_completion()
    for _ in range(3):
        waiting = asyncio.create_task(anext(following))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    made = await cancelled(engine, 3)
    assert {e.execution_id for e in await take(following, 3)} == set(made)


@asynccontextmanager
async def opened(
    kind: str, folder: Path, clock: ManualClock, options: Any
) -> AsyncIterator[Engine]:
    """A store of its own each time, on the same file or database."""
    if kind == "sqlite":
        engine: Engine = await SqliteBackend.new(str(folder / "ff.db"), dev=True, clock=clock)
    else:
        engine = Engine(await PostgresStore(options, clock=clock).open(check=False), seed=1)
    try:
        yield engine
    finally:
        await engine.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("seen_before", [0, 1, 5, 9])
async def test_a_restart_resumes_without_gap_or_repeat(
    kind: str, seen_before: int, clock: ManualClock, tmp_path: Path
) -> None:
    options = clean_database() if kind == "postgres" else None
    made = []
    async with opened(kind, tmp_path, clock, options) as engine:
        made += [(await completed(engine))[0] for _ in range(9)]
        following = engine.subscribe_completion(BEGINNING)
        seen = [e.execution_id for e in await take(following, seen_before)]
        cursor = following.cursor
    async with opened(kind, tmp_path, clock, options) as engine:
        made += [(await completed(engine))[0] for _ in range(3)]
        following = engine.subscribe_completion(cursor)
        seen += [e.execution_id for e in await take(following, 12 - seen_before)]
        assert seen == made
        assert await silent(engine, following)


async def test_a_subscriber_is_disconnected_by_the_end_of_its_engine_and_resumes_in_the_next(
    clock: ManualClock, tmp_path: Path
) -> None:
    async with opened("sqlite", tmp_path, clock, None) as engine:
        following = await engine.subscribe_completion()
        first, _ = await completed(engine)
        assert (await nxt(following)).execution_id == first
    with pytest.raises(StreamDisconnected) as caught:
        await nxt(following)
    async with opened("sqlite", tmp_path, clock, None) as engine:
        second, _ = await completed(engine)
        assert (await nxt(engine.subscribe_completion(caught.value.cursor))).execution_id == second


# ---- retention


async def test_events_trimmed_before_a_slow_reader_are_reported_once(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "EVENT_PAGE", 2)
    monkeypatch.setattr(subscriptions, "CATCH_UP_PAGE", 2)
    following = await engine.subscribe_completion()
    old = [(await completed(engine))[0] for _ in range(4)]
    clock.advance(10)
    kept = [(await completed(engine))[0] for _ in range(3)]
    assert [e.execution_id for e in await take(following, 1)] == old[:1]
    assert await engine.trim_retention(LANE, 10) == 4
    assert (await nxt(following)).execution_id == old[1], "it was in hand"
    with pytest.raises(StreamBackpressure):
        await nxt(following)
    assert [e.execution_id for e in await take(following, 3)] == kept
    assert await silent(engine, following)


async def test_a_reader_from_the_beginning_gets_reports_of_later_trims_only(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "EVENT_PAGE", 2)
    monkeypatch.setattr(subscriptions, "CATCH_UP_PAGE", 2)
    kept = [await create(engine) for _ in range(2)]
    held = [await claim(engine) for _ in kept]
    for handle in held:
        await completed(engine)
        await engine.complete(handle)
    assert await engine.trim_retention(LANE, 0, batch=3) == 3
    following = engine.subscribe_completion(BEGINNING)
    await completed(engine)
    assert len(await take(following, 2)) == 2
    await completed(engine)
    await completed(engine)
    await engine.trim_retention(LANE, 0)
    last, _ = await completed(engine)
    with pytest.raises(StreamBackpressure):
        await nxt(following)
    assert (await nxt(following)).execution_id == last
