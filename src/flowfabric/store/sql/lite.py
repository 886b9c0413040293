"""A form as SQLite statements: one per step, with parameters picked by position from the values of a call.

The values of a call are laid out as (now, arguments, row before, row after), each in the encoding its column wants.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.plan import (
    Absent,
    Add,
    AnyOf,
    Arg,
    Cond,
    Covered,
    Delete,
    Form,
    Fresh,
    Guard,
    Insert,
    Now,
    Once,
    Ref,
    Step,
    Text,
    Until,
    Update,
    UpdateMany,
    Upsert,
    Was,
    When,
)
from flowfabric.store.schema import INDEXES, TABLES, Table
from flowfabric.store.sql.ddl import index_predicate, literal

Values = tuple[Any, ...]
Picker = Callable[[Values], Values]
Encoder = Callable[[Any], Any]
_json = msgspec.json.Encoder().encode


def uuid_text(raw: bytes | UUID | None) -> str | None:
    """The hyphenated text of a uuid, from its bytes."""
    if raw is None:
        return None
    digits = raw.hex() if isinstance(raw, bytes) else raw.hex
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def list_text(items: Any) -> str:
    return "[]" if not items else _json(list(items)).decode()


def _blob(value: UUID | bytes | None) -> bytes | None:
    return value.bytes if isinstance(value, UUID) else value


ENCODERS: dict[str, Encoder] = {"uuid": _blob, "uuidtext": uuid_text, "list": list_text}


class Statement(Struct, frozen=True):
    sql: str
    pick: Picker


class RungBy(Struct, frozen=True):
    """Where in the values the key and the time of a wake-up stand; -1 for none."""

    topic: str
    key: int
    at: int


class Script(Struct, frozen=True):
    """Everything a writer needs to run one form."""

    args: tuple[tuple[int, Encoder | None], ...]
    select: Statement | None
    was: tuple[tuple[int, Encoder | None], ...]
    head: Statement
    refs: tuple[tuple[int, Encoder | None], ...]
    rest: tuple[Statement, ...]
    rung: tuple[RungBy, ...]
    channels: tuple[str, ...]
    returning: tuple[tuple[int, str], ...]
    only_insert: bool


class Slot(Struct, frozen=True):
    """A value of a call: the clock, an argument, or a column of the guarded row before or after, in one encoding."""

    source: str
    name: str = ""
    encoding: str = ""


NOW = Slot("now")
_SOURCES = ("now", "arg", "was", "ref")


class _Draft:
    """A statement being written, with the slots of its parameters in order."""

    def __init__(self, subject: Table, table: Table, *, head: bool = False) -> None:
        self.subject, self.table, self.head = subject, table, head
        self.used: list[Slot] = []
        self.sql = ""

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
            case Was(column=column):
                return column if self.head else self.param("was", column, kind)
            case Ref(column=column):
                return self.param("ref", column, kind)
            case Now(plus=0):
                return self.now()
            case Now(plus=plus):
                return f"({self.now()} + {self.value(plus, 'int')})"
            case Until(column=column):
                return f"max({self.value(Was(column), 'int')} - {self.now()}, 1)"
            case Add(n=n):
                return f"{own} + {n}"
            case Once(value=inner):
                return f"coalesce({own}, {self.value(inner, kind)})"
            case Fresh():
                return "new_uuid()"
            case Text(parts=parts):
                return "(" + " || ".join(self.value(p, "text") for p in parts) + ")"
            case When(cond=cond, then=then, otherwise=otherwise):
                test = self.old_cond(cond)
                return f"CASE WHEN {test} THEN {self.value(then, kind, own)} ELSE {self.value(otherwise, kind, own)} END"
            case _:
                return literal(value)

    def old_cond(self, cond: Cond) -> str:
        """A fact about the guarded row before the plan."""
        kind = self.subject.kinds[cond.column]
        return self._cond(self.value(Was(cond.column), kind), kind, cond)

    def cond(self, cond: Cond, table: Table) -> str:
        return self._cond(cond.column, table.kinds[cond.column], cond)

    def _cond(self, left: str, kind: str, cond: Cond) -> str:
        match cond.op:
            case "is null":
                return f"{left} IS NULL"
            case "not null":
                return f"{left} IS NOT NULL"
            case "in":
                return f"{left} IN ({', '.join(literal(v) for v in cond.value)})"
            case op:
                return f"{left} {op} {self.value(cond.value, kind)}"

    def guard(self, guard: Guard) -> str:
        match guard:
            case Cond():
                return self.cond(guard, self.table)
            case AnyOf(conds=conds):
                return "(" + " OR ".join(self.cond(c, self.table) for c in conds) + ")"
            case Covered(column=column, by=by):
                return (
                    f"({column} = '[]' OR NOT EXISTS (SELECT 1 FROM json_each({column}) AS needed "
                    f"WHERE needed.value NOT IN (SELECT value FROM json_each({self.value(by, 'list')}))))"
                )
            case Absent(table=table, where=where):
                inner = " AND ".join(self.cond(c, TABLES[table]) for c in where)
                return f"NOT EXISTS (SELECT 1 FROM {table} WHERE {inner})"

    def where(self, guards: tuple[Guard, ...]) -> str:
        return " AND ".join(self.guard(g) for g in guards)

    def sets(self, changes: Any) -> str:
        kinds = self.table.kinds
        return ", ".join(f"{c} = {self.value(v, kinds[c], c)}" for c, v in changes.items())

    def row(self, row: Any) -> str:
        kinds = self.table.kinds
        return ", ".join(self.value(v, kinds[c]) for c, v in row.items())

    def step(self, step: Step) -> str:
        match step:
            case Insert(table=table, row=row, unless=unless):
                values = self.row(row)
                tail = " ON CONFLICT DO NOTHING" if self.head else ""
                if unless:
                    return f"INSERT INTO {table} ({', '.join(row)}) SELECT {values} WHERE {self.where(unless)}{tail}"
                return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values}){tail}"
            case Upsert(table=table, row=row, set=changes):
                values = self.row(row)
                return (
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values}) "
                    f"ON CONFLICT ({', '.join(self.table.key)}) DO UPDATE SET {self.sets(changes)}"
                )
            case Update(table=table, where=where, set=changes) | UpdateMany(table=table, where=where, set=changes):
                return f"UPDATE {table} SET {self.sets(changes)} WHERE {self.where(where)}"
            case Delete(table=table, where=where):
                return f"DELETE FROM {table} WHERE {self.where(where)}"


def slot(subject: Table, source: str, name: str, kind: str) -> Slot:
    """Columns come out of SQLite already encoded, but a uuid that goes into a text column must become text."""
    if source == "arg":
        return Slot(source, name, kind if kind in ENCODERS else "")
    return Slot(source, name, kind if kind == "uuidtext" and subject.kinds[name] == "uuid" else "")


def script(form: Form) -> Script:
    head_step = form.steps[0]
    subject = TABLES[head_step.table]
    head = _Draft(subject, subject, head=True)
    head.sql = head.step(head_step) if form.pick is None else _swept(head, head_step)
    rest = [_rest(subject, step) for step in form.steps[1:]]
    if isinstance(head_step, Delete):
        rest += _children(subject, head_step)
    wanted = [_returned(subject, c) for c in form.returning]
    wanted += [s for w in form.wakes for v in (w.key, w.at) if (s := _wake_slot(subject, v))]
    slots = list(dict.fromkeys([NOW, *head.used, *(s for r in rest for s in r.used), *wanted]))
    select = _select(form, subject, [s.name for s in slots if s.source == "was"])
    if select is not None:
        slots = list(dict.fromkeys([*slots, *select.used]))
    order = [s for source in _SOURCES for s in slots if s.source == source]
    refs = list(dict.fromkeys(s.name for s in order if s.source == "ref"))
    if refs:
        head.sql += " RETURNING " + ", ".join(refs)
    return _assemble(form, order, select, head, rest)


def _assemble(form: Form, order: list[Slot], select: _Draft | None, head: _Draft, rest: list[_Draft]) -> Script:
    place = {s: at for at, s in enumerate(order)}
    subject = head.subject

    def finished(draft: _Draft) -> Statement:
        return Statement(draft.sql, _picker([place[s] for s in draft.used]))

    def columns(source: str) -> tuple[tuple[int, Encoder | None], ...]:
        names = list(dict.fromkeys(s.name for s in order if s.source == source))
        return tuple((names.index(s.name), ENCODERS.get(s.encoding)) for s in order if s.source == source)

    def position(value: Any) -> int:
        found = _wake_slot(subject, value)
        return -1 if found is None else place[found]

    return Script(
        args=tuple((form.args.index(s.name), ENCODERS.get(s.encoding)) for s in order if s.source == "arg"),
        select=finished(select) if select is not None else None,
        was=columns("was"),
        head=finished(head),
        refs=columns("ref"),
        rest=tuple(finished(r) for r in rest),
        rung=tuple(RungBy(w.topic, position(w.key), position(w.at)) for w in form.wakes),
        channels=tuple(dict.fromkeys(s.table for s in form.steps if TABLES[s.table].outbox)),
        returning=tuple((place[s], subject.kinds[s.name]) for s in (_returned(subject, c) for c in form.returning)),
        only_insert=isinstance(form.steps[0], Insert) and len(form.steps) == 1 and not form.returning,
    )


def _swept(head: _Draft, step: Step) -> str:
    """A picked row is named by the key it was picked with."""
    assert isinstance(step, Update)
    sets = head.sets(step.set)
    named = [f"{k} = {head.param('was', k, head.subject.kinds[k])}" for k in head.subject.key]
    return f"UPDATE {step.table} SET {sets} WHERE {' AND '.join([*named, *(head.guard(g) for g in step.where)])}"


def _select(form: Form, subject: Table, names: list[str]) -> _Draft | None:
    """The rows of a sweep, or what a plan needs of its row before it changes it."""
    columns = ", ".join(dict.fromkeys(names))
    draft = _Draft(subject, subject, head=True)
    if form.pick is None:
        if not names:
            return None
        step = form.steps[0]
        assert isinstance(step, Update | Delete)
        draft.sql = f"SELECT {columns} FROM {subject.name} WHERE {draft.where(step.where)}"
        return draft
    index = INDEXES[form.pick.index]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {draft.value(v, subject.kinds[c])}" for c, v in form.pick.group.items()]
    if form.pick.upto is not None:
        tests.append(f"{index.order[0]} <= {draft.value(form.pick.upto, 'int')}")
    tests += [draft.guard(g) for g in form.pick.where]
    order = ", ".join(f"{c} DESC" if c in index.descending else c for c in index.order)
    draft.sql = f"SELECT {columns} FROM {subject.name} WHERE {' AND '.join(tests)} ORDER BY {order} LIMIT "
    return draft


def _rest(subject: Table, step: Step) -> _Draft:
    draft = _Draft(subject, TABLES[step.table])
    draft.sql = draft.step(step)
    return draft


def _children(subject: Table, step: Delete) -> list[_Draft]:
    """Rows that go with their owner; an outbox first notes the highest number it loses."""
    drafts = []
    named = {c.column: c.value for c in step.where if isinstance(c, Cond)}
    for child in subject.children:
        table = TABLES[child.table]

        def owned(draft: _Draft, table: Table = table) -> str:
            return " AND ".join(f"{k} = {draft.value(named[k], table.kinds[k])}" for k in subject.key)

        if table.outbox:
            noted = _Draft(subject, table)
            noted.sql = (
                f"INSERT INTO ff_outbox_trim (channel, event_id) SELECT '{table.name}', max(event_id) FROM {table.name} "
                f"WHERE {owned(noted)} HAVING max(event_id) IS NOT NULL "
                "ON CONFLICT (channel) DO UPDATE SET event_id = max(event_id, excluded.event_id)"
            )
            drafts.append(noted)
        gone = _Draft(subject, table)
        gone.sql = f"DELETE FROM {table.name} WHERE {owned(gone)}"
        drafts.append(gone)
    return drafts


def _returned(subject: Table, column: str | Was) -> Slot:
    if isinstance(column, Was):
        return slot(subject, "was", column.column, "")
    return slot(subject, "ref", column, "")


def _wake_slot(subject: Table, value: Any) -> Slot | None:
    match value:
        case Arg(name=name):
            return Slot("arg", name)
        case Ref(column=column):
            return Slot("ref", column)
    assert value is None, "a wake-up names an argument or a column"
    return None


def _picker(used: list[int]) -> Picker:
    if not used:
        return lambda values: ()
    if len(used) == 1:
        only = used[0]
        return lambda values: (values[only],)
    return itemgetter(*used)
