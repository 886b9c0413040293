"""`flowfabric history`: what happened, line by line, from a database that is only read."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import chosen_db, looking
from flowfabric.cli.flow_view import clean
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, NotFound
from flowfabric.ids import ExecutionId, ExecutionIdError, parse_uuid
from flowfabric.model.history import MAX_HISTORY, HistoryEntry, What

GOOD, BAD, WAITS = "green", "red", "yellow"
MARK = 8
_STYLES = {
    What.LEASE_EXPIRED: BAD,
    What.REVOKED: BAD,
    What.RETRIED: BAD,
    What.BUDGET_BREACHED: BAD,
    What.FLOW_CANCEL_REQUESTED: BAD,
    What.SUSPENDED: WAITS,
    What.DELAYED: WAITS,
    What.WAITED: WAITS,
    What.HELD_BACK: WAITS,
}
_UNITS = (
    (86_400_000, "d", 3_600_000, "h"),
    (3_600_000, "h", 60_000, "min"),
    (60_000, "min", 1_000, "s"),
)


class Told(Struct):
    """Where the timeline stands."""

    first_ms: int | None = None
    last_ms: int = 0
    count: int = 0


def run(text: str, url: str | None, limit: int | None, console: Console, *, as_json: bool) -> int:
    ident = _subject(text)
    try:
        asyncio.run(
            looking(
                chosen_db(url), lambda engine: _tell(engine, ident, limit, console, as_json=as_json)
            )
        )
    except NotFound:
        kind = "execution" if isinstance(ident, ExecutionId) else "flow"
        raise ConfigError(
            f"{ident}: there is no such {kind} in this database; it may have been trimmed"
        ) from None
    return 0


def _subject(text: str) -> ExecutionId | UUID:
    try:
        return ExecutionId(text) if text.startswith("{") else parse_uuid(text)
    except (ExecutionIdError, ValueError):
        shape = "an execution id of the form {fp:N}:<uuid>, in quotes for the shell's sake, or a flow's UUID"
        raise ConfigError(f"ID: {shape}, got {clean(text[:80])!r}") from None


async def _tell(
    engine: EngineProtocol,
    ident: ExecutionId | UUID,
    limit: int | None,
    console: Console,
    *,
    as_json: bool,
) -> None:
    told, after = Told(), None
    while limit is None or told.count < limit:
        page = await engine.history(
            ident, MAX_HISTORY if limit is None else min(limit - told.count, MAX_HISTORY), after
        )
        for entry in page.items:
            if as_json:
                console.file.write(json.dumps(to_builtins(entry, enc_hook=str)) + "\n")
            else:
                for line in shown(entry, told, members=not isinstance(ident, ExecutionId)):
                    console.print(line, highlight=False, soft_wrap=True)
            told.count += 1
        after = page.next_cursor
        if after is None:
            return
    if not as_json:
        console.print(f"the first {told.count}; --limit shows more", highlight=False)


def shown(entry: HistoryEntry, told: Told, *, members: bool) -> list[Text]:
    """The line of an entry, and before the first the moment all others are counted from."""
    lines = []
    if told.first_ms is None:
        told.first_ms = told.last_ms = entry.at_ms
        lines.append(Text(f"from {_moment(entry.at_ms)}", "bold"))
    since, step = span(entry.at_ms - told.first_ms), span(entry.at_ms - told.last_ms)
    told.last_ms = entry.at_ms
    who = (
        f"  {str(entry.execution_id)[-MARK:] if entry.execution_id else 'flow':<{MARK}}"
        if members
        else ""
    )
    lines.append(
        Text.assemble(
            f"  {since:>11}  {'+' + step:>11}{who}  ",
            (f"{entry.what.value:<21}", _style(entry)),
            f"  {', '.join(_facts(entry, told.first_ms))}".rstrip(),
        )
    )
    return lines


def _style(entry: HistoryEntry) -> str:
    if entry.what is What.ENDED:
        return GOOD if entry.details.get("outcome") == "success" else BAD
    return _STYLES.get(entry.what, "")


def _facts(entry: HistoryEntry, first_ms: int) -> list[str]:
    found = [] if entry.attempt_index is None else [f"attempt {entry.attempt_index}"]
    for name, fact in entry.details.items():
        if name.endswith("_ms") and isinstance(fact, int):
            found.append(f"{name.removesuffix('_ms')} at {span(fact - first_ms)}")
        elif name == "lease":
            found.append(f"lease {str(fact)[:MARK]}")
        else:
            found.append(f"{clean(name.replace('_', ' '))} {clean(str(fact))}")
    return found


def span(ms: int) -> str:
    """Two units at the most: `12 ms`, `1.5 s`, `3 min 20 s`."""
    if ms < 0:
        return f"-{span(-ms)}"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    size, unit, part, smaller = next(each for each in _UNITS if ms >= each[0])
    rest = ms % size // part
    return f"{ms // size} {unit}" + (f" {rest} {smaller}" if rest else "")


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
