"""`flowfabric migrate`: migrates a database to this release, or prints the script for Postgres."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Annotated, Literal

import typer

from flowfabric.cli.database import Database, store_url
from flowfabric.cli.text import show
from flowfabric.connect import (
    is_postgres,
    is_valkey,
    migrate_postgres,
    migrate_sqlite,
    migration_script,
    sqlite_path,
)
from flowfabric.errors import ConfigError
from flowfabric.store.migration_steps import Progress

TELL_EVERY_S = 1.0


def run(
    database: Database,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Only pre (before the new code) or only post (after the old code)."
        ),
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the script instead, for psql or another tool.")
    ] = False,
    schema: Annotated[
        str, typer.Option(metavar="NAME", help="The Postgres schema; it must exist.")
    ] = "public",
) -> int:
    """Migrates a database to this release. Repeating it is safe."""
    wanted = _kind(kind)
    if sql:
        print(migration_script(wanted, schema), end="")
        return 0
    url = store_url(database.url, "migrate")
    report = _reporter()
    if is_postgres(url):
        applied = asyncio.run(migrate_postgres(url, wanted, report=report, schema=schema))
    elif is_valkey(url):
        applied = []
    elif wanted is not None or schema != "public":
        raise ConfigError("--kind and --schema: only for Postgres")
    else:
        told = migrate_sqlite(sqlite_path(url), report)
        applied = told.split(", ") if told else []
    show(*([f"applied {title}" for title in applied] or ["the database is up to date"]))
    return 0


def _kind(text: str | None) -> Literal["pre", "post"] | None:
    kinds: dict[str | None, Literal["pre", "post"] | None]
    kinds = {None: None, "pre": "pre", "post": "post"}
    if text not in kinds:
        raise ConfigError(f"--kind: expected pre or post, got {text!r}")
    return kinds[text]


def _reporter() -> Callable[[Progress], None]:
    """Prints a line on standard error when a step begins or ends, and every second in between."""
    last, step = 0.0, 0

    def report(progress: Progress) -> None:
        nonlocal last, step
        now = time.monotonic()
        if progress.step != step or now - last >= TELL_EVERY_S:
            print(progress, file=sys.stderr, flush=True)
            last, step = now, progress.step

    return report
