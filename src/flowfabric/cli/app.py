"""The commands."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flowfabric.cli import demo as demo_run
from flowfabric.cli import migrate as migrate_run
from flowfabric.cli import verify as verify_run
from flowfabric.errors import FlowFabricError

app = typer.Typer(
    help="FlowFabric: durable execution for Python.", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
console = Console()


@app.command()
def demo(
    jobs: Annotated[int, typer.Option(min=1, max=10_000, help="How many jobs to run.")] = 200,
    keep: Annotated[Path | None, typer.Option(help="Keep the database at this path.")] = None,
) -> None:
    """Runs jobs on SQLite with three worker processes, kills one, freezes one, and proves that nothing was lost."""
    raise typer.Exit(demo_run.run(jobs, keep, console))


@app.command()
def verify(
    url: Annotated[
        str, typer.Argument(help="sqlite:///path, a path or postgresql://host/database; live or closed, it is only read.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Checks every invariant of a database; exit status 0 only if all hold."""
    try:
        raise typer.Exit(verify_run.run(url, console, as_json=as_json))
    except FlowFabricError as error:
        console.print(f"[red]{error}[/red]", highlight=False)
        raise typer.Exit(2) from None


@app.command()
def migrate(
    url: Annotated[str, typer.Argument(help="postgresql://user@host/database")] = "",
    kind: Annotated[str | None, typer.Option(help="Only pre (before the new code) or only post (after the old code).")] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the script instead, for psql or another tool.")] = False,
    schema: Annotated[str, typer.Option(help="The Postgres schema; it must exist.")] = "public",
) -> None:
    """Brings a Postgres database up to this release. Run it again as often as you like."""
    try:
        raise typer.Exit(migrate_run.run(url, kind, console, as_sql=sql, schema=schema))
    except FlowFabricError as error:
        console.print(f"[red]{error}[/red]", highlight=False)
        raise typer.Exit(2) from None


@app.command(name="version")
def show_version() -> None:
    """Prints the version."""
    console.print(version("flowfabric"), highlight=False)
