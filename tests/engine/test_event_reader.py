"""Reads of an outbox that several subscribers share."""

from __future__ import annotations

import asyncio
from typing import Any

from flowfabric.engine.events.event_reader import EventReader
from flowfabric.engine.moments import MOMENTS, moment_before
from flowfabric.store.port import Row


class Outbox:
    """A store whose reads are answered when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, int, int], asyncio.Future[list[Row]]]] = []

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        answer: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()
        self.asked.append(((channel, after, limit), answer))
        return await answer


def on(outbox: Outbox) -> EventReader:
    store: Any = outbox
    return EventReader(store)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_subscribers_at_one_position_share_a_read() -> None:
    outbox = Outbox()
    reader = on(outbox)
    reading = [asyncio.ensure_future(reader.read("c", 7, 10)) for _ in range(100)]
    elsewhere = asyncio.ensure_future(reader.read("c", 8, 10))
    await turns()
    assert [page for page, _ in outbox.asked] == [("c", 7, 10), ("c", 8, 10)]
    outbox.asked[0][1].set_result([(8,), (9,)])
    outbox.asked[1][1].set_result([(9,)])
    assert await asyncio.gather(*reading) == [[(8,), (9,)]] * 100
    assert await elsewhere == [(9,)]


async def test_a_read_that_is_asked_for_later_begins_later() -> None:
    outbox = Outbox()
    reader = on(outbox)
    first = asyncio.ensure_future(reader.read("c", 7, 10))
    await turns()
    second = asyncio.ensure_future(reader.read("c", 7, 10))
    await turns()
    assert len(outbox.asked) == 1
    outbox.asked[0][1].set_result([])
    assert await first == []
    await turns()
    outbox.asked[1][1].set_result([(8,)])
    assert await second == [(8,)]


async def test_a_failed_read_fails_for_its_callers_only() -> None:
    outbox = Outbox()
    reader = on(outbox)
    first, second = (asyncio.ensure_future(reader.read("c", 7, 10)) for _ in range(2))
    await turns()
    outbox.asked[0][1].set_exception(RuntimeError("injected"))
    failed = await asyncio.gather(first, second, return_exceptions=True)
    assert [str(each) for each in failed] == ["injected"] * 2
    third = asyncio.ensure_future(reader.read("c", 7, 10))
    await turns()
    outbox.asked[1][1].set_result([(8,)])
    assert await third == [(8,)]


def test_pollers_share_moments_and_none_waits_longer() -> None:
    every = 5.0
    for tenth in range(1_000):
        now = 100 + tenth / 10
        at = moment_before(now + every, every, now)
        assert now + every * (MOMENTS - 1) / MOMENTS - 1e-6 <= at <= now + every
        assert at % (every / MOMENTS) < 1e-6 or every / MOMENTS - at % (every / MOMENTS) < 1e-6
    assert moment_before(100.4, every, 100.3) == 100.4
