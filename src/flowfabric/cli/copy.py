"""`flowfabric copy`: moves a paused deployment to another database, resumable and verified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from flowfabric.cli.exits import Exit
from flowfabric.cli.text import Json, plural, print_json, show
from flowfabric.connect.transfer import copy_database
from flowfabric.store.transfer import Step

URLS = "sqlite:///path, a path, postgresql://host/database or valkey://host/cell"


def run(
    source: Annotated[str, typer.Argument(metavar="SRC", help=f"{URLS}.")],
    destination: Annotated[str, typer.Argument(metavar="DST", help=f"{URLS}; empty or new.")],
    as_json: Json = False,
) -> int:
    """Copies a paused deployment to another database, and verifies that both are equal.

    Stop servers and workers first. After an interruption, the same command continues.
    """
    with progress_bar() as report:
        copied = asyncio.run(copy_database(source, destination, report))
    if as_json:
        print_json(msgspec.to_builtins(copied))
        return Exit.DONE
    before = f" and {plural(copied.resumed, 'row')} earlier" if copied.resumed else ""
    show(f"copied {plural(copied.rows, 'row')}{before}; both databases are equal")
    return Exit.DONE


@contextmanager
def progress_bar() -> Iterator[Callable[[Step], None]]:
    """On standard error, and only on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        tasks = {phase: progress.add_task(phase, total=None) for phase in ("copy", "verify")}

        def report(step: Step) -> None:
            text = f"{step.phase} {step.table}"
            progress.update(
                tasks[step.phase], description=text, completed=step.done, total=step.total
            )

        yield report
