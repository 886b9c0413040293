"""`flowfabric schedules`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import to_builtins

from flowfabric.cli import tables, text
from flowfabric.cli.app_loader import load_app
from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit
from flowfabric.cli.identify import not_found
from flowfabric.cli.worker import AppArgument
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.sdk.app import App

Namespace = Annotated[
    str, typer.Option("--namespace", metavar="NAME", help="The namespace of the App.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]


def list_schedules(
    database: Database, namespace: Namespace = "default", as_json: text.JsonLines = False
) -> int:
    """Lists the schedules of a namespace."""
    found = database.read(lambda engine: engine.read_schedules(namespace))
    marks = sorted(found.marks.values(), key=lambda mark: mark.name)
    for mark in marks if as_json else ():
        text.print_json(to_builtins(mark))
    if not as_json and marks:
        rows = [
            (
                mark.name,
                "paused" if mark.paused else "running",
                tables.ago(mark.cursor_ms, found.now_ms),
            )
            for mark in marks
        ]
        tables.print_table(("schedule", "state", "last tick"), rows)
    elif not as_json:
        text.show(f"no schedules in namespace {text.clean(namespace)}")
    return Exit.DONE


def pause_schedule(name: Name, database: Database, namespace: Namespace = "default") -> int:
    """Skips the ticks of a schedule until it is resumed."""
    return _set(name, namespace, database, pause=True)


def resume_schedule(name: Name, database: Database, namespace: Namespace = "default") -> int:
    """Continues with the next tick of a schedule."""
    return _set(name, namespace, database, pause=False)


def _set(name: str, namespace: str, database: Database, *, pause: bool) -> int:
    async def work(engine: EngineProtocol) -> bool:
        if name not in (await engine.read_schedules(namespace)).marks:
            raise not_found("schedule", name)
        change = engine.pause_schedule if pause else engine.resume_schedule
        return await change(namespace, name)

    changed = database.write(work)
    state = "paused" if pause else "running"
    text.show(f"schedule {text.clean(name)} is {state}{'' if changed else ' already'}")
    return Exit.DONE


def run_now(name: Name, target: AppArgument, database: Database) -> int:
    """Submits the task of a schedule now, with its arguments. The App declares them."""
    app = load_app(target)
    if name not in app.schedules:
        known = ", ".join(sorted(app.schedules)) or "none"
        raise CommandError(Exit.NOT_FOUND, f"{name}: no such schedule in {target}; it has {known}")
    if database.named is not None:
        app.connect_to(database.named, database.token)
    text.show(f"submitted {asyncio.run(_submit(app, name))}")
    return Exit.DONE


async def _submit(app: App, name: str) -> str:
    schedule = app.schedules[name]
    async with app:
        run = await schedule.task.submit(**schedule.arguments, tags={"schedule.name": name})
        return str(run.id.uuid)


COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_schedules,
    "pause": pause_schedule,
    "resume": resume_schedule,
    "run": run_now,
}
