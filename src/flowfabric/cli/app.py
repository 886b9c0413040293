"""The commands of `flowfabric`: a line for each."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from flowfabric.cli import (
    approvals,
    collisions,
    copy,
    demo,
    dev,
    events,
    flow,
    history,
    import_original,
    migrate,
    server,
    signal,
    tail,
    tokens,
    verify,
    why,
    worker,
)
from flowfabric.cli.registration import exits
from flowfabric.cli.text import console

NAMES = {"help_option_names": ["-h", "--help"]}


def group(title: str) -> typer.Typer:
    return typer.Typer(
        help=title, no_args_is_help=True, rich_markup_mode=None, context_settings=NAMES
    )


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=NAMES,
)
flows = group("Show, list and cancel flows.")
app.add_typer(flows, name="flow")
api_tokens = group("Create, list, rotate and revoke API tokens.")
app.add_typer(api_tokens, name="tokens")
admin = group("Deployment tools.")
app.add_typer(admin, name="admin")


@app.callback(invoke_without_command=True)
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """FlowFabric: durable execution for Python."""
    if show_version:
        print_version()
        raise typer.Exit(0)


@admin.callback()
def _admin() -> None:
    """Keeps `admin` a group although it has one command."""


@app.command(name="version")
def print_version() -> None:
    """Prints the version."""
    console.print(version("flowfabric"))


app.command("why")(exits(why.run))
app.command("history")(exits(history.run))
app.command("tail")(exits(tail.run))
app.command("events")(exits(events.run))
flows.command("show", cls=flow.FileIsOptional)(exits(flow.show_flow, old_url=True))
flows.command("list")(exits(flow.list_flows, old_url=True))
app.command("approvals")(exits(approvals.run, old_url=True))
app.command("signal", context_settings={"allow_extra_args": True})(exits(signal.run, old_url=True))
api_tokens.command("create")(exits(tokens.create))
api_tokens.command("list")(exits(tokens.list_all))
api_tokens.command("rotate")(exits(tokens.rotate))
api_tokens.command("revoke")(exits(tokens.revoke))
app.command("verify")(exits(verify.run, old_url=True))
app.command("migrate")(exits(migrate.run, old_url=True))
app.command("copy")(exits(copy.run))
app.command("import")(exits(import_original.run))
app.command("worker")(exits(worker.run))
app.command("server")(exits(server.run))
app.command("dev")(exits(dev.run))
app.command("demo")(exits(demo.run))
admin.command("partition-collisions")(exits(collisions.run))
