"""Followers of a stream when wake-ups are lost or the store is unavailable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.streams import stream_watcher
from flowfabric.errors import EngineError, TransportError

from .helpers import after_load, running
from .stream_helpers import asleep, is_poll, say, soon, tailing


async def test_a_lost_wake_up_is_found_by_the_poll(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_watcher, "POLL_S", 0.05)
    ident, handle = await running(engine)
    tail = await tailing(engine, ident)
    without_wakeups(engine, monkeypatch)
    await say(engine, handle, "unheard")
    assert [f.payload for f in (await soon(tail)).frames] == [b"unheard"]


@pytest.mark.parametrize("looks", [0, 2], ids=["before the first poll", "after some polls"])
async def test_an_end_without_a_wake_up_is_found_by_the_poll(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    monkeypatch.setattr(stream_watcher, "POLL_S", 0.05)
    ident, handle = await running(engine)
    tail = await tailing(engine, ident)
    await polled(engine, monkeypatch, looks)
    without_wakeups(engine, monkeypatch)
    await engine.complete(handle)
    assert (await soon(tail)).closed_reason == "attempt_success"


async def test_the_watcher_continues_after_an_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_watcher, "RETRY_S", 0.01)
    ident, handle = await running(engine)
    tail = await tailing(engine, ident)
    failed = asyncio.Event()
    read = engine.store.read_events

    async def broken(*asked: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise TransportError("test", "away", backend_kind="other")
        return await read(*asked)

    monkeypatch.setattr(engine.store, "read_events", broken)
    await engine.complete(handle)
    await failed.wait()
    assert (await soon(tail)).closed_reason == "attempt_success"


async def test_followers_wait_while_the_watcher_cannot_start(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_watcher, "RETRY_S", 0.01)
    ident, handle = await running(engine)
    asked = 0
    last = engine.store.last_event

    async def broken(channel: str) -> int:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise TransportError("test", "away", backend_kind="other")
        return await last(channel)

    monkeypatch.setattr(engine.store, "last_event", broken)
    tail = await tailing(engine, ident)
    await engine.complete(handle)
    assert (await soon(tail)).closed_reason == "attempt_success"


async def test_a_failed_read_is_an_error_for_each_follower(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await running(engine)
    tails = [await tailing(engine, ident) for _ in range(3)]
    await asleep(engine, ident, 3)
    load = engine.store.load

    async def broken(_: Any) -> Any:
        raise TransportError("test", "away", backend_kind="other")

    with monkeypatch.context() as away:
        away.setattr(engine.store, "load", broken)
        await engine.store.commit_many([])
        engine.store.hub.ring([("frames", ident.uuid)])
        found = await asyncio.gather(*tails, return_exceptions=True)
    assert all(isinstance(each, EngineError) for each in found) and engine.store.load == load
    await say(engine, handle, "a")
    assert len((await engine.tail_stream(ident, 0)).frames) == 1


def without_wakeups(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store wakes no follower from now on; only the watcher does."""
    hub = engine.store.hub
    ring = hub.ring
    monkeypatch.setattr(hub, "announce", lambda *_: None)

    def only_frames(topics: Any) -> None:
        ring(
            [
                topic
                for topic in topics
                if topic[0] == "frames" and topic[1] is not None and by_watch()
            ]
        )

    def by_watch() -> bool:
        task = asyncio.current_task()
        return task is not None and task.get_name() == "flowfabric-stream-watch"

    monkeypatch.setattr(hub, "ring", only_frames)


async def polled(engine: Engine, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Returns after that many polls of the watcher."""
    polls = asyncio.Semaphore(0)

    async def noted() -> None:
        polls.release()

    after_load(engine, monkeypatch, is_poll, noted)
    for _ in range(count):
        await polls.acquire()
