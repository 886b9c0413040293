"""Forms as Lua functions: one that runs a plan, and one that sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    Span,
    Step,
    Until,
    Update,
    UpdateMany,
    Upsert,
    Wake,
    When,
    form_values,
)
from flowfabric.store.schema import INDEXES, TABLES, Child, Table, channels_of
from flowfabric.store.valkey.lua_entries import Known, known_by
from flowfabric.store.valkey.lua_expressions import Expressions, names_key
from flowfabric.store.valkey.lua_rows import Changes, NewRow
from flowfabric.store.valkey.lua_schema import large_columns, part_lua, quoted, serves
from flowfabric.store.valkey.lua_text import Lines, indented, joined


def form_lua(form: Form) -> str:
    return "\n".join(_FormRenderer(form).lines()) + "\n"


class _FormRenderer:
    def __init__(self, form: Form) -> None:
        self._form, self._x = form, Expressions(form)
        self._head = TABLES[form.steps[0].table]
        values = [*form_values(form), *form.returning]
        self._before = dict.fromkeys(c for value in values for c in _before(value))
        after = [value.column for value in values if isinstance(value, After)]
        self._after = dict.fromkeys((*after, *(c for c in form.returning if isinstance(c, str))))

    def lines(self) -> Lines:
        body = list(self._run() if self._form.pick is None else self._sweep())
        yield f"-- {self._form.name}({', '.join(self._form.args)})"
        yield from self._x.made_once
        yield "return {"
        yield "  run = function(a)" if self._form.pick is None else "  sweep = function(a, limit)"
        yield from indented(body, 2)
        yield "  end,"
        yield "}"

    # ---- a plan

    def _run(self) -> Lines:
        yield "local time, b, n = now()"
        for at, step in enumerate(self._form.steps):
            yield from self._step(step, at)
        yield from self._finish()
        yield f"return {self._answer()}"

    def _finish(self) -> Lines:
        for channel in channels_of(self._form):
            yield f"wake({quoted(channel)}, '', '', '')"
        for each in self._form.wakes:
            yield self._wake(each)

    def _wake(self, each: Wake) -> str:
        topic = quoted(each.topic)
        if each.at is not None:
            return f"wake({topic}, '', '', {self._x.value(each.at)})"
        if each.key is None:
            return f"wake({topic}, '', '', '')"
        return f"wake({topic}, '{self._key_kind(each.key)}', {self._x.value(each.key)}, '')"

    def _key_kind(self, key: object) -> str:
        named = key.name if isinstance(key, Arg) else getattr(key, "column", "")
        kind = self._x.head.kinds.get(named, "text")
        return "u" if kind in ("uuid", "uuidtext") else "s"

    def _answer(self) -> str:
        """A null is false: an answer has no holes."""
        shown = ["1"]
        for column in self._form.returning:
            name = f"b.{column.column}" if isinstance(column, Before) else f"n.{column}"
            shown.append(f"{name} or false")
        return f"{{ {', '.join(shown)} }}"

    # ---- a sweep

    def _sweep(self) -> Lines:
        pick, head = self._form.pick, self._form.steps[0]
        assert pick is not None and isinstance(head, Update)
        index = INDEXES[pick.index]
        table = TABLES[index.table]
        guards = (*pick.where, *head.where)
        ids = next((g for g in pick.where if isinstance(g, Among) and serves(index) == "key"), None)
        test = " and ".join(self._x.guard(guard, "r", table) for guard in guards) or "true"
        fetch = "whole" if _columns_of(guards) & set(large_columns(table)) else "fetch"
        group = joined(part_lua(table.kinds[c], self._x.value(pick.group[c])) for c in index.group)
        yield "if limit <= 0 then return {} end"
        yield "local time, picked, b, n = now(), {}"
        if ids is not None:
            yield f"local wanted = {{ unpack({self._x.value(ids.by)}) }}"
            yield "table.sort(wanted)"
            yield "for _, id in ipairs(wanted) do"
            yield f"  local pk = {group} .. {part_lua(table.kinds[ids.column], 'id')}"
            yield f"  local r = {fetch}(T.{table.name}, pk)"
            yield f"  if #picked < limit and r and {test} then picked[#picked + 1] = pk end"
            yield "end"
        else:
            limit_of = "nil"
            if pick.upto is not None:
                yield f"local upto = {self._x.value(pick.upto)}"
                yield "if upto == nil then return {} end"
                limit_of = part_lua(table.kinds[index.order[0]], "upto")
            yield (f"each_row(I.{index.name}, {group}, nil, {limit_of}, false, function(pk, r)")
            if fetch == "whole":
                yield f"  r = whole(T.{table.name}, pk)"
            yield f"  if {test} then picked[#picked + 1] = pk end"
            yield "  return #picked >= limit"
            yield "end, limit)"
        yield "local answers = {}"
        yield "for at, pk in ipairs(picked) do"
        known = known_by(guards if ids is not None else (*index.where, *guards))
        yield from indented(self._picked(head, table, known), 1)
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
                new = NewRow(self._x, table, row)
                yield from indented((*new.values(), *new.write(at)), 1)
                if at == 0 and self._after:
                    yield f"  n = {new.shown(self._after)}"
                yield "end"
            case InsertEach(row=row, of=of):
                yield f"for _, it in ipairs({self._x.value(of)}) do"
                new = NewRow(self._x, table, row, step.items)
                yield from indented((*new.values(), *new.write(at)), 1)
                yield "end"
            case Upsert(row=row, set=changes):
                new = NewRow(self._x, table, row)
                yield "do"
                yield from indented(new.values(), 1)
                yield f"  local r = fetch(T.{table.name}, pk)"
                yield "  if r then"
                yield from indented(Changes(self._x, table, changes, {}).write(), 2)
                yield "  else"
                yield from indented(new.write(at), 2)
                yield "  end"
                yield "end"
            case Update():
                yield "do"
                yield from indented(self._update(step, table, at), 1)
                yield "end"
            case UpdateMany(where=where, set=changes):
                changed = Changes(self._x, table, changes, known_by(where))
                yield from self._each_match(table, where, list(changed.write()))
            case Delete(where=where):
                if at == 0:
                    yield from self._delete_one(table, where)
                else:
                    yield from self._each_match(table, where, [f"erase(T.{table.name}, pk)"])

    def _each_match(self, table: Table, where: Sequence[Guard], body: Sequence[str]) -> Lines:
        """Runs for each row `r` that matches, with the key `pk`."""
        key = self._x.whole_key(table, where)
        yield "do"
        if key is None:
            yield from indented(self._x.matching(table, where), 1)
            yield "  for _, pk in ipairs(found) do"
            yield f"    local r = fetch(T.{table.name}, pk)"
            yield from indented(body, 2)
            yield "  end"
        else:
            guards = [self._x.guard(g, "r", table) for g in where if not names_key(g, table)]
            named, values = key
            found = " and ".join([*(f"{v} ~= nil" for v in values), f"fetch(T.{table.name}, pk)"])
            yield f"  local pk = {named}"
            yield f"  local r = {found}"
            yield f"  if {' and '.join(['r', *guards])} then"
            yield from indented(body, 2)
            yield "  end"
        yield "end"

    def _update(self, step: Update, table: Table, at: int) -> Lines:
        yield f"local pk = {self._x.key(table, step.where)}"
        yield f"local r = {self._fetch(table, step)}(T.{table.name}, pk)"
        guards = [self._x.guard(g, "r", table) for g in step.where if not names_key(g, table)]
        yield f"if not ({' and '.join(['r', *guards])}) then refuse({at}) end"
        if at == 0 and self._before:
            yield f"b = {self._row_before()}"
        yield from Changes(self._x, table, step.set, known_by(step.where)).write()
        if at == 0:
            yield "n = r"

    def _picked(self, step: Update, table: Table, known: Known) -> Lines:
        """Another pick of the sweep can change this one when a later step is of the same table."""
        if any(later.table == table.name for later in self._form.steps[1:]):
            known = known_by(step.where)
        yield f"local r = {self._fetch(table, step)}(T.{table.name}, pk)"
        guards = [self._x.guard(g, "r", table) for g in step.where]
        yield f"if not ({' and '.join(['r', *guards])}) then refuse(0) end"
        if self._before:
            yield f"b = {self._row_before()}"
        yield "do"
        yield from indented(Changes(self._x, table, step.set, known).write(), 1)
        yield "end"
        yield "n = r"

    def _row_before(self) -> str:
        return f"{{ {', '.join(f'{column} = r.{column}' for column in self._before)} }}"

    def _fetch(self, table: Table, step: Update) -> str:
        """Large columns are loaded for a step whose row the form reads them from."""
        read = {*_columns_of(step.where), *self._before, *self._after}
        return "whole" if read & set(large_columns(table)) else "fetch"

    def _delete_one(self, table: Table, where: Sequence[Guard]) -> Lines:
        yield f"local pk = {self._x.key(table, where)}"
        yield f"local r = fetch(T.{table.name}, pk)"
        guards = [self._x.guard(g, "r", table) for g in where if not names_key(g, table)]
        yield f"if not ({' and '.join(['r', *guards])}) then refuse(0) end"
        yield "b, n = r, r"
        for child in table.children:
            yield from self._delete_children(table, child)
        yield f"erase(T.{table.name}, pk)"

    def _delete_children(self, table: Table, child: Child) -> Lines:
        of = TABLES[child.table]
        where = tuple(Cond(child.column(k), "=", Before(k)) for k in table.key)
        if not of.outbox:
            yield from self._each_match(of, where, [f"erase(T.{of.name}, pk)"])
            return
        yield "do"
        yield from indented(self._x.matching(of, where), 1)
        yield "  local last"
        yield "  for _, pk in ipairs(found) do"
        yield f"    local number = fetch(T.{of.name}, pk).event_id"
        yield "    if last == nil or less(last, number) then last = number end"
        yield f"    erase(T.{of.name}, pk)"
        yield "  end"
        yield f"  if last then trim({quoted(of.name)}, last) end"
        yield "end"


def _before(value: object) -> Iterator[str]:
    """The columns of the row before that a value reads."""
    match value:
        case Before(column=column) | Until(column=column):
            yield column
        case Span(since=since, until=until):
            yield from (since, until)
        case When(cond=cond):
            yield cond.column


def _columns_of(guards: Iterable[Guard]) -> set[str]:
    conds = (c for g in guards for c in (g.conds if isinstance(g, AnyOf) else (g,)))
    return {cond.column for cond in conds if isinstance(cond, Cond)}
