"""The vocabulary of a plan as Postgres text: types, arguments, values and guards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
    Form,
    Fresh,
    Guard,
    InsertEach,
    Item,
    Now,
    Once,
    Present,
    Span,
    Text,
    Until,
    When,
)
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.sql.ddl import PG_TYPES, comparison, literal

NOW = "(SELECT now_ms FROM clk)"
Placed = tuple[str, str, object]
"""A value and the table and column it is used with."""


def argument_kinds(form: Form) -> dict[str, str]:
    """The kind of each argument, from the columns it is used with; uuid wins over its text."""
    kinds: dict[str, str] = {}
    subject = TABLES[form.steps[0].table]
    for table, column, value in _placed(form):
        for name, kind in _typed(value, TABLES[table].kinds[column] if column else "int", subject):
            if kinds.get(name) in (None, "int") or kind in ("uuid", "uuidtext", "list"):
                kinds[name] = "uuid" if kind == "uuidtext" else kind
    return {name: kinds.get(name, "text") for name in form.args}


def _placed(form: Form) -> Iterator[Placed]:
    subject = form.steps[0].table
    if form.pick is not None:
        for column, value in form.pick.group.items():
            yield subject, column, value
        yield subject, "", form.pick.upto
        yield from _guarded(subject, form.pick.where)
    for step in form.steps:
        yield from _guarded(step.table, getattr(step, "where", ()))
        for part in ("row", "set"):
            for column, value in getattr(step, part, {}).items():
                yield step.table, column, value
        if isinstance(step, InsertEach):
            yield step.table, "", step
    for wake in form.wakes:
        yield subject, "", wake.at


def _guarded(table: str, guards: Iterable[Guard]) -> Iterator[Placed]:
    for guard in guards:
        match guard:
            case Cond(column=column, value=value):
                yield table, column, value
            case AnyOf(conds=conds):
                yield from _guarded(table, conds)
            case Absent(table=other, where=where) | Present(table=other, where=where):
                yield from _guarded(other, where)
            case Covered(column=column, by=by):
                yield table, column, by
            case Among(column=column):
                yield table, column, guard


def _typed(value: object, kind: str, subject: Table) -> Iterator[tuple[str, str]]:
    match value:
        case Arg(name=name):
            yield name, kind
        case Among(by=by):
            yield by.name, f"{kind}s"
        case InsertEach(of=of):
            yield of.name, "items"
        case Now(plus=plus) | Add(n=plus):
            yield from _typed(plus, "int", subject)
        case Once(value=inner):
            yield from _typed(inner, kind, subject)
        case Text(parts=parts):
            for part in parts:
                yield from _typed(part, "text", subject)
        case When(cond=cond, then=then, otherwise=otherwise):
            yield from _typed(cond.value, subject.kinds[cond.column], subject)
            yield from _typed(then, kind, subject)
            yield from _typed(otherwise, kind, subject)


class Scope:
    """How one part of a statement names the arguments and the row before and after."""

    def __init__(
        self, subject: Table, kinds: Mapping[str, str], args: str, before: str, after: str = "g.r_"
    ) -> None:
        self.subject, self.kinds, self.args = subject, kinds, args
        self._before, self._after = before, after

    def value(self, value: object, kind: str, own: str = "") -> str:
        match value:
            case Arg(name=name):
                return self.argument(name, kind)
            case Before(column=column):
                return self._as(f"{self._before}{column}", self.subject.kinds[column], kind)
            case After(column=column):
                return self._as(f"{self._after}{column}", self.subject.kinds[column], kind)
            case Now(plus=0):
                return self.now()
            case Now(plus=plus):
                return f"({self.now()} + {self.value(plus, 'int')})"
            case Until(column=column):
                at = f"{self._before}{column}"
                return f"CASE WHEN {at} IS NULL THEN NULL ELSE greatest({at} - {self.now()}, 1) END"
            case Span(since=since, until=until):
                return f"({self._before}{until} - {self._before}{since})"
            case Add(n=n):
                return f"{own} + {self.value(n, kind)}"
            case Once(value=inner):
                return f"coalesce({own}, {self.value(inner, kind)})"
            case Fresh():
                return self.fresh()
            case Item(name=name):
                return f"x.{name}"
            case Text(parts=parts):
                joined = " || ".join(f"{self.value(p, 'text')}::text" for p in parts)
                return f"({joined})::json" if kind == "json" else f"({joined})"
            case When(cond=cond, then=then, otherwise=otherwise):
                left = f"{self._before}{cond.column}"
                test = self.cond(cond, left, self.subject.kinds[cond.column])
                yes, no = self.value(then, kind, own), self.value(otherwise, kind, own)
                return f"CASE WHEN {test} THEN {yes} ELSE {no} END"
            case None:
                return f"NULL::{PG_TYPES[kind]}"
            case int():
                return literal(value)
            case _:
                return f"{literal(value)}::{PG_TYPES[kind]}"

    def argument(self, name: str, kind: str) -> str:
        return self._as(f"{self.args}.{name}", self.kinds[name], kind)

    @staticmethod
    def _as(text: str, have: str, want: str) -> str:
        return f"{text}::json" if want == "json" and have != "json" else text

    def now(self) -> str:
        return f"{self.args}.now_ms_"

    def fresh(self) -> str:
        return "gen_random_uuid()"

    def cond(self, cond: Cond, left: str, kind: str) -> str:
        return comparison(left, cond, lambda value: self.value(value, kind))

    def guard(self, guard: Guard, table: Table, row: str = "t.") -> str:
        match guard:
            case Cond(column=column):
                return self.cond(guard, f"{row}{column}", table.kinds[column])
            case AnyOf(conds=conds):
                return "(" + " OR ".join(self.guard(c, table, row) for c in conds) + ")"
            case Covered(column=column, by=by):
                return f"{row}{column} <@ {self.value(by, 'list')}"
            case Among(column=column, by=by):
                return f"{row}{column} = ANY({self.value(by, 'uuids')})"
            case Absent(table=other, where=where):
                inner = " AND ".join(self.guard(c, TABLES[other], "o.") for c in where)
                return f"NOT EXISTS (SELECT 1 FROM {other} AS o WHERE {inner})"
            case Present():
                return f"{self.args}.n_ IN (SELECT h.n_ FROM h)"

    def sets(self, changes: Mapping[str, Any], table: Table) -> str:
        return ", ".join(
            f"{c} = {self.value(v, table.kinds[c], f't.{c}')}" for c, v in changes.items()
        )

    def row(self, row: Mapping[str, Any], table: Table) -> str:
        return ", ".join(self.value(v, table.kinds[c]) for c, v in row.items())


class Scalars(Scope):
    """Arguments as plain parameters, for single inserts and for the selection of a sweep.

    The planner reads an index in order only when its group is given by plain parameters.
    """

    def __init__(
        self, subject: Table, kinds: Mapping[str, str], places: Mapping[str, int], now: str = NOW
    ) -> None:
        super().__init__(subject, kinds, "", "t.")
        self._places, self._now = places, now

    def argument(self, name: str, kind: str) -> str:
        return self._as(
            f"${self._places[name]}::{PG_TYPES[self.kinds[name]]}", self.kinds[name], kind
        )

    def now(self) -> str:
        return self._now


class Swept(Scope):
    """The rows of a sweep. Each takes its new uuids from random bytes that the caller sends.

    A server without OpenSSL opens the system's random device for each uuid.
    """

    def __init__(self, subject: Table, kinds: Mapping[str, str], random: int, each: int) -> None:
        super().__init__(subject, kinds, "p", "t.")
        self._random, self._each, self._taken = random, each, 0

    def fresh(self) -> str:
        start = f"(p.place_ - 1) * {16 * self._each} + {16 * self._taken + 1}"
        self._taken += 1
        return f"encode(substr(${self._random}::bytea, {start}, 16), 'hex')::uuid"


def fresh_values(value: object) -> int:
    """How many new uuids the value needs."""
    if isinstance(value, When):
        return fresh_values(value.then) + fresh_values(value.otherwise)
    return fresh_values(value.value) if isinstance(value, Once) else isinstance(value, Fresh)
