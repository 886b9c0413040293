"""The commands of `flowfabric`: a line for each."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer
from typer.core import TyperGroup

from flowfabric.cli import (
    actions,
    approvals,
    bulk,
    collisions,
    copy,
    demo,
    dev,
    events,
    flow,
    history,
    import_original,
    lanes,
    limits,
    migrate,
    namespaces,
    runs,
    schedules,
    server,
    signal,
    submit,
    tail,
    tasks,
    tokens,
    verify,
    why,
    worker,
)
from flowfabric.cli.registration import exits
from flowfabric.cli.text import console
from flowfabric.cli.top import command as top

NAMES = {"help_option_names": ["-h", "--help"]}


def group(title: str, kind: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(
        cls=kind, help=title, no_args_is_help=True, rich_markup_mode=None, context_settings=NAMES
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


app.command("submit")(exits(submit.run))
app.command("list")(exits(runs.list_runs))
app.command("show")(exits(runs.show))
app.command("result")(exits(runs.result))
app.command("status")(exits(runs.status))
app.command("why")(exits(why.run))
app.command("history")(exits(history.run))
app.command("tail")(exits(tail.run))
app.command("events")(exits(events.run))
flows.command("show", cls=flow.FileIsOptional)(exits(flow.show_flow, old_url=True))
flows.command("list")(exits(flow.list_flows, old_url=True))
for act in (
    actions.cancel,
    actions.retry,
    actions.replay,
    actions.revoke,
    actions.priority,
    actions.move,
    actions.release,
    actions.delete,
    actions.restart,
):
    app.command(act.__name__)(exits(act))
jobs = group("List, show, stop and run bulk jobs.")
app.add_typer(jobs, name="bulk")
jobs.command("list")(exits(bulk.list_jobs))
jobs.command("show")(exits(bulk.show_job))
jobs.command("stop")(exits(bulk.stop_job))
jobs.command("run")(exits(bulk.run_job))
for title, name, functions in (
    ("List, pause, resume and drain lanes.", "lanes", lanes.COMMANDS),
    ("List, show and reset budgets.", "budgets", limits.BUDGET_COMMANDS),
    ("List, show, close and open quotas.", "quotas", limits.QUOTA_COMMANDS),
    ("List, pause, resume and run schedules.", "schedules", schedules.COMMANDS),
    ("List and erase namespaces.", "namespaces", namespaces.COMMANDS),
):
    made = group(title)
    app.add_typer(made, name=name)
    for word, function in functions.items():
        made.command(word)(exits(function))
app.command("workers")(exits(lanes.list_workers))
flows.command("cancel")(exits(flow.cancel_flow))
declared = group("List and show the tasks that workers have declared.", tasks.ListByDefault)
app.add_typer(declared, name="tasks")
for word, function in tasks.COMMANDS.items():
    declared.command(word)(exits(function))
app.command("approvals")(exits(approvals.run, old_url=True))
app.command("signal", context_settings={"allow_extra_args": True})(exits(signal.run, old_url=True))
api_tokens.command("create")(exits(tokens.create))
api_tokens.command("list")(exits(tokens.list_all))
api_tokens.command("rotate")(exits(tokens.rotate))
api_tokens.command("revoke")(exits(tokens.revoke))
app.command("verify")(exits(verify.run, old_url=True))
app.command("migrate")(exits(migrate.run, old_url=True))
app.command("top")(exits(top.run))
app.command("copy")(exits(copy.run))
app.command("import")(exits(import_original.run))
app.command("worker")(exits(worker.run))
app.command("server")(exits(server.run))
app.command("dev")(exits(dev.run))
app.command("demo")(exits(demo.run))
admin.command("partition-collisions")(exits(collisions.run))
