"""The vocabulary of a plan: every change and condition that a rule can ask of a store.

A `Form` is the constant part of an operation, declared once at import. A `Plan` is a form plus the
values of one call. Constants become text in a store's statements and `Arg`s become parameters, so
the list of forms is the list of statements. A plan is applied whole or refused whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from flowfabric.model.event import COMPLETION_EVENTS, is_end

Values = Mapping[str, object]
"""Arguments of a form, or columns of a row, by name."""


class Arg(Struct, frozen=True):
    """A value of the call."""

    name: str


class Before(Struct, frozen=True):
    """A column of the guarded row before this plan."""

    column: str


class After(Struct, frozen=True):
    """A column of the guarded row as this plan leaves it."""

    column: str


class Now(Struct, frozen=True):
    """The store's clock at the commit plus some milliseconds; null when these are null."""

    plus: object = 0


class Until(Struct, frozen=True):
    """Milliseconds, at least 1, until a time in the guarded row before this plan; null if unset."""

    column: str


class Span(Struct, frozen=True):
    """Milliseconds between two times of the guarded row before this plan; null if one is unset."""

    since: str
    until: str


class Add(Struct, frozen=True):
    """The column's own value plus a number or a value of the call."""

    n: int | Arg = 1


class Once(Struct, frozen=True):
    """The value if the column is null; otherwise the column keeps its value."""

    value: object


class Fresh(Struct, frozen=True):
    """A new random uuid."""


class Text(Struct, frozen=True):
    """The parts, concatenated."""

    parts: tuple[object, ...]


Op = Literal["=", "!=", "<", "<=", ">", ">=", "in", "is null", "not null"]


class Cond(Struct, frozen=True):
    """A condition on a column. `in` takes a tuple of constants."""

    column: str
    op: Op
    value: Any = None


class AnyOf(Struct, frozen=True):
    """At least one condition holds."""

    conds: tuple[Cond, ...]


class Covered(Struct, frozen=True):
    """The row's list, which is stored sorted and without repeats, is a subset of the caller's."""

    column: str
    by: Arg


class Absent(Struct, frozen=True):
    """No row of another table matches."""

    table: str
    where: tuple[Cond, ...]


class Among(Struct, frozen=True):
    """The row's id is one of the caller's."""

    column: str
    by: Arg


class Present(Struct, frozen=True):
    """A row of another table matches, and is locked so that it does until the commit."""

    table: str
    where: tuple[Cond, ...]


Guard = Cond | AnyOf | Covered | Among | Absent | Present


class When(Struct, frozen=True):
    """One of two values, by a condition on the guarded row before this plan."""

    cond: Cond
    then: object
    otherwise: object


class Insert(Struct, frozen=True):
    """One row. Refused when the key exists or `where` does not hold."""

    table: str
    row: Mapping[str, object]
    where: tuple[Absent | Present, ...] = ()


class Item(Struct, frozen=True):
    """A component of one of the caller's items."""

    name: str


class InsertEach(Struct, frozen=True):
    """A row for each of the caller's items, which are tuples in the order of the row's `Item`s."""

    table: str
    row: Mapping[str, object]
    of: Arg

    @property
    def items(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v.name for v in self.row.values() if isinstance(v, Item)))


class Upsert(Struct, frozen=True):
    """A new row, or changes to the row that has its key."""

    table: str
    row: Mapping[str, object]
    set: Mapping[str, object]


class Update(Struct, frozen=True):
    """Changes exactly one row, named by its key; otherwise the whole plan is refused."""

    table: str
    where: tuple[Guard, ...]
    set: Mapping[str, object]


class UpdateMany(Struct, frozen=True):
    """Changes the rows that match, which may be none."""

    table: str
    where: tuple[Cond | Among, ...]
    set: Mapping[str, object]


class Delete(Struct, frozen=True):
    """Deletes rows with the children they own: one row as the first step, else all that match."""

    table: str
    where: tuple[Guard, ...]


class Wake(Struct, frozen=True):
    """Notifies the topic's waiters after the commit. `at` is the time it concerns, null for now."""

    topic: str
    key: object = None
    at: object = None


Step = Insert | InsertEach | Upsert | Update | UpdateMany | Delete
_NOW = Now()


def Emit(channel: str, kind: str, data: Values, at: object = _NOW) -> Insert:  # noqa: N802
    """An event is a row of an outbox."""
    column = "outcome" if channel == COMPLETION_EVENTS else "event_type"
    return Insert(channel, {column: kind, "occurred_at_ms": at, **data})


class Pick(Struct, frozen=True):
    """The rows that a sweep takes: one group of a declared index, in its order, up to a bound."""

    index: str
    group: Mapping[str, object] = {}
    upto: object = None
    where: tuple[Guard, ...] = ()


class Form:
    """The constant part of an operation. The first step decides; the rest follow from it."""

    def __init__(
        self,
        name: str,
        *steps: Step | Wake,
        pick: Pick | None = None,
        returning: tuple[str | Before, ...] = (),
    ) -> None:
        self.name = name
        self.steps: tuple[Step, ...] = tuple(s for s in steps if not isinstance(s, Wake))
        self.wakes: tuple[Wake, ...] = tuple(s for s in steps if isinstance(s, Wake))
        assert self.steps, f"{name}: a form changes something"
        self.pick = pick
        self.returning = returning
        self.is_insert = isinstance(self.steps[0], Insert)
        self.ends = any(
            isinstance(s, Insert) and s.table == COMPLETION_EVENTS and is_end(str(s.row["outcome"]))
            for s in self.steps
        )
        _check(self)

    # Computed on first use: there are many forms, and a program uses few of them.

    @cached_property
    def args(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_arg_names(form_values(self))))

    @cached_property
    def pick_args(self) -> tuple[str, ...]:
        """The arguments that decide which rows a sweep takes."""
        return tuple(dict.fromkeys(_arg_names(pick_values(self.pick))))

    @cached_property
    def pick_key(self) -> Callable[[tuple[object, ...]], object]:
        """Extracts the values of `pick_args` from the values of a plan."""
        at = tuple(self.args.index(name) for name in self.pick_args)
        return itemgetter(*at) if at else (lambda values: ())

    @cached_property
    def reads_itself(self) -> bool:
        """Whether it writes a table that its guards read, so that it cannot be part of a batch."""
        return bool(_guard_tables(self) & {step.table for step in self.steps})

    @cached_property
    def _values(self) -> Callable[[Values], tuple[object, ...]]:
        return _getter(self.args)

    def __call__(self, /, **args: object) -> Plan:
        return Plan(self, self._values(args))

    def given(self, args: Values) -> Plan:
        """Like a call, but does not copy the arguments."""
        return Plan(self, self._values(args))

    def of(self, *sources: object, **args: object) -> Plan:
        """Like a call; what is not given is a field of the first source that has it."""
        for name in self.args:
            if name not in args:
                args[name] = next(getattr(each, name) for each in sources if hasattr(each, name))
        return self.given(args)

    def __repr__(self) -> str:
        return f"Form({self.name})"


class Plan(Struct, frozen=True, gc=False):
    """A form and the values of one call. Its repr omits the values, which may be secrets."""

    form: Form
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"Plan({self.form.name})"


class Applied(Struct, frozen=True, gc=False):
    """The store's clock at the commit, and the form's `returning` columns."""

    now_ms: int
    row: tuple[Any, ...] = ()


class Refused(Struct, frozen=True, gc=False):
    """The plan of a group, and its step, whose condition did not hold. Nothing was written."""

    plan: int = 0
    step: int = 0


Answer = Applied | Refused


def walk(value: object) -> Iterator[object]:
    """A value and every value nested in it."""
    yield value
    match value:
        case Now(plus=inner) | Once(value=inner) | Add(n=inner):
            yield from walk(inner)
        case Text(parts=parts):
            for part in parts:
                yield from walk(part)
        case When(cond=cond, then=then, otherwise=otherwise):
            yield from walk(cond.value)
            yield from walk(then)
            yield from walk(otherwise)


def guard_values(guard: Guard) -> Iterator[object]:
    match guard:
        case Cond(value=value):
            yield from walk(value)
        case AnyOf(conds=conds) | Absent(where=conds) | Present(where=conds):
            for cond in conds:
                yield from walk(cond.value)
        case _:
            yield guard.by


def step_values(step: Step) -> Iterator[object]:
    """Every value of a step, in the order in which a store writes it."""
    for guard in getattr(step, "where", ()):
        yield from guard_values(guard)
    for part in ("row", "set"):
        for value in getattr(step, part, {}).values():
            yield from walk(value)
    if isinstance(step, InsertEach):
        yield step.of


def pick_values(pick: Pick | None) -> Iterator[object]:
    """Every value that decides which rows a sweep takes."""
    if pick is not None:
        for value in pick.group.values():
            yield from walk(value)
        yield from walk(pick.upto)
        for guard in pick.where:
            yield from guard_values(guard)


def form_values(form: Form) -> Iterator[object]:
    """Every value of a form."""
    yield from pick_values(form.pick)
    for step in form.steps:
        yield from step_values(step)
    for wake in form.wakes:
        yield from walk(wake.key)
        yield from walk(wake.at)


def _arg_names(values: Iterator[object]) -> Iterator[str]:
    return (value.name for value in values if isinstance(value, Arg))


def _guard_tables(form: Form) -> set[str]:
    """The other tables that decide whether a form applies."""
    head = form.steps[0]
    guards = (*getattr(head, "where", ()), *(form.pick.where if form.pick else ()))
    return {guard.table for guard in guards if isinstance(guard, Absent | Present)}


def _getter(names: tuple[str, ...]) -> Callable[[Values], tuple[object, ...]]:
    if len(names) == 1:
        return lambda args: (args[names[0]],)
    return itemgetter(*names) if names else lambda args: ()


def _check(form: Form) -> None:
    """Asserts that a form can be sent twice and run beside others: a lock wait reads one row."""
    head = form.steps[0]
    if form.pick is not None:
        assert isinstance(head, Update), f"{form.name}: a sweep updates what it picks"
        return
    assert isinstance(head, Insert | Update | Delete), f"{form.name}: the first step can be refused"
    if isinstance(head, Update) and len(form.steps) > 1:
        guarded = {c.column for c in head.where if isinstance(c, Cond) and c.op == "="}
        assert guarded & {"lease_epoch", "version"}, f"{form.name}: guarded by epoch or version"
