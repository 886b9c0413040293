"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from flowfabric.cli.text import clean

Cell = str | int | Text | None
_STATE_STYLES = {
    "completed": "green",
    "active": "cyan",
    "failed": "bold red",
    "expired": "red",
    "cancelled": "yellow",
    "skipped": "yellow",
    "suspended": "magenta",
}
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, header: bool = True) -> Table:
    """The last column takes what is left of the line; numbers are on the right."""
    rows = list(rows)
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=header)
    for at, name in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[at], int) for row in rows)
        is_last = at == len(columns) - 1
        made.add_column(
            name,
            justify="right" if is_number else "left",
            no_wrap=True,
            overflow="ellipsis" if is_last else "fold",
        )
    for row in rows:
        made.add_row(*(_cell(each) for each in row))
    return made


def _cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    return Text("" if value is None else clean(f"{value:,}" if type(value) is int else str(value)))


def state_text(state: str) -> Text:
    return Text(state, _STATE_STYLES.get(state, ""))


def span(ms: int) -> str:
    """A duration in its largest whole unit: `3 min`."""
    for size, unit in _UNITS:
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{max(ms, 0)} ms"


def ago(at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else f"{span(now_ms - at_ms)} ago"
