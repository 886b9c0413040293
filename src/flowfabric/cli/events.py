"""`flowfabric events`: follows events as they are committed. It only reads the database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Annotated, TypeVar

import typer
from msgspec import structs, to_builtins
from rich.text import Text

from flowfabric.cli.database import Database
from flowfabric.cli.text import JsonLines, clean, print_json, short, show, utc
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, StreamBackpressure, ValidationError
from flowfabric.model.event import (
    CompletionEvent,
    LeaseEvent,
    OperatorEvent,
    ScannerFilter,
    SignalEvent,
)

Event = CompletionEvent | LeaseEvent | SignalEvent | OperatorEvent
E = TypeVar("E", bound=Event)
CHANNELS = {
    "completion": "subscribe_completion",
    "lease": "subscribe_lease_history",
    "signal": "subscribe_signal_delivery",
    "operator": "subscribe_operator_events",
}
START = "start"
FIRST_WAIT_S = 0.2
_STYLES = {"Success": "green"} | dict.fromkeys(
    ("Failure", "Cancelled", "expired", "revoked"), "red"
)
_TITLE = ("kind", "outcome", "effect")
_SHOWN_FIELDS = {"at", "cursor", "execution_id", "subject_id", *_TITLE}


def run(
    database: Database,
    channel: Annotated[
        list[str] | None,
        typer.Option(help="completion, lease, signal or operator; repeatable. Default: all."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CURSOR",
            help="start, or the cursor of an event of the given channel.",
        ),
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Only events of this namespace.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many.")] = None,
    as_json: JsonLines = False,
) -> int:
    """Follows events until Ctrl-C. Only reads the database."""
    names = channel or []
    cursor = _start_cursor(names, start)

    async def follow(engine: EngineProtocol) -> None:
        left = limit
        async for name, event in merge_feeds(_feeds(engine, names, cursor, namespace)):
            if as_json:
                print_json(to_json(name, event))
            else:
                show(render(name, event))
            left = None if left is None else left - 1
            if left == 0:
                return

    with suppress(KeyboardInterrupt):
        database.read(follow)
    return 0


def _start_cursor(channels: list[str], start: str | None) -> bytes:
    for name in channels:
        if name not in CHANNELS:
            raise ConfigError(
                f"--channel: expected one of {', '.join(CHANNELS)}, got {clean(name[:40])!r}"
            )
    if start is None:
        return b""
    if start == START:
        return BEGINNING
    try:
        cursor = bytes.fromhex(start)
    except ValueError:
        cursor = b""
    if len(cursor) != len(BEGINNING) or cursor[:1] != BEGINNING[:1]:
        raise ConfigError(
            f"--from: expected {START} or the cursor of an event, as --json shows it, "
            f"got {clean(start[:40])!r}"
        )
    if len(channels) != 1:
        raise ConfigError("--from: a cursor belongs to one channel; name it with --channel")
    return cursor


def _feeds(
    engine: EngineProtocol, channels: list[str], cursor: bytes, namespace: str | None
) -> dict[str, Subscription[Event]]:
    wanted = ScannerFilter(namespace=namespace)
    try:
        return {
            name: getattr(engine, CHANNELS[name])(cursor, wanted) for name in channels or CHANNELS
        }
    except ValidationError as error:
        raise ConfigError(f"--from: {error.detail}") from None


async def merge_feeds(feeds: Mapping[str, Subscription[E]]) -> AsyncIterator[tuple[str, E]]:
    """Merge the events of all feeds; events available at the same time are ordered by time.

    Buffers one event per feed.
    """
    for feed in feeds.values():
        await feed
    waiting: dict[asyncio.Task[E], str] = {}
    heads: dict[str, E] = {}
    try:
        waiting.update({asyncio.ensure_future(_next(feed)): name for name, feed in feeds.items()})
        await asyncio.wait(waiting, timeout=FIRST_WAIT_S)  # so that old events come in order
        while True:
            for name in feeds.keys() - heads.keys() - set(waiting.values()):
                waiting[asyncio.ensure_future(_next(feeds[name]))] = name
            done: set[asyncio.Task[E]] = set()
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


async def _next(feed: Subscription[E]) -> E:
    while True:
        try:
            return await anext(feed)
        except StreamBackpressure as missing:
            print(f"{missing}", file=sys.stderr)


def to_json(channel: str, event: Event) -> dict[str, object]:
    fields = to_builtins(event, enc_hook=str, builtin_types=(bytes,))
    return {"channel": channel, **fields, "cursor": event.cursor.hex()}


def render(channel: str, event: Event) -> Text:
    fields = structs.asdict(event)
    word = next(fields[name] for name in _TITLE if name in fields)
    facts = {name: value for name, value in fields.items() if name not in _SHOWN_FIELDS}
    facts |= facts.pop("details", {})
    details = ", ".join(
        f"{clean(str(name).replace('_', ' '))} {clean(str(fact))}"
        for name, fact in facts.items()
        if fact not in (None, "")
    )
    return Text.assemble(
        f"{utc(event.at, '%H:%M:%S.%f')[:12]}  {channel:<10}  ",
        (f"{clean(str(word)):<16}", _STYLES.get(word, "")),
        f"  {short(event.execution_id)}  {details}",
    )
