"""New and changed rows of a form as straight Lua: fields, and the index entries that can change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from flowfabric.store.schema import Index, Table
from flowfabric.store.valkey.lua_entries import (
    Known,
    Touched,
    added,
    is_constant,
    known_after,
    touched,
)
from flowfabric.store.valkey.lua_expressions import Expressions
from flowfabric.store.valkey.lua_schema import (
    codes,
    column_cond_lua,
    large_columns,
    part_lua,
    quoted,
)
from flowfabric.store.valkey.lua_text import Lines, joined

Expression = Callable[[str], str]
"""The Lua of a column."""
_FIELDS = {False: ("s", "k"), True: ("l", "kl")}
_NO_FIELDS = {False: ("u", "j"), True: ("m", "jl")}


class NewRow:
    """A row to insert. Its values are locals, so that an entry does not need the row."""

    def __init__(
        self,
        x: Expressions,
        table: Table,
        row: Mapping[str, object],
        items: tuple[str, ...] = (),
    ) -> None:
        self._x, self._table, self._row, self._items = x, table, row, items
        self._columns = {column.name: column for column in table.columns}
        self._codes, self._large = codes(table.names), large_columns(table)
        self._is_numbered = table.is_numbered and table.columns[0].name not in row

    def column(self, name: str) -> str:
        """The Lua of a column of the row, which may have its default."""
        column = self._columns[name]
        if name not in self._row:
            if column.kind == "auto":
                return f"v_{name}"
            return "nil" if column.default is None else quoted(column.default)
        value = self._row[name]
        if value is None:
            return "nil"
        return quoted(value) if is_constant(value) else f"v_{name}"

    def values(self) -> Lines:
        """The locals, and `pk`."""
        for column in self._table.columns:
            name = column.name
            if name not in self._row:
                if column.kind == "auto":
                    yield f"local v_{name} = next_number(T.{self._table.name})"
                elif column.default is None and not column.null:
                    yield f"required(nil, '{name}')"
                continue
            value = self._row[name]
            if value is None and not column.null:
                yield f"required(nil, '{name}')"
            if value is None or is_constant(value):
                continue
            made = self._x.value(value, items=self._items)
            if not column.null:
                made = f"required({made}, '{name}')"
            yield f"local v_{name} = {made}"
        kinds = self._table.kinds
        yield f"local pk = {joined(part_lua(kinds[k], self.column(k)) for k in self._table.key)}"

    def write(self, at: int) -> Lines:
        """Refused when the row exists."""
        name, entries = self._table.name, added(self._table, self._known())
        if not self._is_numbered:
            yield f"if exists(T.{name}, pk) then refuse({at}) end"
        yield from _entries(self._x, self._table, entries, "after", self.column)
        yield from self._fields()
        yield f"make(T.{name}, pk, s{', l' if self._large else ''})"
        yield from _moves(entries)

    def shown(self, columns: Iterable[str]) -> str:
        """A table with these columns of the row."""
        return f"{{ {', '.join(f'{column} = {self.column(column)}' for column in columns)} }}"

    def _known(self) -> Known:
        """What is not given is null or a default."""
        missing: dict[str, object] = {
            c.name: c.default for c in self._table.columns if c.name not in self._row
        }
        if self._is_numbered:
            del missing[self._table.columns[0].name]
        return known_after({}, {**missing, **self._row})

    def _fields(self) -> Lines:
        sure: list[str] = []
        maybe: list[str] = []
        for column in self._table.columns:
            value = self.column(column.name)
            if value == "nil":
                continue
            is_large, code = column.name in self._large, quoted(self._codes[column.name])
            default = None if column.default is None else quoted(column.default)
            if column.name in self._table.key or (default is None and not column.null):
                sure += [code, value]
            elif value == default:
                continue
            elif value.startswith("'"):
                sure += [code, value]
            else:
                tests = [f"{value} ~= nil"] if column.null else []
                tests += [] if default is None else [f"{value} ~= {default}"]
                maybe.append(f"if {' and '.join(tests)} then {_set(code, value, is_large)} end")
        yield f"local s, k = {{ {', '.join(sure)} }}, {len(sure)}"
        if self._large:
            yield "local l, kl = {}, 0"
        yield from maybe


class Changes:
    """What a step sets in the row `r` with the key `pk`."""

    def __init__(
        self, x: Expressions, table: Table, changes: Mapping[str, object], known: Known
    ) -> None:
        self._x, self._table, self._changes = x, table, changes
        self._large = [column for column in changes if column in large_columns(table)]
        self._entries = touched(table, changes, known, known_after(known, changes))
        self._names = {column: f"c{at}" for at, column in enumerate(changes)}

    def write(self) -> Lines:
        """All values are computed before, and all entries before the row is written."""
        table, columns = self._table, {column.name: column for column in self._table.columns}
        for column, value in self._changes.items():
            if value is None or is_constant(value):
                if value is None and not columns[column].null:
                    yield f"required(nil, '{column}')"
                continue
            made = self._x.value(value, f"r.{column}")
            if not columns[column].null:
                made = f"required({made}, '{column}')"
            yield f"local {self._names[column]} = {made}"
        yield from _entries(self._x, table, self._entries, "before", _of_row)
        yield "local s, k, u, j = {}, 0, {}, 0"
        if self._large:
            yield "local l, kl, m, jl = {}, 0, {}, 0"
        for column in self._changes:
            yield from self._field(column)
        yield f"note_change(T.{table.name}, pk, r, {self._listed()}, {self._before()})"
        for column in self._changes:
            yield f"r.{column} = {self._value(column)}"
        yield from _entries(self._x, table, self._entries, "after", _of_row)
        yield f"change(T.{table.name}, pk, s, u{', l, m' if self._large else ''})"
        yield from _moves(self._entries)

    def _value(self, column: str) -> str:
        value = self._changes[column]
        if value is None:
            return "nil"
        return quoted(value) if is_constant(value) else self._names[column]

    def _listed(self) -> str:
        return self._x.constant(f"{{ {', '.join(map(quoted, self._changes))} }}")

    def _before(self) -> str:
        saved = [f"{column} = {self._saved(column)}" for column in self._changes]
        return f"{{ {', '.join(saved)} }}"

    def _saved(self, column: str) -> str:
        if column in self._large:
            return f"large_value(T.{self._table.name}, pk, '{column}')"
        return f"r.{column}"

    def _field(self, name: str) -> Lines:
        column = next(each for each in self._table.columns if each.name == name)
        is_large, code = name in self._large, quoted(codes(self._table.names)[name])
        value, default = self._value(name), column.default
        kept = default is not None and name not in self._table.key
        unset = _unset(code, is_large)
        if is_large:
            outcome = f"if {value} == nil then {unset} else {_set(code, value, True)} end"
            yield unset if value == "nil" else outcome
        elif value == "nil" or (kept and value == quoted(default)):
            yield f"if r.{name} ~= {value} then {unset} end"
        elif value.startswith("'") or not (column.null or kept):
            yield f"if r.{name} ~= {value} then {_set(code, value, False)} end"
        else:
            nothing = f"{value} == {quoted(default) if kept else 'nil'}"
            outcome = f"if {nothing} then {unset} else {_set(code, value, False)} end"
            yield f"if r.{name} ~= {value} then {outcome} end"


def _of_row(column: str) -> str:
    return f"r.{column}"


def _set(code: str, value: str, is_large: bool) -> str:
    into, count = _FIELDS[is_large]
    return f"{count} = {count} + 2 {into}[{count} - 1], {into}[{count}] = {code}, {value}"


def _unset(code: str, is_large: bool) -> str:
    into, count = _NO_FIELDS[is_large]
    return f"{count} = {count} + 1 {into}[{count}] = {code}"


# ---- index entries


def _entries(
    x: Expressions, table: Table, entries: Sequence[Touched], when: str, column: Expression
) -> Lines:
    """Group and member before (`g`, `m`) or after (`h`, `o`), which are nil without an entry."""
    for at, each in enumerate(entries):
        conds = each.before if when == "before" else each.after
        if conds is None:
            continue
        names = f"g{at}, m{at}" if when == "before" else f"h{at}, o{at}"
        made = f"{_group(table, each.index, column)}, {_member(table, each.index, column)} .. pk"
        if conds:
            yield f"local {names}"
            tests = " and ".join(column_cond_lua(cond, column(cond.column)) for cond in conds)
            yield f"if {tests} then {names} = {made} end"
        else:
            yield f"local {names} = {made}"


def _group(table: Table, index: Index, column: Expression) -> str:
    return joined(part_lua(table.kinds[c], column(c)) for c in index.group)


def _member(table: Table, index: Index, column: Expression) -> str:
    return joined(
        part_lua(table.kinds[c], column(c), descending=c in index.descending) for c in index.order
    )


def _moves(entries: Sequence[Touched]) -> Lines:
    for at, each in enumerate(entries):
        name = f"I.{each.index.name}"
        if each.before is None:
            always = not each.after
            line = f"add({name}, h{at}, o{at})"
            yield line if always else f"if o{at} then {line} end"
        elif each.after is None:
            line = f"remove({name}, g{at}, m{at})"
            yield line if not each.before else f"if m{at} then {line} end"
        else:
            yield f"move({name}, g{at}, m{at}, h{at}, o{at})"
