"""Databases with rows in every declared table, for the tests of copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from flowfabric.connect.transfer import open_destination
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES, Column, Table
from tests import valkey
from tests.postgres import database

LAST_NUMBER = 5_000
SPACES = ("default", "ann", "bob-ü")


def new_url(kind: str, name: str, folder: Path) -> str:
    """A database that does not exist yet, or is empty."""
    if kind == "postgres":
        return database(f"copy_{name}")
    if kind == "valkey":
        return valkey.new_url()
    return f"sqlite:///{folder / name}.db"


def a_value(table: Table, column: Column, n: int, spaces: Sequence[str] = SPACES) -> object:
    if column.null and n % 2:
        return None
    if column.name in ("lease_expires_at_ms", "expires_at_ms"):
        return n
    if column.name == "namespace":
        return spaces[n % len(spaces)]
    match column.kind:
        case "auto":
            return 3 * n + 1
        case "uuid" | "uuidtext":
            return UUID(int=n * 0x1_0001 << 64 | 0x8 << 60)
        case "bytes":
            return bytes([0, 255, n % 256]) * (n % 5)
        case "json":
            return f'{{"n":  {n}, "text": "ü\\u0041"}}'
        case "list":
            return ("a b", "ü", f"{n}")[: n % 4]
        case "real":
            return n / 3
        case "int":
            return n if column.name in table.key else n * 7
    return f"{column.name} ü '{n}'"


def some_rows(table: Table, rows: int, spaces: Sequence[str] = SPACES) -> list[Row]:
    """The same number has the same id in every table, and so one namespace."""
    return [
        tuple(a_value(table, column, n, spaces) for column in table.columns) for n in range(rows)
    ]


async def fill(url: str, rows: int, spaces: Sequence[str] = SPACES) -> None:
    async with open_destination(url) as side:
        for table in TABLES.values():
            await side.write(table, some_rows(table, rows, spaces))
        numbers = {table.name: LAST_NUMBER for table in TABLES.values() if table.is_numbered}
        await side.finish(numbers)
