"""The screens over the overview: lists of runs, one run, a confirmation, and help."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.css.query import NoMatches
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Label, Static

from flowfabric.cli.text import clean, short
from flowfabric.cli.top import details
from flowfabric.cli.top.actions import MAX_OPERATOR, MAX_REASON, Request
from flowfabric.cli.top.rows import Target
from flowfabric.cli.top.session import Session
from flowfabric.cli.top.widgets import PanelTable
from flowfabric.errors import FlowFabricError, NotFound

BACK: BindingType = Binding("escape", "app.pop_screen", "Back")
HELP = (
    ("tab, shift+tab, 1-7", "the next panel, the panel before, the panel of this number"),
    ("up, down, k, j", "the rows of a panel"),
    ("enter", "open a lane, a failure or a worker: its runs; open a run: state, reason, history"),
    ("escape", "back; in the overview, remove the filter"),
    ("c", "cancel the run under the cursor"),
    ("t", "run an ended run again"),
    ("p, u", "pause a lane; resume it"),
    ("/", "show only rows that contain a text"),
    ("space", "stop and continue the refresh"),
    ("r", "refresh now"),
    ("?", "this page"),
    ("q", "quit"),
)


class Detail(Screen[None]):
    """A screen that is read from the deployment, again with every refresh."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.loaded = asyncio.Event()

    @property
    def target(self) -> Target | None:
        return None

    def on_mount(self) -> None:
        self.run_worker(self.reload())

    async def reload(self) -> None:
        """Reads again. An error is shown in place of the content. The screen may have been closed
        meanwhile, and has no widgets then.
        """
        with suppress(NoMatches):
            try:
                await self.load()
                self.loaded.set()
            except FlowFabricError as error:
                self.query_one("#heading", Static).update(Text(clean(str(error)), "red"))

    async def load(self) -> None:
        """Reads and shows the content."""


class RunsScreen(Detail):
    """The runs of a lane, a failure or a worker."""

    def __init__(self, session: Session, about: Target, namespace: str | None) -> None:
        super().__init__(session)
        self._about, self._namespace = about, namespace

    @property
    def target(self) -> Target | None:
        return self.query_one(PanelTable).target or self._about

    def compose(self) -> ComposeResult:
        yield Static(Text(details.title_of(self._about), "bold"), id="heading", markup=False)
        yield PanelTable("runs")
        yield Footer()

    async def load(self) -> None:
        now = await self.session.engine.server_time_ms()
        panel = await details.read_runs(self.session.engine, self._about, self._namespace, now)
        self.query_one(PanelTable).show_panel(panel)

    def on_data_table_row_selected(self, _: DataTable.RowSelected) -> None:
        chosen = self.query_one(PanelTable).target
        if chosen is not None:
            self.app.push_screen(RunScreen(self.session, chosen))


class RunScreen(Detail):
    """Everything about one run."""

    def __init__(self, session: Session, about: Target) -> None:
        super().__init__(session)
        self._about = about

    @property
    def target(self) -> Target | None:
        return self._about

    def compose(self) -> ComposeResult:
        ident = self._about.execution
        title = "" if ident is None else f"Run {short(ident)}"
        yield Static(Text(title, "bold"), id="heading", markup=False)
        with VerticalScroll():
            yield Static(id="text", markup=False)
        yield Footer()

    async def load(self) -> None:
        ident = self._about.execution
        assert ident is not None
        try:
            lines = await details.read_run(self.session.engine, ident)
        except NotFound:
            lines = [Text("This run no longer exists; retention may have removed it.", "yellow")]
        self.query_one("#text", Static).update(Text("\n").join(lines))


class Confirmed(Struct, frozen=True):
    operator: str = ""
    reason: str = ""


class ConfirmScreen(ModalScreen[Confirmed | None]):
    """Asks before an action. Actions on runs record the operator's name and a reason."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "No"),
        Binding("y", "confirm", "Yes"),
        Binding("n", "dismiss(None)", "No", show=False),
    ]

    def __init__(self, wanted: Request, operator: str) -> None:
        super().__init__()
        self._wanted, self._operator = wanted, operator

    def compose(self) -> ComposeResult:
        is_run = self._wanted.execution is not None
        with Vertical(id="dialog"):
            yield Label(Text(self._wanted.question, "bold"))
            if is_run:
                yield Label("Your name, for the history of the run")
                yield Input(self._operator, id="operator", max_length=MAX_OPERATOR)
                yield Label("Reason")
                yield Input(id="reason", max_length=MAX_REASON)
            hint = "enter: yes   escape: no" if is_run else "y: yes   n or escape: no"
            yield Label(Text(hint, "dim"), id="hint")

    def on_input_submitted(self, _: Input.Submitted) -> None:
        self.action_confirm()

    def action_confirm(self) -> None:
        if self._wanted.execution is None:
            self.dismiss(Confirmed())
            return
        operator = self.query_one("#operator", Input).value.strip()
        if not operator:
            self.query_one("#hint", Label).update(Text("a name is needed", "red"))
            self.query_one("#operator", Input).focus()
            return
        self.dismiss(Confirmed(operator, self.query_one("#reason", Input).value.strip()))


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss(None)", "Close")
    ]

    def compose(self) -> ComposeResult:
        lines = [Text("Keys", "bold"), Text()]
        lines += [Text.assemble((f"{keys:<22}", "cyan"), says) for keys, says in HELP]
        with Vertical(id="dialog"):
            yield Static(Text("\n").join(lines))
