"""Follows the events of a server by long polls from a cursor."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Generic

from flowfabric.engine.events.long_poll import MAX_EVENTS
from flowfabric.engine.events.subscriptions import Event
from flowfabric.errors import EngineError, StreamBackpressure, StreamDisconnected
from flowfabric.model.event import Channel, ScannerFilter

if TYPE_CHECKING:
    from flowfabric.engine.protocol import EngineProtocol

POLL_MS = 20_000


class RemoteSubscription(Generic[Event]):
    """As a `Subscription`: `await` establishes it; after an error it continues at its cursor."""

    def __init__(
        self, engine: EngineProtocol, channel: Channel, cursor: bytes, wanted: ScannerFilter | None
    ) -> None:
        self._engine, self._channel, self._wanted = engine, channel, wanted
        self._behind, self._handed = cursor, cursor
        self._ready: deque[Event] = deque()
        self._open = True

    @property
    def cursor(self) -> bytes:
        return self._handed if self._ready else self._behind

    def __await__(self) -> Generator[object, None, RemoteSubscription[Event]]:
        return self._start().__await__()

    async def _start(self) -> RemoteSubscription[Event]:
        if not self._behind:
            await self._read(0)
        return self

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    def close(self) -> None:
        """Ends the iteration after the buffered events, at the latest after the current poll."""
        self._open = False

    async def __anext__(self) -> Event:
        await self._start()
        while not self._ready:
            if not self._open:
                raise StopAsyncIteration
            await self._read(POLL_MS)
        event = self._ready.popleft()
        self._handed = event.cursor
        return event

    async def _read(self, wait_ms: int) -> None:
        try:
            page = await self._engine.read_events(
                self._channel, self._behind, MAX_EVENTS, wait_ms, self._wanted
            )
        except EngineError as error:
            raise StreamDisconnected(self.cursor) from error
        self._handed, self._behind = self._behind, page.cursor
        self._ready.extend(getattr(page, self._channel.value))
        if page.trimmed:
            raise StreamBackpressure
