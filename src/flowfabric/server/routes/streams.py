"""Routes of output streams (read, tail, server-sent events) and of the event channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import msgspec
from msgspec import Struct, structs

from flowfabric.codec.frame_id import check_range, lower_bound, upper_bound
from flowfabric.errors import EngineError, NotFound, ValidationError
from flowfabric.model.event import Channel, EventPage, ScannerFilter
from flowfabric.model.stream import MAX_TAIL_BLOCK_MS, StreamFrames, Visibility
from flowfabric.server import route
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.tenancy import narrow_filter
from flowfabric.wire.errors import problem_of
from flowfabric.wire.json_codec import encode
from flowfabric.wire.operations import Bound, Role

SSE = "text/event-stream"
MAX_FRAMES = 1_000
HEAD_S = 0.25
"""Seconds that the response head waits for the first read, which an open transaction may block."""
MISSING_POLL_S = 0.5
"""Interval at which a tail looks for an execution that does not exist yet."""
PUSH_MS = 15_000
"""Longest time between two parts of an event stream, so that proxies keep the connection open."""


routes = RouteGroup(tag="streams", role=Role.READ, bound=Bound.EXECUTION)


class Range(Struct, frozen=True):
    from_: str = msgspec.field(name="from", default="start")
    to: str = "end"
    limit: int = 100


class Tail(Struct, frozen=True):
    after: str = "0-0"
    block_ms: int = 0
    limit: int = 50


class Frames(Struct, frozen=True, omit_defaults=True):
    frames: list[dict[str, Any]]
    count: int
    closed_at: int | None = None
    closed_reason: str | None = None


def _shown(found: StreamFrames) -> Frames:
    frames = [
        {"id": frame.id, "fields": dict(sorted(frame.fields.items()))} for frame in found.frames
    ]
    return Frames(frames, len(frames), found.closed_at, found.closed_reason)


def _limit(limit: int) -> int:
    if not 1 <= limit <= MAX_FRAMES:
        raise route.bad_request(f"limit: expected 1 to {MAX_FRAMES}, got {limit}")
    return limit


@routes("GET", "/v1/executions/{id}/attempts/{idx}/stream", answers={200: Frames}, streams=True)
async def read(request: ApiRequest, query: Range) -> Frames:
    """The frames of an attempt between two ids, both included."""
    lower, upper, limit = lower_bound(query.from_), upper_bound(query.to), _limit(query.limit)
    try:
        check_range(lower, upper)
    except ValidationError:
        return Frames([], 0)
    return _shown(
        await request.engine.read_stream(
            request.execution(), request.index(), query.from_, query.to, limit
        )
    )


@routes(
    "GET",
    "/v1/executions/{id}/attempts/{idx}/stream/tail",
    answers={200: Frames},
    streams=True,
    waits=True,
)
async def tail(request: ApiRequest, query: Tail) -> Frames:
    """The frames after an id; waits up to `block_ms` for the first."""
    if not 0 <= query.block_ms <= MAX_TAIL_BLOCK_MS:
        raise route.bad_request(
            f"block_ms: expected 0 to {MAX_TAIL_BLOCK_MS}, got {query.block_ms}"
        )
    limit, clock = _limit(query.limit), asyncio.get_running_loop().time
    until = clock() + query.block_ms / 1_000
    while True:
        left_s = max(until - clock(), 0)
        try:
            return _shown(
                await request.engine.tail_stream(
                    request.execution(), request.index(), query.after, int(left_s * 1_000), limit
                )
            )
        except NotFound:  # an execution that does not exist yet has an open, empty stream
            if not left_s:
                return Frames([], 0)
        await asyncio.sleep(min(left_s, MISSING_POLL_S))


@routes("GET", "/v1/executions/{id}/attempts/{idx}/summary")
async def summary(request: ApiRequest) -> object:
    """The document built from the summary frames of an attempt."""
    found = await request.engine.read_summary(request.execution(), request.index())
    fields = structs.asdict(route.existing(found, NotFound("summary")))
    return {"document": msgspec.Raw(fields.pop("document_json")), **fields}


# ---- pushed


def sse(stream: AsyncIterator[bytes]) -> Reply:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return Reply(stream=stream, media=SSE, headers=headers)


def _event(ident: str, data: object) -> bytes:
    return f"id: {ident}\ndata: ".encode() + encode(data) + b"\n\n"


def _remark(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: ".encode() + encode(data) + b"\n\n"


@routes("GET", "/v1/executions/{id}/attempts/{idx}/stream/events", answers={200: None}, media=SSE)
async def pushed(request: ApiRequest) -> Reply:
    """Follows the output of an execution as server-sent events with ids `<attempt>:<frame>`."""
    ident, first = request.execution(), request.index()
    route.existing(
        await request.engine.read_execution_state(ident), route.MissingEntity("execution", ident)
    )
    attempt, _, after = request.headers.get("last-event-id", "").partition(":")
    if attempt and not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise route.bad_request("Last-Event-ID: expected <attempt>:<frame id>, as sent in an event")
    at, behind = (int(attempt), after or "0-0") if attempt else (first, "0-0")
    await request.engine.read_followed(
        ident, at, behind, Visibility.All, True, 0
    )  # refuses an invalid cursor before the response head is sent

    async def events() -> AsyncIterator[bytes]:
        current: int | None = at
        after_frame = behind
        yield b": following\n\n"
        while current is not None and not request.server.is_draining:
            try:
                page = await request.engine.read_followed(
                    ident, current, after_frame, Visibility.All, True, PUSH_MS
                )
            except EngineError as error:
                yield _remark("problem", problem_of(error))
                return
            for frame in page.frames:
                yield _event(
                    f"{current}:{frame.id}",
                    {"attempt": current, "id": frame.id, "fields": frame.fields},
                )
            if not page.frames:
                yield b": still here\n\n"
            current, after_frame = page.next_attempt, page.next_after
        if current is None:
            yield _remark("end", {})

    return sse(events())


class Wanted(Struct, frozen=True):
    namespace: str | None = None
    tag: str | None = None


def _follow(channel: Channel) -> route.Handler:
    async def follow(request: ApiRequest, query: Wanted) -> Reply:
        wanted = _filter(query, request.caller.namespace)
        try:
            cursor = bytes.fromhex(request.headers.get("last-event-id", ""))
        except ValueError:
            raise route.bad_request(
                "Last-Event-ID: expected the id of an event, as sent in an event"
            ) from None
        reading = asyncio.ensure_future(
            request.engine.read_events(channel, cursor, 1_000, 0, wanted)
        )
        await asyncio.wait({reading}, timeout=HEAD_S)
        if reading.done():
            reading.result()

        async def events() -> AsyncIterator[bytes]:
            yield b": following\n\n"
            next_page: Awaitable[EventPage] = reading
            while True:
                try:
                    page = await next_page
                except EngineError as error:
                    yield _remark("problem", problem_of(error))
                    return
                if next_page is not reading:
                    yield b": still here\n\n"
                if page.trimmed:
                    yield _remark("trimmed", {})
                for event in getattr(page, channel.value):
                    yield _event(event.cursor.hex(), event)
                if request.server.is_draining:
                    return
                next_page = request.engine.read_events(channel, page.cursor, 1_000, PUSH_MS, wanted)

        return sse(events())

    follow.__doc__ = (
        f"Follows the {channel.value} of all executions as server-sent events, "
        "after `Last-Event-ID`."
    )
    return follow


def _filter(query: Wanted, own: str | None) -> ScannerFilter | None:
    pair = None
    if query.tag is not None:
        key, equals, value = query.tag.partition("=")
        if not equals:
            raise route.bad_request("tag: expected key=value")
        pair = (key, value)
    named = query.namespace is not None or pair is not None
    return narrow_filter(ScannerFilter(query.namespace, pair) if named else None, own)


for _channel in Channel:
    _path = "/v1/completions" if _channel is Channel.COMPLETIONS else f"/v1/events/{_channel.value}"
    routes("GET", _path, bound=Bound.FREE, answers={200: None}, media=SSE)(_follow(_channel))
