"""The widgets of `flowfabric top`: tables that keep their cursor, and the strip above them."""

from __future__ import annotations

from typing import ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from flowfabric.cli.top import rows
from flowfabric.cli.top.model import Overview
from flowfabric.cli.top.rows import Panel, Target

SPARKLINE = 30


class PanelTable(DataTable[Text]):
    """One panel. After a refresh the cursor is on the same subject again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", cursor_foreground_priority="renderable")
        self._targets: list[Target] = []
        self._titles: tuple[rows.Column, ...] = ()

    @property
    def target(self) -> Target | None:
        at = self.cursor_row
        return self._targets[at] if 0 <= at < len(self._targets) else None

    def show_panel(self, panel: Panel, number: int | None = None) -> None:
        if panel.columns != self._titles:
            self.clear(columns=True)
            self._titles = panel.columns
            for column in panel.columns:
                self.add_column(Text(column.title, justify=_justify(column)))
        before, at = self.target, self.cursor_row
        self.clear()
        for row in panel.rows:
            self.add_row(*map(_cell, row.cells, panel.columns))
        self._targets = [row.target for row in panel.rows]
        if before in self._targets:
            at = self._targets.index(before)
        if self._targets:
            self.move_cursor(row=min(max(at, 0), len(self._targets) - 1), animate=False)
        count = f" ({len(panel.rows)})" if panel.rows else ""
        self.border_title = f"{'' if number is None else f'{number} '}{panel.title}{count}"
        self.border_subtitle = "" if panel.rows else panel.nothing


def _cell(cell: rows.Cell, column: rows.Column) -> Text:
    return Text(cell.text, cell.style, justify=_justify(column))


def _justify(column: rows.Column) -> Literal["left", "right"]:
    return "right" if column.is_number else "left"


class RatesBox(Static):
    """Created and ended executions per second, with their recent course."""

    def show_overview(self, found: Overview) -> None:
        cells = dict(rows.rate_cells(found.rates))
        created = rows.sparkline([each.created for each in found.history], SPARKLINE)
        ended = rows.sparkline([each.ended_in_all for each in found.history], SPARKLINE)
        about = "~" if found.rates.is_sampled else ""
        first, *others = cells.items()
        lines = [
            Text.assemble(f"{first[0]:<8}", (f"{first[1].text:>12}  ", "bold"), (created, "cyan")),
            Text.assemble(
                f"{'ended':<8}",
                (f"{about}{found.rates.ended_in_all:,.1f}/s".rjust(12) + "  ", "bold"),
                (ended, "green"),
            ),
            _joined(others),
        ]
        self.update(Text("\n").join(lines))


class StatesBox(Static):
    """Executions by state: a bar of those that have not ended, and all the numbers."""

    def show_overview(self, found: Overview) -> None:
        width = max(self.content_size.width, 10)
        numbers = [
            (state, rows.Cell(f"{count:,}", rows.STATE_STYLES.get(state, "")))
            for state, count in found.states.items()
        ]
        text = _joined(numbers) if numbers else Text("no execution", "dim")
        self.update(Text("\n").join([_bar(found, width), text]))


_ENDED = frozenset({"completed", "failed", "cancelled", "expired", "skipped"})
_BAR_STYLES = {"waiting": "blue", "active": "green", "delayed": "yellow", "suspended": "magenta"}


def _bar(found: Overview, width: int) -> Text:
    open_states = {state: n for state, n in found.states.items() if state not in _ENDED}
    total = sum(open_states.values())
    if not total:
        return Text("░" * width, "dim")
    bar, left = Text(), width
    for state, count in open_states.items():
        size = min(max(round(count / total * width), 1), left)
        bar.append("█" * size, _BAR_STYLES.get(state, "bright_black"))
        left -= size
    return bar


def _joined(named: list[tuple[str, rows.Cell]]) -> Text:
    parts = [Text.assemble((f"{name} ", "dim"), (cell.text, cell.style)) for name, cell in named]
    return Text("   ").join(parts)
