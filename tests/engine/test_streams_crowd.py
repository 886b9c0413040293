"""A thousand concurrent tails: one read for those at the same position, none is missed, no
connection is held.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.streams import stream_watcher
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.stream import StreamFrames
from flowfabric.store.port import Scan
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.wakeups import Waiter
from flowfabric.testing import ManualClock
from tests.patience import patient
from tests.postgres import clean_database

from .helpers import after_load, running
from .stream_helpers import (
    KEPT,
    SOON_S,
    Loads,
    asleep,
    frame,
    frames,
    is_poll,
    live,
    say,
    soon,
    tailing,
)

STREAMS, TAILS = 10, 100
Crowd = list[tuple[ExecutionId, Handle, list[asyncio.Task[StreamFrames]]]]


@pytest.fixture(autouse=True)
def no_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where questions are counted, the net that is out now and then is not to be among them on a
    slow machine.
    """
    monkeypatch.setattr(stream_watcher, "POLL_S", 600.0)


async def crowd(engine: Engine, after: str = "0-0", **said: Any) -> Crowd:
    """So many tails on each of so many streams, all asleep."""
    held = [
        await running(engine) for _ in range(STREAMS)
    ]  # before anybody watches: a claim is news too
    found: Crowd = []
    for ident, handle in held:
        tails = [
            asyncio.create_task(engine.tail_stream(ident, 0, after, 30_000, **said))
            for _ in range(TAILS)
        ]
        found.append((ident, handle, tails))
    for ident, _, _ in found:
        await asleep(engine, ident, TAILS)
    return found


def is_page(read: Any) -> bool:
    return isinstance(read, Scan) and read.index in ("frames", "kept_frames")


class Rings:
    """How often each waiter was rung."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: dict[int, int] = {}
        ring = Waiter.ring

        def counted(waiter: Waiter) -> None:
            if any(topic == "frames" for topic, _ in waiter.topics):
                self.times[id(waiter)] = self.times.get(id(waiter), 0) + 1
            ring(waiter)

        monkeypatch.setattr(Waiter, "ring", counted)


async def all_of(tails: list[asyncio.Task[StreamFrames]]) -> list[StreamFrames]:
    async with patient(SOON_S):
        return await asyncio.gather(*tails)


async def test_a_commit_wakes_each_of_its_stream_once_and_asks_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = await crowd(engine)
    loads, rings = Loads(engine, monkeypatch, is_page), Rings(monkeypatch)
    for at, (_, handle, tails) in enumerate(everybody, 1):
        outcome = await engine.append_frame(handle, frame("x"))
        pages = await all_of(tails)
        assert {page.frames[0].id for page in pages} == {outcome.frame_id}
        assert loads.count == at, "one question for a hundred"
        assert (len(rings.times), set(rings.times.values())) == (at * TAILS, {1})
    assert (
        not engine.parts.streams.watcher.followers and engine.parts.streams.shared_reads.is_idle()
    )
    assert not [topic for topic in engine.store.hub.waiters if topic[0] == "frames"]


async def test_an_end_is_asked_for_once_as_well(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = await crowd(engine)
    loads = Loads(engine, monkeypatch, is_page)
    await asyncio.gather(*(engine.complete(handle) for _, handle, _ in everybody))
    for _, _, tails in everybody:
        assert {page.closed_reason for page in await all_of(tails)} == {"attempt_success"}
    assert loads.count <= 4 * STREAMS


async def test_what_a_tail_does_not_want_costs_one_question(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = await crowd(engine, visibility=KEPT)
    ident, handle, tails = everybody[0]
    loads = Loads(engine, monkeypatch, is_page)
    for n in range(1, 6):
        await engine.append_frame(handle, live())
        await asleep(engine, ident, TAILS)
        assert loads.count == n
    assert not any(tail.done() for tail in tails)
    await _let_go(everybody)


async def looks(engine: Engine, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the net has been drawn so often."""
    drawn = asyncio.Semaphore(0)

    async def drew() -> None:
        drawn.release()

    after_load(engine, monkeypatch, is_poll, drew)
    async with patient(SOON_S):
        for _ in range(times):
            await drawn.acquire()


async def test_the_net_asks_once_for_all(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_watcher, "POLL_S", 0.02)
    everybody = await crowd(engine)
    await looks(engine, 2, monkeypatch)
    pages = Loads(engine, monkeypatch, is_page)
    await looks(engine, 3, monkeypatch)
    assert pages.count <= STREAMS, "where nothing moved nobody looks"
    await _let_go(everybody)


async def test_closing_ends_every_tail(engine: Engine) -> None:
    everybody = await crowd(engine)
    await engine.close()
    async with patient(SOON_S):
        found = await asyncio.gather(
            *(tail for _, _, tails in everybody for tail in tails), return_exceptions=True
        )
    assert len(found) == STREAMS * TAILS and all(isinstance(each, TransportError) for each in found)
    assert (
        not engine.parts.streams.watcher.followers
        and engine.parts.streams.shared_reads.is_idle()
        and not engine.parts.streams.watcher.is_running
    )


@pytest.mark.parametrize("engine", ["memory"], indirect=True)
async def test_who_sleeps_takes_little_and_leaves_nothing(engine: Engine) -> None:
    ident, handle = await running(engine)
    await say(engine, handle, "warm")
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        everybody = await crowd(engine)
        gc.collect()
        asleep_now = tracemalloc.get_traced_memory()[0] - before
        assert asleep_now < 20_000 * STREAMS * TAILS
        await _let_go(everybody)
        del everybody
        for _ in range(3):
            await asyncio.sleep(0)  # the loop lets go of what was cancelled
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < asleep_now / 4
    finally:
        tracemalloc.stop()
    assert await frames(engine, ident)


async def _let_go(everybody: Crowd) -> None:
    tails = [tail for _, _, several in everybody for tail in several]
    for tail in tails:
        tail.cancel()
    await asyncio.gather(*tails, return_exceptions=True)


async def test_no_connection_is_held_while_asleep(clock: ManualClock) -> None:
    store = await PostgresStore(
        Options(clean_database().url, writers=1, readers=1), clock=clock
    ).open(check=False)
    engine = Engine(store, seed=1)
    try:
        everybody = await crowd(engine)
        async with patient(SOON_S):
            for ident, handle, _ in everybody:
                await engine.renew(handle)
                assert (await engine.read_stream(ident, 0)).frames == ()
            ident, handle = await running(engine)
            await say(engine, handle, "a")
            assert len(await frames(engine, ident)) == 1
        await _let_go(everybody)
    finally:
        await engine.close()


async def test_an_append_elsewhere_wakes_a_tail_here(clock: ManualClock) -> None:
    """Two processes, as far as Postgres can tell."""
    options = clean_database()
    here, there = [
        Engine(await PostgresStore(options, clock=clock).open(check=False), seed=n)
        for n in range(2)
    ]
    try:
        ident, handle = await running(there)
        tail = await tailing(here, ident)
        outcome = (await say(there, handle, "x"))[0]
        assert [f.id for f in (await soon(tail)).frames] == [outcome.frame_id]
        tail = await tailing(here, ident, after=outcome.frame_id)
        await there.complete(handle)
        assert (await soon(tail)).closed_reason == "attempt_success"
    finally:
        await here.close()
        await there.close()
