"""`flowfabric events`: what happens, as it happens, from a database that is only read."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import chosen_db, looking
from flowfabric.cli.flow_view import clean
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
FIRST_LOOK_S = 0.2
_STYLES = {
    "Success": "green",
    "Failure": "red",
    "Cancelled": "red",
    "expired": "red",
    "revoked": "red",
}
_TITLE = ("kind", "outcome", "effect")
_ELSEWHERE = {"at", "cursor", "execution_id", "subject_id", *_TITLE}


class Wanted(Struct, frozen=True):
    """What the command was asked for."""

    channels: tuple[str, ...]
    start: str | None
    namespace: str | None
    limit: int | None


def run(url: str | None, wanted: Wanted, console: Console, *, as_json: bool) -> int:
    where, cursor = chosen_db(url), _checked(wanted)
    try:
        asyncio.run(
            looking(where, lambda engine: _follow(engine, wanted, cursor, console, as_json=as_json))
        )
    except KeyboardInterrupt:
        return 0
    return 0


def _checked(wanted: Wanted) -> bytes:
    for name in wanted.channels:
        if name not in CHANNELS:
            raise ConfigError(f"--channel: one of {', '.join(CHANNELS)}, got {clean(name[:40])!r}")
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
            f"--from: {START}, or the cursor of an event as --json shows it, got {clean(wanted.start[:40])!r}"
        )
    if len(wanted.channels) != 1:
        raise ConfigError("--from: a cursor belongs to one channel; name it with --channel")
    return cursor


async def _follow(
    engine: EngineProtocol, wanted: Wanted, cursor: bytes, console: Console, *, as_json: bool
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
    async for channel, event in arriving(feeds):
        if as_json:
            console.file.write(json.dumps(as_object(channel, event)) + "\n")
            console.file.flush()
        else:
            console.print(shown(channel, event), highlight=False, soft_wrap=True)
        left = None if left is None else left - 1
        if left == 0:
            return


async def arriving(feeds: dict[str, Subscription[Any]]) -> AsyncIterator[tuple[str, Any]]:
    """The events of all feeds as they arrive, those that are there at once by their time. Holds one of each."""
    for feed in feeds.values():
        await feed
    waiting: dict[asyncio.Task[Any], str] = {}
    heads: dict[str, Any] = {}
    try:
        waiting.update({asyncio.ensure_future(_next(feed)): name for name, feed in feeds.items()})
        await asyncio.wait(waiting, timeout=FIRST_LOOK_S)  # so that what is old comes in order
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


def as_object(channel: str, event: Any) -> dict[str, Any]:
    said: dict[str, Any] = to_builtins(event, enc_hook=str, builtin_types=(bytes,))
    return {"channel": channel, **said, "cursor": event.cursor.hex()}


def shown(channel: str, event: Any) -> Text:
    word = next(getattr(event, name) for name in _TITLE if hasattr(event, name))
    facts: dict[str, Any] = {
        name: getattr(event, name) for name in event.__struct_fields__ if name not in _ELSEWHERE
    }
    facts |= facts.pop("details", {})
    told = ", ".join(
        f"{clean(str(name).replace('_', ' '))} {clean(str(fact))}"
        for name, fact in facts.items()
        if fact not in (None, "")
    )
    return Text.assemble(
        f"{_clock(event.at)}  {channel:<10}  ",
        (f"{clean(str(word)):<16}", _STYLES.get(word, "")),
        f"  {event.execution_id}  {told}",
    )


def _clock(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
