"""The commands of `flowfabric` and their options."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from flowfabric.cli import approvals as approvals_run
from flowfabric.cli import collisions as collisions_run
from flowfabric.cli import demo as demo_run
from flowfabric.cli import dev as dev_run
from flowfabric.cli import events as events_run
from flowfabric.cli import flow as flow_run
from flowfabric.cli import history as history_run
from flowfabric.cli import migrate as migrate_run
from flowfabric.cli import server as server_run
from flowfabric.cli import signal as signal_run
from flowfabric.cli import tail as tail_run
from flowfabric.cli import verify as verify_run
from flowfabric.cli import why as why_run
from flowfabric.cli import worker as worker_run
from flowfabric.engine.streams.streams import MAX_ATTEMPT_INDEX
from flowfabric.errors import FlowFabricError

app = typer.Typer(
    help="FlowFabric: durable execution for Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
flow = typer.Typer(help="Show and list flows.", no_args_is_help=True)
app.add_typer(flow, name="flow")
admin = typer.Typer(help="Deployment tools.", no_args_is_help=True)
app.add_typer(admin, name="admin")
console = Console()
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="sqlite:///path, a path or postgresql://host/database; else FLOWFABRIC_DB.",
    ),
]

ReadUrl = Annotated[
    str, typer.Argument(help="sqlite:///path, a path or postgresql://host/database; only read.")
]
ExecutionArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The execution, as '{fp:N}:<uuid>'.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]


@app.command()
def demo(
    jobs: Annotated[int, typer.Option(min=1, max=10_000, help="How many jobs to run.")] = 200,
    keep: Annotated[Path | None, typer.Option(help="Keep the database at this path.")] = None,
) -> None:
    """Runs jobs on SQLite with three workers, kills one, freezes one, and checks the result."""
    raise typer.Exit(demo_run.run(jobs, keep, console))


@app.command()
def verify(url: ReadUrl, as_json: Json = False) -> None:
    """Checks every invariant of a database; exit status 0 only if all hold."""
    _run(lambda: verify_run.run(url, console, as_json=as_json))


@app.command()
def migrate(
    url: Annotated[str, typer.Argument(help="postgresql://user@host/database")] = "",
    kind: Annotated[
        str | None,
        typer.Option(help="Only pre (before the new code) or only post (after the old code)."),
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the script instead, for psql or another tool.")
    ] = False,
    schema: Annotated[str, typer.Option(help="The Postgres schema; it must exist.")] = "public",
) -> None:
    """Migrates a Postgres database to this release. Repeating it is safe."""
    _run(lambda: migrate_run.run(url, kind, console, as_sql=sql, schema=schema))


class _FileIsOptional(TyperCommand):
    """`--svg` without a file means standard output."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        bare = [
            i
            for i, arg in enumerate(args)
            if arg == "--svg" and (i + 1 == len(args) or args[i + 1].startswith("--"))
        ]
        return super().parse_args(
            ctx,
            [f"--svg={flow_run.STDOUT_PATH}" if i in bare else arg for i, arg in enumerate(args)],
        )


@flow.command(name="show", cls=_FileIsOptional)
def show_flow(
    flow_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The flow's UUID; `flowfabric flow list URL` shows them."
        ),
    ],
    url: ReadUrl,
    dot: Annotated[bool, typer.Option("--dot", help="Print Graphviz text instead.")] = False,
    svg: Annotated[
        str | None,
        typer.Option(
            "--svg", metavar="[FILE]", help="Write an SVG picture to this file, or print it."
        ),
    ] = None,
) -> None:
    """Draws a flow: its nodes with their states, and their dependencies."""
    _run(lambda: flow_run.show(flow_id, url, console, as_dot=dot, svg_to=svg))


@flow.command(name="list")
def list_flows(
    url: ReadUrl,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most this many, the newest first.")
    ] = 20,
) -> None:
    """Lists the flows of a database, the newest first."""
    _run(lambda: flow_run.list_flows(url, limit, console))


@app.command()
def approvals(
    url: ReadUrl,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most this many, the oldest first.")
    ] = 50,
    as_json: JsonLines = False,
) -> None:
    """Lists the open waitpoints with their executions, conditions and timeouts, without tokens."""
    _run(lambda: approvals_run.run(url, limit, console, as_json=as_json))


@app.command(context_settings={"allow_extra_args": True})
def signal(
    ctx: typer.Context,
    execution: Annotated[
        str, typer.Argument(help="The execution that waits; `flowfabric approvals URL` shows it.")
    ],
    waitpoint: Annotated[str, typer.Argument(help="The waitpoint's UUID.")],
    url: Annotated[
        str, typer.Argument(help="sqlite:///path, a path or postgresql://host/database.")
    ],
    name: Annotated[str, typer.Option(help="The signal's name.")] = "approved",
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="The payload of the signal.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="WHO", help="Who signals.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The waitpoint's token; else FF_WAITPOINT_TOKEN, else a line on standard input."
        ),
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Decide as an operator, without a token.")
    ] = False,
) -> None:
    """Delivers a signal to a waitpoint."""
    given = signal_run.SignalOptions(
        execution, waitpoint, name, payload, source, token, operator, bool(ctx.args)
    )
    _run(lambda: signal_run.run(given, url, console))


@app.command()
def why(execution: ExecutionArgument, url: Db = None, as_json: Json = False) -> None:
    """Explains why an execution is not running, and what to do. Only reads the database."""
    _run(lambda: why_run.run(execution, url, console, as_json=as_json))


@app.command()
def history(
    subject: Annotated[
        str,
        typer.Argument(metavar="ID", help="The execution, as '{fp:N}:<uuid>', or the flow's UUID."),
    ],
    url: Db = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most this many entries; default: all.")
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Lists the events of an execution, or of a flow and its members. Only reads the database."""
    _run(lambda: history_run.run(subject, url, limit, console, as_json=as_json))


@app.command()
def events(
    url: Db = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(help="completion, lease, signal or operator; repeatable. Default: all."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CURSOR",
            help="start, or the cursor of an event of the given channel.",
        ),
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Only events of this namespace.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many.")] = None,
    as_json: JsonLines = False,
) -> None:
    """Follows events until Ctrl-C. Only reads the database."""
    wanted = events_run.EventOptions(tuple(channel or ()), start, namespace, limit)
    _run(lambda: events_run.run(url, wanted, console, as_json=as_json))


@app.command()
def tail(
    execution: ExecutionArgument,
    url: Db = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_ATTEMPT_INDEX, metavar="N", help="Only this attempt; the first is 0."
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Continue after this frame: its id, or ATTEMPT:ID."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow/--no-follow", help="Wait for more until the execution has ended."),
    ] = True,
    live: Annotated[
        bool, typer.Option("--live/--no-live", help="Include best-effort frames.")
    ] = True,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object per frame, and one when an attempt ends."),
    ] = False,
) -> None:
    """Follows the output of an execution. Only reads the database."""
    given = tail_run.TailOptions(execution, url, attempt, after, follow, live, as_json)
    _run(lambda: tail_run.run(given, console))


def _run(run: Callable[[], int]) -> None:
    try:
        raise typer.Exit(run())
    except FlowFabricError as error:
        console.print(Text(str(error), "red"), highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None


_TARGET = typer.Argument(
    metavar="APP", help="app.py, package.module, or either with the name of the App: app.py:app"
)
_CONCURRENCY = typer.Option(min=1, max=10_000, help="How many tasks at once.")


@app.command()
def worker(
    target: Annotated[str, _TARGET],
    lanes: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these lanes; default: the lanes of all tasks."),
    ] = None,
    concurrency: Annotated[int, _CONCURRENCY] = 16,
    url: Annotated[str | None, typer.Option(help="Overrides the database of the App.")] = None,
    grace: Annotated[
        str,
        typer.Option(metavar="SPAN", help="How long running tasks may take to finish at a stop."),
    ] = "30s",
    metrics: Annotated[
        str | None, typer.Option(metavar="PORT", help="Serve metrics on this port or host:port.")
    ] = None,
) -> None:
    """Runs the tasks of an App until SIGTERM or Ctrl-C, then finishes running tasks."""
    _run(
        lambda: worker_run.run(
            worker_run.WorkerOptions(target, url, lanes, concurrency, grace, metrics)
        )
    )


@app.command()
def server(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file; FF_* variables override it.")
    ] = None,
    check_config: Annotated[
        bool, typer.Option("--check-config", help="Print every setting and exit.")
    ] = False,
) -> None:
    """Serves the HTTP API until SIGTERM or Ctrl-C, then finishes running requests."""
    _run(lambda: server_run.run(config, console, check=check_config))


@app.command()
def dev(
    target: Annotated[str, _TARGET],
    url: Annotated[str | None, typer.Option(help="Overrides the SQLite file of the App.")] = None,
    concurrency: Annotated[int, _CONCURRENCY] = 16,
) -> None:
    """Runs the tasks of an App on SQLite, with the API, and restarts when a file changes."""
    _run(lambda: dev_run.run(target, url, concurrency))


@admin.callback()
def _admin() -> None:
    """Keeps `admin` a group although it has one command."""


@admin.command(name="partition-collisions")
def partition_collisions() -> None:
    """Lists the lanes of FF_LANES that share a partition. Reads no database."""
    _run(lambda: collisions_run.run(console))


@app.command(name="version")
def show_version() -> None:
    """Prints the version."""
    console.print(version("flowfabric"), highlight=False)
