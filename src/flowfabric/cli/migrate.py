"""`flowfabric migrate`: migrates a Postgres database to this release, or prints the script."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from flowfabric.cli.text import show
from flowfabric.connect import migrate_postgres, migration_script
from flowfabric.errors import ConfigError

KINDS = ("pre", "post")


def run(
    url: Annotated[str, typer.Argument(help="postgresql://user@host/database")] = "",
    kind: Annotated[
        str | None,
        typer.Option(help="Only pre (before the new code) or only post (after the old code)."),
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the script instead, for psql or another tool.")
    ] = False,
    schema: Annotated[str, typer.Option(help="The Postgres schema; it must exist.")] = "public",
) -> int:
    """Migrates a Postgres database to this release. Repeating it is safe."""
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"kind: expected pre or post, got {kind!r}")
    if sql:
        print(migration_script(kind, schema), end="")
        return 0
    if not url:
        raise ConfigError(
            "url: expected postgresql://user@host/database, or --sql to print the script"
        )
    applied = asyncio.run(migrate_postgres(url, kind, schema=schema))
    show(*([f"applied {title}" for title in applied] or ["the database is up to date"]))
    return 0
