"""Events of all cells in one stream. A cursor holds the number of the last event of each cell."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Annotated, Any, Generic

import msgspec
from msgspec import Struct, structs

from flowfabric.codec.event_cursor import BEGINNING, decode_cursor, encode_cursor
from flowfabric.engine import validation
from flowfabric.engine.cells.pool import BASE, Cells
from flowfabric.engine.cells.work import CombinedWaiter
from flowfabric.engine.engine import Engine
from flowfabric.engine.events.long_poll import CHANNELS, MAX_EVENTS, MAX_POLL_MS
from flowfabric.engine.events.subscriptions import (
    IDLE_POLL_S,
    Event,
    EventChannel,
    EventStream,
)
from flowfabric.engine.filters import checked_filter
from flowfabric.errors import (
    EngineError,
    StreamBackpressure,
    StreamDisconnected,
    Unavailable,
    bad_input,
)
from flowfabric.model.event import Channel, EventPage, ScannerFilter

MAX_FOLLOWED = 256
"""So many cells are followed together: each event carries a cursor for all of them."""
_FAMILY = b"\x03"
_numbers = msgspec.msgpack.Decoder(dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]])
Positions = dict[str, int]


class Read(Struct, frozen=True):
    """A page of one cell."""

    namespace: str
    page: EventPage
    events: Sequence[Any]


def encode_positions(positions: Mapping[str, int]) -> bytes:
    """With the base cell alone, its own cursor."""
    if positions.keys() <= {BASE}:
        return encode_cursor(positions.get(BASE, 0))
    return _FAMILY + msgspec.msgpack.encode(dict(sorted(positions.items())))


def decode_positions(cursor: bytes, op: str) -> Positions:
    """A cell that a cursor does not name was registered later, so all of its events follow."""
    if not isinstance(cursor, bytes) or cursor[:1] != _FAMILY:
        return {BASE: decode_cursor(cursor, op) or 0}
    try:
        return _numbers.decode(cursor[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_input(f"cursor: not an event cursor for {op}") from None


class CellEvents:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def subscribe(
        self, channel: EventChannel[Event], cursor: bytes, wanted: ScannerFilter | None
    ) -> EventStream[Event]:
        namespace = checked_filter(wanted).namespace
        if namespace is not None:
            return self._cells.cell(namespace).subscribe(channel, cursor, wanted)
        if cursor:
            decode_positions(cursor, f"{self._cells.base.store.label}.{channel.operation}")
        return CellStream(self, channel.channel, cursor, wanted)

    async def read_events(
        self,
        channel: Channel,
        cursor: bytes = b"",
        limit: int = 100,
        wait_ms: int = 0,
        wanted: ScannerFilter | None = None,
    ) -> EventPage:
        namespace = checked_filter(wanted).namespace
        if namespace is not None:
            cell = self._cells.cell(namespace)
            return await cell.read_events(channel, cursor, limit, wait_ms, wanted)
        size = validation.whole(limit, "limit", 1, MAX_EVENTS)
        until = time.monotonic() + validation.whole(wait_ms, "wait_ms", 0, MAX_POLL_MS) / 1_000
        kind = CHANNELS[Channel(channel)]
        names = await self._names()
        if not cursor:
            return EventPage(cursor=encode_positions(await self._ends(kind.channel, names)))
        at = decode_positions(cursor, f"{self._cells.base.store.label}.{kind.operation}")
        with self._bell(names, kind.outbox) as bell:
            while True:
                bell.arm()
                reads = await self._read(kind.channel, names, at, size, wanted)
                page = _merged(kind.channel, reads, at, size)
                left = until - time.monotonic()
                if getattr(page, kind.channel.value) or page.trimmed or left <= 0:
                    return page
                at = decode_positions(page.cursor, "")
                await bell.wait(min(left, IDLE_POLL_S))
                names = await self._names()

    def _bell(self, names: Sequence[str], outbox: str) -> CombinedWaiter:
        hubs = (self._cells.cell(name).store.hub for name in names)
        return CombinedWaiter([hub.waiter((outbox, None)) for hub in hubs])

    async def _names(self) -> list[str]:
        names = await self._cells.names()
        if len(names) > MAX_FOLLOWED:
            raise Unavailable(
                f"events of all namespaces of {len(names)} cells; at most {MAX_FOLLOWED} are "
                "followed together, so name a namespace"
            )
        return names

    async def _ends(self, channel: Channel, names: Sequence[str]) -> Positions:
        pages = await self._cells.among(names, lambda cell: cell.read_events(channel))
        return {
            name: decode_cursor(page.cursor, "") or 0
            for name, page in zip(names, pages, strict=True)
        }

    async def _read(
        self,
        channel: Channel,
        names: Sequence[str],
        at: Positions,
        size: int,
        wanted: ScannerFilter | None,
    ) -> list[Read]:
        async def read(name: str) -> Read:
            cell: Engine = self._cells.cell(name)
            cursor = encode_cursor(at[name]) if name in at else BEGINNING
            page = await cell.read_events(channel, cursor, size, 0, wanted)
            return Read(name, page, getattr(page, channel.value))

        return list(await asyncio.gather(*map(read, names)))


def _merged(channel: Channel, reads: Sequence[Read], at: Positions, size: int) -> EventPage:
    """The first events of all pages by time. Those of one cell stay in their order."""
    queues = {each.namespace: deque(each.events) for each in reads}
    latest = dict.fromkeys(queues, 0)
    positions, events = dict(at), list[Any]()
    while len(events) < size and any(queues.values()):
        name = min(
            (each for each, queue in queues.items() if queue),
            key=lambda each: max(queues[each][0].at, latest[each]),
        )
        event = queues[name].popleft()
        latest[name] = max(event.at, latest[name])
        positions[name] = decode_cursor(event.cursor, "") or 0
        events.append(structs.replace(event, cursor=encode_positions(positions)))
    for each in reads:
        if not queues[each.namespace]:  # behind events that the filter excludes
            positions[each.namespace] = decode_cursor(each.page.cursor, "") or 0
    return EventPage(
        **{channel.value: events},
        cursor=encode_positions(positions),
        trimmed=any(each.page.trimmed for each in reads),
    )


class CellStream(Generic[Event]):
    """As a `Subscription`: `await` establishes it; after an error it continues at its cursor."""

    def __init__(
        self, source: CellEvents, channel: Channel, cursor: bytes, wanted: ScannerFilter | None
    ) -> None:
        self._source, self._channel, self._wanted = source, channel, wanted
        self._behind = self._handed = cursor
        self._ready: deque[Event] = deque()
        self._open = True
        self._reading: asyncio.Task[EventPage] | None = None

    @property
    def cursor(self) -> bytes:
        return self._handed if self._ready else self._behind

    def __await__(self) -> Generator[object, None, CellStream[Event]]:
        return self._start().__await__()

    async def _start(self) -> CellStream[Event]:
        if not self._behind:
            await self._read(0)
        return self

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    def close(self) -> None:
        """Ends the iteration after the buffered events; a waiting `__anext__` ends too."""
        self._open = False
        if self._reading is not None:
            self._reading.cancel()

    async def __anext__(self) -> Event:
        await self._start()
        while not self._ready:
            if not self._open:
                raise StopAsyncIteration
            await self._read(MAX_POLL_MS)
        event = self._ready.popleft()
        self._handed = event.cursor
        return event

    async def _read(self, wait_ms: int) -> None:
        reading = asyncio.ensure_future(
            self._source.read_events(self._channel, self._behind, MAX_EVENTS, wait_ms, self._wanted)
        )
        self._reading = reading
        try:
            await asyncio.wait({reading})
        finally:
            self._reading = None
            if not reading.done():
                reading.cancel()
        if reading.cancelled():
            return
        error = reading.exception()
        if isinstance(error, EngineError):
            raise StreamDisconnected(self.cursor) from error
        page = reading.result()
        self._handed, self._behind = self._behind, page.cursor
        self._ready.extend(getattr(page, self._channel.value))
        if page.trimmed:
            raise StreamBackpressure
