"""Wakes the followers of output streams."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from uuid import UUID

from flowfabric.errors import EngineError
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.rules.streams.stream_forms import META
from flowfabric.store.port import EVENT_PAGE, GetAll, Store
from flowfabric.store.wakeups import Topic

log = logging.getLogger("flowfabric.streams")

POLL_S = 5.0
LINGER_S = 5.0
RETRY_S = 1.0
StreamKey = tuple[int, UUID, int]
_Versions = tuple[int | None, int | None]
_CHANNELS = (LEASE_EVENTS, COMPLETION_EVENTS)


def frames_of(execution: UUID) -> Topic:
    return "frames", execution


class StreamWatcher:
    """Wakes the followers of a stream when its attempt ends, which only the outbox reports.

    One task reads the outbox for all streams of the engine. It also polls the versions of the
    followed streams, in case a wake-up is lost. It ends `LINGER_S` after the last follower.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.followers: dict[StreamKey, int] = {}
        self._versions: dict[StreamKey, _Versions] = {}
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None

    async def follow(self, key: StreamKey) -> None:
        """Every event that is committed after the return wakes the follower."""
        self.followers[key] = self.followers.get(key, 0) + 1
        if self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready), name="flowfabric-stream-watch")
        assert self._ready is not None
        await asyncio.shield(self._ready)

    def unfollow(self, key: StreamKey) -> None:
        self.followers[key] -= 1
        if not self.followers[key]:
            del self.followers[key]
            self._versions.pop(key, None)

    @property
    def is_running(self) -> bool:
        return self._task is not None

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self, ready: asyncio.Future[None]) -> None:
        positions: dict[str, int] = {}
        try:
            while True:
                try:
                    await self._begin(positions, ready)
                    await self._watch(positions)
                    return
                except EngineError as error:
                    log.warning(
                        "the ends of followed streams cannot be read, followers poll instead",
                        extra={"error": str(error)},
                    )
                _set(ready)
                if not self.followers:
                    return
                await asyncio.sleep(RETRY_S)
        finally:
            _set(ready)

    async def _begin(self, positions: dict[str, int], ready: asyncio.Future[None]) -> None:
        """Starts at the last event. Followers that came during an outage are woken once."""
        if not positions:
            positions |= {channel: await self._store.last_event(channel) for channel in _CHANNELS}
        if ready.done():
            self._wake({key[:2] for key in self.followers})
        _set(ready)

    async def _watch(self, positions: dict[str, int]) -> None:
        loop = asyncio.get_running_loop()
        poll_at, leave_at = loop.time() + POLL_S, loop.time() + LINGER_S
        with self._store.hub.waiter(*((channel, None) for channel in _CHANNELS)) as waiter:
            while self.followers or loop.time() < leave_at:
                waiter.arm()
                for channel in _CHANNELS:
                    positions[channel] = await self._read(channel, positions[channel])
                await waiter.wait(max(poll_at - loop.time(), 0))
                if loop.time() >= poll_at:
                    await self._poll()
                    poll_at = loop.time() + POLL_S
                if self.followers:
                    leave_at = loop.time() + LINGER_S

    async def _read(self, channel: str, after: int) -> int:
        """Wakes the followers of the executions in new events; returns the last event number."""
        while rows := await self._store.read_events(channel, after, EVENT_PAGE):
            self._store.hub.ring({frames_of(execution): None for _, execution, *_ in rows})
            after, *_ = rows[-1]
            if len(rows) < EVENT_PAGE:
                break
        return after

    async def _poll(self) -> None:
        """Wakes the followers of streams whose version has changed, or is read the first time."""
        keys = list(self.followers)
        if not keys:
            return
        executions = list({(partition, execution) for partition, execution, _ in keys})
        loaded = await self._store.load(
            (
                GetAll(META, keys, ("partition_key", "execution_id", "attempt_index", "version")),
                GetAll("ff_exec_core", executions, ("partition_key", "execution_id", "version")),
            )
        )
        streams, cores = ({tuple(key): version for *key, version in rows} for rows in loaded.rows)
        found: dict[StreamKey, _Versions] = {
            key: (streams.get(key), cores.get(key[:2])) for key in keys
        }
        self._wake({key[:2] for key, now in found.items() if self._versions.get(key) != now})
        self._versions = found

    def _wake(self, executions: set[tuple[int, UUID]]) -> None:
        self._store.hub.ring([frames_of(uid) for _, uid in executions])


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
