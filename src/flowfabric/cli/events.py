"""`flowfabric events`: follows events as they are committed. It only reads the database."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import database_url, with_reader
from flowfabric.cli.text import clean, utc
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, StreamBackpressure, ValidationError
from flowfabric.model.event import ScannerFilter

CHANNELS = {
    "completion": "subscribe_completion",
    "lease": "subscribe_lease_history",
    "signal": "subscribe_signal_delivery",
    "operator": "subscribe_operator_events",
}
START = "start"
FIRST_WAIT_S = 0.2
_STYLES = {
    "Success": "green",
    "Failure": "red",
    "Cancelled": "red",
    "expired": "red",
    "revoked": "red",
}
_TITLE = ("kind", "outcome", "effect")
_SHOWN_FIELDS = {"at", "cursor", "execution_id", "subject_id", *_TITLE}


class EventOptions(Struct, frozen=True):
    """The command line."""

    channels: tuple[str, ...]
    start: str | None
    namespace: str | None
    limit: int | None


def run(url: str | None, wanted: EventOptions, console: Console, *, as_json: bool) -> int:
    where, cursor = database_url(url), _start_cursor(wanted)
    try:
        asyncio.run(
            with_reader(
                where, lambda engine: _follow(engine, wanted, cursor, console, as_json=as_json)
            )
        )
    except KeyboardInterrupt:
        return 0
    return 0


def _start_cursor(wanted: EventOptions) -> bytes:
    for name in wanted.channels:
        if name not in CHANNELS:
            raise ConfigError(
                f"--channel: expected one of {', '.join(CHANNELS)}, got {clean(name[:40])!r}"
            )
    if wanted.start is None:
        return b""
    if wanted.start == START:
        return BEGINNING
    try:
        cursor = bytes.fromhex(wanted.start)
    except ValueError:
        cursor = b""
    if len(cursor) != len(BEGINNING) or cursor[:1] != BEGINNING[:1]:
        raise ConfigError(
            f"--from: expected {START} or the cursor of an event, as --json shows it, "
            f"got {clean(wanted.start[:40])!r}"
        )
    if len(wanted.channels) != 1:
        raise ConfigError("--from: a cursor belongs to one channel; name it with --channel")
    return cursor


async def _follow(
    engine: EngineProtocol, wanted: EventOptions, cursor: bytes, console: Console, *, as_json: bool
) -> None:
    left = wanted.limit
    chosen = ScannerFilter(namespace=wanted.namespace)
    try:
        feeds = {
            name: getattr(engine, CHANNELS[name])(cursor, chosen)
            for name in wanted.channels or CHANNELS
        }
    except ValidationError as error:
        raise ConfigError(f"--from: {error.detail}") from None
    async for channel, event in merge_feeds(feeds):
        if as_json:
            console.file.write(json.dumps(to_json(channel, event)) + "\n")
            console.file.flush()
        else:
            console.print(render(channel, event), highlight=False, soft_wrap=True)
        left = None if left is None else left - 1
        if left == 0:
            return


async def merge_feeds(feeds: dict[str, Subscription[Any]]) -> AsyncIterator[tuple[str, Any]]:
    """Merge the events of all feeds; events available at the same time are ordered by time.

    Buffers one event per feed.
    """
    for feed in feeds.values():
        await feed
    waiting: dict[asyncio.Task[Any], str] = {}
    heads: dict[str, Any] = {}
    try:
        waiting.update({asyncio.ensure_future(_next(feed)): name for name, feed in feeds.items()})
        await asyncio.wait(waiting, timeout=FIRST_WAIT_S)  # so that old events come in order
        while True:
            for name in feeds.keys() - heads.keys() - set(waiting.values()):
                waiting[asyncio.ensure_future(_next(feeds[name]))] = name
            done: set[asyncio.Task[Any]] = set()
            if waiting:
                done, _ = await asyncio.wait(
                    waiting, timeout=0 if heads else None, return_when=asyncio.FIRST_COMPLETED
                )
                heads.update({waiting.pop(task): task.result() for task in done})
            if heads and not done:
                first = min(heads, key=lambda name: (heads[name].at, name))
                yield first, heads.pop(first)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _next(feed: Subscription[Any]) -> Any:
    while True:
        try:
            return await anext(feed)
        except StreamBackpressure as missing:
            print(f"{missing}", file=sys.stderr)


def to_json(channel: str, event: Any) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(event, enc_hook=str, builtin_types=(bytes,))
    return {"channel": channel, **fields, "cursor": event.cursor.hex()}


def render(channel: str, event: Any) -> Text:
    word = next(getattr(event, name) for name in _TITLE if hasattr(event, name))
    facts: dict[str, Any] = {
        name: getattr(event, name) for name in event.__struct_fields__ if name not in _SHOWN_FIELDS
    }
    facts |= facts.pop("details", {})
    details = ", ".join(
        f"{clean(str(name).replace('_', ' '))} {clean(str(fact))}"
        for name, fact in facts.items()
        if fact not in (None, "")
    )
    return Text.assemble(
        f"{utc(event.at, '%H:%M:%S.%f')[:12]}  {channel:<10}  ",
        (f"{clean(str(word)):<16}", _STYLES.get(word, "")),
        f"  {event.execution_id}  {details}",
    )
