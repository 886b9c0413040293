"""`flowfabric top`: a live view of a deployment, or one snapshot of it."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from flowfabric.cli import text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit, masked
from flowfabric.cli.top.collect import Collector
from flowfabric.cli.top.model import Overview
from flowfabric.cli.top.once import print_overview, to_json
from flowfabric.cli.top.session import Session
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import name

WATCH_S = 1.0
"""A snapshot watches the events for this time, since a rate needs two readings."""
MISSING = (
    "top: the live view needs the package `textual`: pip install 'flowfabric[top]'; "
    "`flowfabric top --once` prints a snapshot without it"
)


def run(
    database: Database,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="Only this namespace; default: all."),
    ] = None,
    interval: Annotated[
        float,
        typer.Option("--interval", min=0.5, max=60, metavar="S", help="Seconds between refreshes."),
    ] = 2.0,
    operator: Annotated[
        str | None,
        typer.Option(
            "--operator",
            metavar="NAME",
            help="Your name in the history of what you change; default: your login.",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Print one snapshot; also when the output is not a terminal."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One snapshot as JSON.")] = False,
) -> int:
    """Shows a deployment live: throughput, lanes, runs, failures, workers, budgets."""
    if namespace is not None:
        name(namespace, "--namespace")
    is_live = not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    if not is_live:
        found = database.read(lambda engine: _snapshot(engine, namespace))
        text.print_json(to_json(found)) if as_json else print_overview(found)
        return Exit.DONE
    if not _has_textual():
        raise CommandError(Exit.FAILED, MISSING)
    by = _login() if operator is None else operator
    database.read(lambda engine: _live(engine, database, namespace, interval, by))
    return Exit.DONE


async def _snapshot(engine: EngineProtocol, namespace: str | None) -> Overview:
    collector = Collector(engine, namespace)
    await collector.collect()
    await asyncio.sleep(WATCH_S)
    return await collector.collect()


def _has_textual() -> bool:
    try:
        import textual  # noqa: F401
    except ImportError:
        return False
    return True


def _login() -> str:
    """The login name; empty where the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


async def _live(
    engine: EngineProtocol, database: Database, namespace: str | None, interval: float, by: str
) -> None:
    """The first overview is read before the terminal is taken over, so that an error is a line."""
    from flowfabric.cli.top.view import TopApp

    @asynccontextmanager
    async def writing() -> AsyncIterator[EngineProtocol]:
        opened = await database.open_to_write()
        try:
            yield opened
        finally:
            await opened.close()

    collector = Collector(engine, namespace)
    session = Session(text.clean(masked(database.url)), engine, collector, writing, by)
    app = TopApp(session, await collector.collect(), interval)
    await app.run_async()
    if app.return_code:
        raise ConfigError("top: the view ended with an error")
