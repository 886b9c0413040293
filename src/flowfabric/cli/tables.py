"""Tables for people: columns beside each other, of which only the last one is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

from flowfabric.cli.text import clean, console

Cell = str | int | Text | None
GAP = 2
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


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, header: bool = True
) -> None:
    """Numbers are on the right. On a terminal, the last column ends where the line does."""
    listed = [list(row) for row in rows]
    right = {
        at
        for at in range(len(columns))
        if listed and all(isinstance(row[at], int) for row in listed)
    }
    titles = [Text(name, "bold") for name in columns]
    lines = ([titles] if header else []) + [[_cell(each) for each in row] for row in listed]
    widths = [
        max(cell_len(line[at].plain) for line in [titles, *lines]) for at in range(len(columns))
    ]
    for line in lines:
        console.print(_line(line, widths, right), soft_wrap=True)


def _line(cells: Sequence[Text], widths: Sequence[int], right: set[int]) -> Text:
    made, used = Text(), 0
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        is_last = at == len(cells) - 1
        room = console.width - used
        if is_last and console.is_terminal and at not in right and cell_len(cell.plain) > room > 0:
            cell.truncate(room, overflow="ellipsis")
        pad = " " * (width - cell_len(cell.plain))
        made.append_text(Text(pad) + cell if at in right else cell)
        if not is_last:
            made.append(("" if at in right else pad) + " " * GAP)
        used += width + GAP
    made.rstrip()
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
