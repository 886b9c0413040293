"""`flowfabric migrate`: migrates a Postgres database to this release, or prints the script."""

from __future__ import annotations

import asyncio

from rich.console import Console

from flowfabric.connect import migrate_postgres, migration_script
from flowfabric.errors import ConfigError

KINDS = ("pre", "post")


def run(url: str, kind: str | None, console: Console, *, as_sql: bool, schema: str) -> int:
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"kind: expected pre or post, got {kind!r}")
    if as_sql:
        print(migration_script(kind, schema), end="")
        return 0
    if not url:
        raise ConfigError(
            "url: expected postgresql://user@host/database, or --sql to print the script"
        )
    applied = asyncio.run(migrate_postgres(url, kind, schema=schema))
    for title in applied:
        console.print(f"applied {title}", highlight=False)
    if not applied:
        console.print("the database is up to date", highlight=False)
    return 0
