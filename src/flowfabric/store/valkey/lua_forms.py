"""Forms as Lua functions: one that runs a plan, and one that sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flowfabric.plan import (
    After,
    Among,
    AnyOf,
    Arg,
    Before,
    Cond,
    Delete,
    Form,
    Guard,
    Insert,
    InsertEach,
    Step,
    Update,
    UpdateMany,
    Upsert,
    Wake,
    walk,
)
from flowfabric.store.schema import INDEXES, TABLES, Child, Table, channels_of
from flowfabric.store.valkey.lua_expressions import Expressions, names_key
from flowfabric.store.valkey.lua_schema import (
    large_columns,
    part_lua,
    quoted,
    serves,
)
from flowfabric.store.valkey.lua_text import Lines, indented, joined


def form_lua(form: Form) -> str:
    return "\n".join(_FormRenderer(form).lines()) + "\n"


class _FormRenderer:
    def __init__(self, form: Form) -> None:
        self._form, self._x = form, Expressions(form)

    def lines(self) -> Lines:
        yield f"-- {self._form.name}({', '.join(self._form.args)})"
        yield "return {"
        if self._form.pick is None:
            yield "  run = function(a)"
            yield from indented(self._run(), 2)
            yield "  end,"
        else:
            yield "  sweep = function(a, limit)"
            yield from indented(self._sweep(), 2)
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
            at = self._x.value(each.at)
            return f"do local at = {at} if at then wake({topic}, '', nil, at) end end"
        if each.key is None:
            return f"wake({topic}, '', nil, '')"
        return f"wake({topic}, '{self._key_kind(each.key)}', {self._x.value(each.key)}, '')"

    def _key_kind(self, key: object) -> str:
        named = key.name if isinstance(key, Arg) else getattr(key, "column", "")
        kind = self._x.head.kinds.get(named, "text")
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
        test = " and ".join(self._x.guard(guard, "r", table) for guard in guards) or "true"
        group = joined(part_lua(table.kinds[c], self._x.value(pick.group[c])) for c in index.group)
        yield "local picked, b, n = {}, {}, {}"
        yield "if limit <= 0 then return {} end"
        if ids is not None:
            yield f"local wanted = {{ unpack({self._x.value(ids.by)}) }}"
            yield "table.sort(wanted)"
            yield "for _, id in ipairs(wanted) do"
            yield f"  local pk = {group} .. {part_lua(table.kinds[ids.column], 'id')}"
            yield f"  local r = {self._fetch(table, head)}(T.{table.name}, pk)"
            yield f"  if #picked < limit and r and {test} then picked[#picked + 1] = pk end"
            yield "end"
        else:
            limit_of = "nil"
            if pick.upto is not None:
                yield f"local upto = {self._x.value(pick.upto)}"
                yield "if upto == nil then return {} end"
                limit_of = part_lua(table.kinds[index.order[0]], "upto")
            yield (f"each_row(I.{index.name}, {group}, nil, {limit_of}, false, function(pk, r)")
            if self._fetch(table, head) == "whole":
                yield f"  r = whole(T.{table.name}, pk)"
            yield f"  if {test} then picked[#picked + 1] = pk end"
            yield "  return #picked >= limit"
            yield "end)"
        yield "local answers = {}"
        yield "for at, pk in ipairs(picked) do"
        yield from indented(self._update(head, table, 0, picked=True), 1)
        for at, step in enumerate(self._form.steps[1:], 1):
            yield from indented(self._step(step, at), 1)
        yield from indented(self._finish(), 1)
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
                    yield f"  if not ({self._x.guard(guard, 'nil', table)}) then refuse({at}) end"
                yield from indented(self._new_row(table, row), 1)
                into = "n = " if at == 0 else ""
                yield f"  {into}insert(T.{table.name}, pk, row, {at})"
                yield "end"
            case InsertEach(row=row, of=of):
                yield f"for _, it in ipairs({self._x.value(of)}) do"
                yield from indented(self._new_row(table, row, step.items), 1)
                yield f"  insert(T.{table.name}, pk, row, {at})"
                yield "end"
            case Upsert(row=row, set=changes):
                yield "do"
                yield from indented(self._new_row(table, row), 1)
                yield f"  local r = fetch(T.{table.name}, pk)"
                yield "  local w = row"
                yield "  if r then"
                yield from indented(self._changed(table, changes), 2)
                yield f"    put(T.{table.name}, pk, w)"
                yield "  else"
                yield f"    insert(T.{table.name}, pk, row, {at})"
                yield "  end"
                if at == 0:
                    yield "  b, n = r or {}, w"
                yield "end"
            case Update():
                yield "do"
                yield from indented(self._update(step, table, at), 1)
                yield "end"
            case UpdateMany(where=where, set=changes):
                yield "do"
                yield from indented(self._x.matching(table, where), 1)
                yield "  for _, pk in ipairs(found) do"
                yield f"    local r = fetch(T.{table.name}, pk)"
                yield "    local w"
                yield from indented(self._changed(table, changes), 2)
                yield f"    put(T.{table.name}, pk, w)"
                yield "  end"
                yield "end"
            case Delete(where=where):
                yield "do"
                if at == 0:
                    yield from indented(self._delete_one(table, where), 1)
                else:
                    yield from indented(self._x.matching(table, where), 1)
                    yield f"  for _, pk in ipairs(found) do put(T.{table.name}, pk, false) end"
                yield "end"

    def _update(self, step: Update, table: Table, at: int, *, picked: bool = False) -> Lines:
        if not picked:
            yield f"local pk = {self._x.key(table, step.where)}"
        yield f"local r = {self._fetch(table, step)}(T.{table.name}, pk)"
        guards = [self._x.guard(g, "r", table) for g in step.where if not names_key(g, table)]
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
            computed = self._x.value(value, f"r.{column}")
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
            if column.kind == "auto" and column.name not in given:
                yield f"  {column.name} = next_number(T.{table.name}),"
            elif column.name in given:
                value = self._x.value(given[column.name], items=items)
                if not column.null:
                    value = f"required({value}, '{column.name}')"
                yield f"  {column.name} = {value},"
            elif column.default is None and not column.null:
                yield f"  {column.name} = required(nil, '{column.name}'),"
        yield "}"
        key = joined(part_lua(table.kinds[k], _of_row(table, k)) for k in table.key)
        yield f"local pk = {key}"

    def _delete_one(self, table: Table, where: Sequence[Guard]) -> Lines:
        yield f"local pk = {self._x.key(table, where)}"
        yield f"local r = fetch(T.{table.name}, pk)"
        guards = [self._x.guard(g, "r", table) for g in where if not names_key(g, table)]
        yield f"if not ({' and '.join(['r', *guards])}) then refuse(0) end"
        yield "b, n = r, r"
        for child in table.children:
            yield from self._delete_children(table, child)
        yield f"put(T.{table.name}, pk, false)"

    def _delete_children(self, table: Table, child: Child) -> Lines:
        of = TABLES[child.table]
        where = tuple(Cond(child.column(k), "=", Before(k)) for k in table.key)
        yield "do"
        yield from indented(self._x.matching(of, where), 1)
        if of.outbox:
            yield "  local last"
            yield "  for _, pk in ipairs(found) do"
            yield f"    local number = fetch(T.{of.name}, pk).event_id"
            yield "    if last == nil or less(last, number) then last = number end"
            yield "  end"
            yield f"  if last then trim({quoted(of.name)}, last) end"
        yield f"  for _, pk in ipairs(found) do put(T.{of.name}, pk, false) end"
        yield "end"


def _of_row(table: Table, column: str) -> str:
    default = next(c.default for c in table.columns if c.name == column)
    return f"row.{column}" if default is None else f"(row.{column} or {quoted(default)})"
