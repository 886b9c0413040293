"""Words of a plan as SQLite text, with the positions of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from itertools import combinations
from operator import itemgetter
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.ids import hyphenated
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

Values = tuple[Any, ...]
Picker = Callable[[Values], Values]
Encoder = Callable[[Any], Any]
WIDTHS = (32, 16, 8, 4, 2)
FEW = 6
_json = msgspec.json.Encoder().encode


def uuid_text(raw: bytes | UUID | None) -> str | None:
    """The hyphenated text of a uuid, from its bytes."""
    if raw is None:
        return None
    return hyphenated(raw.hex() if isinstance(raw, bytes) else raw.hex)


def list_text(items: Any) -> str:
    return "[]" if not items else _json(list(items)).decode()


def _blob(value: UUID | bytes | None) -> bytes | None:
    return value.bytes if isinstance(value, UUID) else value


def uuids_text(items: Iterable[UUID]) -> str:
    return list_text([item.hex for item in items])


@lru_cache(maxsize=1_024)
def subsets_text(items: tuple[str, ...]) -> str:
    """Every list that these cover, as it is stored: looking one up is much cheaper than comparing two lists row by row.

    Beyond a few there are too many of them, and nothing is said but the empty list.
    """
    few = sorted(set(items)) if len(items) <= FEW else []
    return list_text(
        [list_text(subset) for size in range(len(few) + 1) for subset in combinations(few, size)]
    )


def many_text(items: Collection[str]) -> str | None:
    return list_text(items) if len(items) > FEW else None


ENCODERS: dict[str, Encoder] = {
    "uuid": _blob,
    "uuidtext": uuid_text,
    "list": list_text,
    "uuids": uuids_text,
    "subsets": lambda items: subsets_text(tuple(items)),
    "many": many_text,
}


class Statement(Struct, frozen=True):
    """`must` means that it touches exactly one row or the whole plan is refused at `step`.

    `wide` holds the texts of a plain insert for several rows at once, by how many: fewer trips through the driver. `among` is
    where a list of ids stands without which it has nothing to do, `each` where the items stand that it is run for; each of them
    is put behind the values.
    """

    sql: str
    pick: Picker
    step: int = 0
    must: bool = False
    wide: dict[int, str] = {}
    among: int | None = None
    each: int | None = None


class Slot(Struct, frozen=True):
    """A value of a call: the clock, an argument, a column of the guarded row before or after, in one encoding."""

    source: str
    name: str = ""
    encoding: str = ""


NOW = Slot("now")


def slot(subject: Table, source: str, name: str, kind: str) -> Slot:
    """Columns come out of SQLite already encoded, but a uuid that goes into a text column must become text."""
    if source == "item":
        return Slot(source, name)
    if source == "arg":
        return Slot(source, name, kind if kind in ENCODERS else "")
    return Slot(source, name, kind if kind == "uuidtext" and subject.kinds[name] == "uuid" else "")


class Draft:
    """A statement being written, with the slots of its parameters in order.

    `inside` means the text runs on the guarded row itself, where its columns before the change can be named directly.
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

    def param(self, source: str, name: str, kind: str) -> str:
        self.used.append(slot(self.subject, source, name, kind))
        return "?"

    def now(self) -> str:
        self.used.append(NOW)
        return "?"

    def value(self, value: Any, kind: str, own: str = "") -> str:
        match value:
            case Arg(name=name):
                return self.param("arg", name, kind)
            case Before(column=column):
                return column if self.inside else self.param("was", column, kind)
            case After(column=column):
                return self.param("ref", column, kind)
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
                return f"CASE WHEN {test} THEN {self.value(then, kind, own)} ELSE {self.value(otherwise, kind, own)} END"
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
                return (  # a list that cannot be read is covered by nothing
                    f"({column} IN (SELECT value FROM json_each({few})) OR (CASE WHEN {many} IS NULL OR NOT json_valid({column}) "
                    f"THEN false ELSE NOT EXISTS (SELECT 1 FROM json_each({column}) AS needed "
                    f"WHERE needed.value NOT IN (SELECT value FROM json_each({self.value(by, 'many')}))) END))"
                )
            case Among(column=column, by=by):
                self.among = slot(self.subject, "arg", by.name, "uuids")
                return f"{column} IN (SELECT uuid_blob(value) FROM json_each({self.value(by, 'uuids')}))"
            case Absent(table=other, where=where):
                return (
                    f"NOT EXISTS (SELECT 1 FROM {other} WHERE {self.where(where, TABLES[other])})"
                )
            case Present(table=other, where=where):
                return f"EXISTS (SELECT 1 FROM {other} WHERE {self.where(where, TABLES[other])})"

    def where(self, guards: Iterable[Guard], table: Table | None = None) -> str:
        return " AND ".join(self.guard(g, table) for g in guards)

    def sets(self, changes: Mapping[str, Any]) -> str:
        kinds = self.table.kinds
        return ", ".join(f"{c} = {self.value(v, kinds[c], c)}" for c, v in changes.items())

    def row(self, row: Mapping[str, Any]) -> str:
        kinds = self.table.kinds
        return ", ".join(self.value(v, kinds[c]) for c, v in row.items())

    def _plain_insert(self, table: str, row: Mapping[str, Any], values: str, tail: str = "") -> str:
        begin = f"INSERT INTO {table} ({', '.join(row)}) VALUES "
        self.wide = {n: f"{begin}{', '.join([f'({values})'] * n)}{tail}" for n in WIDTHS}
        return f"{begin}({values}){tail}"

    def step(self, step: Step) -> str:
        match step:
            case Insert(table=table, row=row, where=guards):
                values = self.row(row)
                tail = " ON CONFLICT DO NOTHING" if _may_exist(self.table) else ""
                if guards:
                    return f"INSERT INTO {table} ({', '.join(row)}) SELECT {values} WHERE {self.where(guards)}{tail}"
                return self._plain_insert(table, row, values, tail)
            case InsertEach(table=table, row=row, of=of):
                self.each = slot(self.subject, "arg", of.name, "")
                return self._plain_insert(table, row, self.row(row))
            case Upsert(table=table, row=row, set=changes):
                values = self.row(row)
                return (
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values}) "
                    f"ON CONFLICT ({', '.join(self.table.key)}) DO UPDATE SET {self.sets(changes)}"
                )
            case (
                Update(table=table, where=where, set=changes)
                | UpdateMany(table=table, where=where, set=changes)
            ):
                return f"UPDATE {table} SET {self.sets(changes)} WHERE {self.where(where)}"
            case Delete(table=table, where=where):
                return f"DELETE FROM {table} WHERE {self.where(where)}"


def _may_exist(table: Table) -> bool:
    """Whether an insert can meet its own key; a numbered row never does."""
    return table.columns[0].kind != "auto"


def refusable(step: Step) -> bool:
    """Whether a step behind the deciding one can refuse the plan."""
    return isinstance(step, Update) or (
        isinstance(step, Insert) and (bool(step.where) or _may_exist(TABLES[step.table]))
    )


def picker(positions: Iterable[int]) -> Picker:
    used = list(positions)
    if not used:
        return lambda values: ()
    if len(used) == 1:
        only = used[0]
        return lambda values: (values[only],)
    return itemgetter(*used)
