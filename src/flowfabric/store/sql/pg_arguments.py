"""The arguments of a form as one row per call, and what the statement keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flowfabric.plan import (
    After,
    Before,
    Delete,
    Form,
    Insert,
    Span,
    Until,
    Update,
    When,
    step_values,
)
from flowfabric.store.schema import TABLES
from flowfabric.store.sql.ddl import PG_TYPES
from flowfabric.store.sql.forms import argument_names
from flowfabric.store.sql.pg_expr import fresh_values

NOW_MS = "coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
_SENT_AS = dict.fromkeys(("list", "items", "uuids", "json"), "text")
"""Array elements of these kinds are sent as text: Postgres would flatten an array of lists."""


def clock(name: str = "clk", behind: str = "") -> str:
    """The time, read once; with `behind`, after that part has returned rows."""
    source = f" FROM {behind}" if behind else ""
    return f"{name} AS MATERIALIZED (SELECT {NOW_MS} AS now_ms{source})"


def step_arguments(form: Form) -> list[str]:
    """The arguments of the steps, without those that only select the rows of a sweep."""
    return argument_names(v for step in form.steps for v in step_values(step))


def drawn_uuids(form: Form) -> int:
    """How many new uuids the deciding step of a sweep writes in a row."""
    head = form.steps[0]
    return sum(map(fresh_values, head.set.values())) if isinstance(head, Update) else 0


def selecting_from(form: Form) -> int:
    """The first parameter of a sweep that selects.

    Before it are the time, an array per argument, the request of each row, and the bytes of new
    uuids if there are any.
    """
    return len(step_arguments(form)) + 3 + bool(drawn_uuids(form))


def later_arguments(form: Form) -> list[str]:
    """The arguments of the steps after the deciding one."""
    return argument_names(v for step in form.steps[1:] for v in step_values(step))


def wake_columns(form: Form) -> list[str]:
    columns = (v.column for w in form.wakes for v in (w.key, w.at) if isinstance(v, After))
    return list(dict.fromkeys(columns))


def needed_columns(form: Form) -> tuple[list[str], list[str]]:
    """Columns of the deciding row after and before the plan that later parts read."""
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    values = [v for step in form.steps[1:] for v in step_values(step)]
    after = [v.column for v in values if isinstance(v, After)]
    before = [c for v in values if isinstance(v, Span) for c in (v.since, v.until)]
    before += [v.column for v in values if isinstance(v, Before | Until)]
    before += [v.cond.column for v in values if isinstance(v, When)]
    after += [c for c in form.returning if isinstance(c, str)]
    before += [c.column for c in form.returning if isinstance(c, Before)]
    after += wake_columns(form)
    if isinstance(head, Delete) or (isinstance(head, Insert) and not subject.is_numbered):
        after += subject.key
    if form.pick is not None or before:
        before += subject.key
    return list(dict.fromkeys(after)), list(dict.fromkeys(before))


def argument_rows(
    form: Form,
    kinds: Mapping[str, str],
    *,
    packed: bool,
    materialized: bool = True,
    name: str = "a",
    start: int = 2,
    clk: str = "clk",
) -> list[str]:
    """The calls as numbered rows. Packed arguments are unpacked and cast once, in `s`."""
    rows = f"{name} AS MATERIALIZED" if materialized else f"{name} AS"
    arrays = array_parameters(form.args, kinds, start)
    casts = {arg: element_cast(kinds[arg]) for arg in form.args}
    names = list(form.args)
    if not arrays:
        arrays.append(f"${start}::bigint[]")
        names.append("one_")
    calls = f"unnest({', '.join(arrays)}) WITH ORDINALITY AS u({', '.join((*names, 'n_'))})"
    if not packed or not form.args:
        shown = ", ".join(f"u.{arg}{casts.get(arg, '')} AS {arg}" for arg in names)
        return [f"{rows} (SELECT {shown}, u.n_, {clk}.now_ms AS now_ms_ FROM {clk}, {calls})"]
    pairs = list(zip(names, arrays, strict=True))
    common = [f"cardinality({array}) = 1 AS one_{arg}" for arg, array in pairs]
    common += [f"({array})[1]{casts[arg]} AS {arg}" for arg, array in pairs]
    shown = ", ".join(
        f"CASE WHEN s.one_{arg} THEN s.{arg} ELSE u.{arg}{casts[arg]} END AS {arg}" for arg in names
    )
    return [
        f"s AS MATERIALIZED (SELECT {', '.join(common)})",
        f"{rows} (SELECT {shown}, u.n_, {clk}.now_ms AS now_ms_ FROM {clk}, s, {calls})",
    ]


def array_parameters(names: Iterable[str], kinds: Mapping[str, str], start: int = 2) -> list[str]:
    return [
        f"${at}::{_SENT_AS.get(kinds[name], PG_TYPES[kinds[name]])}[]"
        for at, name in enumerate(names, start)
    ]


def element_cast(kind: str) -> str:
    return f"::{PG_TYPES[kind]}" if kind in _SENT_AS else ""
