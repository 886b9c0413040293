"""The declared tables and indexes as Lua."""

from __future__ import annotations

import json
from collections.abc import Iterable
from zlib import crc32

from flowfabric.plan import Cond
from flowfabric.store.schema import INDEXES, TABLES, Index, Table

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LARGE_FROM = 30
"""Tables with so many columns keep bytes apart, so that a rule does not load them."""


CODE_LENGTH = 3


def code(name: str) -> str:
    """A short name for keys and fields. It does not depend on what else is declared."""
    number, made = crc32(name.encode()), ""
    for _ in range(CODE_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        made += _DIGITS[digit]
    return made


def codes(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    made = {name: prefix + code(name) for name in names}
    assert len(set(made.values())) == len(made), "two names have the same code"
    return made


TABLE_CODES = codes(TABLES, "t")
INDEX_CODES = codes(INDEXES, "i")


def quoted(value: object) -> str:
    """A constant as a Lua string."""
    text = str(value)
    made = "".join(
        char if 32 <= ord(char) < 127 and char not in "'\\" else _escaped(char) for char in text
    )
    return f"'{made}'"


def _escaped(char: str) -> str:
    return "".join(f"\\{byte:03d}" for byte in char.encode())


def large_columns(table: Table) -> list[str]:
    if len(table.columns) < LARGE_FROM:
        return []
    return [column.name for column in table.columns if column.kind == "bytes"]


def serves(index: Index) -> str:
    """What an index is read from: its own entries, the keys of its table, or another's groups."""
    key = TABLES[index.table].key
    if index.primary and (*index.group, *index.order) == key:
        return "key"
    if index.served_by:
        base = INDEXES[index.served_by]
        if (*index.group, *index.order) == base.group[: len(index.group) + len(index.order)]:
            return "groups"
    return "entries"


def is_backwards(index: Index) -> bool:
    """Read from its end: an order that descends, over keys that ascend."""
    return serves(index) == "key" and bool(index.descending)


def schema_lua() -> str:
    lines = [line for table in TABLES.values() for line in _table(table)]
    ordered = sorted(INDEXES.values(), key=lambda index: bool(index.served_by))
    lines += [line for index in ordered for line in _index(index)]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterable[str]:
    fields = codes(table.names)
    defaults = {c.name: c.default for c in table.columns if c.default is not None}
    large = large_columns(table)
    yield f"T.{table.name} = {{"
    yield f"  code = '{TABLE_CODES[table.name]}', indexes = {{}},"
    yield f"  codes = {{ {', '.join(f'{name} = {quoted(c)}' for name, c in fields.items())} }},"
    yield f"  names = {{ {', '.join(f'[{quoted(c)}] = {quoted(n)}' for n, c in fields.items())} }},"
    shown = ", ".join(f"{name} = {quoted(value)}" for name, value in defaults.items())
    yield f"  default_values = {{ {shown} }},"
    yield f"  kept = {{ {', '.join(f'{name} = true' for name in table.key)} }},"
    small = [column for column in table.names if column not in large]
    yield f"  small = {{ {', '.join(map(quoted, small))} }},"
    if large:
        yield f"  large = {{ {', '.join(f'{name} = true' for name in large)} }},"
    yield "}"
    yield f"T.{table.name}.defaults = {{ __index = T.{table.name}.default_values }}"


def _index(index: Index) -> Iterable[str]:
    table = TABLES[index.table]
    source = serves(index)
    name = f"I.{index.name}"
    columns = dict.fromkeys((*(cond.column for cond in index.where), *index.group, *index.order))
    tests = [cond_lua(cond, "r") for cond in index.where]
    yield f"{name} = {{"
    yield f"  code = '{INDEX_CODES[index.name]}', t = T.{table.name},"
    yield f"  grouped = {json.dumps(bool(index.group))}, primary = {json.dumps(source == 'key')},"
    if is_backwards(index):
        yield "  back = true,"
    yield f"  columns = {{ {', '.join(map(quoted, columns))} }},"
    yield f"  test = function(r) return {' and '.join(tests) or 'true'} end,"
    yield f"  group = function(r) return {_key_lua(table, index.group, ())} end,"
    yield f"  order = function(r) return {_key_lua(table, index.order, index.descending)} end,"
    yield f"  key_of = function(member) {_key_of(table, index, source)} end,"
    yield "}"
    if source == "groups":
        yield f"{name}.base = I.{index.served_by}"
    if source == "entries":
        yield f"T.{table.name}.indexes[#T.{table.name}.indexes + 1] = {name}"


def _key_lua(table: Table, columns: Iterable[str], descending: Iterable[str]) -> str:
    parts = [part_lua(table.kinds[c], f"r.{c}", descending=c in descending) for c in columns]
    return " .. ".join(parts) or "''"


def part_lua(kind: str, value: str, *, descending: bool = False) -> str:
    if kind in ("int", "auto"):
        return f"int{'_desc' if descending else ''}({value})"
    if kind in ("uuid", "uuidtext"):
        return f"uuid({value})"
    return f"word({value})"


def _key_of(table: Table, index: Index, source: str) -> str:
    """The key of the row is what follows the columns of the order."""
    if source == "key":
        return "return member"
    lines, at = ["local at = 1"], 0
    for column in index.order:
        kind = table.kinds[column]
        if kind in ("int", "auto"):
            at += 8
        elif kind in ("uuid", "uuidtext"):
            at += 16
        else:
            lines.append(f"at = string.find(member, '%z', at + {at}) + 1")
            at = 0
    return f"{' '.join(lines)} return sub(member, at + {at})"


def cond_lua(cond: Cond, row: str, value: str | None = None) -> str:
    """A condition on a column of a row. `value` is the Lua of a value that is not a constant."""
    return column_cond_lua(cond, f"{row}.{cond.column}", value)


def column_cond_lua(cond: Cond, column: str, value: str | None = None) -> str:
    match cond.op:
        case "is null":
            return f"{column} == nil"
        case "not null":
            return f"{column} ~= nil"
        case "in":
            same = [f"{column} == {quoted(each)}" for each in cond.value]
            return f"({' or '.join(same) or 'false'})"
    if cond.value is None and value is None:
        return "false"
    if value is None:
        match cond.op:
            case "=":
                return f"{column} == {quoted(cond.value)}"
            case "!=":
                return f"({column} ~= nil and {column} ~= {quoted(cond.value)})"
    given = quoted(cond.value) if value is None else value
    match cond.op:
        case "=":
            return f"same({column}, {given})"
        case "!=":
            return f"differs({column}, {given})"
        case "<":
            return f"less({column}, {given})"
        case ">":
            return f"less({given}, {column})"
        case "<=":
            return f"up_to({column}, {given})"
        case ">=":
            return f"up_to({given}, {column})"
    raise AssertionError(cond.op)
