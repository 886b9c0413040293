"""What goes before a sweep in one statement: a plan that lets it begin, or plans that only ride along."""

from __future__ import annotations

from functools import cache

from flowfabric.plan import Form, Present, Update
from flowfabric.store.schema import TABLES
from flowfabric.store.sql.pg_expr import Scalars, Scope, argument_kinds
from flowfabric.store.sql.pg_statement import (
    Lead,
    PgForm,
    arguments,
    arguments_in,
    changed,
    clock,
    needs,
    statement,
    step_values,
    used_by,
)
from flowfabric.store.sql.pg_steps import following, guarded
from flowfabric.store.sql.sqlite_expr import refusable


def can_begin(form: Form) -> bool:
    """Whether a plan is as simple as that: one guarded row, and nobody to be told of it."""
    return (
        isinstance(form.steps[0], Update)
        and len(form.steps) == 1
        and not form.wakes
        and not form.returning
    )


def begun_by(first: Form, form: Form) -> PgForm:
    """The sweep only if the plan holds; otherwise there is no answer row."""
    head, table = first.steps[0], TABLES[first.steps[0].table]
    assert isinstance(head, Update)
    scope = Scalars(
        table,
        argument_kinds(first),
        {name: at for at, name in enumerate(first.args, _behind(form))},
    )
    part = f"f AS (UPDATE {table.name} AS t SET {scope.sets(head.set, table)} WHERE {guarded(head, table, scope)} RETURNING 1)"
    return statement(form, Lead((part,), decides=True))


@cache
def can_ride_along(form: Form) -> bool:
    """Whether its own row decides whether a plan is applied, and its answer is no more than columns as they are left."""
    head = form.steps[0]
    return (
        isinstance(head, Update)
        and form.pick is None
        and not (form.wakes or form.reads_itself or needs(form)[1])
        and not any(isinstance(guard, Present) for guard in head.where)
        and not any(refusable(step) for step in form.steps[1:])
    )


def ridden_along(first: Form, form: Form) -> PgForm:
    """The sweep, and plans that have nothing to do with it. What is said of them is the time, and the numbers of those applied;
    of a form that returns something, a row for each, as its own statement would answer.

    They come first: a sweep waits for nobody's locks, and whoever waits should not hold what it picked.
    """
    head, table, kinds = first.steps[0], TABLES[first.steps[0].table], argument_kinds(first)
    handed_on = arguments_in(value for step in first.steps[1:] for value in step_values(step))
    calls = Scope(table, kinds, "b", "t.", "d.r_")
    done = Scope(table, kinds, "d", "d.w_", "d.r_")
    parts = [
        clock("at"),
        *arguments(first, kinds, packed=False, called="b", start=_behind(form), clk="at"),
    ]
    parts.append(
        changed(head, table, calls, ["n_", "now_ms_", *handed_on], needs(first)[0], called="d")
    )
    later = list(enumerate(first.steps[1:], 1))
    parts += [
        f"v{at} AS ({following(step, done, 'd', counted=False)})" for at, step in reversed(later)
    ]
    said = "(SELECT now_ms FROM at) || array_agg(d.n_)"
    if first.returning:
        said = f"array_agg(ROW({', '.join(['(SELECT now_ms FROM at)', 'd.n_', *(f'd.r_{c}' for c in first.returning)])}))"
    parts.append(f"f AS MATERIALIZED (SELECT {said} AS said_ FROM d)")
    return statement(form, Lead(tuple(parts), decides=False))


def _behind(form: Form) -> int:
    """The first number behind the arguments of a sweep."""
    return len(used_by(form)) + len(form.pick_args) + 3
