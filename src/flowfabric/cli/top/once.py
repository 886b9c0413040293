"""One overview as text or JSON, for scripts and pipes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import to_builtins
from rich.table import Table
from rich.text import Text

from flowfabric.cli.text import console, show
from flowfabric.cli.top import rows
from flowfabric.cli.top.model import Overview


def to_json(found: Overview) -> dict[str, object]:
    made: dict[str, object] = to_builtins(found, enc_hook=str)
    del made["history"]
    return made


def print_overview(found: Overview) -> None:
    show(Text(rows.title_of(found), "bold"))
    rates = rows.rate_cells(found.rates).items()
    show(Text.assemble("rates   ", *_pairs(rates)))
    states = [
        (state, rows.Cell(f"{count:,}", rows.STATE_STYLES.get(state, rows.PLAIN)))
        for state, count in found.states.items()
    ]
    show(Text.assemble("states  ", *_pairs(states)) if states else Text("states  none"))
    for panel in rows.panels(found).values():
        show("")
        if panel.rows:
            console.print(_table(panel))
        else:
            show(Text.assemble((panel.title, "bold"), f": {panel.nothing}"))


def _pairs(named: Iterable[tuple[str, rows.Cell]]) -> list[Text]:
    return [Text.assemble(f"{name} ", (cell.text, cell.style), "  ") for name, cell in named]


def _table(panel: rows.Panel) -> Table:
    table = Table(title=panel.title, title_justify="left", title_style="bold", box=None)
    for column in panel.columns:
        table.add_column(
            column.title, justify="right" if column.is_number else "left", header_style="dim"
        )
    for row in panel.rows:
        table.add_row(*(Text(cell.text, cell.style) for cell in row.cells))
    return table
