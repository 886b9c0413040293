"""A form as what SQLite's writer runs: read the guarded row under its guards, compute what follows, write.

There is one writer, so nothing moves between the reading and the writing, and reading first is cheaper than RETURNING
(see docs/decisions/0002). The values of a call are laid out as (now, arguments, row before, row after), and
behind them, for a step that is run for each of the caller's items, the item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import urandom
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.ids import uuid_of
from flowfabric.model.execution import UNREADABLE
from flowfabric.plan import (
    Add,
    After,
    Arg,
    Before,
    Cond,
    Delete,
    Form,
    Fresh,
    Insert,
    Now,
    Once,
    Span,
    Step,
    Text,
    Until,
    Update,
    Wake,
    When,
)
from flowfabric.store.schema import INDEXES, TABLES, Table, channels_of
from flowfabric.store.sql.ddl import index_order, index_predicate
from flowfabric.store.sql.sqlite_expr import (
    ENCODERS,
    NOW,
    Draft,
    Picker,
    Slot,
    Statement,
    picker,
    refusable,
    slot,
    uuid_text,
)

Values = tuple[Any, ...]
Row = tuple[Any, ...]
_SOURCES = ("now", "arg", "was", "ref", "item")


class RungBy(Struct, frozen=True):
    """Where in the values the key and the time of a wake-up stand; -1 for none."""

    topic: str
    key: int
    at: int
    is_uuid: bool


class Script(Struct, frozen=True):
    """Everything the writer needs to run one form.

    `bind` lays out the clock and the arguments; `extend` puts the row before and after behind them; `answer` picks what
    the caller is told. `select` decides when there is one: no row, no change. Otherwise `head` decides by what it touched.
    `bulk` is an insert in two: what must hold, asked once for many rows, and the bare insert.
    """

    bind: Callable[[int, Sequence[Any]], Values]
    extend: Callable[[Values, Row], Values]
    answer: Callable[[Values], Row]
    select: Statement | None
    key: Picker
    head: Statement
    bulk: tuple[Statement, Statement] | None
    rest: tuple[Statement, ...]
    rung: tuple[RungBy, ...]
    channels: tuple[str, ...]
    alone: bool


def script(form: Form) -> Script:
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    rest = _children(subject, head) if isinstance(head, Delete) else []
    rest += [_following(subject, step, at) for at, step in enumerate(form.steps[1:], 1)]
    asked = [s for draft in rest for s in (*draft.used, *((draft.each,) if draft.each else ()))]
    asked += [_returned(subject, c) for c in form.returning]
    asked += [s for wake in form.wakes for v in (wake.key, wake.at) if (s := _wake_slot(v))]
    after = list(dict.fromkeys(s.name for s in asked if s.source == "ref"))
    needed = [NOW, *asked, *(Slot("ref", c) for c in after)]
    needed += [s for c in after for s in _slots_in(_after(head, subject, c), subject, c)]
    if form.pick is not None:
        needed += [Slot("was", k) for k in subject.key]
    reads_first = any(s.source == "was" for s in needed)
    writing = _writing(form, subject, after, reads_first=reads_first)
    bulk = _bulk(subject, _computed(head, after)) if isinstance(head, Insert) and head.where else ()
    needed += [s for draft in (writing, *bulk) for s in draft.used]
    before = list(dict.fromkeys(s.name for s in needed if s.source == "was"))
    select = _selection(form, subject, before) if reads_first else None
    needed += select.used if select else []
    order = sorted(dict.fromkeys(needed), key=lambda s: (_SOURCES.index(s.source), s.encoding))
    place = {s: at for at, s in enumerate(order)}
    maker = _Maker(form, subject, place, before)
    return Script(
        bind=maker.function(
            "now, a", [maker.argument(s) for s in order if s.source in ("now", "arg")]
        ),
        extend=maker.function(
            "v, b", [maker.row(s) for s in order if s.source in ("was", "ref")], "v + "
        ),
        answer=maker.function("v", [maker.answer(c) for c in form.returning]),
        select=select.finished(place) if select else None,
        key=_key(head, subject, place),
        head=writing.finished(place),
        bulk=(bulk[0].finished(place), bulk[1].finished(place)) if bulk else None,
        rest=tuple(draft.finished(place) for draft in rest),
        rung=tuple(_rung(w, subject, place) for w in form.wakes),
        channels=channels_of(form),
        alone=form.reads_itself or any(refusable(step) for step in form.steps[1:]),
    )


def new_uuid_bytes() -> bytes:
    """A version 4 uuid, without the object around it."""
    raw = bytearray(urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


_json_list = msgspec.json.Decoder(tuple[str, ...]).decode


def decode_uuid(raw: bytes | None) -> UUID | None:
    return None if raw is None else uuid_of(int.from_bytes(raw, "big"))


def decode_list(raw: str) -> tuple[str, ...]:
    """A damaged one must not hold up the rows that are read with it."""
    try:
        return () if raw == "[]" else _json_list(raw)
    except (ValueError, TypeError):
        return UNREADABLE


# ---- statements


def _writing(form: Form, subject: Table, computed: list[str], *, reads_first: bool) -> Draft:
    """The deciding step. Once its row was read, the key alone names it, and what was computed is written as computed."""
    head = form.steps[0]
    draft = Draft(subject, subject, inside=True)
    if isinstance(head, Insert):
        draft.sql = draft.step(_computed(head, computed))
        return draft
    assert isinstance(head, Update | Delete)
    if isinstance(head, Delete):
        draft.sql = f"DELETE FROM {subject.name} WHERE "
    else:
        changes = {c: After(c) if c in computed else v for c, v in head.set.items()}
        draft.sql = f"UPDATE {subject.name} SET {draft.sets(changes)} WHERE "
    if form.pick is not None:
        draft.sql += " AND ".join(f"{k} = {draft.param('was', k, '')}" for k in subject.key)
    else:
        draft.sql += draft.where(_named(head, subject) if reads_first else head.where)
    return draft


def _computed(head: Insert, computed: list[str]) -> Insert:
    return Insert(
        head.table, {c: After(c) if c in computed else v for c, v in head.row.items()}, head.where
    )


def _bulk(subject: Table, head: Insert) -> tuple[Draft, Draft]:
    asked, bare = Draft(subject, subject, inside=True), Draft(subject, subject, inside=True)
    asked.sql = f"SELECT 1 WHERE {asked.where(head.where)}"
    bare.sql = bare.step(Insert(head.table, head.row))
    return asked, bare


def _named(step: Update | Delete, subject: Table) -> list[Cond]:
    return [
        c for c in step.where if isinstance(c, Cond) and c.op == "=" and c.column in subject.key
    ]


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
        assert index.order[0] not in index.descending, (
            f"{index.name}: a bound is for ascending indexes"
        )
        tests.append(f"{index.order[0]} <= {draft.value(form.pick.upto, 'int')}")
    tests += [draft.guard(g) for g in (*form.pick.where, *head.where)]
    draft.sql = f"{text}{' AND '.join(tests)} ORDER BY {index_order(index)} LIMIT "
    return draft


def _following(subject: Table, step: Step, at: int) -> Draft:
    draft = Draft(subject, TABLES[step.table])
    draft.sql = draft.step(step)
    draft.at, draft.must = at, refusable(step)
    return draft


def _children(subject: Table, step: Delete) -> list[Draft]:
    """Rows that go with their owner; an outbox first notes the highest number it loses."""
    drafts = []
    key = {c.column: c.value for c in _named(step, subject)}
    for child in subject.children:
        table = TABLES[child.table]
        named = {child.column(k): value for k, value in key.items()}
        gone = Draft(subject, table)
        gone.sql = f"DELETE FROM {table.name} WHERE {_owned(gone, named)}"
        if table.outbox:
            noted = Draft(subject, table)
            noted.sql = (
                f"INSERT INTO ff_outbox_trim (channel, event_id) SELECT '{table.name}', highest FROM "
                f"(SELECT max(event_id) AS highest FROM {table.name} WHERE {_owned(noted, named)}) WHERE highest IS NOT NULL "
                "ON CONFLICT (channel) DO UPDATE SET event_id = max(event_id, excluded.event_id)"
            )
            drafts.append(noted)
        drafts.append(gone)
    return drafts


def _owned(draft: Draft, named: Mapping[str, Any]) -> str:
    kinds = draft.table.kinds
    return " AND ".join(f"{k} = {draft.value(v, kinds[k])}" for k, v in named.items())


# ---- values


def _returned(subject: Table, column: str | Before) -> Slot:
    if isinstance(column, Before):
        return slot(subject, "was", column.column, "")
    return slot(subject, "ref", column, "")


def _wake_slot(value: Any) -> Slot | None:
    match value:
        case Arg(name=name):
            return Slot("arg", name)
        case After(column=column):
            return Slot("ref", column)
    assert value is None, "a wake-up names an argument or a column"
    return None


def _rung(wake: Wake, subject: Table, place: Mapping[Slot, int]) -> RungBy:
    is_uuid = isinstance(wake.key, After) and subject.kinds[wake.key.column] == "uuid"
    return RungBy(wake.topic, _position(place, wake.key), _position(place, wake.at), is_uuid)


def _position(place: Mapping[Slot, int], value: Any) -> int:
    found = _wake_slot(value)
    return -1 if found is None else place[found]


def _key(head: Step, subject: Table, place: Mapping[Slot, int]) -> Picker:
    """Which row a plan is about, so that two plans about one row do not overtake each other."""
    if not isinstance(head, Update | Delete):
        return picker(())
    named = [
        slot(subject, "arg", c.value.name, subject.kinds[c.column])
        for c in _named(head, subject)
        if isinstance(c.value, Arg)
    ]
    return picker(place[s] for s in named if s in place)


def _after(head: Step, subject: Table, column: str) -> Any:
    """What a column holds once the deciding step is done, in terms of the call and the row before."""
    if isinstance(head, Insert):
        return (
            head.row[column]
            if column in head.row
            else {c.name: c.default for c in subject.columns}[column]
        )
    if isinstance(head, Update) and column in head.set:
        return head.set[column]
    return Before(column)


def _slots_in(value: Any, subject: Table, column: str) -> Iterator[Slot]:
    match value:
        case Arg(name=name):
            yield slot(subject, "arg", name, subject.kinds[column])
        case Before(column=other):
            yield Slot("was", other)
        case Until(column=other):
            yield from (NOW, Slot("was", other))
        case Now(plus=plus):
            yield NOW
            yield from _slots_in(plus, subject, column)
        case Span(since=since, until=until):
            yield from (Slot("was", since), Slot("was", until))
        case Add(n=n):
            yield Slot("was", column)
            yield from _slots_in(n, subject, column)
        case Once(value=inner):
            yield Slot("was", column)
            yield from _slots_in(inner, subject, column)
        case Text(parts=parts):
            for part in parts:
                yield from _slots_in(part, subject, column)
        case When(cond=cond, then=then, otherwise=otherwise):
            yield Slot("was", cond.column)
            yield from _slots_in(cond.value, subject, cond.column)
            yield from _slots_in(then, subject, column)
            yield from _slots_in(otherwise, subject, column)


_NAMES: dict[str, Any] = {
    "uuid_bytes": ENCODERS["uuid"],
    "list_text": ENCODERS["list"],
    "uuids_text": ENCODERS["uuids"],
    "subsets_text": ENCODERS["subsets"],
    "many_text": ENCODERS["many"],
    "uuid_text": uuid_text,
    "new_uuid_bytes": new_uuid_bytes,
    "decode_uuid": decode_uuid,
    "decode_list": decode_list,
}
_ENCODE = {
    "uuid": "uuid_bytes({})",
    "list": "list_text({})",
    "uuidtext": "uuid_text({})",
    "uuids": "uuids_text({})",
}
_ENCODE |= {"subsets": "subsets_text({})", "many": "many_text({})"}
_DECODE = {"uuid": "decode_uuid({})", "list": "decode_list({})"}


class _Maker:
    """Writes the small functions of a script as Python expressions: one call per plan instead of one per value."""

    def __init__(
        self, form: Form, subject: Table, place: Mapping[Slot, int], before: list[str]
    ) -> None:
        self._form, self._subject, self._place, self._before = form, subject, place, before

    def function(self, parameters: str, parts: list[str], prefix: str = "") -> Any:
        source = f"lambda {parameters}: {prefix}({''.join(part + ', ' for part in parts)})"
        return eval(source, dict(_NAMES))  # noqa: S307 - our own constants, once per form

    def argument(self, slot: Slot) -> str:
        if slot == NOW:
            return "now"
        return _ENCODE.get(slot.encoding, "{}").format(f"a[{self._form.args.index(slot.name)}]")

    def row(self, slot: Slot) -> str:
        if slot.source == "was":
            return _ENCODE.get(slot.encoding, "{}").format(f"b[{self._before.index(slot.name)}]")
        if slot.encoding:
            return f"uuid_text(r_{slot.name})"
        return f"(r_{slot.name} := {self._value(_after(self._form.steps[0], self._subject, slot.name), slot.name)})"

    def answer(self, column: str | Before) -> str:
        slot = _returned(self._subject, column)
        return _DECODE.get(self._subject.kinds[slot.name], "{}").format(f"v[{self._place[slot]}]")

    def _value(self, value: Any, column: str) -> str:
        match value:
            case Arg(name=name):
                return f"v[{self._place[slot(self._subject, 'arg', name, self._subject.kinds[column])]}]"
            case Before(column=other):
                return self._was(other)
            case Now(plus=0):
                return "v[0]"
            case Now(plus=plus):
                return f"(None if (t := {self._value(plus, column)}) is None else v[0] + t)"
            case Until(column=other):
                return (
                    f"(None if {self._was(other)} is None else max({self._was(other)} - v[0], 1))"
                )
            case Span(since=since, until=until):
                ends = self._was(since), self._was(until)
                return f"(None if None in ({ends[0]}, {ends[1]}) else {ends[1]} - {ends[0]})"
            case Add(n=n):
                return f"({self._was(column)} + {self._value(n, column)})"
            case Once(value=inner):
                return f"({self._value(inner, column)} if {self._was(column)} is None else {self._was(column)})"
            case Fresh():
                return "new_uuid_bytes()"
            case Text(parts=parts):
                said = "".join(f"{self._value(part, column)}, " for part in parts)
                return f"(None if None in (t := ({said})) else ''.join(map(str, t)))"
            case When(cond=cond, then=then, otherwise=otherwise):
                return f"({self._value(then, column)} if {self._test(cond)} else {self._value(otherwise, column)})"
            case _:
                return repr(value)

    def _was(self, column: str) -> str:
        return f"b[{self._before.index(column)}]"

    def _test(self, cond: Cond) -> str:
        left = self._was(cond.column)
        match cond.op:
            case "is null":
                return f"{left} is None"
            case "not null":
                return f"{left} is not None"
            case "in":
                return f"{left} in {tuple(cond.value)!r}"
            case "=":
                right = self._value(cond.value, cond.column)
                return f"({left} is not None and {left} == {right})"
        raise AssertionError(f"a value is not chosen by {cond.op}")
