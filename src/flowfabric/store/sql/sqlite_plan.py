"""A form as what SQLite's writer runs: read the deciding row under its guards, compute, write.

There is one writer, so nothing changes between the read and the write, and reading first is
cheaper than RETURNING (see docs/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from flowfabric.plan import After, Arg, Delete, Form, Insert, Step, Update, Wake
from flowfabric.store.schema import INDEXES, TABLES, Table, channels_of
from flowfabric.store.sql.ddl import index_order, index_predicate
from flowfabric.store.sql.forms import key_conditions, refusable
from flowfabric.store.sql.sqlite_expr import NOW, Draft, Picker, Slot, Statement, picker, slot
from flowfabric.store.sql.sqlite_layout import (
    Layout,
    layout,
    returned_slot,
    slots_in,
    value_after,
)

_SOURCES = ("now", "arg", "before", "after", "item")


class WakePosition(Struct, frozen=True):
    """The positions of the key and the time of a wake-up in the values; -1 for none."""

    topic: str
    key: int
    at: int
    is_uuid: bool


class SqliteForm(Struct, frozen=True):
    """Everything the writer needs to run one form."""

    layout: Layout
    select: Statement | None
    """Reads the deciding row under its guards; without it, `head` decides by what it touched."""
    key: Picker
    """What names the deciding row, so that plans about one row keep their order."""
    head: Statement
    split_insert: tuple[Statement, Statement] | None
    """A guarded insert in two: its guards, asked once for many rows, and the bare insert."""
    rest: tuple[Statement, ...]
    wakes: tuple[WakePosition, ...]
    channels: tuple[str, ...]
    unbatchable: bool
    """Each plan is completed before the next one begins."""


def sqlite_form(form: Form) -> SqliteForm:
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    rest = _children(subject, head) if isinstance(head, Delete) else []
    rest += [_following(subject, step, at) for at, step in enumerate(form.steps[1:], 1)]
    asked = [*_slots_behind(form, subject, rest)]
    after = list(dict.fromkeys(s.name for s in asked if s.source == "after"))
    needed = [NOW, *asked, *(Slot("after", c) for c in after)]
    needed += [s for c in after for s in slots_in(value_after(head, subject, c), subject, c)]
    if form.pick is not None:
        needed += [Slot("before", k) for k in subject.key]
    reads_first = any(s.source == "before" for s in needed)
    writing = _writing(form, subject, after, reads_first=reads_first)
    split = _split(subject, _computed(head, after)) if _is_guarded_insert(head) else ()
    needed += [s for draft in (writing, *split) for s in draft.used]
    before = list(dict.fromkeys(s.name for s in needed if s.source == "before"))
    select = _selection(form, subject, before) if reads_first else None
    needed += select.used if select else []
    order = sorted(dict.fromkeys(needed), key=lambda s: (_SOURCES.index(s.source), s.encoding))
    place = {s: at for at, s in enumerate(order)}
    return SqliteForm(
        layout=layout(form, subject, place, before),
        select=select.finished(place) if select else None,
        key=_key(head, subject, place),
        head=writing.finished(place),
        split_insert=(split[0].finished(place), split[1].finished(place)) if split else None,
        rest=tuple(draft.finished(place) for draft in rest),
        wakes=tuple(_wake_position(w, subject, place) for w in form.wakes),
        channels=channels_of(form),
        unbatchable=form.reads_itself or any(refusable(step) for step in form.steps[1:]),
    )


def _slots_behind(form: Form, subject: Table, rest: list[Draft]) -> Iterator[Slot]:
    """What the further steps, the answer and the wake-ups need."""
    for draft in rest:
        yield from draft.used
        if draft.each:
            yield draft.each
    yield from (returned_slot(subject, column) for column in form.returning)
    for wake in form.wakes:
        yield from (s for value in (wake.key, wake.at) if (s := _wake_slot(value)))


# ---- statements


def _writing(form: Form, subject: Table, computed: list[str], *, reads_first: bool) -> Draft:
    """The deciding step. A row that was read is found by its key alone, and its computed
    columns are written as computed.
    """
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
        draft.sql += " AND ".join(f"{k} = {draft.param('before', k, '')}" for k in subject.key)
    else:
        draft.sql += draft.where(key_conditions(head.where, subject) if reads_first else head.where)
    return draft


def _is_guarded_insert(head: Step) -> bool:
    return isinstance(head, Insert) and bool(head.where)


def _computed(head: Step, computed: list[str]) -> Insert:
    assert isinstance(head, Insert)
    row = {c: After(c) if c in computed else v for c, v in head.row.items()}
    return Insert(head.table, row, head.where)


def _split(subject: Table, head: Insert) -> tuple[Draft, Draft]:
    guards, bare = Draft(subject, subject, inside=True), Draft(subject, subject, inside=True)
    guards.sql = f"SELECT 1 WHERE {guards.where(head.where)}"
    bare.sql = bare.step(Insert(head.table, head.row))
    return guards, bare


def _selection(form: Form, subject: Table, before: list[str]) -> Draft:
    """The rows of a sweep, or the one row of a plan if its guards hold."""
    head = form.steps[0]
    assert isinstance(head, Update | Delete)
    draft = Draft(subject, subject, inside=True)
    text = f"SELECT {', '.join(before)} FROM {subject.name} WHERE "
    if form.pick is None:
        draft.sql = text + draft.where(head.where)
        return draft
    index = INDEXES[form.pick.index]
    tests = [index_predicate(index)] if index.where else []
    tests += [f"{c} = {draft.value(v, subject.kinds[c])}" for c, v in form.pick.group.items()]
    if form.pick.upto is not None:
        tests.append(f"{index.bound_column()} <= {draft.value(form.pick.upto, 'int')}")
    tests += [draft.guard(g) for g in (*form.pick.where, *head.where)]
    draft.sql = f"{text}{' AND '.join(tests)} ORDER BY {index_order(index)} LIMIT "
    return draft


def _following(subject: Table, step: Step, at: int) -> Draft:
    draft = Draft(subject, TABLES[step.table])
    draft.sql = draft.step(step)
    draft.at, draft.must = at, refusable(step)
    return draft


def _children(subject: Table, step: Delete) -> list[Draft]:
    """Deletes the rows that a deleted row owns; an outbox records the highest number it loses."""
    drafts = []
    key = {c.column: c.value for c in key_conditions(step.where, subject)}
    for child in subject.children:
        table = TABLES[child.table]
        owner = {child.column(k): value for k, value in key.items()}
        deleted = Draft(subject, table)
        deleted.sql = f"DELETE FROM {table.name} WHERE {_owned(deleted, owner)}"
        if table.outbox:
            trim = Draft(subject, table)
            highest = (
                f"SELECT max(event_id) AS highest FROM {table.name} WHERE {_owned(trim, owner)}"
            )
            trim.sql = (
                f"INSERT INTO ff_outbox_trim (channel, event_id) SELECT '{table.name}', highest "
                f"FROM ({highest}) WHERE highest IS NOT NULL ON CONFLICT (channel) "
                "DO UPDATE SET event_id = max(event_id, excluded.event_id)"
            )
            drafts.append(trim)
        drafts.append(deleted)
    return drafts


def _owned(draft: Draft, owner: Mapping[str, Any]) -> str:
    kinds = draft.table.kinds
    return " AND ".join(f"{k} = {draft.value(v, kinds[k])}" for k, v in owner.items())


# ---- positions


def _wake_slot(value: object) -> Slot | None:
    match value:
        case Arg(name=name):
            return Slot("arg", name)
        case After(column=column):
            return Slot("after", column)
    assert value is None, "a wake-up names an argument or a column"
    return None


def _wake_position(wake: Wake, subject: Table, place: Mapping[Slot, int]) -> WakePosition:
    def position(value: object) -> int:
        found = _wake_slot(value)
        return -1 if found is None else place[found]

    is_uuid = isinstance(wake.key, After) and subject.kinds[wake.key.column] == "uuid"
    return WakePosition(wake.topic, position(wake.key), position(wake.at), is_uuid)


def _key(head: Step, subject: Table, place: Mapping[Slot, int]) -> Picker:
    if not isinstance(head, Update | Delete):
        return picker(())
    named = [
        slot(subject, "arg", c.value.name, subject.kinds[c.column])
        for c in key_conditions(head.where, subject)
        if isinstance(c.value, Arg)
    ]
    return picker(place[s] for s in named if s in place)
