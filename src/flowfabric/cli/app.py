"""The commands of `flowfabric`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from typing import ParamSpec

import typer
from rich.text import Text

from flowfabric.cli import (
    approvals,
    collisions,
    demo,
    dev,
    events,
    flow,
    history,
    migrate,
    server,
    signal,
    tail,
    verify,
    why,
    worker,
)
from flowfabric.cli.text import console, show
from flowfabric.errors import FlowFabricError

P = ParamSpec("P")
app = typer.Typer(
    help="FlowFabric: durable execution for Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
flows = typer.Typer(help="Show and list flows.", no_args_is_help=True)
app.add_typer(flows, name="flow")
admin = typer.Typer(help="Deployment tools.", no_args_is_help=True)
app.add_typer(admin, name="admin")


def exits(run: Callable[P, int]) -> Callable[P, None]:
    """Exit with the status of a command, or with 2 and the text of an error."""

    @wraps(run)
    def command(*args: P.args, **options: P.kwargs) -> None:
        try:
            raise typer.Exit(run(*args, **options))
        except FlowFabricError as error:
            show(Text(str(error), "red"))
            raise typer.Exit(2) from None

    return command


app.command("demo")(exits(demo.run))
app.command("verify")(exits(verify.run))
app.command("migrate")(exits(migrate.run))
flows.command("show", cls=flow.FileIsOptional)(exits(flow.show_flow))
flows.command("list")(exits(flow.list_flows))
app.command("approvals")(exits(approvals.run))
app.command("signal", context_settings={"allow_extra_args": True})(exits(signal.run))
app.command("why")(exits(why.run))
app.command("history")(exits(history.run))
app.command("events")(exits(events.run))
app.command("tail")(exits(tail.run))
app.command("worker")(exits(worker.run))
app.command("server")(exits(server.run))
app.command("dev")(exits(dev.run))
admin.command("partition-collisions")(exits(collisions.run))


@admin.callback()
def _admin() -> None:
    """Keeps `admin` a group although it has one command."""


@app.command(name="version")
def show_version() -> None:
    """Prints the version."""
    console.print(version("flowfabric"))
