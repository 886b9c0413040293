"""Forms as Lua functions: one that runs a plan, and one that sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    Delete,
    Form,
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
    Wake,
    When,
    walk,
)
from flowfabric.store.schema import INDEXES, TABLES, Child, Index, Table, channels_of
from flowfabric.store.valkey.lua_schema import (
    INDEX_CODES,
    cond_lua,
    large_columns,
    part_lua,
    quoted,
    serves,
)

Lines = Iterator[str]


def form_lua(form: Form) -> str:
    return "\n".join(_FormRenderer(form).lines()) + "\n"


class _FormRenderer:
    """`a` holds the arguments, `b` and `n` the row of the deciding step before and after it."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._args = {name: f"a[{at}]" for at, name in enumerate(form.args, 2)}
        self._head = TABLES[form.steps[0].table]

    def lines(self) -> Lines:
        yield f"-- {self._form.name}({', '.join(self._form.args)})"
        yield "return {"
        if self._form.pick is None:
            yield "  run = function(a)"
            yield from _indented(self._run(), 2)
            yield "  end,"
        else:
            yield "  sweep = function(a, limit)"
            yield from _indented(self._sweep(), 2)
            yield "  end,"
        yield "}"

    # ---- a plan

    def _run(self) -> Lines:
        yield "local b, n = {}, {}"
        for at, step in enumerate(self._form.steps):
            yield from self._step(step, at)
        yield from self._finish()
        yield f"return {self._answer()}"

    def _finish(self) -> Lines:
        for channel in channels_of(self._form):
            yield f"wake({quoted(channel)}, '', nil, '')"
        for each in self._form.wakes:
            yield self._wake(each)

    def _wake(self, each: Wake) -> str:
        topic = quoted(each.topic)
        if each.at is not None:
            at = self._value(each.at)
            return f"do local at = {at} if at then wake({topic}, '', nil, at) end end"
        if each.key is None:
            return f"wake({topic}, '', nil, '')"
        return f"wake({topic}, '{self._key_kind(each.key)}', {self._value(each.key)}, '')"

    def _key_kind(self, key: object) -> str:
        named = key.name if isinstance(key, Arg) else getattr(key, "column", "")
        kind = self._head.kinds.get(named, "text")
        return "u" if kind in ("uuid", "uuidtext") else "s"

    def _answer(self) -> str:
        shown = []
        for column in self._form.returning:
            if isinstance(column, Before):
                shown.append(f"b.{column.column}")
            else:
                shown.append(f"n.{column}")
        return f"row_answer({len(shown)}, {{ {', '.join(shown)} }})"

    # ---- a sweep

    def _sweep(self) -> Lines:
        pick, head = self._form.pick, self._form.steps[0]
        assert pick is not None and isinstance(head, Update)
        index = INDEXES[pick.index]
        table = TABLES[index.table]
        guards = (*pick.where, *head.where)
        ids = next((g for g in pick.where if isinstance(g, Among) and serves(index) == "key"), None)
        test = " and ".join(self._guard(guard, "r", table) for guard in guards) or "true"
        group = _joined(part_lua(table.kinds[c], self._value(pick.group[c])) for c in index.group)
        yield "local picked, b, n = {}, {}, {}"
        yield "if limit <= 0 then return {} end"
        if ids is not None:
            yield f"local wanted = {{ unpack({self._value(ids.by)}) }}"
            yield "table.sort(wanted)"
            yield "for _, id in ipairs(wanted) do"
            yield f"  local pk = {group} .. {part_lua(table.kinds[ids.column], 'id')}"
            yield f"  local r = {self._fetch(table, head)}(T.{table.name}, pk)"
            yield f"  if #picked < limit and r and {test} then picked[#picked + 1] = pk end"
            yield "end"
        else:
            limit_of = "nil"
            if pick.upto is not None:
                yield f"local upto = {self._value(pick.upto)}"
                yield "if upto == nil then return {} end"
                limit_of = part_lua(table.kinds[index.order[0]], "upto")
            yield (
                f"each_row(I.{INDEX_CODES[index.name]}, {group}, nil, {limit_of}, false, "
                "function(pk, r)"
            )
            if self._fetch(table, head) == "whole":
                yield f"  r = whole(T.{table.name}, pk)"
            yield f"  if {test} then picked[#picked + 1] = pk end"
            yield "  return #picked >= limit"
            yield "end)"
        yield "local answers = {}"
        yield "for at, pk in ipairs(picked) do"
        yield from _indented(self._update(head, table, 0, picked=True), 1)
        for at, step in enumerate(self._form.steps[1:], 1):
            yield from _indented(self._step(step, at), 1)
        yield from _indented(self._finish(), 1)
        yield f"  answers[at] = {self._answer()}"
        yield "end"
        yield "return answers"

    # ---- steps

    def _step(self, step: Step, at: int) -> Lines:
        table = TABLES[step.table]
        match step:
            case Insert(row=row, where=where):
                yield "do"
                for guard in where:
                    yield f"  if not ({self._guard(guard, 'nil', table)}) then refuse({at}) end"
                yield from _indented(self._new_row(table, row), 1)
                into = "n = " if at == 0 else ""
                yield f"  {into}insert(T.{table.name}, pk, row, {at})"
                yield "end"
            case InsertEach(row=row, of=of):
                yield f"for _, it in ipairs({self._value(of)}) do"
                yield from _indented(self._new_row(table, row, step.items), 1)
                yield f"  insert(T.{table.name}, pk, row, {at})"
                yield "end"
            case Upsert(row=row, set=changes):
                yield "do"
                yield from _indented(self._new_row(table, row), 1)
                yield f"  local r = fetch(T.{table.name}, pk)"
                yield "  local w = row"
                yield "  if r then"
                yield from _indented(self._changed(table, changes), 2)
                yield f"    put(T.{table.name}, pk, w)"
                yield "  else"
                yield f"    insert(T.{table.name}, pk, row, {at})"
                yield "  end"
                if at == 0:
                    yield "  b, n = r or {}, w"
                yield "end"
            case Update():
                yield "do"
                yield from _indented(self._update(step, table, at), 1)
                yield "end"
            case UpdateMany(where=where, set=changes):
                yield "do"
                yield from _indented(self._matching(table, where), 1)
                yield "  for _, pk in ipairs(found) do"
                yield f"    local r = fetch(T.{table.name}, pk)"
                yield "    local w"
                yield from _indented(self._changed(table, changes), 2)
                yield f"    put(T.{table.name}, pk, w)"
                yield "  end"
                yield "end"
            case Delete(where=where):
                yield "do"
                if at == 0:
                    yield from _indented(self._delete_one(table, where), 1)
                else:
                    yield from _indented(self._matching(table, where), 1)
                    yield f"  for _, pk in ipairs(found) do put(T.{table.name}, pk, false) end"
                yield "end"

    def _update(self, step: Update, table: Table, at: int, *, picked: bool = False) -> Lines:
        if not picked:
            yield f"local pk = {self._key(table, step.where)}"
        yield f"local r = {self._fetch(table, step)}(T.{table.name}, pk)"
        guards = [self._guard(g, "r", table) for g in step.where if not _names_key(g, table)]
        yield f"if not ({' and '.join(['r', *guards])}) then refuse({at}) end"
        if at == 0:
            yield "b = r"
        yield "local w"
        yield from self._changed(table, step.set)
        yield f"put(T.{table.name}, pk, w)"
        if at == 0:
            yield "n = w"

    def _fetch(self, table: Table, step: Update) -> str:
        """Large columns are loaded for a step whose row the form reads them from."""
        large = set(large_columns(table))
        if not large:
            return "fetch"
        read = {c.column if isinstance(c, Before) else c for c in self._form.returning}
        for value in self._all_values():
            if isinstance(value, Before | After):
                read.add(value.column)
        for guard in (*step.where, *(self._form.pick.where if self._form.pick else ())):
            conds = guard.conds if isinstance(guard, AnyOf) else (guard,)
            read |= {cond.column for cond in conds if isinstance(cond, Cond)}
        return "whole" if read & large else "fetch"

    def _all_values(self) -> Iterator[object]:
        for step in self._form.steps:
            for part in ("row", "set"):
                for value in getattr(step, part, {}).values():
                    yield from walk(value)

    def _changed(self, table: Table, changes: Mapping[str, object]) -> Lines:
        """`w` becomes a copy of `r` with the changes, which are all computed before."""
        large = large_columns(table)
        columns = {column.name: column for column in table.columns}
        names = [f"c{at}" for at in range(len(changes))]
        yield "w = copy(r)"
        for name, (column, value) in zip(names, changes.items(), strict=True):
            computed = self._value(value, f"r.{column}")
            if not columns[column].null:
                computed = f"required({computed}, '{column}')"
            yield f"local {name} = {computed}"
        for name, column in zip(names, changes, strict=True):
            yield f"w.{column} = {name}"
            if column in large:
                yield f"w['\\1{column}'] = {name} == nil"

    def _new_row(
        self, table: Table, row: Mapping[str, object], items: tuple[str, ...] = ()
    ) -> Lines:
        yield "local row = {"
        given = dict(row)
        for column in table.columns:
            if column.kind == "auto":
                yield f"  {column.name} = next_number(T.{table.name}),"
            elif column.name in given:
                value = self._value(given[column.name], items=items)
                if not column.null:
                    value = f"required({value}, '{column.name}')"
                yield f"  {column.name} = {value},"
            elif column.default is None and not column.null:
                yield f"  {column.name} = required(nil, '{column.name}'),"
        yield "}"
        key = _joined(part_lua(table.kinds[k], _of_row(table, k)) for k in table.key)
        yield f"local pk = {key}"

    def _delete_one(self, table: Table, where: Sequence[Guard]) -> Lines:
        yield f"local pk = {self._key(table, where)}"
        yield f"local r = fetch(T.{table.name}, pk)"
        guards = [self._guard(g, "r", table) for g in where if not _names_key(g, table)]
        yield f"if not ({' and '.join(['r', *guards])}) then refuse(0) end"
        yield "b, n = r, r"
        for child in table.children:
            yield from self._delete_children(table, child)
        yield f"put(T.{table.name}, pk, false)"

    def _delete_children(self, table: Table, child: Child) -> Lines:
        of = TABLES[child.table]
        where = tuple(Cond(child.column(k), "=", Before(k)) for k in table.key)
        yield "do"
        yield from _indented(self._matching(of, where), 1)
        if of.outbox:
            yield "  local last"
            yield "  for _, pk in ipairs(found) do"
            yield f"    local number = fetch(T.{of.name}, pk).event_id"
            yield "    if last == nil or less(last, number) then last = number end"
            yield "  end"
            yield f"  if last then trim({quoted(of.name)}, last) end"
        yield f"  for _, pk in ipairs(found) do put(T.{of.name}, pk, false) end"
        yield "end"

    # ---- rows that match

    def _matching(self, table: Table, where: Sequence[Guard], first: bool = False) -> Lines:
        """`found` becomes the keys of the rows that match."""
        named: dict[str, tuple[str, bool]] = {}
        for guard in where:
            if isinstance(guard, Cond) and guard.op == "=":
                named[guard.column] = (self._value(guard.value), False)
            elif isinstance(guard, Among):
                named[guard.column] = (self._value(guard.by), True)
        test = " and ".join(self._guard(guard, "r", table) for guard in where) or "true"
        stop = " return true" if first else ""
        visit = f"function(pk, r) if {test} then found[#found + 1] = pk{stop} end end"
        yield "local found = {}"
        prefix = _prefix(table.key, named)
        index = _index_for(table, named)
        if len(prefix) == len(table.key):
            body = [
                f"local pk = {self._joined_key(table, prefix, named)}",
                f"local r = fetch(T.{table.name}, pk)",
                f"if r and {test} then found[#found + 1] = pk end",
            ]
            yield from self._loops(prefix, named, body)
        elif index is not None:
            group = self._joined_key(table, list(index.group), named)
            call = f"each_row(I.{INDEX_CODES[index.name]}, {group}, nil, nil, false, {visit})"
            yield from self._loops(index.group, named, [call])
        elif prefix:
            key = self._joined_key(table, prefix, named)
            yield from self._loops(
                prefix, named, [f"each_of_table(T.{table.name}, {key}, {visit})"]
            )
        else:
            yield f"each_of_table(T.{table.name}, '', {visit})"

    def _loops(
        self, columns: Sequence[str], named: Mapping[str, tuple[str, bool]], body: Sequence[str]
    ) -> Lines:
        many = [column for column in columns if named[column][1]]
        values = [named[column][0] for column in columns if not named[column][1]]
        checks = " and ".join(f"{value} ~= nil" for value in values)
        depth = 0
        if checks:
            yield f"if {checks} then"
            depth += 1
        for column in many:
            yield "  " * depth + f"for _, k_{column} in ipairs({named[column][0]}) do"
            depth += 1
        yield from _indented(body, depth)
        for left in range(depth - 1, -1, -1):
            yield "  " * left + "end"

    def _joined_key(
        self, table: Table, columns: Sequence[str], named: Mapping[str, tuple[str, bool]]
    ) -> str:
        parts = []
        for column in columns:
            value, is_many = named[column]
            parts.append(part_lua(table.kinds[column], f"k_{column}" if is_many else value))
        return _joined(parts)

    # ---- guards and values

    def _key(self, table: Table, where: Iterable[Guard]) -> str:
        named = {g.column: g.value for g in where if isinstance(g, Cond) and g.op == "="}
        return _joined(part_lua(table.kinds[k], self._value(named[k])) for k in table.key)

    def _guard(self, guard: Guard, row: str, table: Table) -> str:
        match guard:
            case Cond():
                return self._cond(guard, row, table)
            case AnyOf(conds=conds):
                return f"({' or '.join(self._cond(cond, row, table) for cond in conds)})"
            case Covered(column=column, by=by):
                return f"covered({row}.{column}, {self._value(by)})"
            case Among(column=column, by=by):
                return f"contains({self._value(by)}, {row}.{column})"
            case Absent(table=name, where=where):
                return f"not {self._exists(TABLES[name], where)}"
            case Present(table=name, where=where):
                return self._exists(TABLES[name], where)

    def _exists(self, table: Table, where: Sequence[Guard]) -> str:
        body = " ".join(line.strip() for line in self._matching(table, where, first=True))
        return f"(function() {body} return #found > 0 end)()"

    def _cond(self, cond: Cond, row: str, table: Table) -> str:
        if cond.op in ("is null", "not null", "in") or isinstance(cond.value, str | int):
            return cond_lua(cond, row, table)
        return cond_lua(cond, row, table, self._value(cond.value))

    def _value(self, value: object, own: str = "nil", items: tuple[str, ...] = ()) -> str:
        def inner(nested: object) -> str:
            return self._value(nested, own, items)

        match value:
            case None:
                return "nil"
            case Arg(name=name):
                return self._args[name]
            case Before(column=column):
                return f"b.{column}"
            case After(column=column):
                return f"n.{column}"
            case Now(plus=plus):
                return "now()" if plus == 0 else f"plus(now(), {inner(plus)})"
            case Until(column=column):
                return f"until_(b.{column})"
            case Span(since=since, until=until):
                return f"minus(b.{until}, b.{since})"
            case Add(n=number):
                return f"plus({own}, {inner(number)})"
            case Once(value=once):
                return f"once({own}, {inner(once)})"
            case Fresh():
                return "fresh()"
            case Item(name=name):
                return f"it[{items.index(name) + 1}]"
            case Text(parts=parts):
                return f"text({len(parts)}, {', '.join(map(inner, parts))})"
            case When(cond=cond, then=then, otherwise=otherwise):
                holds = self._cond(cond, "b", self._head)
                return f"either({holds}, {inner(then)}, {inner(otherwise)})"
            case tuple() | list():
                raise AssertionError(f"{self._form.name}: a constant list")
            case _:
                return quoted(value)


def _names_key(guard: Guard, table: Table) -> bool:
    return isinstance(guard, Cond) and guard.op == "=" and guard.column in table.key


def _prefix(key: Sequence[str], named: Mapping[str, Any]) -> list[str]:
    """The first columns of the key, as far as they are named."""
    found = []
    for column in key:
        if column not in named:
            break
        found.append(column)
    return found


def _index_for(table: Table, named: Mapping[str, Any]) -> Index | None:
    """An index over all rows whose groups are named."""
    return next(
        (
            index
            for index in INDEXES.values()
            if index.table == table.name
            and index.group
            and not index.where
            and serves(index) == "entries"
            and all(column in named for column in index.group)
        ),
        None,
    )


def _of_row(table: Table, column: str) -> str:
    default = next(c.default for c in table.columns if c.name == column)
    return f"row.{column}" if default is None else f"(row.{column} or {quoted(default)})"


def _joined(parts: Iterable[str]) -> str:
    return " .. ".join(parts) or "''"


def _indented(lines: Iterable[str], depth: int) -> Lines:
    for line in lines:
        yield "  " * depth + line
