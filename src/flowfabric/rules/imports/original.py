"""What an import reads and what it makes: rows by table, and notes about all that differs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId, parse_uuid

Row = dict[str, Any]
Key = tuple[int, UUID]
MAX_INT = 2**63 - 1


class Note(Struct, frozen=True):
    """A row that was left out or changed; `fact` says what and why."""

    kind: Literal["left out", "changed", "added"]
    table: str
    key: str
    fact: str


class Original(Struct, frozen=True):
    """The rows of a database of the original, by table."""

    tables: Mapping[str, list[Row]]

    def rows(self, table: str) -> list[Row]:
        return self.tables.get(table, [])


class Imported(Struct):
    """The rows of the import by table, and its notes."""

    rows: dict[str, list[Row]]
    notes: list[Note]
    executions: dict[Key, Row]

    @classmethod
    def new(cls) -> Imported:
        return cls(defaultdict(list), [], {})

    def add(self, table: str, row: Row) -> Row:
        self.rows[table].append(row)
        if table == "ff_exec_core":
            self.executions[key_of(row)] = row
        return row

    def left_out(self, table: str, key: object, fact: str) -> None:
        self.notes.append(Note("left out", table, str(key), fact))

    def changed(self, table: str, key: object, fact: str) -> None:
        self.notes.append(Note("changed", table, str(key), fact))

    def added(self, table: str, key: object, fact: str) -> None:
        self.notes.append(Note("added", table, str(key), fact))


def key_of(row: Row) -> Key:
    return row["partition_key"], uuid_of(row["execution_id"])


def uuid_of(value: object) -> UUID:
    """A uuid, stored as bytes, as text, or as the text of an execution id."""
    if isinstance(value, UUID):
        return value
    if isinstance(value, bytes):
        return UUID(bytes=value)
    text = str(value)
    return ExecutionId(text).uuid if text.startswith("{") else parse_uuid(text)


def optional_uuid(value: object) -> UUID | None:
    return None if value is None else uuid_of(value)


def json_of(text: str | None) -> dict[str, Any]:
    """An object in a column; anything else is empty."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def text_of(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def whole(value: object) -> int:
    """A number of the original, which stores some as text; at most what a column holds."""
    try:
        return max(-MAX_INT, min(int(value), MAX_INT))  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        return 0


def grouped(rows: list[Row]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[key_of(row)].append(row)
    return found


def copied(row: Row, *columns: str) -> Row:
    """The columns of these names, as they are."""
    return {column: row[column] for column in columns}


def known(rows: list[Row], table: str, made: Imported) -> Iterator[Row]:
    """The rows whose execution is imported; the others are noted."""
    executions = made.executions
    for row in rows:
        key = key_of(row)
        if key in executions:
            yield row
        else:
            made.left_out(table, key[1], "its execution is not in the database")
