"""Values, guards and conditions of a form as Lua expressions, and loops over rows that match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    Item,
    Now,
    Once,
    Present,
    Span,
    Text,
    Until,
    When,
)
from flowfabric.store.schema import INDEXES, TABLES, Index, Table
from flowfabric.store.valkey.lua_schema import cond_lua, part_lua, quoted, serves
from flowfabric.store.valkey.lua_text import Lines, indented, joined


class Expressions:
    """`a` holds the arguments, `b` and `n` the row of the deciding step before and after it, and
    `time` the time.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self.made_once: list[str] = []
        """What does not belong to one plan: conditions on rows of other tables, and lists."""
        self._args = {name: f"a[{at}]" for at, name in enumerate(form.args, 2)}
        self.head = TABLES[form.steps[0].table]

    # ---- rows that match

    def matching(self, table: Table, where: Sequence[Guard], first: bool = False) -> Lines:
        """`found` becomes the keys of the rows that match."""
        named: dict[str, tuple[str, bool]] = {}
        for guard in where:
            if isinstance(guard, Cond) and guard.op == "=":
                named[guard.column] = (self.value(guard.value), False)
            elif isinstance(guard, Among):
                named[guard.column] = (self.value(guard.by), True)
        test = " and ".join(self.guard(guard, "r", table) for guard in where) or "true"
        stop = " return true" if first else ""
        visit = f"function(pk, r) if {test} then found[#found + 1] = pk{stop} end end"
        yield "local found = {}"
        prefix = _prefix(table.key, named)
        index = _index_for(table, named)
        if len(prefix) == len(table.key):
            body = [
                f"local pk = {self._key_of(table, prefix, named)}",
                f"local r = fetch(T.{table.name}, pk)",
                f"if r and {test} then found[#found + 1] = pk end",
            ]
            yield from self._loops(prefix, named, body)
        elif index is not None:
            group = self._key_of(table, list(index.group), named)
            call = f"each_row(I.{index.name}, {group}, nil, nil, false, {visit})"
            yield from self._loops(index.group, named, [call])
        elif prefix:
            key = self._key_of(table, prefix, named)
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
        yield from indented(body, depth)
        for left in range(depth - 1, -1, -1):
            yield "  " * left + "end"

    def _key_of(
        self, table: Table, columns: Sequence[str], named: Mapping[str, tuple[str, bool]]
    ) -> str:
        parts = []
        for column in columns:
            value, is_many = named[column]
            parts.append(part_lua(table.kinds[column], f"k_{column}" if is_many else value))
        return joined(parts)

    def constant(self, value: str) -> str:
        """The name of a Lua value that is the same for each plan."""
        name = f"constant_{len(self.made_once)}"
        self.made_once.append(f"local {name} = {value}")
        return name

    # ---- guards and values

    def key(self, table: Table, where: Iterable[Guard]) -> str:
        named = {g.column: g.value for g in where if isinstance(g, Cond) and g.op == "="}
        return joined(part_lua(table.kinds[k], self.value(named[k])) for k in table.key)

    def guard(self, guard: Guard, row: str, table: Table) -> str:
        match guard:
            case Cond():
                return self.cond(guard, row)
            case AnyOf(conds=conds):
                return f"({' or '.join(self.cond(cond, row) for cond in conds)})"
            case Covered(column=column, by=by):
                return f"covered({row}.{column}, {self.value(by)})"
            case Among(column=column, by=by):
                return f"contains({self.value(by)}, {row}.{column})"
            case Absent(table=name, where=where):
                return f"not {self._exists(TABLES[name], where)}"
            case Present(table=name, where=where):
                return self._exists(TABLES[name], where)

    def _exists(self, table: Table, where: Sequence[Guard]) -> str:
        key = self.whole_key(table, where)
        if key is None:
            body = " ".join(line.strip() for line in self.matching(table, where, first=True))
            return f"(function() {body} return #found > 0 end)()"
        rest = [self.guard(guard, "r", table) for guard in where if not names_key(guard, table)]
        named, values = key
        call = f"fetch(T.{table.name}, {named})"
        if rest:
            name = f"is_met_{len(self.made_once)}"
            self.made_once.append(
                f"local function {name}(r, a, b, n, time) return r and {' and '.join(rest)} end"
            )
            call = f"{name}({call}, a, b, n, time)"
        return f"({' and '.join([*(f'{value} ~= nil' for value in values), call])})"

    def whole_key(self, table: Table, where: Sequence[Guard]) -> tuple[str, list[str]] | None:
        """The key of the only row that can match, and the values in it."""
        named = {g.column: g.value for g in where if isinstance(g, Cond) and g.op == "="}
        if any(column not in named for column in table.key) or _names_twice(table, where):
            return None
        values = [self.value(named[column]) for column in table.key]
        return self.key(table, where), [v for v in values if not v.startswith("'")]

    def cond(self, cond: Cond, row: str) -> str:
        if cond.op in ("is null", "not null", "in") or isinstance(cond.value, str | int):
            return cond_lua(cond, row)
        return cond_lua(cond, row, self.value(cond.value))

    def value(self, value: object, own: str = "nil", items: tuple[str, ...] = ()) -> str:
        def inner(nested: object) -> str:
            return self.value(nested, own, items)

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
                return "time" if plus == 0 else f"plus(time, {inner(plus)})"
            case Until(column=column):
                return f"until_(b.{column})"
            case Span(since=since, until=until):
                return f"minus(b.{until}, b.{since})"
            case Add(n=number):
                return f"plus({own}, {inner(number)})"
            case Once(value=once):
                return f"({own} or {inner(once)})"
            case Fresh():
                return "fresh()"
            case Item(name=name):
                return f"it[{items.index(name) + 1}]"
            case Text(parts=parts):
                return f"text({len(parts)}, {', '.join(map(inner, parts))})"
            case When(cond=cond, then=then, otherwise=otherwise):
                holds = self.cond(cond, "b")
                return f"either({holds}, {inner(then)}, {inner(otherwise)})"
            case tuple() | list():
                raise AssertionError(f"{self._form.name}: a constant list")
            case _:
                return quoted(value)


def _names_twice(table: Table, where: Sequence[Guard]) -> bool:
    return sum(names_key(guard, table) for guard in where) > len(table.key)


def names_key(guard: Guard, table: Table) -> bool:
    return isinstance(guard, Cond) and guard.op == "=" and guard.column in table.key


def _prefix(key: Sequence[str], named: Mapping[str, object]) -> list[str]:
    """The first columns of the key, as far as they are named."""
    found = []
    for column in key:
        if column not in named:
            break
        found.append(column)
    return found


def _index_for(table: Table, named: Mapping[str, object]) -> Index | None:
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
