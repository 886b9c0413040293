"""Which index entries a step can change, from the constants of its guards and of what it sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from flowfabric.plan import (
    Add,
    After,
    Arg,
    Before,
    Cond,
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
from flowfabric.store.schema import INDEXES, Index, Table
from flowfabric.store.valkey.lua_schema import serves

Known = dict[str, frozenset[str | None]]
"""The values that a column can have; a column that is not named can have any."""
_COMPUTED = (Add, After, Arg, Before, Fresh, Item, Now, Once, Span, Text, Until, When)


class Touched(Struct, frozen=True):
    """An index whose entry of a row can change.

    `before` and `after` are the conditions that are left to test; None when there is no entry.
    """

    index: Index
    before: tuple[Cond, ...] | None
    after: tuple[Cond, ...] | None


def entries_of(table: Table) -> list[Index]:
    return [
        index
        for index in INDEXES.values()
        if index.table == table.name and serves(index) == "entries"
    ]


def known_by(guards: Iterable[Guard]) -> Known:
    """What guards that hold say about the row."""
    known: Known = {}
    for guard in guards:
        if not isinstance(guard, Cond):
            continue
        match guard.op:
            case "=" if is_constant(guard.value):
                found = frozenset[str | None]({str(guard.value)})
            case "in":
                found = frozenset(map(str, guard.value))
            case "is null":
                found = frozenset({None})
            case _:
                continue
        known[guard.column] = known.get(guard.column, found) & found
    return known


def known_after(before: Known, changes: Mapping[str, object]) -> Known:
    known = {column: values for column, values in before.items() if column not in changes}
    for column, value in changes.items():
        if (values := _possible(value)) is not None:
            known[column] = values
    return known


def touched(table: Table, columns: Iterable[str], before: Known, after: Known) -> list[Touched]:
    """Of a row whose columns change."""
    changed = set(columns)
    found = []
    for index in entries_of(table):
        named = {cond.column for cond in index.where}
        was, will = _left(index.where, before), _left(index.where, after)
        if not changed & {*named, *index.group, *index.order} or (was is None and will is None):
            continue
        same_place = not changed & {*index.group, *index.order}
        if same_place and was == will and not changed & {cond.column for cond in was or ()}:
            continue
        found.append(Touched(index, was, will))
    return found


def added(table: Table, known: Known) -> list[Touched]:
    """Of a new row."""
    left = ((index, _left(index.where, known)) for index in entries_of(table))
    return [Touched(index, None, will) for index, will in left if will is not None]


def is_constant(value: object) -> bool:
    return value is not None and not isinstance(value, (*_COMPUTED, tuple, list))


def _possible(value: object) -> frozenset[str | None] | None:
    if value is None:
        return frozenset({None})
    if isinstance(value, When):
        then, otherwise = _possible(value.then), _possible(value.otherwise)
        return None if then is None or otherwise is None else then | otherwise
    return frozenset({str(value)}) if is_constant(value) else None


def _left(conds: Sequence[Cond], known: Known) -> tuple[Cond, ...] | None:
    """The conditions whose outcome is not known; None when one of them does not hold."""
    held = {cond: _holds(cond, known.get(cond.column)) for cond in conds}
    if False in held.values():
        return None
    return tuple(cond for cond, holds in held.items() if holds is None)


def _holds(cond: Cond, values: frozenset[str | None] | None) -> bool | None:
    if values is None:
        return None
    match cond.op:
        case "is null":
            outcomes = {value is None for value in values}
        case "not null":
            outcomes = {value is not None for value in values}
        case "=":
            outcomes = {value == str(cond.value) for value in values}
        case "!=":
            outcomes = {value not in (None, str(cond.value)) for value in values}
        case "in":
            given: set[str | None] = set(map(str, cond.value))
            outcomes = {value in given for value in values}
        case _:
            return None
    return outcomes.pop() if len(outcomes) == 1 else None
