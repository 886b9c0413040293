"""A form as what SQLite's writer runs: read the guarded row under its guards, compute what follows, write.

There is one writer, so nothing moves between the reading and the writing, and reading first is cheaper than RETURNING
(see docs/decisions/0002). The values of a call are laid out as (now, arguments, row before, row after).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import urandom
from typing import Any

from msgspec import Struct

from flowfabric.plan import Add, Arg, Cond, Delete, Form, Fresh, Insert, Now, Once, Ref, Step, Until, Update, Was, When
from flowfabric.store.schema import INDEXES, TABLES, Table
from flowfabric.store.sql.ddl import index_predicate
from flowfabric.store.sql.lite import ENCODERS, NOW, Draft, Encoder, Picker, Slot, Statement, picker, slot, uuid_text

Compute = Callable[[Sequence[Any]], Any]
_SOURCES = ("now", "arg", "was", "ref")
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a is not None and a == b,
    "!=": lambda a, b: a is not None and b is not None and a != b,
    "in": lambda a, b: a in b,
    "is null": lambda a, b: a is None,
    "not null": lambda a, b: a is not None,
}


class RungBy(Struct, frozen=True):
    """Where in the values the key and the time of a wake-up stand; -1 for none."""

    topic: str
    key: int
    at: int


class Script(Struct, frozen=True):
    """Everything the writer needs to run one form.

    `select` decides when there is one: no row, no change. Otherwise `head` decides by the number of rows it touched.
    """

    args: tuple[tuple[int, Encoder | None], ...]
    select: Statement | None
    was: tuple[tuple[int, Encoder | None], ...]
    refs: tuple[Compute, ...]
    key: Picker
    head: Statement
    rest: tuple[Statement, ...]
    rung: tuple[RungBy, ...]
    channels: tuple[str, ...]
    returning: tuple[tuple[int, str], ...]


def script(form: Form) -> Script:
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    rest = [_following(subject, step) for step in form.steps[1:]]
    if isinstance(head, Delete):
        rest += _children(subject, head)
    asked = [s for draft in rest for s in draft.used]
    asked += [_returned(subject, c) for c in form.returning]
    asked += [s for wake in form.wakes for v in (wake.key, wake.at) if (s := _wake_slot(v))]
    after = list(dict.fromkeys(s.name for s in asked if s.source == "ref"))
    needed = [NOW, *asked, *(Slot("ref", c) for c in after)]
    needed += [s for c in after for s in _slots_in(_after(head, c), subject, c)]
    if form.pick is not None:
        needed += [Slot("was", k) for k in subject.key]
    reads_first = any(s.source == "was" for s in needed)
    writing = _writing(form, subject, after, reads_first=reads_first)
    needed += writing.used
    before = list(dict.fromkeys(s.name for s in needed if s.source == "was"))
    select = _selection(form, subject, before) if reads_first else None
    needed += select.used if select else []
    order = sorted(dict.fromkeys(needed), key=lambda s: (_SOURCES.index(s.source), s.encoding))
    place = {s: at for at, s in enumerate(order)}
    return Script(
        args=tuple((form.args.index(s.name), ENCODERS.get(s.encoding)) for s in order if s.source == "arg"),
        select=select.finished(place) if select else None,
        was=tuple((before.index(s.name), ENCODERS.get(s.encoding)) for s in order if s.source == "was"),
        refs=tuple(_compute(head, subject, s, place) for s in order if s.source == "ref"),
        key=_key(head, subject, place),
        head=writing.finished(place),
        rest=tuple(draft.finished(place) for draft in rest),
        rung=tuple(RungBy(w.topic, _position(place, w.key), _position(place, w.at)) for w in form.wakes),
        channels=tuple(dict.fromkeys(s.table for s in form.steps if TABLES[s.table].outbox)),
        returning=tuple((place[s], subject.kinds[s.name]) for s in (_returned(subject, c) for c in form.returning)),
    )


def new_uuid_bytes() -> bytes:
    """A version 4 uuid, without the object around it."""
    raw = bytearray(urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


# ---- statements


def _writing(form: Form, subject: Table, computed: list[str], *, reads_first: bool) -> Draft:
    """The deciding step. Once its row was read, the key alone names it, and what was computed is written as computed."""
    head = form.steps[0]
    draft = Draft(subject, subject, inside=True)
    if not reads_first:
        draft.sql = draft.step(head, deciding=True)
        return draft
    assert isinstance(head, Update | Delete)
    if isinstance(head, Delete):
        draft.sql = f"DELETE FROM {subject.name} WHERE "
    else:
        changes = {c: Ref(c) if c in computed else v for c, v in head.set.items()}
        draft.sql = f"UPDATE {subject.name} SET {draft.sets(changes)} WHERE "
    if form.pick is not None:
        draft.sql += " AND ".join(f"{k} = {draft.param('was', k, '')}" for k in subject.key)
    else:
        draft.sql += draft.where(_named(head, subject))
    return draft


def _named(step: Update | Delete, subject: Table) -> list[Cond]:
    return [c for c in step.where if isinstance(c, Cond) and c.op == "=" and c.column in subject.key]


def _selection(form: Form, subject: Table, before: list[str]) -> Draft:
    """The rows of a sweep, or the one row of a plan if its guards hold."""
    draft = Draft(subject, subject, inside=True)
    head = form.steps[0]
    text = f"SELECT {', '.join(before)} FROM {subject.name} WHERE "
    if form.pick is None:
        assert isinstance(head, Update | Delete)
        draft.sql = text + draft.where(head.where)
        return draft
    assert isinstance(head, Update)
    index = INDEXES[form.pick.index]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {draft.value(v, subject.kinds[c])}" for c, v in form.pick.group.items()]
    if form.pick.upto is not None:
        tests.append(f"{index.order[0]} <= {draft.value(form.pick.upto, 'int')}")
    tests += [draft.guard(g) for g in (*form.pick.where, *head.where)]
    order = ", ".join(f"{c} DESC" if c in index.descending else c for c in index.order)
    draft.sql = f"{text}{' AND '.join(tests)} ORDER BY {order} LIMIT "
    return draft


def _following(subject: Table, step: Step) -> Draft:
    draft = Draft(subject, TABLES[step.table])
    draft.sql = draft.step(step)
    return draft


def _children(subject: Table, step: Delete) -> list[Draft]:
    """Rows that go with their owner; an outbox first notes the highest number it loses."""
    drafts = []
    named = {c.column: c.value for c in _named(step, subject)}
    for child in subject.children:
        table = TABLES[child.table]
        gone = Draft(subject, table)
        gone.sql = f"DELETE FROM {table.name} WHERE {_owned(gone, named)}"
        if table.outbox:
            noted = Draft(subject, table)
            noted.sql = (
                f"INSERT INTO ff_outbox_trim (channel, event_id) SELECT '{table.name}', max(event_id) FROM {table.name} "
                f"WHERE {_owned(noted, named)} HAVING max(event_id) IS NOT NULL "
                "ON CONFLICT (channel) DO UPDATE SET event_id = max(event_id, excluded.event_id)"
            )
            drafts.append(noted)
        drafts.append(gone)
    return drafts


def _owned(draft: Draft, named: Mapping[str, Any]) -> str:
    kinds = draft.table.kinds
    return " AND ".join(f"{k} = {draft.value(v, kinds[k])}" for k, v in named.items())


# ---- values


def _returned(subject: Table, column: str | Was) -> Slot:
    if isinstance(column, Was):
        return slot(subject, "was", column.column, "")
    return slot(subject, "ref", column, "")


def _wake_slot(value: Any) -> Slot | None:
    match value:
        case Arg(name=name):
            return Slot("arg", name)
        case Ref(column=column):
            return Slot("ref", column)
    assert value is None, "a wake-up names an argument or a column"
    return None


def _position(place: Mapping[Slot, int], value: Any) -> int:
    found = _wake_slot(value)
    return -1 if found is None else place[found]


def _key(head: Step, subject: Table, place: Mapping[Slot, int]) -> Picker:
    """Which row a plan is about, so that two plans about one row do not overtake each other."""
    if not isinstance(head, Update | Delete):
        return picker(())
    named = [
        slot(subject, "arg", c.value.name, subject.kinds[c.column]) for c in _named(head, subject) if isinstance(c.value, Arg)
    ]
    return picker(place[s] for s in named if s in place)


def _after(head: Step, column: str) -> Any:
    """What a column holds once the deciding step is done, in terms of the call and the row before."""
    if isinstance(head, Insert):
        return head.row[column]
    if isinstance(head, Update) and column in head.set:
        return head.set[column]
    return Was(column)


def _slots_in(value: Any, subject: Table, column: str) -> Iterator[Slot]:
    match value:
        case Arg(name=name):
            yield slot(subject, "arg", name, subject.kinds[column])
        case Was(column=other):
            yield Slot("was", other)
        case Until(column=other):
            yield from (NOW, Slot("was", other))
        case Now(plus=plus):
            yield NOW
            yield from _slots_in(plus, subject, column)
        case Add():
            yield Slot("was", column)
        case Once(value=inner):
            yield Slot("was", column)
            yield from _slots_in(inner, subject, column)
        case When(cond=cond, then=then, otherwise=otherwise):
            yield Slot("was", cond.column)
            yield from _slots_in(then, subject, column)
            yield from _slots_in(otherwise, subject, column)


def _compute(head: Step, subject: Table, wanted: Slot, place: Mapping[Slot, int]) -> Compute:
    if wanted.encoding:
        plain = place[Slot("ref", wanted.name)]
        return lambda values: uuid_text(values[plain])
    return _computed(_after(head, wanted.name), subject, wanted.name, place)


def _computed(value: Any, subject: Table, column: str, place: Mapping[Slot, int]) -> Compute:
    match value:
        case Arg(name=name):
            at = place[slot(subject, "arg", name, subject.kinds[column])]
            return lambda values: values[at]
        case Was(column=other):
            at = place[Slot("was", other)]
            return lambda values: values[at]
        case Now(plus=0):
            return lambda values: values[0]
        case Now(plus=plus):
            more = _computed(plus, subject, column, place)
            return lambda values: None if (extra := more(values)) is None else values[0] + extra
        case Until(column=other):
            at = place[Slot("was", other)]
            return lambda values: None if values[at] is None else max(values[at] - values[0], 1)
        case Add(n=n):
            own = place[Slot("was", column)]
            return lambda values: values[own] + n
        case Once(value=inner):
            own, first = place[Slot("was", column)], _computed(inner, subject, column, place)
            return lambda values: first(values) if values[own] is None else values[own]
        case Fresh():
            return lambda values: new_uuid_bytes()
        case When(cond=cond, then=then, otherwise=otherwise):
            at, test, wanted = place[Slot("was", cond.column)], _TESTS[cond.op], cond.value
            yes, no = (_computed(v, subject, column, place) for v in (then, otherwise))
            return lambda values: yes(values) if test(values[at], wanted) else no(values)
        case _:
            return lambda values: value
