"""The terminal application of `flowfabric top`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.events import DescendantFocus, Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from flowfabric.cli.history import span
from flowfabric.cli.text import clean
from flowfabric.cli.top import actions, rows
from flowfabric.cli.top.actions import Action, Request
from flowfabric.cli.top.model import Overview
from flowfabric.cli.top.rows import Kind, Target
from flowfabric.cli.top.screens import (
    Confirmed,
    ConfirmScreen,
    Detail,
    HelpScreen,
    RunScreen,
    RunsScreen,
)
from flowfabric.cli.top.session import Session
from flowfabric.cli.top.styles import CSS
from flowfabric.cli.top.widgets import PanelTable, RatesBox, StatesBox
from flowfabric.errors import FlowFabricError

PANELS = (("lanes", "workers"), ("running",), ("failing", "stuck"), ("budgets", "timers"))
NAMES = tuple(name for row in PANELS for name in row)
LEAST_WIDTH, LEAST_HEIGHT = 60, 14
WHOLE_WIDTH, WHOLE_HEIGHT = 110, 32
"""A smaller terminal shows one panel at a time."""
SLOW_S = 5.0


class TopApp(App[None]):
    """Refreshes one at a time. A slow store makes the shown age grow; the keys still work."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "move_panel(1)", show=False, priority=True),
        Binding("shift+tab", "move_panel(-1)", show=False, priority=True),
        Binding("q", "quit", "Quit"),
        Binding("question_mark", "help", "Help"),
        Binding("space", "pause_refresh", "Pause"),
        Binding("r", "refresh_now", "Refresh", show=False),
        Binding("slash", "filter", "Filter"),
        Binding("c", "act('cancel')", "Cancel run"),
        Binding("t", "act('retry')", "Run again"),
        Binding("p", "act('pause')", "Pause lane"),
        Binding("u", "act('resume')", "Resume lane"),
        Binding("escape", "clear_filter", "Clear filter", show=False),
        *(Binding(str(n), f"panel({n})", show=False) for n in range(1, len(NAMES) + 1)),
    ]

    def __init__(
        self,
        session: Session,
        first: Overview,
        interval_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.session, self.overview = session, first
        self._interval_s, self._clock = interval_s, clock
        self._read_at = clock()
        self._is_paused = self._is_refreshing = False
        self._error = self._filter = ""

    def compose(self) -> ComposeResult:
        yield Static(id="heading", markup=False)
        yield Static("", id="small", markup=False)
        with Vertical(id="body"):
            with Horizontal(id="strip"):
                yield RatesBox(id="rates", markup=False)
                yield StatesBox(id="states", markup=False)
            for number, names in enumerate(PANELS, 1):
                with Horizontal(classes="row", id=f"row-{number}"):
                    for name in names:
                        yield PanelTable(name)
            yield Input(placeholder="show only rows that contain this text", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#rates").border_title = "Throughput"
        self.query_one("#states").border_title = "States"
        self._set_current(self._table("lanes"))
        self._base.set_focus(self._table("lanes"))
        self._show()  # now, for the first key may need the rows
        self.call_after_refresh(self._show)  # and again, for the bar needs the width of its box
        self.set_interval(self._interval_s, self.tick)
        self.set_interval(1.0, self.show_heading)

    # ---- refreshing

    def tick(self) -> None:
        if not self._is_paused:
            self.action_refresh_now()

    def action_refresh_now(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self.run_worker(self.refresh_overview(), exit_on_error=True)

    async def refresh_overview(self) -> None:
        """Reads everything once. An error keeps what was read last, and is shown."""
        try:
            self.overview = await self.session.collector.collect()
            self._read_at, self._error = self._clock(), ""
            if isinstance(self.screen, Detail):
                await self.screen.reload()
        except FlowFabricError as error:
            self._error = clean(str(error))
        finally:
            self._is_refreshing = False
        self._show()

    # ---- drawing

    @property
    def _base(self) -> Screen[object]:
        """The screen of the overview, whatever is above it."""
        return self.screen_stack[0]

    def _table(self, name: str) -> PanelTable:
        return self._base.query_one(f"#{name}", PanelTable)

    def _show(self) -> None:
        """Draws what was read last. The view may be closing, without its widgets."""
        with suppress(NoMatches):
            self._show_panels()

    def _show_panels(self) -> None:
        self.show_heading()
        self._base.query_one("#rates", RatesBox).show_overview(self.overview)
        self._base.query_one("#states", StatesBox).show_overview(self.overview)
        shown = rows.panels(self.overview)
        for number, name in enumerate(NAMES, 1):
            panel = rows.filtered(shown[name], self._filter)
            self._table(name).show_panel(panel, number)

    def show_heading(self) -> None:
        parts: list[str | tuple[str, str]] = [
            ("flowfabric top  ", "bold"),
            f"{self.session.url}  ",
            (rows.title_of(self.overview), "dim"),
            self._age(),
        ]
        if self._is_paused:
            parts.append(("  paused", "bold yellow"))
        if self._filter:
            parts.append((f"  only rows with {clean(self._filter)!r}", "yellow"))
        if self._error:
            parts.append((f"  {self._error}", "bold red"))
        with suppress(NoMatches):
            self._base.query_one("#heading", Static).update(Text.assemble(*parts))

    def _age(self) -> tuple[str, str]:
        age_s = max(self._clock() - self._read_at, 0)
        text = f"  {span(round(age_s) * 1_000)} old" if age_s >= 1 else ""
        return text, "bold red" if age_s >= SLOW_S + self._interval_s else "dim"

    def on_resize(self, event: Resize) -> None:
        width, height = event.size.width, event.size.height
        is_tiny = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self._base.set_class(is_tiny, "tiny")
        self._base.set_class(width < WHOLE_WIDTH or height < WHOLE_HEIGHT, "compact")
        with suppress(NoMatches):
            self._base.query_one("#small", Static).update(self._too_small(width, height))

    def _too_small(self, width: int, height: int) -> str:
        return (
            f"The terminal has {width} x {height} characters; "
            f"at least {LEAST_WIDTH} x {LEAST_HEIGHT} are needed. "
            "`flowfabric top --once` prints a snapshot."
        )

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if isinstance(event.widget, PanelTable) and event.widget.id in NAMES:
            self._set_current(event.widget)

    def _set_current(self, current: PanelTable) -> None:
        """Marks the current panel, which is the one that a small terminal shows."""
        for table in self._base.query(PanelTable):
            table.set_class(table is current, "current")
        for row in self._base.query(".row"):
            row.set_class(row is current.parent, "current")

    # ---- moving

    def action_panel(self, number: int) -> None:
        """Moves at once: the next key may come before `focus()` would have taken effect."""
        if len(self.screen_stack) == 1:
            table = self._table(NAMES[number - 1])
            self._set_current(table)
            self._base.set_focus(table)

    def action_move_panel(self, by: int) -> None:
        """The next panel or the one before; in a screen above, the next field."""
        if len(self.screen_stack) > 1:
            self.screen.focus_next() if by > 0 else self.screen.focus_previous()
            return
        at = next((n for n, name in enumerate(NAMES) if self._table(name).has_class("current")), 0)
        self.action_panel((at + by) % len(NAMES) + 1)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        table = event.data_table
        if isinstance(table, PanelTable) and table.id in NAMES and table.target is not None:
            self._open(table.target)

    def _open(self, target: Target) -> None:
        if target.kind is Kind.RUN:
            self.push_screen(RunScreen(self.session, target))
        elif target.kind is not Kind.OTHER:
            self.push_screen(RunsScreen(self.session, target, self.overview.namespace))

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def action_pause_refresh(self) -> None:
        self._is_paused = not self._is_paused
        self.show_heading()

    # ---- filter

    def action_filter(self) -> None:
        if len(self.screen_stack) == 1:
            field = self.screen.query_one("#filter", Input)
            field.display = True
            self.screen.set_focus(field)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self._filter = event.value.strip()
            self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "filter":
            self._close_filter()

    def _close_filter(self) -> None:
        self._base.query_one("#filter", Input).display = False
        current = next(iter(self._base.query("PanelTable.current")), None)
        self._base.set_focus(current or self._table("lanes"))

    def action_clear_filter(self) -> None:
        self._base.query_one("#filter", Input).value = ""
        self._filter = ""
        self._close_filter()
        self._show()

    # ---- acting

    def _target(self) -> Target | None:
        screen = self.screen
        if isinstance(screen, Detail):
            return screen.target
        focused = self.focused
        return focused.target if isinstance(focused, PanelTable) else None

    def action_act(self, name: str) -> None:
        action = Action(name)
        wanted = actions.request(action, self._target())
        if wanted is None:
            self.notify(actions.not_applicable(action), severity="warning", markup=False)
            return
        asked = wanted
        self.push_screen(
            ConfirmScreen(asked, self.session.operator), lambda said: self._act(asked, said)
        )

    def _act(self, wanted: Request, said: Confirmed | None) -> None:
        if said is not None:
            self.run_worker(self._carry_out(wanted, said))

    async def _carry_out(self, wanted: Request, said: Confirmed) -> None:
        try:
            async with self.session.writing() as engine:
                done = await actions.perform(engine, wanted, said.operator, said.reason)
        except FlowFabricError as error:
            self.notify(
                clean(f"{wanted.action} {wanted.subject}: {error}"), severity="error", markup=False
            )
            return
        self.notify(done, markup=False)
        self.action_refresh_now()
