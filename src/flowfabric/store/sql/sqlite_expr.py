"""The vocabulary of a plan as SQLite text, with the positions of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from flowfabric.plan import (
    Absent,
    Add,
    After,
    Among,
    AnyOf,
    Arg,
    Before,
    Cond,
    Covered,
    Delete,
    Fresh,
    Guard,
    Insert,
    InsertEach,
    Item,
    Now,
    Once,
    Present,
    Span,
    Step,
    Text,
    Until,
    Update,
    UpdateMany,
    Upsert,
    When,
)
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.sql.ddl import comparison, literal
from flowfabric.store.sql.sqlite_codec import ENCODERS

Values = tuple[Any, ...]
Picker = Callable[[Values], Values]
WIDTHS = (32, 16, 8, 4, 2)
"""How many rows a wide insert carries: fewer calls of the driver."""
Source = Literal["now", "arg", "before", "after", "item"]


class Statement(Struct, frozen=True):
    """A text and how its parameters are picked from the values of a call."""

    sql: str
    pick: Picker
    step: int = 0
    must: bool = False
    """It touches exactly one row, or the whole plan is refused at `step`."""
    wide: dict[int, str] = {}
    """Texts of a plain insert for several rows, by their number."""
    among: int | None = None
    """Where the list of ids stands without which the statement matches nothing."""
    each: int | None = None
    """Where the items stand that the statement runs for; each is put behind the values."""


class Slot(Struct, frozen=True):
    """One value of a call in one encoding: the clock, an argument, a column of its row."""

    source: Source
    name: str = ""
    encoding: str = ""


NOW = Slot("now")


def slot(subject: Table, source: Source, name: str, kind: str) -> Slot:
    """Columns come encoded out of SQLite; a uuid that goes into a text column becomes text."""
    if source == "item":
        return Slot(source, name)
    if source == "arg":
        return Slot(source, name, kind if kind in ENCODERS else "")
    return Slot(source, name, kind if kind == "uuidtext" and subject.kinds[name] == "uuid" else "")


class Draft:
    """A statement being written, with the slots of its parameters in order.

    `inside` marks text that runs on the deciding row, where columns name their value before.
    """

    def __init__(self, subject: Table, table: Table, *, inside: bool = False) -> None:
        self.subject, self.table, self.inside = subject, table, inside
        self.used: list[Slot] = []
        self.sql = ""
        self.wide: dict[int, str] = {}
        self.at = 0
        self.must = False
        self.among: Slot | None = None
        self.each: Slot | None = None

    def finished(self, place: Mapping[Slot, int]) -> Statement:
        among = None if self.among is None else place[self.among]
        each = None if self.each is None else place[self.each]
        return Statement(
            self.sql,
            picker(place[s] for s in self.used),
            self.at,
            self.must,
            self.wide,
            among,
            each,
        )

    def param(self, source: Source, name: str, kind: str) -> str:
        self.used.append(slot(self.subject, source, name, kind))
        return "?"

    def now(self) -> str:
        self.used.append(NOW)
        return "?"

    def value(self, value: object, kind: str, own: str = "") -> str:
        match value:
            case Arg(name=name):
                return self.param("arg", name, kind)
            case Before(column=column):
                return column if self.inside else self.param("before", column, kind)
            case After(column=column):
                return self.param("after", column, kind)
            case Now(plus=0):
                return self.now()
            case Now(plus=plus):
                return f"({self.now()} + {self.value(plus, 'int')})"
            case Until(column=column):
                return f"max({self.value(Before(column), 'int')} - {self.now()}, 1)"
            case Span(since=since, until=until):
                return f"({self.value(Before(until), 'int')} - {self.value(Before(since), 'int')})"
            case Add(n=n):
                return f"{own} + {self.value(n, kind)}"
            case Once(value=inner):
                return f"coalesce({own}, {self.value(inner, kind)})"
            case Fresh():
                return "new_uuid()"
            case Item(name=name):
                return self.param("item", name, "")
            case Text(parts=parts):
                return "(" + " || ".join(self.value(p, "text") for p in parts) + ")"
            case When(cond=cond, then=then, otherwise=otherwise):
                left = self.value(Before(cond.column), self.subject.kinds[cond.column])
                test = self._cond(left, self.subject.kinds[cond.column], cond)
                yes, no = self.value(then, kind, own), self.value(otherwise, kind, own)
                return f"CASE WHEN {test} THEN {yes} ELSE {no} END"
            case _:
                return literal(value)

    def _cond(self, left: str, kind: str, cond: Cond) -> str:
        return comparison(left, cond, lambda value: self.value(value, kind))

    def guard(self, guard: Guard, table: Table | None = None) -> str:
        of = table or self.table
        match guard:
            case Cond():
                return self._cond(guard.column, of.kinds[guard.column], guard)
            case AnyOf(conds=conds):
                return "(" + " OR ".join(self.guard(c) for c in conds) + ")"
            case Covered(column=column, by=by):
                few, many = self.value(by, "subsets"), self.value(by, "many")
                covered = (
                    f"NOT EXISTS (SELECT 1 FROM json_each({column}) AS needed WHERE needed.value "
                    f"NOT IN (SELECT value FROM json_each({self.value(by, 'many')})))"
                )
                return (  # no worker covers an unreadable list
                    f"({column} IN (SELECT value FROM json_each({few})) OR (CASE WHEN {many} "
                    f"IS NULL OR NOT json_valid({column}) THEN false ELSE {covered} END))"
                )
            case Among(column=column, by=by):
                self.among = slot(self.subject, "arg", by.name, "uuids")
                ids = self.value(by, "uuids")
                return f"{column} IN (SELECT uuid_blob(value) FROM json_each({ids}))"
            case Absent(table=other, where=where):
                return f"NOT {self._exists(other, where)}"
            case Present(table=other, where=where):
                return self._exists(other, where)

    def _exists(self, table: str, where: Iterable[Guard]) -> str:
        return f"EXISTS (SELECT 1 FROM {table} WHERE {self.where(where, TABLES[table])})"

    def where(self, guards: Iterable[Guard], table: Table | None = None) -> str:
        return " AND ".join(self.guard(g, table) for g in guards)

    def sets(self, changes: Mapping[str, Any]) -> str:
        kinds = self.table.kinds
        return ", ".join(f"{c} = {self.value(v, kinds[c], c)}" for c, v in changes.items())

    def row(self, row: Mapping[str, Any]) -> str:
        kinds = self.table.kinds
        return ", ".join(self.value(v, kinds[c]) for c, v in row.items())

    def _plain_insert(self, table: str, row: Iterable[str], values: str, tail: str = "") -> str:
        begin = f"{_insert(table, row)} VALUES "
        self.wide = {n: f"{begin}{', '.join([f'({values})'] * n)}{tail}" for n in WIDTHS}
        return f"{begin}({values}){tail}"

    def step(self, step: Step) -> str:
        match step:
            case Insert(table=table, row=row, where=guards):
                values = self.row(row)
                tail = "" if self.table.is_numbered else " ON CONFLICT DO NOTHING"
                if guards:
                    return f"{_insert(table, row)} SELECT {values} WHERE {self.where(guards)}{tail}"
                return self._plain_insert(table, row, values, tail)
            case InsertEach(table=table, row=row, of=of):
                self.each = slot(self.subject, "arg", of.name, "")
                return self._plain_insert(table, row, self.row(row))
            case Upsert(table=table, row=row, set=changes):
                values = self.row(row)
                return (
                    f"{_insert(table, row)} VALUES ({values}) "
                    f"ON CONFLICT ({', '.join(self.table.key)}) DO UPDATE SET {self.sets(changes)}"
                )
            case (
                Update(table=table, where=where, set=changes)
                | UpdateMany(table=table, where=where, set=changes)
            ):
                return f"UPDATE {table} SET {self.sets(changes)} WHERE {self.where(where)}"
            case Delete(table=table, where=where):
                return f"DELETE FROM {table} WHERE {self.where(where)}"


def _insert(table: str, row: Iterable[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(row)})"


def picker(positions: Iterable[int]) -> Picker:
    used = list(positions)
    if not used:
        return lambda values: ()
    if len(used) == 1:
        only = used[0]
        return lambda values: (values[only],)
    return itemgetter(*used)
