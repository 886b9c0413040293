"""`flowfabric tail`: follows the output of an execution. It only reads the database."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit
from flowfabric.cli.identify import execution_of
from flowfabric.cli.text import ExecutionArgument, clean, console
from flowfabric.codec import frame_id
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.streams.streams import MAX_ATTEMPT_INDEX
from flowfabric.errors import ConfigError, NotFound, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionSnapshot
from flowfabric.model.stream import StreamFrame, StreamFrames, Visibility

BEGINNING = "0-0"
PAGE = 1_000
ENDED_STATES = frozenset(("completed", "failed", "cancelled", "expired", "skipped"))
INLINE_TYPES = ("stdout", "delta")
"""Frame types that are parts of one text. A frame of any other type is a separate line."""
_BINARY = "base64"
CLOSE_REASONS = {
    "attempt_success": "succeeded",
    "attempt_failure": "failed",
    "attempt_cancelled": "was cancelled",
    "lease_expired": "lost its lease",
    "lease_revoked": "lost its lease to an operator",
    "reclaimed": "was reclaimed by another worker",
    "expired": "exceeded its time limit",
    "suspension_timeout": "was suspended too long",
    "dependency_impossible": "was skipped",
}


class TailOptions(Struct, frozen=True):
    """The command line."""

    execution: str
    database: Database
    attempt: int | None
    after: str | None
    follow: bool
    live: bool
    as_json: bool


class Position(Struct):
    """The last frame shown."""

    attempt: int
    after: str


class Closing(Struct, frozen=True):
    """The end of an attempt's frames, or of those written so far."""

    attempt: int
    closed_at: int | None
    closed_reason: str | None


StreamItem = tuple[int, StreamFrame] | Closing


def run(
    execution: ExecutionArgument,
    database: Database,
    attempt: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_ATTEMPT_INDEX, metavar="N", help="Only this attempt; the first is 0."
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Continue after this frame: its id, or ATTEMPT:ID."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow/--no-follow", help="Wait for more until the execution has ended."),
    ] = True,
    live: Annotated[
        bool, typer.Option("--live/--no-live", help="Include best-effort frames.")
    ] = True,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object per frame, and one when an attempt ends."),
    ] = False,
) -> int:
    """Follows the output of an execution. Only reads the database."""
    given = TailOptions(execution, database, attempt, after, follow, live, as_json)
    position = start_position(attempt, after)
    printer = Printer(console, Console(file=sys.stderr, highlight=False), as_json=as_json)
    try:
        database.read(lambda engine: _show(engine, given, position, printer))
    except KeyboardInterrupt:
        printer.note(f"to continue: {resume_command(given, position)}")
        return Exit.INTERRUPTED
    return 0


def start_position(attempt: int | None, after: str | None) -> Position:
    """Parse `--after`: the id of a frame, or ATTEMPT:ID."""
    if after is None:
        return Position(attempt or 0, BEGINNING)
    named, colon, cursor = after.rpartition(":")
    if colon and not (named.isascii() and named.isdigit() and len(named) < 10):
        raise ConfigError(
            "--after: expected ATTEMPT:ID with the number of an attempt, "
            f"such as 1:1700000000000-0, got {after[:80]!a}"
        )
    if colon and attempt is not None and attempt != int(named):
        raise ConfigError(
            f"--attempt and --after: must name the same attempt, got {attempt} and {int(named)}"
        )
    try:
        frame_id.after(cursor)
    except ValidationError as error:
        raise ConfigError(
            f"--after: expected the id of a frame, as --json shows it; {error.detail}"
        ) from None
    return Position(int(named) if colon else attempt or 0, cursor)


def resume_command(given: TailOptions, position: Position) -> str:
    """The command that continues after the last frame shown, without the database password."""
    command = ["flowfabric", "tail", given.execution]
    if given.attempt is None:
        command.append(f"--after={position.attempt}:{position.after}")
    else:
        command += [f"--attempt={position.attempt}", f"--after={position.after}"]
    if given.as_json:
        command.append("--json")
    if not given.live:
        command.append("--no-live")
    return shlex.join(command) + given.database.option


async def _show(
    engine: EngineProtocol, given: TailOptions, position: Position, printer: Printer
) -> None:
    ident = await execution_of(engine, given.execution)
    await _check_attempt(engine, ident, given, position)
    visibility = Visibility.All if given.live else Visibility.ExcludeBestEffort
    read = follow if given.follow else read_now
    last = None
    async for seen in read(engine, ident, position, visibility, only=given.attempt is not None):
        if isinstance(seen, Closing):
            last = seen
            printer.closing(seen.attempt, seen.closed_at, seen.closed_reason)
        else:
            position.attempt, position.after = seen[0], seen[1].id
            printer.frame(*seen)
    if last is None:
        printer.closing(position.attempt, None, None)
    if last is None or last.closed_at is None:
        printer.state(str((await _describe(engine, ident)).public_state))


async def _check_attempt(
    engine: EngineProtocol, ident: ExecutionId, given: TailOptions, position: Position
) -> None:
    found = await _describe(engine, ident)
    so_far = found.total_attempt_count
    if (
        position.attempt < so_far
        or (position.attempt == so_far and given.follow and found.public_state not in ENDED_STATES)
        or position.attempt == 0
    ):
        return
    field = "--after" if given.attempt is None else "--attempt"
    existing = f"0 to {so_far - 1}" if so_far > 1 else "0"
    raise ConfigError(
        f"{field}: expected an attempt of this execution ({existing}), got {position.attempt}"
    )


async def follow(
    engine: EngineProtocol,
    ident: ExecutionId,
    start: Position,
    visibility: Visibility,
    *,
    only: bool,
) -> AsyncIterator[StreamItem]:
    """Yield frames and the ends of attempts as they are written, until the execution ends."""
    at, after = start.attempt, start.after
    while True:
        async for each in engine.follow_stream(ident, at, after, visibility, later_attempts=False):
            yield each
        found = await _describe(engine, ident)
        if at >= found.total_attempt_count:
            return
        end = await engine.read_stream(ident, at, frame_id.END, count_limit=1)
        yield _closing_of(at, end)
        if only or (at + 1 >= found.total_attempt_count and found.public_state in ENDED_STATES):
            return
        at, after = at + 1, BEGINNING


async def read_now(
    engine: EngineProtocol,
    ident: ExecutionId,
    start: Position,
    visibility: Visibility,
    *,
    only: bool,
) -> AsyncIterator[StreamItem]:
    """Yield the frames written so far, attempt by attempt."""
    found = await _describe(engine, ident)
    last = start.attempt + 1 if only else found.total_attempt_count
    after = start.after
    for at in range(start.attempt, last):
        page = await engine.tail_stream(ident, at, after, 0, PAGE, visibility)
        while page.frames:
            for frame in page.frames:
                yield at, frame
            last_id = page.next_after or after
            page = await engine.tail_stream(ident, at, last_id, 0, PAGE, visibility)
        yield _closing_of(at, page)
        after = BEGINNING


def _closing_of(attempt: int, page: StreamFrames) -> Closing:
    return Closing(attempt, page.closed_at, page.closed_reason)


async def _describe(engine: EngineProtocol, ident: ExecutionId) -> ExecutionSnapshot:
    found = await engine.describe_execution(ident)
    if found is None:
        raise NotFound("execution", ident)
    return found


def readable(text: str) -> str:
    """The text with line ends and tabs, without other control characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(clean(part) for part in line.split("\t")) for line in lines)


def is_inline(frame: StreamFrame) -> bool:
    return (
        frame.fields.get("frame_type") in INLINE_TYPES
        and frame.mode != "summary"
        and not _is_binary(frame)
    )


def render_line(frame: StreamFrame) -> str:
    """The line of a frame that is not part of a running text."""
    kind = clean(frame.fields.get("frame_type", ""))
    if frame.mode == "summary":
        kind = f"summary {clean(frame.fields.get('summary_version', '?'))}"
    if _is_binary(frame):
        return f"[{kind}] {len(frame.payload):,} bytes that are not text"
    return f"[{kind}] {readable(frame.fields.get('payload', '')).rstrip()}"


def _is_binary(frame: StreamFrame) -> bool:
    return frame.fields.get("encoding") == _BINARY


class Printer:
    """Writes frames to `out` and remarks to `notes`, so that the output can be redirected alone."""

    def __init__(self, out: Console, notes: Console, *, as_json: bool) -> None:
        self._out, self._notes, self._as_json = out, notes, as_json
        self._attempt: int | None = None
        self._mid_line = False

    def frame(self, attempt: int, frame: StreamFrame) -> None:
        if self._as_json:
            line = {"attempt": attempt, "id": frame.id, "fields": frame.fields}
            self._write(json.dumps(line) + "\n")
            return
        if self._attempt not in (None, attempt):
            self.note(f"attempt {attempt} started")
        self._attempt = attempt
        if is_inline(frame):
            self._write(readable(frame.fields.get("payload", "")))
            return
        self._end_line()
        style = "red" if frame.fields.get("frame_type") == "stderr" else "cyan"
        self._out.print(Text(render_line(frame), style), soft_wrap=True)
        self._out.file.flush()

    def closing(self, attempt: int, closed_at: int | None, closed_reason: str | None) -> None:
        if self._as_json:
            line = {"attempt": attempt, "closed_at": closed_at, "closed_reason": closed_reason}
            self._write(json.dumps(line) + "\n")
        elif closed_reason is not None:
            how = CLOSE_REASONS.get(closed_reason, "ended")
            self.note(f"attempt {attempt} {how} ({clean(closed_reason)})")

    def state(self, state: str) -> None:
        """Note the state when the output stops before the end of an attempt."""
        if not self._as_json:
            self.note(f"the execution is {state}")

    def note(self, text: str) -> None:
        self._end_line()
        self._notes.print(Text(text, "dim"), soft_wrap=True)

    def _end_line(self) -> None:
        if self._mid_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.file.write(text)
        self._out.file.flush()
        self._mid_line = not self._as_json and (not text.endswith("\n") if text else self._mid_line)
