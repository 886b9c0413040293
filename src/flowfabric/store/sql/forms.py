"""Facts about forms and steps that both SQL dialects need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowfabric.plan import Arg, Cond, Guard, Insert, Step, Update
from flowfabric.store.schema import TABLES, Table


def refusable(step: Step) -> bool:
    """A step after the deciding one can still refuse the plan."""
    return isinstance(step, Update) or (
        isinstance(step, Insert) and (bool(step.where) or not TABLES[step.table].is_numbered)
    )


def names_key(guard: Guard, table: Table) -> bool:
    return isinstance(guard, Cond) and guard.op == "=" and guard.column in table.key


def key_conditions(guards: Iterable[Guard], table: Table) -> list[Cond]:
    """The guards that name a row by its key."""
    return [guard for guard in guards if isinstance(guard, Cond) and names_key(guard, table)]


def argument_names(values: Iterable[Any]) -> list[str]:
    """Each argument among the values once, in order."""
    return list(dict.fromkeys(v.name for v in values if isinstance(v, Arg)))
