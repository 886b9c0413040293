"""`flowfabric tail`: what an execution writes while it runs, followed to its end, from a database that is only read."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from msgspec import Struct
from rich.console import Console

from flowfabric.cli.database import chosen_db, looking
from flowfabric.cli.tail_text import Printer
from flowfabric.cli.why import execution_id
from flowfabric.codec import frame_id
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, NotFound, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionSnapshot
from flowfabric.model.stream import StreamFrame, StreamFrames, Visibility

BEGINNING = "0-0"
PAGE = 1_000
INTERRUPTED = 130
OVER = frozenset(("completed", "failed", "cancelled", "expired", "skipped"))


class Given(Struct, frozen=True):
    """What stands on the command line."""

    execution: str
    url: str | None
    attempt: int | None
    after: str | None
    follow: bool
    live: bool
    as_json: bool


class Place(Struct):
    """Where in which attempt the reader stands; it moves with every frame shown."""

    attempt: int
    after: str


class Closing(Struct, frozen=True):
    """There is no more of an attempt, or no more for now."""

    attempt: int
    closed_at: int | None
    closed_reason: str | None


Seen = tuple[int, StreamFrame] | Closing


def run(given: Given, console: Console) -> int:
    ident, where, place = (
        execution_id(given.execution),
        chosen_db(given.url),
        starting_place(given.attempt, given.after),
    )
    printer = Printer(console, Console(file=sys.stderr), as_json=given.as_json)
    try:
        asyncio.run(looking(where, lambda engine: _show(engine, ident, given, place, printer)))
    except KeyboardInterrupt:
        printer.note(f"to go on from here: {command_from(given, place)}")
        return INTERRUPTED
    except NotFound:
        raise ConfigError(
            f"{ident}: there is no such execution in this database; it may have been trimmed"
        ) from None
    return 0


def starting_place(attempt: int | None, after: str | None) -> Place:
    """`--after` is a frame's id, with its attempt and a colon in front if it is not the first one."""
    if after is None:
        return Place(attempt or 0, BEGINNING)
    named, colon, cursor = after.rpartition(":")
    if colon and not (named.isascii() and named.isdigit() and len(named) < 10):
        raise ConfigError(
            f"--after: ATTEMPT:ID with the number of an attempt first, such as 1:1700000000000-0, got {after[:80]!a}"
        )
    if colon and attempt is not None and attempt != int(named):
        raise ConfigError(
            f"--attempt and --after: of the same attempt, got {attempt} and {int(named)}"
        )
    try:
        frame_id.after(cursor)
    except ValidationError as error:
        raise ConfigError(f"--after: a frame's id, as --json shows it; {error.detail}") from None
    return Place(int(named) if colon else attempt or 0, cursor)


def command_from(given: Given, place: Place) -> str:
    """The command that goes on behind the last frame shown."""
    if given.attempt is None:
        here = [f"--after={place.attempt}:{place.after}"]
    else:
        here = [f"--attempt={place.attempt}", f"--after={place.after}"]
    flags = [
        flag for flag, said in (("--json", given.as_json), ("--no-live", not given.live)) if said
    ]
    db = (
        []
        if given.url is None
        else [f"--db={given.url if urlsplit(given.url).password is None else 'URL'}"]
    )
    return shlex.join(["flowfabric", "tail", given.execution, *db, *here, *flags])


async def _show(
    engine: EngineProtocol, ident: ExecutionId, given: Given, place: Place, printer: Printer
) -> None:
    await _check_attempt(engine, ident, given, place)
    visibility = Visibility.All if given.live else Visibility.ExcludeBestEffort
    read = follow if given.follow else read_now
    last = None
    async for seen in read(engine, ident, place, visibility, only=given.attempt is not None):
        if isinstance(seen, Closing):
            last = seen
            printer.closing(seen.attempt, seen.closed_at, seen.closed_reason)
        else:
            place.attempt, place.after = seen[0], seen[1].id
            printer.frame(*seen)
    if last is None:
        printer.closing(place.attempt, None, None)
    if last is None or last.closed_at is None:
        printer.still(str((await _described(engine, ident)).public_state))


async def _check_attempt(
    engine: EngineProtocol, ident: ExecutionId, given: Given, place: Place
) -> None:
    found = await _described(engine, ident)
    so_far = found.total_attempt_count
    if (
        place.attempt < so_far
        or (place.attempt == so_far and given.follow and found.public_state not in OVER)
        or place.attempt == 0
    ):
        return
    field = "--after" if given.attempt is None else "--attempt"
    there = f"0 to {so_far - 1}" if so_far > 1 else "0"
    raise ConfigError(f"{field}: an attempt of this execution ({there}), got {place.attempt}")


async def follow(
    engine: EngineProtocol, ident: ExecutionId, start: Place, visibility: Visibility, *, only: bool
) -> AsyncIterator[Seen]:
    """Each frame as it is written and the end of each attempt as it comes, until the execution has ended."""
    at, after = start.attempt, start.after
    while True:
        async for each in engine.follow_stream(ident, at, after, visibility, later_attempts=False):
            yield each
        found = await _described(engine, ident)
        if at >= found.total_attempt_count:
            return
        closed = await _closing(engine, ident, at)
        yield closed
        if only or (at + 1 >= found.total_attempt_count and found.public_state in OVER):
            return
        at, after = at + 1, BEGINNING


async def read_now(
    engine: EngineProtocol, ident: ExecutionId, start: Place, visibility: Visibility, *, only: bool
) -> AsyncIterator[Seen]:
    """What is there, attempt by attempt, without waiting for more."""
    found = await _described(engine, ident)
    last = start.attempt + 1 if only else found.total_attempt_count
    after = start.after
    for at in range(start.attempt, last):
        page = await engine.tail_stream(ident, at, after, 0, PAGE, visibility)
        while page.frames:
            for frame in page.frames:
                yield at, frame
            page = await engine.tail_stream(
                ident, at, page.next_after or after, 0, PAGE, visibility
            )
        yield _closing_of(at, page)
        after = BEGINNING


async def _closing(engine: EngineProtocol, ident: ExecutionId, attempt: int) -> Closing:
    return _closing_of(
        attempt, await engine.read_stream(ident, attempt, frame_id.END, count_limit=1)
    )


def _closing_of(attempt: int, page: StreamFrames) -> Closing:
    return Closing(attempt, page.closed_at, page.closed_reason)


async def _described(engine: EngineProtocol, ident: ExecutionId) -> ExecutionSnapshot:
    found = await engine.describe_execution(ident)
    if found is None:
        raise NotFound("execution", ident)
    return found
