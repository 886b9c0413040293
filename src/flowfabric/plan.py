"""The vocabulary of a plan: everything a rule may ask of a store.

A `Form` is the constant part of an operation, declared once at import. A `Plan` is a form plus the values of one call.
Constants become text in a store's statements and `Arg`s become parameters, so the list of forms is the list of statements.
A plan is applied whole or refused whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct

from flowfabric.model.event import COMPLETION_EVENTS


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
    """The store's clock at the commit, plus some milliseconds; null when those are null."""

    plus: Any = 0


class Until(Struct, frozen=True):
    """Milliseconds from the store's clock to a time in the guarded row before this plan: at least 1, null when unset."""

    column: str


class Span(Struct, frozen=True):
    """Milliseconds from one time of the guarded row to another, both before this plan; null when either is unset."""

    since: str
    until: str


class Add(Struct, frozen=True):
    """The column's own value plus n, a number or a value of the call."""

    n: int | Arg = 1


class Once(Struct, frozen=True):
    """The value, while the column is null; afterwards what it holds."""

    value: Any


class Fresh(Struct, frozen=True):
    """A new random uuid."""


class Text(Struct, frozen=True):
    """Parts joined to a text."""

    parts: tuple[Any, ...]


Op = Literal["=", "!=", "<", "<=", ">", ">=", "in", "is null", "not null"]


class Cond(Struct, frozen=True):
    """A fact about a row. `in` takes a tuple of constants."""

    column: str
    op: Op
    value: Any = None


class AnyOf(Struct, frozen=True):
    conds: tuple[Cond, ...]


class Covered(Struct, frozen=True):
    """Every element of the row's list, which is kept sorted and free of repeats, is among the caller's."""

    column: str
    by: Arg


class Absent(Struct, frozen=True):
    """No row of another table fits."""

    table: str
    where: tuple[Cond, ...]


class Among(Struct, frozen=True):
    """The row's id is one of the caller's."""

    column: str
    by: Arg


class Present(Struct, frozen=True):
    """A row of another table fits, and goes on doing so until this is committed."""

    table: str
    where: tuple[Cond, ...]


Guard = Cond | AnyOf | Covered | Among | Absent | Present


class When(Struct, frozen=True):
    """One of two values, by a fact about the guarded row before this plan."""

    cond: Cond
    then: Any
    otherwise: Any


class Insert(Struct, frozen=True):
    """Refused when the key exists or another table does not stand as `where` says."""

    table: str
    row: Mapping[str, Any]
    where: tuple[Absent | Present, ...] = ()


class Item(Struct, frozen=True):
    """A part of one of the caller's items."""

    name: str


class InsertEach(Struct, frozen=True):
    """A row for each of the caller's items: tuples of what the row calls `Item`, in the order in which it does."""

    table: str
    row: Mapping[str, Any]
    of: Arg

    @property
    def items(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(value.name for value in self.row.values() if isinstance(value, Item))
        )


class Upsert(Struct, frozen=True):
    """A row, or these changes to the one that has its key."""

    table: str
    row: Mapping[str, Any]
    set: Mapping[str, Any]


class Update(Struct, frozen=True):
    """Exactly one row, named by its key, or the whole plan is refused."""

    table: str
    where: tuple[Guard, ...]
    set: Mapping[str, Any]


class UpdateMany(Struct, frozen=True):
    """Changes what it matches, be it nothing."""

    table: str
    where: tuple[Cond | Among, ...]
    set: Mapping[str, Any]


class Delete(Struct, frozen=True):
    """As the deciding step: exactly one row, and the children it owns. Later: whatever matches."""

    table: str
    where: tuple[Guard, ...]


class Wake(Struct, frozen=True):
    """After the commit, those who wait for this topic look again. `at` is the time it matters, null for now."""

    topic: str
    key: Any = None
    at: Any = None


Step = Insert | InsertEach | Upsert | Update | UpdateMany | Delete


def Emit(channel: str, kind: str, data: Mapping[str, Any], at: Any = Now()) -> Insert:  # noqa: N802, B008
    """An event is a row of an outbox."""
    word = "outcome" if channel == COMPLETION_EVENTS else "event_type"
    return Insert(channel, {word: kind, "occurred_at_ms": at, **data})


class Pick(Struct, frozen=True):
    """Which rows a sweep takes: those of a declared index, one group of it, in its order, up to a bound."""

    index: str
    group: Mapping[str, Any] = {}
    upto: Any = None
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
            isinstance(s, Insert)
            and s.table == COMPLETION_EVENTS
            and s.row.get("outcome") != "resumable"
            for s in self.steps
        )
        _check(self)

    # What follows is found out when it is first asked for: there are many forms, and a program uses few of them.

    @cached_property
    def args(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_arg_names(form_values(self))))

    @cached_property
    def choosing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_arg_names(pick_values(self.pick))))

    @cached_property
    def chosen_by(self) -> Callable[[tuple[Any, ...]], Any]:
        at = tuple(self.args.index(name) for name in self.choosing)
        return itemgetter(*at) if at else (lambda values: ())

    @cached_property
    def reads_itself(self) -> bool:
        return bool(_tables_asked(self) & {step.table for step in self.steps})

    @cached_property
    def _values(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        return _getter(self.args)

    def __call__(self, /, **args: Any) -> Plan:
        return Plan(self, self._values(args))

    def given(self, args: dict[str, Any]) -> Plan:
        """As a call, without copying the arguments."""
        return Plan(self, self._values(args))

    def __repr__(self) -> str:
        return f"Form({self.name})"


class Plan(Struct, frozen=True, gc=False):
    """A form and its values. They may hold tokens and secrets, so its text names none of them."""

    form: Form
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"Plan({self.form.name})"


class Applied(Struct, frozen=True, gc=False):
    """The store's clock at the commit, and the form's `returning` columns."""

    now_ms: int
    row: tuple[Any, ...] = ()


class Refused(Struct, frozen=True, gc=False):
    """Which plan of a group, and which of its steps, did not hold. Nothing was written."""

    plan: int = 0
    step: int = 0


Answer = Applied | Refused


def walk(value: Any) -> Iterator[Any]:
    """A value and everything inside it."""
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


def guard_values(guard: Guard) -> Iterator[Any]:
    match guard:
        case Cond(value=value):
            yield from walk(value)
        case AnyOf(conds=conds) | Absent(where=conds) | Present(where=conds):
            for cond in conds:
                yield from walk(cond.value)
        case _:
            yield guard.by


def step_values(step: Step) -> Iterator[Any]:
    """Every value a step mentions, in the order it is written."""
    for guard in getattr(step, "where", ()):
        yield from guard_values(guard)
    for part in ("row", "set"):
        for value in getattr(step, part, {}).values():
            yield from walk(value)
    if isinstance(step, InsertEach):
        yield step.of


def pick_values(pick: Pick | None) -> Iterator[Any]:
    """What a sweep chooses its rows by."""
    if pick is not None:
        for value in pick.group.values():
            yield from walk(value)
        yield from walk(pick.upto)
        for guard in pick.where:
            yield from guard_values(guard)


def form_values(form: Form) -> Iterator[Any]:
    yield from pick_values(form.pick)
    for step in form.steps:
        yield from step_values(step)
    for wake in form.wakes:
        yield from walk(wake.key)
        yield from walk(wake.at)


def _arg_names(values: Iterator[Any]) -> Iterator[str]:
    return (value.name for value in values if isinstance(value, Arg))


def _tables_asked(form: Form) -> set[str]:
    """Other tables that decide whether this form applies; one that also writes them cannot be decided in a batch."""
    head = form.steps[0]
    guards = (*getattr(head, "where", ()), *(form.pick.where if form.pick else ()))
    return {guard.table for guard in guards if isinstance(guard, Absent | Present)}


def _getter(names: tuple[str, ...]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    if names:
        only = names[0]
        return lambda args: (args[only],)
    return lambda args: ()


def _check(form: Form) -> None:
    """What makes a form safe to send twice and safe beside others."""
    head = form.steps[0]
    if form.pick is not None:
        assert isinstance(head, Update), f"{form.name}: a sweep updates what it picks"
        return
    assert isinstance(head, Insert | Update | Delete), f"{form.name}: the first step can be refused"
    if isinstance(head, Update) and len(form.steps) > 1:
        guarded = {c.column for c in head.where if isinstance(c, Cond) and c.op == "="}
        assert guarded & {"lease_epoch", "version"}, (
            f"{form.name}: after a lock wait only the guarded row is read again, so a plan that touches "
            "other rows is guarded by epoch or version"
        )
