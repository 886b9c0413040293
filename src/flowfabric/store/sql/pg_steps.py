"""The steps after the deciding one as parts of a Postgres statement, and guards of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowfabric.plan import (
    Add,
    Among,
    Cond,
    Delete,
    Guard,
    Insert,
    InsertEach,
    Item,
    Now,
    Once,
    Step,
    Update,
    UpdateMany,
    Upsert,
)
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.sql.ddl import PG_TYPES, literal
from flowfabric.store.sql.forms import names_key
from flowfabric.store.sql.pg_expr import NOW, Scope


def guarded(head: Update | Delete, subject: Table, scope: Scope) -> str:
    """The row is found by its key; the other guards are hidden from the planner."""
    keyed = [g for g in head.where if names_key(g, subject)]
    named = " AND ".join(scope.guard(g, subject) for g in keyed)
    others = [scope.guard(g, subject) for g in head.where if g not in keyed]
    return f"{named} AND {hidden(others)}" if others else named


def hidden(tests: Sequence[str]) -> str:
    """Tests in a form that the planner cannot match with a partial index."""
    return f"CASE WHEN {' AND '.join(tests) or 'true'} THEN true ELSE false END"


def _matched(where: Sequence[Guard], table: Table, scope: Scope) -> str:
    """Like `guarded` where the whole key is given, as one value or as several."""
    keyed = [
        g for g in where if names_key(g, table) or (isinstance(g, Among) and g.column in table.key)
    ]
    if {g.column for g in keyed if isinstance(g, Cond | Among)} != set(table.key):
        return " AND ".join(scope.guard(g, table) for g in where)
    found = " AND ".join(scope.guard(g, table) for g in keyed)
    others = [scope.guard(g, table) for g in where if g not in keyed]
    return f"{found} AND {hidden(others)}" if others else found


def following(step: Step, scope: Scope, rows: str, *, counted: bool) -> str:
    """A step after the deciding one; `counted` makes it return a row per changed row."""
    table, tail = TABLES[step.table], " RETURNING 1" if counted else ""
    match step:
        case Insert(row=row, where=guards):
            tests = " AND ".join(scope.guard(g, table, "") for g in guards)
            where = f" WHERE {tests}" if tests else ""
            skip = " ON CONFLICT DO NOTHING" if counted else ""
            return f"{_insert(table.name, row, table, scope)}{where}{skip}{tail}"
        case InsertEach(row=row, of=of):
            parts = ", ".join(f"{name} {PG_TYPES[kind]}" for name, kind in item_kinds(step).items())
            return (
                f"{_insert(table.name, row, table, scope)} "
                f"CROSS JOIN LATERAL json_to_recordset({scope.args}.{of.name}) AS x({parts})"
            )
        case Upsert(row=row, set=changes):
            sets = ", ".join(f"{c} = {_conflict(c, v, row)}" for c, v in changes.items())
            return (
                f"{_insert(f'{table.name} AS t', row, table, scope)} "
                f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {sets}"
            )
        case Update(where=where_all, set=changes) | UpdateMany(where=where_all, set=changes):
            sets, tests = scope.sets(changes, table), _matched(where_all, table, scope)
            return f"UPDATE {table.name} AS t SET {sets} FROM {rows} WHERE {tests}{tail}"
        case Delete(where=where_all):
            tests = " AND ".join(scope.guard(c, table) for c in where_all)
            return f"DELETE FROM {table.name} AS t USING {rows} WHERE {tests}"


def _insert(into: str, row: Mapping[str, Any], table: Table, scope: Scope) -> str:
    return f"INSERT INTO {into} ({', '.join(row)}) SELECT {scope.row(row, table)} FROM {scope.args}"


def item_kinds(step: InsertEach) -> dict[str, str]:
    kinds = {
        value.name: TABLES[step.table].kinds[column]
        for column, value in step.row.items()
        if isinstance(value, Item)
    }
    return {name: kinds[name] for name in step.items}


def _conflict(column: str, value: object, row: Mapping[str, Any]) -> str:
    """ON CONFLICT can only name the rejected row and constants."""
    if column in row and row[column] == value:
        return f"EXCLUDED.{column}"
    match value:
        case Now(plus=0):
            return NOW
        case Add(n=n):
            return f"t.{column} + {n}"
        case Once(value=inner):
            return f"coalesce(t.{column}, {_conflict(column, inner, row)})"
        case None | int() | str():
            return literal(value)
    raise AssertionError(
        f"{column}: an upsert's change repeats its row, or is a constant or the clock"
    )


def in_key_order(subject: Table) -> str:
    """The rows of a sweep in the order in which every statement locks rows of other tables."""
    return f"(SELECT * FROM g ORDER BY {', '.join(f'g.w_{k}' for k in subject.key)}) AS g"


def children(subject: Table) -> list[str]:
    """Deletes the rows that a deleted row owns; an outbox records the highest number it loses."""
    parts = []
    for at, child in enumerate(subject.children):
        table = TABLES[child.table]
        named = [(child.column(k), k) for k in subject.key]
        owned = " AND ".join(f"t.{c} = g.r_{k}" for c, k in named)
        parts.append(f"c{at} AS (DELETE FROM {table.name} AS t USING g WHERE {owned})")
        if table.outbox:
            parts.append(
                f"o{at} AS (INSERT INTO ff_outbox_trim AS x (channel, event_id) "
                f"SELECT '{table.name}', max(t.event_id) FROM {table.name} AS t JOIN g ON {owned} "
                "HAVING max(t.event_id) IS NOT NULL ON CONFLICT (channel) "
                "DO UPDATE SET event_id = greatest(x.event_id, EXCLUDED.event_id))"
            )
    return parts
