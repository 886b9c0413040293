"""Following the outbox: from any cursor, in order, without gaps, woken right after the commit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from flowfabric.codec.event_cursor import decode_cursor, encode_cursor
from flowfabric.engine.core import Core
from flowfabric.engine.events import event_rows
from flowfabric.engine.filters import checked_filter, tagged
from flowfabric.errors import (
    EngineError,
    StreamBackpressure,
    StreamDisconnected,
    TimedOut,
)
from flowfabric.ids import INSTANCE_TAG_KEY, ExecutionId
from flowfabric.model.event import (
    COMPLETION_EVENTS,
    LEASE_EVENTS,
    OPERATOR_EVENTS,
    SIGNAL_EVENTS,
    CompletionEvent,
    LeaseEvent,
    OperatorEvent,
    ScannerFilter,
    SignalEvent,
)
from flowfabric.store.port import CATCH_UP_PAGE, EVENT_PAGE, Get, GetAll, Row, Store

log = logging.getLogger("flowfabric.subscriptions")

IDLE_POLL_S = 5.0
FIRST_RETRY_S, LAST_RETRY_S, MAX_RETRIES = 0.2, 1.0, 10
NAMESPACE, INSTANCE_TAG = -2, -1
T = TypeVar("T")


class Delivered(Protocol):
    @property
    def cursor(self) -> bytes: ...

    @property
    def execution_id(self) -> ExecutionId: ...


Event = TypeVar("Event", bound=Delivered)


Event_co = TypeVar("Event_co", covariant=True)


class EventStream(Protocol[Event_co]):
    """A subscription, local or remote: an async iterator of events that resumes from its cursor."""

    @property
    def cursor(self) -> bytes: ...

    def __await__(self) -> Generator[Any, None, EventStream[Event_co]]: ...

    def __aiter__(self) -> AsyncIterator[Event_co]: ...

    async def __anext__(self) -> Event_co: ...

    def close(self) -> None: ...


class Subscription(Generic[Event]):
    """An async iterator of events. Without a cursor it starts at the call: what is committed
    afterwards is seen.

    `await` it to be sure that it stands. After an error it goes on where it stood. It holds one
    page of events at the most,
    and reads the next when the last of them was taken: a slow reader slows nobody but itself.
    """

    def __init__(
        self,
        store: Store,
        channel: str,
        after: int | None,
        wanted: ScannerFilter,
        decode: Callable[[Row], Event],
    ) -> None:
        self._store, self._channel, self._wanted, self._decode = store, channel, wanted, decode
        self._position = after
        self._opening = store.last_event(channel) if after is None else None
        self._unchecked = after is not None
        self._trimmed = 0
        self._ready: list[Event] = []
        self._handed = b""
        self._page = EVENT_PAGE
        self._turn = asyncio.Lock()
        self._open = True
        self.passed_over = 0

    @property
    def cursor(self) -> bytes:
        """After the last event handed out, and after what the filter left out behind it."""
        if self._ready:
            return self._handed
        return b"" if self._position is None else encode_cursor(self._position)

    def __await__(self) -> Generator[Any, None, Subscription[Event]]:
        return self._start().__await__()

    async def _start(self) -> Subscription[Event]:
        while self._position is None:
            opening, self._opening = self._opening or self._store.last_event(self._channel), None
            try:
                self._position = await opening
            except EngineError as error:
                raise StreamDisconnected(b"") from error
        return self

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    def close(self) -> None:
        """Ends the iteration after the events already read, and releases a waiting reader."""
        self._open = False
        self._store.hub.ring(((self._channel, None),))

    async def __anext__(self) -> Event:
        while not self._ready:
            async with self._turn:
                if not self._ready and not await self._refill():
                    raise StopAsyncIteration
        event = self._ready.pop()
        self._handed = event.cursor
        return event

    async def page(self, size: int, wait_s: float) -> list[Event]:
        """What there is of the next so many events; should it be nothing, what comes within the
        time.
        """
        await self._start()
        until = time.monotonic() + wait_s
        with self._store.hub.waiter((self._channel, None)) as bell:
            while True:
                bell.arm()
                if self._unchecked:
                    await self._check_trimmed()
                self._page = size
                while await self._read_page():
                    if self._ready:
                        found, self._ready = self._ready[::-1], []
                        return found
                left = until - time.monotonic()
                if left <= 0:
                    return []
                await bell.wait(min(left, IDLE_POLL_S))

    def pass_over_trimmed(self) -> None:
        """Having said that something is missing, goes on behind it."""
        self._position = max(self._position or 0, self._trimmed)

    async def _refill(self) -> bool:
        """Waits for events; False once it is closed."""
        await self._start()
        with self._store.hub.waiter((self._channel, None)) as bell:
            while self._open:
                bell.arm()
                if self._unchecked:
                    await self._check_trimmed()
                if await self._read_page():
                    if self._ready:
                        return True
                elif self._open:
                    await bell.wait(IDLE_POLL_S)
        return False

    async def _read_page(self) -> bool:
        """False when there was nothing new."""
        after, size = self._position, self._page
        assert after is not None
        rows = await self._patiently(lambda: self._store.read_events(self._channel, after, size))
        if not rows:
            return False
        if rows[-1][0] - after != len(rows):
            await self._check_trimmed()
        found = await self._filtered(rows)
        found.reverse()
        self._handed = encode_cursor(after)
        self._ready, self._position = found, rows[-1][0]
        self._page = CATCH_UP_PAGE if len(rows) == size else EVENT_PAGE
        return True

    async def _check_trimmed(self) -> None:
        """Events that retention removed before they were read here: it is said once that something
        is missing.

        Who starts at the beginning asks for what is left, and is only told of what goes from then
        on.
        """
        loaded = await self._patiently(
            lambda: self._store.load((Get("ff_outbox_trim", (self._channel,)),))
        )
        after, known, first = self._position, self._trimmed, self._unchecked
        assert after is not None
        self._trimmed, self._unchecked = loaded.rows[0][0][1] if loaded.rows[0] else 0, False
        if self._trimmed > max(after, known) and (after or not first):
            raise StreamBackpressure

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks again while the store is away for a moment."""
        pause = FIRST_RETRY_S
        for _ in range(MAX_RETRIES):
            try:
                return await ask()
            except EngineError as error:
                last = error
                if not (self._open and (error.retryable or isinstance(error, TimedOut))):
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_S)
        raise StreamDisconnected(self.cursor) from last

    async def _filtered(self, rows: list[Row]) -> list[Event]:
        wanted = self._wanted
        if wanted.namespace is not None:
            rows = [row for row in rows if row[NAMESPACE] == wanted.namespace]
        if wanted.instance_tag is None:
            return self._decoded(rows)
        key, value = wanted.instance_tag
        if key == INSTANCE_TAG_KEY:
            return self._decoded([row for row in rows if row[INSTANCE_TAG] == value])
        return await self._tagged(self._decoded(rows), key, value)

    async def _tagged(self, events: list[Event], key: str, value: str) -> list[Event]:
        """By what the executions carry now, looked up for the whole page at once."""
        if not events:
            return []
        subjects = list(
            {(event.execution_id.partition_index, event.execution_id.uuid) for event in events}
        )
        asked = GetAll("ff_exec_core", subjects, ("partition_key", "execution_id", "tags"))
        loaded = await self._patiently(lambda: self._store.load((asked,)))
        known = {(row[0], row[1]) for row in loaded.rows[0] if tagged(row[2], key, value)}
        return [e for e in events if (e.execution_id.partition_index, e.execution_id.uuid) in known]

    def _decoded(self, rows: list[Row]) -> list[Event]:
        decode = self._decode
        try:
            return [decode(row) for row in rows]
        except (ValueError, TypeError, AttributeError):
            return [event for row in rows if (event := self._decoded_or_none(row)) is not None]

    def _decoded_or_none(self, row: Row) -> Event | None:
        try:
            return self._decode(row)
        except (ValueError, TypeError, AttributeError):
            self.passed_over += 1
            log.warning("%s: event %s cannot be read and is passed over", self._channel, row[0])
            return None


class Subscriptions:
    """Subscriptions to the event channels."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    def subscribe_lease_history(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[LeaseEvent]:
        """Every lease acquired, renewed, expired, reclaimed or revoked."""
        return self._subscribe(
            LEASE_EVENTS, "subscribe_lease_history", cursor, wanted, event_rows.lease_event
        )

    def subscribe_completion(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[CompletionEvent]:
        """Every execution that ended."""
        return self._subscribe(
            COMPLETION_EVENTS, "subscribe_completion", cursor, wanted, event_rows.completion_event
        )

    def subscribe_operator_events(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[OperatorEvent]:
        """What operators did."""
        return self._subscribe(
            OPERATOR_EVENTS, "subscribe_operator_events", cursor, wanted, event_rows.operator_event
        )

    def subscribe_signal_delivery(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[SignalEvent]:
        """Every signal that was accepted, and what it did."""
        return self._subscribe(
            SIGNAL_EVENTS, "subscribe_signal_delivery", cursor, wanted, event_rows.signal_event
        )

    def _subscribe(
        self,
        channel: str,
        op: str,
        cursor: bytes,
        wanted: ScannerFilter | None,
        decode: Callable[[Row], Event],
    ) -> Subscription[Event]:
        after = decode_cursor(cursor, f"{self._store.label}.{op}")
        return Subscription(self._store, channel, after, checked_filter(wanted), decode)
