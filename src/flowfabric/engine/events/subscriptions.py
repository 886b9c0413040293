"""Subscriptions to the outbox: from any cursor, in order and without gaps.

A commit wakes the subscribers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from flowfabric.codec.event_cursor import decode_cursor, encode_cursor
from flowfabric.engine.events import event_rows
from flowfabric.engine.events.event_reader import EventReader
from flowfabric.engine.filters import checked_filter, tagged
from flowfabric.engine.moments import moment_before
from flowfabric.engine.snapshots import load_rows
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
    Channel,
    ScannerFilter,
)
from flowfabric.store.port import CATCH_UP_PAGE, EVENT_PAGE, Get, GetAll, Row, Store

log = logging.getLogger("flowfabric.subscriptions")

IDLE_POLL_S = 5.0
FIRST_RETRY_S, LAST_RETRY_S, MAX_RETRIES = 0.2, 1.0, 10
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

    def __await__(self) -> Generator[object, None, EventStream[Event_co]]: ...

    def __aiter__(self) -> AsyncIterator[Event_co]: ...

    async def __anext__(self) -> Event_co: ...

    def close(self) -> None: ...


class Subscription(Generic[Event]):
    """An async iterator of events.

    Without a cursor it starts at the call; `await` it to be sure that the start is known. After
    an error the iteration continues at its cursor. It holds at most one page of events and reads
    the next one when the page is consumed, so a slow subscriber affects only itself.
    """

    def __init__(
        self,
        store: Store,
        reader: EventReader,
        channel: str,
        after: int | None,
        wanted: ScannerFilter,
        decode: Callable[[Row], Event],
    ) -> None:
        self._store, self._reader, self._channel = store, reader, channel
        self._wanted, self._decode = wanted, decode
        self._position = after
        self._opening = store.last_event(channel) if after is None else None
        self._trim_unknown = after is not None
        self._trimmed = 0
        self._ready: list[Event] = []
        self._delivered = b""
        self._page_size = EVENT_PAGE
        self._lock = asyncio.Lock()
        self._open = True
        self.passed_over = 0
        """The number of events that could not be read."""

    @property
    def cursor(self) -> bytes:
        """After the last delivered event and the events behind it that the filter excludes."""
        if self._ready:
            return self._delivered
        return b"" if self._position is None else encode_cursor(self._position)

    def __await__(self) -> Generator[object, None, Subscription[Event]]:
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
        """Ends the iteration after the page that is read; a waiting `__anext__` ends too."""
        self._open = False
        self._store.hub.ring(((self._channel, None),))

    async def __anext__(self) -> Event:
        while not self._ready:
            async with self._lock:
                if not self._ready and not await self._refill():
                    raise StopAsyncIteration
        event = self._ready.pop()
        self._delivered = event.cursor
        return event

    async def page(self, size: int, wait_s: float) -> list[Event]:
        """At most `size` of the next events; without any, waits up to `wait_s` for some."""
        await self._start()
        until = time.monotonic() + wait_s
        with self._store.hub.waiter((self._channel, None)) as waiter:
            while True:
                waiter.arm()
                if self._trim_unknown:
                    await self._check_trimmed()
                self._page_size = size
                while await self._read_page():
                    if self._ready:
                        found, self._ready = self._ready[::-1], []
                        return found
                left = until - time.monotonic()
                if left <= 0:
                    return []
                await waiter.wait(min(left, IDLE_POLL_S))

    def pass_over_trimmed(self) -> None:
        """Continues after the trimmed events, once their loss has been reported."""
        self._position = max(self._position or 0, self._trimmed)

    async def _refill(self) -> bool:
        """Waits for events; False when the subscription is closed."""
        await self._start()
        with self._store.hub.waiter((self._channel, None)) as waiter:
            while self._open:
                waiter.arm()
                if self._trim_unknown:
                    await self._check_trimmed()
                if await self._read_page():
                    if self._ready:
                        return True
                elif self._open:
                    now = time.monotonic()
                    await waiter.wait(moment_before(now + IDLE_POLL_S, IDLE_POLL_S, now) - now)
        return False

    async def _read_page(self) -> bool:
        """False when there is no new event."""
        after, size = self._position, self._page_size
        assert after is not None
        rows = await self._retried(lambda: self._reader.read(self._channel, after, size))
        if not rows:
            return False
        last, *_ = rows[-1]
        if last - after != len(rows):
            await self._check_trimmed()
        found = await self._filtered(rows)
        found.reverse()
        self._delivered = encode_cursor(after)
        self._ready, self._position = found, last
        self._page_size = CATCH_UP_PAGE if len(rows) == size else EVENT_PAGE
        return True

    async def _check_trimmed(self) -> None:
        """Reports once that retention removed events before they were read here.

        A subscriber that starts at the beginning gets what is left; only what is removed from
        then on is reported.
        """
        read = Get("ff_outbox_trim", (self._channel,), ("event_id",))
        rows = await self._retried(lambda: load_rows(self._store, read))
        after, known, first = self._position, self._trimmed, self._trim_unknown
        assert after is not None
        self._trimmed = next((trimmed for (trimmed,) in rows), 0)
        self._trim_unknown = False
        if self._trimmed > max(after, known) and (after or not first):
            raise StreamBackpressure

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls again while the store is unavailable, `MAX_RETRIES` times at most."""
        pause = FIRST_RETRY_S
        for _ in range(MAX_RETRIES):
            try:
                return await call()
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
            rows = [row for row in rows if _last_two(row)[0] == wanted.namespace]
        if wanted.instance_tag is None:
            return self._decoded(rows)
        key, value = wanted.instance_tag
        if key == INSTANCE_TAG_KEY:
            return self._decoded([row for row in rows if _last_two(row)[1] == value])
        return await self._tagged(self._decoded(rows), key, value)

    async def _tagged(self, events: list[Event], key: str, value: str) -> list[Event]:
        """By the current tags of the executions, with one read per page."""
        if not events:
            return []
        subjects = list({event.execution_id.key for event in events})
        asked = GetAll("ff_exec_core", subjects, ("partition_key", "execution_id", "tags"))
        rows = await self._retried(lambda: load_rows(self._store, asked))
        known = {(partition, uid) for partition, uid, tags in rows if tagged(tags, key, value)}
        return [event for event in events if event.execution_id.key in known]

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
            number, *_ = row
            log.warning(
                "an event cannot be read and is skipped",
                extra={"channel": self._channel, "event": number},
            )
            return None


def _last_two(row: Row) -> Sequence[str | None]:
    """Every outbox ends with the namespace and the instance tag of the execution."""
    *_, namespace, instance_tag = row
    return namespace, instance_tag


class EventChannel(Struct, Generic[Event], frozen=True):
    """A channel of the outbox. `operation` subscribes to it; `outbox` is its table."""

    channel: Channel
    operation: str
    outbox: str
    decode: Callable[[Row], Event]


LEASES = EventChannel(
    Channel.LEASES, "subscribe_lease_history", LEASE_EVENTS, event_rows.lease_event
)
COMPLETIONS = EventChannel(
    Channel.COMPLETIONS, "subscribe_completion", COMPLETION_EVENTS, event_rows.completion_event
)
OPERATORS = EventChannel(
    Channel.OPERATORS, "subscribe_operator_events", OPERATOR_EVENTS, event_rows.operator_event
)
SIGNALS = EventChannel(
    Channel.SIGNALS, "subscribe_signal_delivery", SIGNAL_EVENTS, event_rows.signal_event
)


def subscribe(
    store: Store,
    reader: EventReader,
    channel: EventChannel[Event],
    cursor: bytes,
    wanted: ScannerFilter | None,
) -> Subscription[Event]:
    after = decode_cursor(cursor, f"{store.label}.{channel.operation}")
    checked = checked_filter(wanted)
    return Subscription(store, reader, channel.outbox, after, checked, channel.decode)
