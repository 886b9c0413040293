"""`flowfabric history`: the events of an execution or a flow. It only reads the database."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from msgspec import Struct, to_builtins
from rich.text import Text

from flowfabric.cli import text
from flowfabric.cli.database import Database
from flowfabric.cli.identify import execution_or_flow
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.history import MAX_HISTORY, HistoryEntry, What

GOOD, BAD, WAITS = "green", "red", "yellow"
ID_CHARS = 8
_FAILED = (What.LEASE_EXPIRED, What.REVOKED, What.RETRIED, What.BUDGET_BREACHED)
_STYLES = {
    **dict.fromkeys((*_FAILED, What.FLOW_CANCEL_REQUESTED), BAD),
    **dict.fromkeys((What.SUSPENDED, What.DELAYED, What.WAITED, What.HELD_BACK), WAITS),
}
_UNITS = (
    (86_400_000, "d", 3_600_000, "h"),
    (3_600_000, "h", 60_000, "min"),
    (60_000, "min", 1_000, "s"),
)


class Timeline(Struct):
    """The state of the printed timeline."""

    first_ms: int | None = None
    last_ms: int = 0
    count: int = 0


def run(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="An execution as its uuid or its first digits, or the uuid of a flow.",
        ),
    ],
    database: Database,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most this many entries; default: all.")
    ] = None,
    as_json: text.JsonLines = False,
) -> int:
    """Lists the events of an execution, or of a flow and its members. Only reads the database."""
    database.read(lambda engine: _print(engine, subject, limit, as_json=as_json))
    return 0


async def _print(engine: EngineProtocol, subject: str, limit: int | None, *, as_json: bool) -> None:
    ident: ExecutionId | UUID = await execution_or_flow(engine, subject)
    timeline, after = Timeline(), None
    while limit is None or timeline.count < limit:
        left = MAX_HISTORY if limit is None else min(limit - timeline.count, MAX_HISTORY)
        page = await engine.history(ident, left, after)
        for entry in page.items:
            if as_json:
                text.print_json(to_builtins(entry, enc_hook=str))
            else:
                text.show(*render(entry, timeline, members=not isinstance(ident, ExecutionId)))
            timeline.count += 1
        after = page.next_cursor
        if after is None:
            return
    if not as_json:
        text.show(f"showing the first {timeline.count}; use --limit for more")


def render(entry: HistoryEntry, timeline: Timeline, *, members: bool) -> list[Text]:
    """The line of an entry, after a line with the start time for the first."""
    lines = []
    if timeline.first_ms is None:
        timeline.first_ms = timeline.last_ms = entry.at_ms
        lines.append(Text(f"from {text.utc(entry.at_ms)}", "bold"))
    since = span(entry.at_ms - timeline.first_ms)
    step = span(entry.at_ms - timeline.last_ms)
    timeline.last_ms = entry.at_ms
    subject = str(entry.execution_id)[-ID_CHARS:] if entry.execution_id else "flow"
    name = f"  {subject:<{ID_CHARS}}" if members else ""
    title = (f"{entry.what.value:<21}", _style(entry))
    facts = f"  {', '.join(_facts(entry, timeline.first_ms))}".rstrip()
    line = Text.assemble(f"  {since:>11}  {'+' + step:>11}{name}  ", title, facts)
    return [*lines, line]


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
            found.append(f"lease {str(fact)[:ID_CHARS]}")
        else:
            found.append(f"{text.clean(name.replace('_', ' '))} {text.clean(str(fact))}")
    return found


def span(ms: int) -> str:
    """A duration in at most two units: `12 ms`, `1.5 s`, `3 min 20 s`."""
    if ms < 0:
        return f"-{span(-ms)}"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    size, unit, part, smaller = next(each for each in _UNITS if ms >= each[0])
    rest = ms % size // part
    return f"{ms // size} {unit}" + (f" {rest} {smaller}" if rest else "")
