"""A sweep and the plans in front of it in one statement: one that decides, or unrelated ones."""

from __future__ import annotations

from functools import cache

from flowfabric.plan import Form, Present, Update
from flowfabric.store.schema import TABLES
from flowfabric.store.sql.forms import refusable
from flowfabric.store.sql.pg_arguments import (
    argument_rows,
    clock,
    later_arguments,
    needed_columns,
    selecting_from,
)
from flowfabric.store.sql.pg_deciding import changed
from flowfabric.store.sql.pg_expr import Scalars, Scope, argument_kinds
from flowfabric.store.sql.pg_form import Lead, PgForm
from flowfabric.store.sql.pg_statement import statement
from flowfabric.store.sql.pg_steps import following, guarded


def can_decide_sweep(form: Form) -> bool:
    """The plan updates one guarded row, wakes no waiter and returns nothing."""
    head_only = isinstance(form.steps[0], Update) and len(form.steps) == 1
    return head_only and not form.wakes and not form.returning


def sweep_decided_by(first: Form, form: Form) -> PgForm:
    """The sweep runs only if the plan applies; otherwise the answer has no row."""
    head, table = first.steps[0], TABLES[first.steps[0].table]
    assert isinstance(head, Update)
    places = {name: at for at, name in enumerate(first.args, _next_parameter(form))}
    scope = Scalars(table, argument_kinds(first), places)
    sets, where = scope.sets(head.set, table), guarded(head, table, scope)
    part = f"f AS (UPDATE {table.name} AS t SET {sets} WHERE {where} RETURNING 1)"
    return statement(form, Lead((part,), decides=True))


@cache
def can_precede_sweep(form: Form) -> bool:
    """The plan is decided by its own row, and returns only columns as the plan leaves them."""
    head = form.steps[0]
    return (
        isinstance(head, Update)
        and form.pick is None
        and not (form.wakes or form.reads_itself or needed_columns(form)[1])
        and not any(isinstance(guard, Present) for guard in head.where)
        and not any(refusable(step) for step in form.steps[1:])
    )


def sweep_preceded_by(first: Form, form: Form) -> PgForm:
    """Plans, then an unrelated sweep.

    The plans answer with the time and the ordinals of those applied, or, when their form returns
    something, with a row each. They run first: they may wait for locks, and must not hold the rows
    that the sweep picked meanwhile; the sweep itself waits for no lock.
    """
    head, table, kinds = first.steps[0], TABLES[first.steps[0].table], argument_kinds(first)
    calls, done = Scope(table, kinds, "b", "t.", "d.r_"), Scope(table, kinds, "d", "d.w_", "d.r_")
    start, keep = _next_parameter(form), ["n_", "now_ms_", *later_arguments(first)]
    parts = [
        clock("at"),
        *argument_rows(first, kinds, packed=False, name="b", start=start, clk="at"),
        changed(head, table, calls, keep, needed_columns(first)[0], name="d"),
    ]
    for at, step in reversed(list(enumerate(first.steps[1:], 1))):
        parts.append(f"v{at} AS ({following(step, done, 'd', counted=False)})")
    time = "(SELECT now_ms FROM at)"
    answer = f"{time} || array_agg(d.n_)"
    if first.returning:
        row = ", ".join([time, "d.n_", *(f"d.r_{c}" for c in first.returning)])
        answer = f"array_agg(ROW({row}))"
    parts.append(f"f AS MATERIALIZED (SELECT {answer} AS said_ FROM d)")
    return statement(form, Lead(tuple(parts), decides=False))


def _next_parameter(form: Form) -> int:
    """The first parameter number after the arguments of a sweep."""
    return selecting_from(form) + len(form.pick_args)
