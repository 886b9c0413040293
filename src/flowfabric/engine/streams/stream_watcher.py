"""Who follows a stream sleeps until something happens to it. One watch per engine listens for all of them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

from flowfabric.errors import EngineError
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.rules.streams.stream_forms import META
from flowfabric.store.port import EVENT_PAGE, GetAll, Store
from flowfabric.store.schema import TABLES
from flowfabric.store.wakeups import Topic

log = logging.getLogger("flowfabric.streams")

NET_S = 5.0
LINGER_S = 5.0
PAUSE_S = 1.0
Key = tuple[int, UUID, int]
_CHANNELS = (LEASE_EVENTS, COMPLETION_EVENTS)
_WHOSE = {channel: TABLES[channel].names.index("execution_id") for channel in _CHANNELS}


def frames_of(execution: UUID) -> Topic:
    return "frames", execution


class StreamWatcher:
    """Tells those who follow a stream of the end of its attempt, which only the outbox tells; and, should a wake-up have been
    lost, of anything else that changed. It goes on for a little while after the last of them has left.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followed: dict[Key, int] = {}
        self._seen: dict[Key, tuple[Any, ...]] = {}
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None

    async def begin(self, key: Key) -> None:
        """From the return of this on, nothing about the stream is missed."""
        self._followed[key] = self._followed.get(key, 0) + 1
        if self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready), name="flowfabric-stream-watch")
        assert self._ready is not None
        await asyncio.shield(self._ready)

    def end(self, key: Key) -> None:
        self._followed[key] -= 1
        if not self._followed[key]:
            del self._followed[key]
            self._seen.pop(key, None)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self, ready: asyncio.Future[None]) -> None:
        at: dict[str, int] = {}
        try:
            while True:
                try:
                    await self._begun(at, ready)
                    await self._listen(at)
                    return
                except EngineError as error:
                    log.warning(
                        "nobody tells followers of streams when they end, for now (%s); they look by themselves",
                        error,
                    )
                _done(ready)
                if not self._followed:
                    return
                await asyncio.sleep(PAUSE_S)
        finally:
            _done(ready)

    async def _begun(self, at: dict[str, int], ready: asyncio.Future[None]) -> None:
        """From the last event on; of those who came while that could not be asked, everybody looks."""
        if not at:
            at |= {channel: await self._store.last_event(channel) for channel in _CHANNELS}
        if ready.done():
            self._store.hub.ring({frames_of(key[1]): None for key in self._followed})
        _done(ready)

    async def _listen(self, at: dict[str, int]) -> None:
        loop = asyncio.get_running_loop()
        look_at, leave_at = loop.time() + NET_S, loop.time() + LINGER_S
        with self._store.hub.waiter(*((channel, None) for channel in _CHANNELS)) as bell:
            while self._followed or loop.time() < leave_at:
                bell.arm()
                for channel in _CHANNELS:
                    at[channel] = await self._tell(channel, at[channel])
                await bell.wait(max(look_at - loop.time(), 0))
                if loop.time() >= look_at:
                    await self._look()
                    look_at = loop.time() + NET_S
                if self._followed:
                    leave_at = loop.time() + LINGER_S

    async def _tell(self, channel: str, after: int) -> int:
        """Rings for each execution somebody follows; the number of the last event seen."""
        while rows := await self._store.read_events(channel, after, EVENT_PAGE):
            self._store.hub.ring({frames_of(row[_WHOSE[channel]]): None for row in rows})
            after = rows[-1][0]
            if len(rows) < EVENT_PAGE:
                break
        return after

    async def _look(self) -> None:
        """The net below the wake-ups: one question for all streams that are followed. Whoever is met for the first time looks."""
        keys = list(self._followed)
        if not keys:
            return
        executions = list({key[:2] for key in keys})
        loaded = await self._store.load(
            (
                GetAll(META, keys, ("partition_key", "execution_id", "attempt_index", "version")),
                GetAll("ff_exec_core", executions, ("partition_key", "execution_id", "version")),
            )
        )
        versions = {row[:3]: row[3] for row in loaded.rows[0]}
        moved = {row[:2]: row[2] for row in loaded.rows[1]}
        now = {key: (versions.get(key), moved.get(key[:2])) for key in keys}
        self._store.hub.ring(
            {frames_of(key[1]): None for key, seen in now.items() if self._seen.get(key) != seen}
        )
        self._seen = now


def _done(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
