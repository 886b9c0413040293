"""Applies numbered `.sql` files once each, in one transaction under an advisory lock.

A `pre` migration runs before the new code, a `post` one after the last old process has stopped.
A file of steps is applied beside traffic instead, see `online_migration`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from typing import Literal

import asyncpg
from msgspec import Struct

from flowfabric.errors import ConfigError, TransportError, Unavailable
from flowfabric.store.migration_steps import Report, no_report, steps_of
from flowfabric.store.postgres.online_migration import OnlineMigration, Steps, sole_migrator

Kind = Literal["pre", "post"]
LOCK = 0x0F10_FAB1
LEDGER = """CREATE TABLE IF NOT EXISTS ff_migration_annotation (
    version bigint PRIMARY KEY, name text NOT NULL, applied_at_ms bigint NOT NULL,
    backward_compatible boolean NOT NULL DEFAULT true, checksum text NOT NULL)"""
_NOW_MS = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_RECORD = (
    "INSERT INTO ff_migration_annotation "
    "(version, name, applied_at_ms, backward_compatible, checksum) VALUES "
)


class Migration(Struct, frozen=True):
    version: int
    kind: Kind
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def is_online(self) -> bool:
        return bool(steps_of(self.sql))

    @property
    def script(self) -> str:
        return "\n\n".join(f"{step.whole};" for step in steps_of(self.sql)) or self.sql.rstrip()

    @property
    def title(self) -> str:
        return f"{self.version:04}_{self.kind}_{self.name}"


def shipped() -> list[Migration]:
    folder = files("flowfabric.store.postgres").joinpath("migrations")
    return [
        _parsed(f.name, f.read_text(encoding="utf-8"))
        for f in sorted(folder.iterdir(), key=lambda f: f.name)
        if f.name.endswith(".sql")
    ]


def _parsed(file: str, sql: str) -> Migration:
    number, kind, name = file.removesuffix(".sql").split("_", 2)
    assert kind in ("pre", "post"), f"{file}: a migration is pre or post"
    return Migration(int(number), "pre" if kind == "pre" else "post", name, sql)


def as_script(kind: Kind | None = None, schema: str = "public") -> str:
    """The migrations as one script for psql or another tool.

    It applies those of steps in its transaction, so it blocks the traffic of a large database.
    """
    parts = ["BEGIN;", f"SELECT pg_advisory_xact_lock({LOCK});", f"{LEDGER};"]
    if schema != "public":
        parts.insert(1, f"SET LOCAL search_path TO {schema};")
    for migration in shipped():
        if kind in (None, migration.kind):
            record = (
                f"{_RECORD}({migration.version}, '{migration.title}', {_NOW_MS}, "
                f"{str(migration.kind == 'pre').lower()}, '{migration.checksum}');"
            )
            parts += [f"-- {migration.title}", migration.script, record]
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"


async def migrate(
    connection: asyncpg.Connection,
    kind: Kind | None = None,
    report: Report = no_report,
    *,
    keeps_session: bool = True,
) -> list[str]:
    """Applies missing migrations; returns their titles.

    A pooler that does not keep the session cannot hold the lock of a migration of steps.
    """
    fresh: list[str] = []
    wanted = [m for m in shipped() if kind in (None, m.kind)]
    if not wanted or wanted[0].is_online:
        await _in_one_transaction(connection, [])
    for is_online, several in groupby(wanted, key=lambda m: m.is_online):
        if not is_online:
            fresh += await _in_one_transaction(connection, list(several))
            continue
        for migration in several:
            if not keeps_session and _missing([migration], await _ledger(connection)):
                text = f"migration {migration.title} needs the URL of the server, not of a pooler"
                raise ConfigError(f"url: {text}")
            if await _beside_traffic(connection, migration, report):
                fresh.append(migration.title)
    return fresh


async def _in_one_transaction(
    connection: asyncpg.Connection, migrations: Sequence[Migration]
) -> list[str]:
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        await _check_encoding(connection)
        await connection.execute(LEDGER)
        missing = _missing(migrations, await _ledger(connection))
        for migration in missing:
            await connection.execute(migration.sql)
            await _record(connection, migration)
    return [migration.title for migration in missing]


async def _beside_traffic(
    connection: asyncpg.Connection, migration: Migration, report: Report
) -> bool:
    """False when it was applied before, or meanwhile by another process."""
    if not _missing([migration], await _ledger(connection)):
        return False
    async with sole_migrator(connection):
        if not _missing([migration], await _ledger(connection)):
            return False
        steps = Steps(
            migration.version,
            migration.title,
            migration.checksum,
            migration.sql,
            lambda: _record(connection, migration),
        )
        await OnlineMigration(connection, steps, report).apply()
    return True


def _missing(migrations: Sequence[Migration], known: dict[int, asyncpg.Record]) -> list[Migration]:
    _check_ahead(known)
    for migration in shipped():
        if migration.version in known:
            _check_same(migration, known[migration.version])
    return [migration for migration in migrations if migration.version not in known]


async def _record(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(
        f"{_RECORD}($1, $2, {_NOW_MS}, $3, $4)",
        migration.version,
        migration.title,
        migration.kind == "pre",
        migration.checksum,
    )


async def check_schema(connection: asyncpg.Connection) -> None:
    """Raises for a database that this release cannot use."""
    await _check_encoding(connection)
    try:
        known = await _ledger(connection)
    except asyncpg.UndefinedTableError:
        known = {}
    _check_ahead(known)
    missing = [m.title for m in shipped() if m.kind == "pre" and m.version not in known]
    if missing:
        found = f"at {max(known)}" if known else "without a FlowFabric schema"
        raise Unavailable(
            f"schema_version: the database is {found} and needs {missing[0]}; "
            "run `flowfabric migrate --db URL`"
        )


async def _check_encoding(connection: asyncpg.Connection) -> None:
    encoding = await connection.fetchval("SHOW server_encoding")
    if encoding != "UTF8":
        raise ConfigError(
            f"the database is encoded in {encoding}; FlowFabric needs UTF8 "
            "(CREATE DATABASE ... ENCODING 'UTF8')"
        )


async def _ledger(connection: asyncpg.Connection) -> dict[int, asyncpg.Record]:
    try:
        rows = await connection.fetch(
            "SELECT version, checksum, backward_compatible FROM ff_migration_annotation"
        )
    except asyncpg.UndefinedColumnError:
        raise ConfigError(
            "the schema contains tables of the Rust FlowFabric, whose columns differ, and this "
            "release cannot use them; name another database or another schema"
        ) from None
    return {row["version"]: row for row in rows}


def _check_ahead(known: dict[int, asyncpg.Record]) -> None:
    newest = shipped()[-1].version
    ahead = [
        version
        for version, row in known.items()
        if version > newest and not row["backward_compatible"]
    ]
    if ahead:
        raise Unavailable(
            f"schema_version: the database is at {max(known)}, this release knows {newest}; "
            "upgrade flowfabric"
        )


def _check_same(migration: Migration, row: asyncpg.Record) -> None:
    if row["checksum"] != migration.checksum:
        text = f"migration {migration.title} differs from the one applied to this database"
        raise TransportError("postgres", text, backend_kind="protocol")
