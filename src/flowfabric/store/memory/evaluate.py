"""The vocabulary of a plan in plain Python: values, conditions and changes over rows as dicts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flowfabric.plan import (
    Add,
    After,
    Arg,
    Before,
    Cond,
    Form,
    Fresh,
    Guard,
    Item,
    Now,
    Once,
    Span,
    Text,
    Until,
    When,
)
from flowfabric.store.port import Row
from flowfabric.store.schema import Column, Table

Record = dict[str, Any]
Key = tuple[Any, ...]
Values = Mapping[str, Any]

TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a is not None and b is not None and a == b,
    "!=": lambda a, b: a is not None and b is not None and a != b,
    "<": lambda a, b: a is not None and b is not None and a < b,
    "<=": lambda a, b: a is not None and b is not None and a <= b,
    ">": lambda a, b: a is not None and b is not None and a > b,
    ">=": lambda a, b: a is not None and b is not None and a >= b,
    "in": lambda a, b: a in b,
    "is null": lambda a, b: a is None,
    "not null": lambda a, b: a is not None,
}


class Call:
    """One plan being applied: its arguments, the clock, and the guarded row before and after."""

    __slots__ = ("after", "args", "before", "item", "now")

    def __init__(self, form: Form, values: Sequence[object], now: int) -> None:
        self.args: Record = dict(zip(form.args, values, strict=True))
        self.now = now
        self.before: Record = {}
        self.after: Record = {}
        self.item: Record = {}

    def value(self, value: object, own: Any = None) -> Any:
        match value:
            case Arg(name=name):
                return self.args[name]
            case Before(column=column):
                return self.before[column]
            case After(column=column):
                return self.after[column]
            case Now(plus=plus):
                extra = self.value(plus)
                return None if extra is None else self.now + extra
            case Until(column=column):
                at = self.before[column]
                return None if at is None else max(at - self.now, 1)
            case Span(since=since, until=until):
                ends = self.before[since], self.before[until]
                return None if None in ends else ends[1] - ends[0]
            case Add(n=n):
                return own + self.value(n)
            case Once(value=inner):
                return self.value(inner) if own is None else own
            case Fresh():
                return uuid.uuid4()
            case Item(name=name):
                return self.item[name]
            case Text(parts=parts):
                texts = [self.value(part) for part in parts]
                return None if None in texts else "".join(map(str, texts))
            case When(cond=cond, then=then, otherwise=otherwise):
                return self.value(then if self.cond(cond, self.before) else otherwise, own)
            case _:
                return value

    def returned(self, form: Form) -> Row:
        return tuple(
            self.before[c.column] if isinstance(c, Before) else self.after[c]
            for c in form.returning
        )

    def cond(self, cond: Cond, row: Record) -> bool:
        wanted = cond.value if cond.op == "in" else self.value(cond.value)
        return TESTS[cond.op](row[cond.column], wanted)


def default_of(column: Column) -> object:
    if column.kind == "list" and isinstance(column.default, str):
        return tuple(json.loads(column.default))
    return column.default


def new_row(table: Table, row: Values, call: Call, number: int) -> Record:
    """A row to insert; `number` goes into an outbox's first column."""
    made: Record = {}
    for column in table.columns:
        if column.kind == "auto":
            made[column.name] = number
        elif column.name in row:
            made[column.name] = call.value(row[column.name])
        else:
            made[column.name] = default_of(column)
    return _checked(table, made)


def changed(table: Table, row: Record, changes: Values, call: Call) -> Record:
    return _checked(table, {**row, **{c: call.value(v, row[c]) for c, v in changes.items()}})


def _checked(table: Table, row: Record) -> Record:
    for column in table.columns:
        assert row[column.name] is not None or column.null, f"{table.name}.{column.name} is null"
    return row


def key_of(table: Table, where: tuple[Guard, ...], call: Call) -> Key:
    named = {c.column: c.value for c in where if isinstance(c, Cond) and c.op == "="}
    return tuple(call.value(named[k]) for k in table.key)
