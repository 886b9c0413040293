"""The deciding step as parts of a Postgres statement: it finds its row, guards it and writes it."""

from __future__ import annotations

from collections.abc import Mapping

from flowfabric.plan import Among, Delete, Form, Insert, Present, Step, Update
from flowfabric.store.schema import INDEXES, TABLES, Table
from flowfabric.store.sql.ddl import index_order, index_predicate
from flowfabric.store.sql.forms import key_conditions
from flowfabric.store.sql.pg_arguments import (
    NOW_MS,
    array_parameters,
    drawn_uuids,
    element_cast,
    later_arguments,
    needed_columns,
    selecting_from,
    step_arguments,
)
from flowfabric.store.sql.pg_expr import Scalars, Scope, Swept
from flowfabric.store.sql.pg_steps import guarded, hidden

OR_NOTHING = "ON CONFLICT DO NOTHING "


def deciding(form: Form, kinds: Mapping[str, str], *, plain: bool, led: bool) -> list[str]:
    """The parts up to `g`, the rows that the plans of this statement were applied to.

    `plain` is a form of one insert only. `led` makes a sweep depend on the part `f`.
    """
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    after, before = needed_columns(form)
    if isinstance(head, Insert):
        return _inserted(head, subject, Scope(subject, kinds, "a", ""), after, plain=plain)
    keep = ["now_ms_", *later_arguments(form), *(f"w_{c}" for c in before)]
    if form.pick is not None:
        random = len(step_arguments(form)) + 3
        swept = Swept(subject, kinds, random, drawn_uuids(form))
        written = changed(head, subject, swept, ["request_", "place_", *keep], after, "p.w_")
        return [*_picked(form, subject, kinds, before, led=led), written]
    if before:
        scope = Scope(subject, kinds, "l", "t.")
        written = changed(head, subject, scope, ["n_", *keep], after, "l.w_")
        return [_locked(head, subject, kinds, before, step_arguments(form)), written]
    return [changed(head, subject, Scope(subject, kinds, "a", "t."), ["n_", *keep], after)]


def changed(
    head: Step,
    subject: Table,
    scope: Scope,
    keep: list[str],
    after: list[str],
    locked_as: str = "",
    name: str = "g",
) -> str:
    """The deciding update or delete. A row that is locked already is found by its key alone."""
    assert isinstance(head, Update | Delete)
    same_key = " AND ".join(f"t.{k} = {locked_as}{k}" for k in subject.key)
    where = same_key if locked_as else guarded(head, subject, scope)
    kept = ", ".join([*(f"{scope.args}.{c}" for c in keep), *(f"t.{c} AS r_{c}" for c in after)])
    tail = f"{scope.args} WHERE {where} RETURNING {kept})"
    if isinstance(head, Delete):
        return f"{name} AS (DELETE FROM {subject.name} AS t USING {tail}"
    sets = scope.sets(head.set, subject)
    return f"{name} AS (UPDATE {subject.name} AS t SET {sets} FROM {tail}"


def present_guards(step: Step) -> list[Present]:
    return [guard for guard in getattr(step, "where", ()) if isinstance(guard, Present)]


def present(form: Form, kinds: Mapping[str, str]) -> list[str]:
    """The calls for which the row of another table exists.

    That row is locked against change, in key order, and read again when it has changed meanwhile.
    """
    guards = present_guards(form.steps[0])
    if not guards:
        return []
    (guard,) = guards
    assert form.pick is None, f"{form.name}: a sweep has no Present guard"
    table, scope = TABLES[guard.table], Scope(TABLES[form.steps[0].table], kinds, "a", "")
    keyed = key_conditions(guard.where, table)
    tests = " AND ".join(scope.guard(cond, table, "o.") for cond in keyed)
    others = [scope.guard(cond, table, "o.") for cond in guard.where if cond not in keyed]
    order = ", ".join(f"o.{k}" for k in table.key)
    rows = (
        f"SELECT a.n_ FROM a, {table.name} AS o WHERE {tests} AND {hidden(others)} "
        f"ORDER BY {order} FOR SHARE OF o"
    )
    return [f"h AS MATERIALIZED ({rows})"]


def _locked(
    head: Step, subject: Table, kinds: Mapping[str, str], before: list[str], used: list[str]
) -> str:
    """Locks the rows in key order and reads them before anything changes them."""
    assert isinstance(head, Update | Delete)
    where = guarded(head, subject, Scope(subject, kinds, "a", "t."))
    columns = ["a.n_", "a.now_ms_", *(f"a.{name}" for name in used)]
    columns += [f"t.{c} AS w_{c}" for c in before]
    order = ", ".join(f"t.{k}" for k in subject.key)
    return (
        f"l AS MATERIALIZED (SELECT {', '.join(columns)} FROM a, {subject.name} AS t "
        f"WHERE {where} ORDER BY {order} FOR UPDATE OF t)"
    )


def _inserted(
    head: Insert, subject: Table, scope: Scope, after: list[str], *, plain: bool
) -> list[str]:
    """INSERT cannot return the ordinal of a call: where it is needed, calls are joined by key."""
    numbered = subject.is_numbered
    assert plain or not numbered, f"{subject.name}: an event is not followed by other steps"
    where = " AND ".join(scope.guard(g, subject, "") for g in head.where) or "true"
    kept = ", ".join(f"t.{c} AS r_{c}" for c in after) or "1"
    insert = (
        f"INSERT INTO {subject.name} AS t ({', '.join(head.row)}) "
        f"SELECT {scope.row(head.row, subject)} FROM a WHERE {where} "
        f"{'ORDER BY a.n_ ' if numbered else OR_NOTHING}RETURNING {kept}"
    )
    if plain:
        return [f"g AS ({insert})"]
    same_key = " AND ".join(
        f"i.r_{k} = {scope.value(head.row[k], subject.kinds[k])}" for k in subject.key
    )
    return [f"i AS ({insert})", f"g AS MATERIALIZED (SELECT a.*, i.* FROM a JOIN i ON {same_key})"]


def single_insert(form: Form, kinds: Mapping[str, str]) -> str:
    """One call with plain parameters, answered by the time."""
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    assert isinstance(head, Insert)
    scope = Scalars(subject, kinds, {name: at for at, name in enumerate(form.args, 2)}, NOW_MS)
    guards = " AND ".join(scope.guard(g, subject, "") for g in head.where)
    return (
        f"INSERT INTO {subject.name} ({', '.join(head.row)}) "
        f"SELECT {scope.row(head.row, subject)}{f' WHERE {guards}' if guards else ''} "
        f"{OR_NOTHING}RETURNING {NOW_MS}"
    )


def _picked(
    form: Form, subject: Table, kinds: Mapping[str, str], before: list[str], *, led: bool
) -> list[str]:
    """Rows in index order, locked as they are met; the last array assigns each to a request."""
    assert form.pick is not None
    used = step_arguments(form)
    requests = f"(${len(used) + 2}::int[])"
    places = {name: at for at, name in enumerate(form.pick_args, selecting_from(form))}
    order = index_order(INDEXES[form.pick.index], "t.")
    columns = ", ".join(f"t.{c} AS w_{c}" for c in before)
    lead = "EXISTS (SELECT 1 FROM f) AND " if led else ""
    where = _selected(form, subject, Scalars(subject, kinds, places))
    given = [
        f"({array})[d.request_]{element_cast(kinds[name])} AS {name}"
        for name, array in zip(used, array_parameters(used, kinds), strict=True)
    ]
    return [
        f"q AS MATERIALIZED (SELECT {columns} FROM {subject.name} AS t WHERE {lead}{where} "
        f"ORDER BY {order} LIMIT cardinality{requests} FOR UPDATE OF t SKIP LOCKED)",
        f"p AS MATERIALIZED (SELECT {', '.join(['d.*', 'clk.now_ms AS now_ms_', *given])} "
        f"FROM clk, (SELECT o.*, {requests}[o.place_] AS request_ FROM "
        "(SELECT q.*, (row_number() OVER ())::int AS place_ FROM q) AS o) AS d)",
    ]


def _selected(form: Form, subject: Table, scope: Scope) -> str:
    """Which rows a sweep takes."""
    head = form.steps[0]
    assert form.pick is not None and isinstance(head, Update)
    index = INDEXES[form.pick.index]
    tests = [index_predicate(index, "t.")] if index.where else []
    tests += [f"t.{c} = {scope.value(v, subject.kinds[c])}" for c, v in form.pick.group.items()]
    if form.pick.upto is not None:
        tests.append(f"t.{index.order[0]} <= {scope.value(form.pick.upto, 'int')}")
    guards = [*form.pick.where, *head.where]
    if not index.primary:
        return " AND ".join([*tests, *(scope.guard(g, subject) for g in guards)])
    keyed = [g for g in guards if isinstance(g, Among)]
    tests += [scope.guard(g, subject) for g in keyed]
    return " AND ".join(
        [*tests, hidden([scope.guard(g, subject) for g in guards if g not in keyed])]
    )


def probe(form: Form, kinds: Mapping[str, str]) -> str:
    """One row of a sweep's selection, in the index's order so that the planner uses the index."""
    assert form.pick is not None
    subject = TABLES[form.steps[0].table]
    scope = Scalars(subject, kinds, {name: at for at, name in enumerate(form.pick_args, 2)}, NOW_MS)
    order = index_order(INDEXES[form.pick.index], "t.")
    return (
        f"SELECT $1::bigint FROM {subject.name} AS t "
        f"WHERE {_selected(form, subject, scope)} ORDER BY {order} LIMIT 1"
    )
