"""`flowfabric import`: imports a SQLite database of the Rust FlowFabric."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from flowfabric.cli.copy import URLS, progress_bar
from flowfabric.cli.exits import Exit
from flowfabric.cli.text import Json, clean, console, plural, print_json, show
from flowfabric.connect.importing import import_original
from flowfabric.rules.imports.original import Note


def run(
    original: Annotated[
        str, typer.Argument(metavar="ORIGINAL", help="The SQLite file; it is only read.")
    ],
    destination: Annotated[str, typer.Argument(metavar="URL", help=f"{URLS}; empty or new.")],
    as_json: Json = False,
) -> int:
    """Imports a SQLite database of the Rust FlowFabric into a new database.

    Every row that is left out, changed or added is listed with the reason. The exit code is 6 when
    rows are left out.
    """
    with progress_bar() as report:
        found = asyncio.run(import_original(original, destination, report))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _print_notes(found.notes)
        total = sum(found.rows.values())
        show(f"imported {plural(total, 'row')} of {plural(len(found.rows), 'table')}")
    is_partial = any(note.kind == "left out" for note in found.notes)
    return Exit.PARTLY_DONE if is_partial else Exit.DONE


def _print_notes(notes: Sequence[Note]) -> None:
    if not notes:
        return
    table = Table(box=None, pad_edge=False)
    for title in ("WHAT", "TABLE", "ROW", "WHY"):
        table.add_column(title, overflow="fold")
    for note in notes:
        table.add_row(note.kind, note.table, clean(note.key), clean(note.fact))
    console.print(table)
