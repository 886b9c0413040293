"""Following the outbox: from any cursor, in order, without gaps, woken right after the commit."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Generic, TypeVar
from uuid import UUID

from flowfabric.codec.cursor import decode_cursor, encode_cursor
from flowfabric.engine.filters import checked_filter
from flowfabric.engine.workers import Workers
from flowfabric.errors import StreamBackpressure, StreamDisconnected, TransportError
from flowfabric.ids import INSTANCE_TAG_KEY, ExecutionId, lease_mark
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
from flowfabric.store.port import EVENT_PAGE, Get, Row, Store
from flowfabric.store.schema import TABLES

log = logging.getLogger("flowfabric.subscriptions")

IDLE_POLL_S = 5.0
FIRST_RETRY_S, LAST_RETRY_S, MAX_RETRIES = 0.2, 1.0, 10
_OUTCOMES = {"success": "Success", "failed": "Failure", "failure": "Failure", "cancelled": "Cancelled"}
Event = TypeVar("Event")


class Subscription(Generic[Event]):
    """An async iterator of events. Without a cursor it starts at the call: what is committed afterwards is seen.

    `await` it to be sure that it stands. After an error it goes on where it stood.
    """

    def __init__(
        self, store: Store, channel: str, after: int | None, wanted: ScannerFilter, decode: Callable[[dict[str, Any]], Event]
    ) -> None:
        self._store, self._channel, self._wanted, self._decode = store, channel, wanted, decode
        self._after = after
        self._opening = store.last_event(channel) if after is None else None
        self._resumed = after is not None
        self._ready: deque[tuple[int, Event]] = deque()
        self._columns = TABLES[channel].names
        self._open = True

    @property
    def cursor(self) -> bytes:
        """After the last event handed out."""
        return b"" if self._after is None else encode_cursor(self._after)

    def __await__(self) -> Generator[Any, None, Subscription[Event]]:
        return self._start().__await__()

    async def _start(self) -> Subscription[Event]:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            self._after = await opening
        return self

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    def close(self) -> None:
        """Ends the iteration; whoever waits in it is released."""
        self._open = False
        self._store.hub.ring(((self._channel, None),))

    async def __anext__(self) -> Event:
        await self._start()
        await self._check_trimmed()
        with self._store.hub.waiter((self._channel, None)) as bell:
            while not self._ready:
                if not self._open:
                    raise StopAsyncIteration
                bell.arm()
                if not await self._fetch():
                    await bell.wait(IDLE_POLL_S)
        self._after, event = self._ready.popleft()
        return event

    async def _check_trimmed(self) -> None:
        """A cursor below what retention removed is told once that something is missing."""
        if not self._resumed:
            return
        loaded = await self._store.load((Get("ff_outbox_trim", (self._channel,)),))
        self._resumed = False
        assert self._after is not None
        if loaded.rows[0] and loaded.rows[0][0][1] > self._after > 0:
            raise StreamBackpressure

    async def _fetch(self) -> bool:
        """Reads one page; False when there was nothing new."""
        assert self._after is not None
        rows = await self._read(self._after)
        named = [dict(zip(self._columns, row, strict=True)) for row in rows]
        for row in await self._filtered(named):
            try:
                self._ready.append((row["event_id"], self._decode(row)))
            except (ValueError, TypeError):
                log.warning("%s: event %s cannot be read and is passed over", self._channel, row["event_id"])
        if named and not self._ready:
            self._after = named[-1]["event_id"]
        return bool(named)

    async def _read(self, after: int) -> list[Row]:
        pause = FIRST_RETRY_S
        for _ in range(MAX_RETRIES):
            try:
                return await self._store.read_events(self._channel, after, EVENT_PAGE)
            except TransportError as error:
                if not error.retryable:
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_S)
        raise StreamDisconnected(self.cursor)

    async def _filtered(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        wanted = self._wanted
        if wanted.namespace is not None:
            rows = [row for row in rows if row["namespace"] == wanted.namespace]
        if wanted.instance_tag is None or not rows:
            return rows
        key, value = wanted.instance_tag
        if key == INSTANCE_TAG_KEY:
            return [row for row in rows if row["instance_tag"] == value]
        subjects = list({(row["partition_key"], row["execution_id"]) for row in rows})
        loaded = await self._store.load([Get("ff_exec_core", subject) for subject in subjects])
        at = TABLES["ff_exec_core"].names.index("tags")
        tagged = {
            s for s, found in zip(subjects, loaded.rows, strict=True) if found and json.loads(found[0][at]).get(key) == value
        }
        return [row for row in rows if (row["partition_key"], row["execution_id"]) in tagged]


class Subscriptions(Workers):
    def subscribe_lease_history(self, cursor: bytes = b"", wanted: ScannerFilter | None = None) -> Subscription[LeaseEvent]:
        """Every lease acquired, renewed, expired, reclaimed or revoked."""
        return self._subscribe(LEASE_EVENTS, "subscribe_lease_history", cursor, wanted, _lease_event)

    def subscribe_completion(self, cursor: bytes = b"", wanted: ScannerFilter | None = None) -> Subscription[CompletionEvent]:
        """Every execution that ended."""
        return self._subscribe(COMPLETION_EVENTS, "subscribe_completion", cursor, wanted, _completion_event)

    def subscribe_operator_events(self, cursor: bytes = b"", wanted: ScannerFilter | None = None) -> Subscription[OperatorEvent]:
        """What operators did."""
        return self._subscribe(OPERATOR_EVENTS, "subscribe_operator_events", cursor, wanted, _operator_event)

    def subscribe_signal_delivery(self, cursor: bytes = b"", wanted: ScannerFilter | None = None) -> Subscription[SignalEvent]:
        """Every signal that was accepted, and what it did."""
        return self._subscribe(SIGNAL_EVENTS, "subscribe_signal_delivery", cursor, wanted, _signal_event)

    def _subscribe(
        self, channel: str, op: str, cursor: bytes, wanted: ScannerFilter | None, decode: Callable[[dict[str, Any]], Event]
    ) -> Subscription[Event]:
        after = decode_cursor(cursor, f"{self.store.label}.{op}")
        return Subscription(self.store, channel, after, checked_filter(wanted), decode)


def _subject(row: dict[str, Any]) -> ExecutionId:
    ident: UUID = row["execution_id"]
    return ExecutionId.of(row["partition_key"], ident)


def _lease_event(row: dict[str, Any]) -> LeaseEvent:
    return LeaseEvent(
        encode_cursor(row["event_id"]),
        _subject(row),
        row["event_type"],
        lease_mark(row["lease_id"]),
        row["lease_epoch"],
        row["worker_instance_id"],
        row["reason"],
        row["occurred_at_ms"],
    )


def _signal_event(row: dict[str, Any]) -> SignalEvent:
    word = row["event_type"]
    effect = "Satisfied" if word == "resume_condition_satisfied" else "Buffered" if word.startswith("buffered") else word
    return SignalEvent(
        encode_cursor(row["event_id"]),
        _subject(row),
        row["signal_id"],
        row["waitpoint_id"],
        row["source_identity"],
        effect,
        row["occurred_at_ms"],
    )


def _completion_event(row: dict[str, Any]) -> CompletionEvent:
    outcome = _OUTCOMES.get(row["outcome"], row["outcome"])
    return CompletionEvent(encode_cursor(row["event_id"]), _subject(row), outcome, row["flow_id"], row["occurred_at_ms"])


def _operator_event(row: dict[str, Any]) -> OperatorEvent:
    details = json.loads(row["details"]) if row["details"] else {}
    cursor = encode_cursor(row["event_id"])
    return OperatorEvent(cursor, row["execution_id"], _subject(row), row["event_type"], details, row["occurred_at_ms"])
