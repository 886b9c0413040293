"""The keys and screens of `flowfabric top`, without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from msgspec import Struct
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input, Static

from flowfabric.cli.top.actions import Action
from flowfabric.cli.top.collect import Collector
from flowfabric.cli.top.rows import Kind, Target
from flowfabric.cli.top.screens import ConfirmScreen, Detail, HelpScreen, RunScreen, RunsScreen
from flowfabric.cli.top.session import Session
from flowfabric.cli.top.view import NAMES, TopApp
from flowfabric.cli.top.widgets import PanelTable
from flowfabric.connect import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.deployment import STALLED_MS
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.testing import ManualClock
from tests.engine.helpers import create, running
from tests.patience import patient

SIZE = (150, 46)
BY = ClaimPolicy("w1", "w1-i1", 600_000)
NEVER_S = 3_600.0
MESSAGES_DEEP = 6
"""So many messages follow from each other at most: a key, an action, a chosen row, a screen."""


class Running(Struct, frozen=True):
    """A view that refreshes when it is told to."""

    app: TopApp
    pilot: Pilot[None]
    engine: Engine
    clock: ManualClock
    told: list[str]

    async def press(self, *keys: str, loads: bool = True) -> None:
        for key in keys:
            self.app.simulate_key(key)
            await self.drain()
        await self.settle(loads=loads)

    async def settle(self, *, loads: bool = True) -> None:
        """Waits for what the keys have started."""
        await self.drain()
        await self.app.workers.wait_for_complete()
        if loads and isinstance(self.app.screen, Detail):
            async with patient(20):
                await self.app.screen.loaded.wait()
        await self.drain()

    async def drain(self) -> None:
        """Waits until all widgets have handled their messages. `Pilot.pause` would also wait for
        widgets that are removed meanwhile.
        """
        async with patient(20):
            for _ in range(MESSAGES_DEEP):
                for each in (self.app, *self.app.screen.walk_children(with_self=True)):
                    handled = asyncio.Event()
                    if each.call_later(handled.set):
                        while each.is_running and not handled.is_set():  # noqa: ASYNC110
                            await asyncio.sleep(0)

    def table(self, name: str) -> PanelTable:
        return self.app.screen.query_one(f"#{name}", PanelTable)

    def cells(self, name: str) -> list[list[str]]:
        table = self.table(name)
        return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]

    def text(self, name: str = "heading") -> str:
        return str(self.app.screen.query_one(f"#{name}", Static).render())

    def messages(self) -> list[str]:
        return list(self.told)


@asynccontextmanager
async def shown(
    fill: Callable[[Engine, ManualClock], Any] | None = None,
    size: tuple[int, int] = SIZE,
    reads: Callable[[str, Operation], Operation | None] | None = None,
    operator: str = "ada",
) -> AsyncIterator[Running]:
    clock = ManualClock()
    engine = memory_engine(clock)
    if fill is not None:
        await fill(engine, clock)

    @asynccontextmanager
    async def writing() -> AsyncIterator[EngineProtocol]:
        yield engine

    def seconds() -> float:
        return clock.now_ms / 1_000

    reading = engine if reads is None else wrapped(engine, reads)
    collector = Collector(reading, clock=seconds)
    session = Session("memory://", reading, collector, writing, operator)
    app, told = TopApp(session, await collector.collect(), NEVER_S, seconds), list[str]()
    notify = app.notify

    def noted(message: str, **more: Any) -> None:
        told.append(message)
        notify(message, **more)

    app.notify = noted  # type: ignore[assignment]
    async with app.run_test(size=size) as pilot:
        view = Running(app, pilot, engine, clock, told)
        await view.settle()
        yield view
    await engine.close()


async def deployment(engine: Engine, clock: ManualClock) -> None:
    await create(engine, lane_id="exports", execution_kind="export_csv")
    await engine.pause_lane("exports")
    clock.advance(STALLED_MS)
    await engine.register_worker(
        RegisterWorkerArgs(worker_id="w1", worker_instance_id="w1-i1", lanes=frozenset({"mail"}))
    )
    for task in ("send", "print"):
        await running(engine, BY, lane_id="mail", execution_kind=task)
    _, handle = await running(engine, BY, lane_id="mail", execution_kind="pay")
    await engine.fail(handle, "CardDeclined: no", FailureClass.PERMANENT)


async def test_every_panel_has_its_rows() -> None:
    async with shown(deployment) as view:
        assert [row[:3] for row in view.cells("lanes")] == [
            ["exports", "paused", "1"],
            ["mail", "active", "-"],
        ]
        assert {row[0] for row in view.cells("running")} == {"send", "print"}
        assert view.cells("failing") == [["pay", "CardDeclined", "1", "-", "0 ms ago"]]
        assert [row[0] for row in view.cells("stuck")] == ["export_csv"]
        assert view.cells("workers")[0][:3] == ["w1-i1", "mail", "2"]
        assert view.table("budgets").border_subtitle == "no budget has a limit"
        assert "active 2" in str(view.app.query_one("#states", Static).render())
        assert "memory://" in view.text() and "all namespaces" in view.text()


async def test_tab_and_numbers_move_between_panels() -> None:
    async with shown(deployment) as view:
        order = []
        for _ in NAMES:
            order.append(view.app.focused.id if view.app.focused else None)
            await view.press("tab")
        assert tuple(order) == NAMES
        assert view.app.focused is view.table("lanes")
        await view.press("shift+tab")
        assert view.app.focused is view.table("timers")
        await view.press("3")
        assert view.app.focused is view.table("running")


async def test_keys_that_come_at_once_are_for_the_new_panel() -> None:
    async with shown(deployment) as view:
        for key in ("3", "enter"):
            view.app.post_message(Key(key, None))
        await view.settle()
        assert isinstance(view.app.screen, RunScreen)


async def test_the_cursor_stays_on_its_subject_when_rows_come_and_go() -> None:
    async with shown(deployment) as view:
        await view.press("1", "j")
        assert view.table("lanes").target.name == "mail"
        for _ in range(3):
            await create(view.engine, lane_id="added")
        await view.press("r")
        assert view.table("lanes").target.name == "mail"
        await view.press("k")
        assert view.table("lanes").target.name == "exports"


async def test_a_lane_opens_its_runs_and_a_run_its_history() -> None:
    async with shown(deployment) as view:
        await view.press("1", "j", "enter")
        assert isinstance(view.app.screen, RunsScreen)
        assert view.text() == "Runs of lane mail, the newest first"
        assert {row[1] for row in view.cells("runs")} == {"send", "print", "pay"}
        await view.press("enter")
        assert isinstance(view.app.screen, RunScreen)
        assert "History" in view.text("text") and "claimed" in view.text("text")
        await view.press("escape", "escape")
        assert view.app.focused is view.table("lanes")


async def test_a_failure_and_a_worker_open_their_runs() -> None:
    async with shown(deployment) as view:
        await view.press("4", "enter")
        assert view.text() == "Failures of pay: CardDeclined"
        assert [row[2] for row in view.cells("runs")] == ["failed"]
        await view.press("escape", "2", "enter")
        assert view.text() == "Runs that worker w1-i1 holds"
        assert {row[1] for row in view.cells("runs")} == {"send", "print"}


async def test_a_stuck_run_opens_with_its_reason() -> None:
    async with shown(deployment) as view:
        await view.press("5", "enter")
        assert "lane_paused" in view.text("text")


async def test_a_run_that_is_removed_is_said_to_be_gone() -> None:
    async with shown(deployment) as view:
        missing = ExecutionId.of(0, UUID(int=7))
        target = Target(Kind.RUN, str(missing.uuid), missing)
        view.app.push_screen(RunScreen(view.app.session, target))
        await view.settle()
        assert view.text("text").startswith("This run no longer exists")


async def test_a_run_is_closed_while_it_is_read() -> None:
    is_slow, asked, released = False, asyncio.Event(), asyncio.Event()

    def slow(name: str, operation: Operation) -> Operation:
        async def call(*args: Any, **named: Any) -> Any:
            if is_slow and name == "describe_execution":
                asked.set()
                await released.wait()
            return await operation(*args, **named)

        return call

    async with shown(deployment, reads=slow) as view:
        await view.press("5", "enter")
        is_slow = True
        view.app.post_message(Key("r", None))
        async with patient(20):
            await asked.wait()
        view.app.post_message(Key("escape", None))
        await view.drain()
        released.set()
        await view.settle()
        assert view.app.is_running and not isinstance(view.app.screen, RunScreen)


async def test_cancel_asks_and_records_the_operator() -> None:
    async with shown(deployment) as view:
        await view.press("3")
        target = view.table("running").target
        assert target is not None and target.execution is not None
        await view.press("c")
        assert isinstance(view.app.screen, ConfirmScreen)
        await view.press("escape")
        assert str(await view.engine.read_execution_state(target.execution)) == "active"
        await view.press("c", "tab", *"stuck", "enter")
        found = await view.engine.read_outcome(target.execution)
        assert (found.public_state, found.cancellation_reason) == (
            "cancelled",
            "stuck; by ada in flowfabric top",
        )
        assert view.messages() == [f"run {target.name} is cancelled"]
        assert target.name not in {row[-1] for row in view.cells("running")}


async def test_an_action_on_a_run_needs_a_name() -> None:
    async with shown(deployment, operator="") as view:
        await view.press("3", "c", "enter")
        assert isinstance(view.app.screen, ConfirmScreen)
        assert "a name is needed" in str(view.app.screen.query_one("#hint").render())
        await view.press(*"eve", "enter")
        assert not isinstance(view.app.screen, ConfirmScreen)
        assert len(view.messages()) == 1


async def test_a_failed_run_is_run_again() -> None:
    async with shown(deployment) as view:
        await view.press("4", "t", "enter")
        assert view.messages()[0].endswith("is waiting again")
        (row,) = [row for row in view.cells("lanes") if row[0] == "mail"]
        assert row[0] == "mail"


async def test_a_refused_action_is_shown() -> None:
    async with shown(deployment) as view:
        await view.press("3", "t", "enter")
        (message,) = view.messages()
        assert message.startswith("retry ") and "not" in message


async def test_a_lane_is_paused_and_resumed() -> None:
    async with shown(deployment) as view:
        await view.press("1", "j", "p", "n")
        assert (await view.engine.read_lane("mail")).state == "active"
        await view.press("p", "y")
        assert (await view.engine.read_lane("mail")).state == "paused"
        assert [row[1] for row in view.cells("lanes")] == ["paused", "paused"]
        await view.press("u", "y")
        assert [row[1] for row in view.cells("lanes")] == ["paused", "active"]
        assert view.messages() == ["lane mail is paused", "lane mail is active"]


async def test_an_action_that_does_not_apply_says_what_to_choose() -> None:
    async with shown(deployment) as view:
        await view.press("1", "c")
        await view.press("3", "p")
        assert view.messages() == ["cancel: choose a run first", "pause: choose a lane first"]


async def test_a_filter_is_typed_and_removed() -> None:
    async with shown(deployment) as view:
        await view.press("slash", *"export", "enter")
        assert [row[0] for row in view.cells("lanes")] == ["exports"]
        assert view.cells("running") == []
        assert "only rows with 'export'" in view.text()
        await view.press("escape")
        assert len(view.cells("lanes")) == 2
        assert view.app.query_one("#filter", Input).display is False


async def test_the_refresh_is_stopped_and_continued() -> None:
    async with shown(deployment) as view:
        await view.press("space")
        assert "paused" in view.text()
        before = view.app.overview.as_of
        view.clock.advance(5_000)
        view.app.tick()
        await view.settle()
        assert view.app.overview.as_of == before
        await view.press("space")
        view.app.tick()
        await view.settle()
        assert view.app.overview.as_of == before + 5_000


async def test_a_slow_store_has_an_age_and_keeps_the_keys() -> None:
    is_slow, released = False, asyncio.Event()

    def slow(name: str, operation: Operation) -> Operation:
        async def call(*args: Any, **named: Any) -> Any:
            if is_slow and name == "read_deployment":
                await released.wait()
            return await operation(*args, **named)

        return call

    async with shown(deployment, reads=slow) as view:
        is_slow = True
        for key in ("r", "r"):
            view.app.post_message(Key(key, None))
        await view.drain()
        view.clock.advance(9_000)
        view.app.post_message(Key("2", None))
        await view.drain()
        view.app.show_heading()
        assert view.app.focused is view.table("workers")
        assert "9.0 s old" in view.text()
        released.set()
        await view.settle()
        assert "old" not in view.text()


async def test_an_error_is_shown_beside_the_last_numbers() -> None:
    error: TransportError | None = None

    def failing(name: str, operation: Operation) -> Operation:
        async def call(*args: Any, **named: Any) -> Any:
            if error is not None:
                raise error
            return await operation(*args, **named)

        return call

    async with shown(deployment, reads=failing) as view:
        error = TransportError("postgres", "gone\x1b[31m")
        await view.press("r")
        assert "gone\ufffd[31m" in view.text()
        assert len(view.cells("lanes")) == 2
        await view.press("1", "enter", loads=False)
        assert "gone\ufffd[31m" in view.text()
        error = None
        await view.press("escape", "r")
        assert "gone" not in view.text()


async def test_a_small_terminal_shows_one_panel_at_a_time() -> None:
    async with shown(deployment, size=(80, 24)) as view:
        visible = {name for name in NAMES if view.table(name).region.height > 0}
        assert visible == {"lanes"}
        await view.press("tab")
        assert view.table("workers").region.height > 10
        assert view.table("lanes").region.height == 0


async def test_a_terminal_that_is_too_small_says_so() -> None:
    async with shown(deployment, size=(40, 10)) as view:
        assert "at least 60 x 14 are needed" in view.text("small")
        assert view.app.query_one("#body").region.height == 0
        assert view.app.query_one("#small").region.height > 0
        await view.pilot.resize_terminal(*SIZE)
        await view.settle()
        assert view.app.query_one("#body").region.height > 20


async def test_help_and_quit() -> None:
    async with shown() as view:
        await view.press("question_mark")
        assert isinstance(view.app.screen, HelpScreen)
        await view.press("escape")
        assert not isinstance(view.app.screen, HelpScreen)
        await view.press("q")
        assert view.app.return_code == 0 or not view.app.is_running


def test_every_action_has_a_key() -> None:
    keys = {each.action for each in TopApp.BINDINGS}
    assert {f"act('{action}')" for action in Action} <= keys
