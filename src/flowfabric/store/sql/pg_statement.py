"""A form as one Postgres statement, the same text for one plan and for many.

Arguments travel as arrays and are numbered; the deciding step returns what it applied together with everything later
steps need, and the rest reads from that. Guards are hidden from the planner: a visible `lifecycle_phase = 'active'` invites
a walk of a partial index whose statistics say it is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from flowfabric.plan import (
    After,
    Among,
    Arg,
    Before,
    Cond,
    Delete,
    Form,
    Insert,
    InsertEach,
    Present,
    Span,
    Step,
    Until,
    Update,
    Upsert,
    Wake,
    When,
    guard_values,
    walk,
)
from flowfabric.store.schema import INDEXES, TABLES, Table, channels_of
from flowfabric.store.sql.ddl import PG_TYPES, index_order, index_predicate
from flowfabric.store.sql.pg_expr import Scalars, Scope, argument_kinds
from flowfabric.store.sql.pg_steps import (
    children,
    following,
    guarded,
    in_key_order,
    item_kinds,
    names_key,
)
from flowfabric.store.sql.sqlite_expr import refusable

_NOW_MS = "coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"


def clock(called: str = "clk", behind: str = "") -> str:
    """The time, read once; behind a part that may wait, when that has come to its end."""
    return f"{called} AS MATERIALIZED (SELECT {_NOW_MS} AS now_ms{f' FROM {behind}' if behind else ''})"


REFUSED_AT = "ff_refused_at_"
_OR_NOTHING = "ON CONFLICT DO NOTHING "


class WokenBy(Struct, frozen=True):
    """Where the key and the time of a wake-up stand: among the arguments, or from the end of the answer when negative."""

    topic: str
    key: int | None
    at: int | None


class PgForm(Struct, frozen=True):
    """The statement of a form and how to call it.

    `kinds` are those of its arguments, `sent` the positions of those that travel as arrays, `key` of those that name its row.
    An answer row begins with the time and the plan's ordinal (for a sweep the request's and the row's place, for a plain insert
    the new row's key), then come `returning`, a trap for each step in `musts`, and the columns its wake-ups need. A `counted`
    insert answers with one row instead: the time, how many went in and, unless all did, the keys of those; `single` is the same
    for one plan, with plain parameters and the time as its answer, and `hopeful` is an error if only one is there already.
    `probe` asks, by what a sweep chooses by, whether there is anything for it. A `packed` insert takes arguments that are the
    same for all plans as arrays of one. `items` are the parts of an item and what they are.
    """

    sql: str
    single: str | None
    hopeful: str | None
    probe: str | None
    kinds: tuple[str, ...]
    sent: tuple[int, ...]
    key: tuple[int, ...]
    returned: tuple[int, int]
    returned_kinds: tuple[str, ...]
    musts: tuple[int, ...]
    wakes: tuple[WokenBy, ...]
    channels: tuple[str, ...]
    by_key: int
    counted: bool
    packed: bool
    alone: bool
    items: tuple[tuple[str, str], ...] = ()


class Lead(Struct, frozen=True):
    """What goes before a sweep in its statement, the last of its parts being `f`, with arguments behind those of the sweep.

    Its rows come back even if nothing was picked, with nulls. One that decides must have a row, or nothing is picked; any other
    has one that says what became of it, in the place of the time, and a clock of its own: it may wait for locks, and a lease
    that is picked behind it runs from then on.
    """

    parts: tuple[str, ...]
    decides: bool


def statement(form: Form, lead: Lead | None = None) -> PgForm:
    kinds = argument_kinds(form)
    subject, head = TABLES[form.steps[0].table], form.steps[0]
    plain_insert = isinstance(head, Insert) and len(form.steps) == 1
    musts = tuple(at for at, step in enumerate(form.steps[1:], 1) if refusable(step))
    key = _key_positions(form, head, subject)
    leading = (
        [k for k in subject.key if isinstance(getattr(head, "row", {}).get(k), Arg)]
        if plain_insert
        else []
    )
    waking = _wake_columns(form)
    counted = bool(leading) and not form.returning and not waking
    shown = [
        "(SELECT now_ms FROM clk)" if lead is None or lead.decides else "f.said_",
        *(f"g.r_{k}" for k in leading),
    ]
    if not leading:
        shown += (
            ["1"]
            if plain_insert
            else ["g.request_", "g.place_"]
            if form.pick is not None
            else ["g.n_"]
        )
    first = len(shown)
    shown += [f"g.w_{c.column}" if isinstance(c, Before) else f"g.r_{c}" for c in form.returning]
    shown += [_trap(at) for at in musts]
    shown += [f"g.r_{c}" for c in waking]
    if counted:
        missing = f"count(*) < cardinality({_arrays(form.args, kinds)[key[0]]})"
        shown = ["(SELECT now_ms FROM clk)", "count(*)"]
        shown += [f"CASE WHEN {missing} THEN array_agg(g.r_{k}) END" for k in leading]
    parts = (
        [clock()]
        if lead is None
        else [clock(), *lead.parts]
        if lead.decides
        else [*lead.parts, clock(behind="f")]
    )
    if form.pick is None:
        parts += arguments(
            form, kinds, packed=plain_insert, kept=not counted or bool(_present(head))
        )
    parts += _held_still(form, kinds)
    parts += _deciding(
        form, subject, kinds, plain_insert=plain_insert, guarded=lead is not None and lead.decides
    )
    rest = Scope(subject, kinds, "g", "g.w_")
    later = list(enumerate(form.steps[1:], 1))
    later.reverse()  # what nobody reads from is run last to first, and events are numbered as they are told
    rows = "g" if form.pick is None else in_key_order(subject)
    parts += [
        f"w{at} AS ({following(step, rest, rows, counted=at in musts)})" for at, step in later
    ]
    if isinstance(head, Delete):
        parts += children(subject)
    sql = (
        "WITH "
        + ",\n".join(parts)
        + f"\nSELECT {', '.join(shown)} FROM {'g' if lead is None else 'f LEFT JOIN g ON true'}"
    )
    return PgForm(
        sql=sql,
        single=_single(head, subject, form, kinds)
        if counted and isinstance(head, Insert) and not _present(head)
        else None,
        hopeful=sql.replace(_OR_NOTHING, "") if counted else None,
        probe=_probe(form, subject, kinds) if form.pick is not None else None,
        kinds=tuple(kinds[a] for a in form.args),
        sent=tuple(form.args.index(a) for a in (form.args if form.pick is None else used_by(form))),
        key=key,
        returned=(first, first + len(form.returning)),
        returned_kinds=tuple(
            subject.kinds[c.column if isinstance(c, Before) else c] for c in form.returning
        ),
        musts=musts,
        wakes=tuple(_woken_by(w, form, waking) for w in form.wakes),
        channels=channels_of(form),
        by_key=len(leading),
        counted=counted,
        packed=plain_insert,
        items=tuple(
            pair
            for step in form.steps
            if isinstance(step, InsertEach)
            for pair in item_kinds(step).items()
        ),
        alone=form.reads_itself
        or (form.pick is None and not key and subject.key[0] in getattr(head, "row", {})),
    )


def _trap(step: int) -> str:
    """Takes the whole statement back when a step did not touch a row for each plan: no number is written so.

    The text is made of a count, or it would be read while planning.
    """
    wrong = f"('{REFUSED_AT}{step}' || (SELECT left(count(*)::text, 0) FROM g))::int"
    return f"CASE WHEN (SELECT count(*) FROM w{step}) = (SELECT count(*) FROM g) THEN 0 ELSE {wrong} END"


def _present(step: Step) -> list[Present]:
    return [guard for guard in getattr(step, "where", ()) if isinstance(guard, Present)]


def _held_still(form: Form, kinds: Mapping[str, str]) -> list[str]:
    """For which plans the row of another table fits. It is locked against change, in key order; had it changed, it is looked at
    once more.
    """
    asked = _present(form.steps[0])
    if not asked:
        return []
    (guard,) = asked
    assert form.pick is None, f"{form.name}: a sweep does not ask other tables to hold still"
    table, scope = TABLES[guard.table], Scope(TABLES[form.steps[0].table], kinds, "a", "")
    named = [cond for cond in guard.where if names_key(cond, table)]
    tests = " AND ".join(scope.guard(cond, table, "o.") for cond in named)
    others = (
        " AND ".join(scope.guard(cond, table, "o.") for cond in guard.where if cond not in named)
        or "true"
    )
    order = ", ".join(f"o.{k}" for k in table.key)
    hidden = f"CASE WHEN {others} THEN true ELSE false END"
    rows = f"SELECT a.n_ FROM a, {table.name} AS o WHERE {tests} AND {hidden} ORDER BY {order} FOR SHARE OF o"
    return [f"h AS MATERIALIZED ({rows})"]


def _deciding(
    form: Form, subject: Table, kinds: Mapping[str, str], *, plain_insert: bool, guarded: bool
) -> list[str]:
    head, (refs, was) = form.steps[0], needs(form)
    if isinstance(head, Insert):
        return _inserted(head, subject, Scope(subject, kinds, "a", ""), refs, plain=plain_insert)
    later = arguments_in(v for step in form.steps[1:] for v in step_values(step))
    kept = ["now_ms_", *later, *(f"w_{c}" for c in was)]
    if form.pick is not None:
        updated = changed(
            head,
            subject,
            Scope(subject, kinds, "p", "t."),
            ["request_", "place_", *kept],
            refs,
            "p.w_",
        )
        return [*_picked(form, subject, kinds, was, guarded=guarded), updated]
    if was:
        updated = changed(
            head, subject, Scope(subject, kinds, "l", "t."), ["n_", *kept], refs, "l.w_"
        )
        return [_locked(head, subject, kinds, was, used_by(form)), updated]
    return [changed(head, subject, Scope(subject, kinds, "a", "t."), ["n_", *kept], refs)]


def used_by(form: Form) -> list[str]:
    """The arguments of the steps. Those a sweep chooses by stand apart: all its requests have them in common."""
    return arguments_in(v for step in form.steps for v in step_values(step))


def arguments_in(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(v.name for v in values if isinstance(v, Arg)))


def needs(form: Form) -> tuple[list[str], list[str]]:
    """Columns of the guarded row that later steps, answers and wake-ups need: as it is left, and as it was."""
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    values = [v for step in form.steps[1:] for v in step_values(step)]
    refs = [v.column for v in values if isinstance(v, After)]
    was = [c for v in values if isinstance(v, Span) for c in (v.since, v.until)]
    was += [v.column for v in values if isinstance(v, Before | Until)] + [
        v.cond.column for v in values if isinstance(v, When)
    ]
    refs += [c for c in form.returning if isinstance(c, str)]
    was += [c.column for c in form.returning if isinstance(c, Before)]
    refs += _wake_columns(form)
    if isinstance(head, Delete) or (
        isinstance(head, Insert) and subject.kinds[subject.key[0]] != "auto"
    ):
        refs += subject.key
    if form.pick is not None or was:
        was += subject.key
    return list(dict.fromkeys(refs)), list(dict.fromkeys(was))


def step_values(step: Step) -> Iterator[Any]:
    for guard in getattr(step, "where", ()):
        yield from guard_values(guard)
    for part in ("row", "set"):
        for value in getattr(step, part, {}).values():
            yield from walk(value)
    if isinstance(step, InsertEach):
        yield step.of


def _wake_columns(form: Form) -> list[str]:
    return list(
        dict.fromkeys(v.column for w in form.wakes for v in (w.key, w.at) if isinstance(v, After))
    )


def _woken_by(wake: Wake, form: Form, waking: list[str]) -> WokenBy:
    def place(value: Any) -> int | None:
        if isinstance(value, Arg):
            return form.args.index(value.name)
        return waking.index(value.column) - len(waking) if isinstance(value, After) else None

    return WokenBy(wake.topic, place(wake.key), place(wake.at))


def arguments(
    form: Form,
    kinds: Mapping[str, str],
    *,
    packed: bool,
    kept: bool = True,
    called: str = "a",
    start: int = 2,
    clk: str = "clk",
) -> list[str]:
    """The calls as rows of `a`, numbered, and kept unless they are read only once. What all have in common is unpacked and cast
    once, in `s`.
    """
    rows = f"{called} AS MATERIALIZED" if kept else f"{called} AS"
    arrays = _arrays(form.args, kinds, start)
    casts = {name: _cast(kinds[name]) for name in form.args}
    names = list(form.args)
    if not arrays:
        arrays.append(f"${start}::bigint[]")
        names.append("one_")
    given = f"unnest({', '.join(arrays)}) WITH ORDINALITY AS u({', '.join((*names, 'n_'))})"
    shown = [f"u.{name}{casts.get(name, '')} AS {name}" for name in names]
    if not packed or not form.args:
        return [
            f"{rows} (SELECT {', '.join(shown)}, u.n_, {clk}.now_ms AS now_ms_ FROM {clk}, {given})"
        ]
    common = [
        f"cardinality({array}) = 1 AS one_{name}" for name, array in zip(names, arrays, strict=True)
    ]
    common += [
        f"({array})[1]{casts[name]} AS {name}" for name, array in zip(names, arrays, strict=True)
    ]
    shown = [
        f"CASE WHEN s.one_{name} THEN s.{name} ELSE u.{name}{casts[name]} END AS {name}"
        for name in names
    ]
    return [
        f"s AS MATERIALIZED (SELECT {', '.join(common)})",
        f"{rows} (SELECT {', '.join(shown)}, u.n_, {clk}.now_ms AS now_ms_ FROM {clk}, s, {given})",
    ]


def _arrays(names: Iterable[str], kinds: Mapping[str, str], start: int = 2) -> list[str]:
    return [
        f"${at}::{_TRANSPORT.get(kinds[name], PG_TYPES[kinds[name]])}[]"
        for at, name in enumerate(names, start)
    ]


def _cast(kind: str) -> str:
    return f"::{PG_TYPES[kind]}" if kind in _TRANSPORT else ""


# an array of lists would be flattened, so they travel as text
_TRANSPORT = {"list": "text", "items": "text", "uuids": "text", "json": "text", "uuidtext": "text"}


def _key_positions(form: Form, head: Step, subject: Table) -> tuple[int, ...]:
    """Positions of the arguments that name the guarded row; plans that share it must not share a batch."""
    if form.pick is not None:
        return ()
    named: Mapping[str, Any]
    if isinstance(head, Insert | InsertEach | Upsert):
        named = head.row
    else:
        named = {c.column: c.value for c in head.where if isinstance(c, Cond) and c.op == "="}
    return tuple(
        form.args.index(named[k].name) for k in subject.key if isinstance(named.get(k), Arg)
    )


def _picked(
    form: Form, subject: Table, kinds: Mapping[str, str], was: list[str], *, guarded: bool
) -> list[str]:
    """Rows in index order, locked as they are met. The last array says for each which request gets it."""
    assert form.pick is not None
    index, used = INDEXES[form.pick.index], used_by(form)
    whose = f"(${len(used) + 2}::int[])"
    scope = Scalars(
        subject, kinds, {name: at for at, name in enumerate(form.pick_args, len(used) + 3)}
    )
    columns = ", ".join(f"t.{c} AS w_{c}" for c in was)
    begun = "EXISTS (SELECT 1 FROM f) AND " if guarded else ""
    given = [
        f"({array})[d.request_]{_cast(kinds[a])} AS {a}"
        for a, array in zip(used, _arrays(used, kinds), strict=True)
    ]
    return [
        f"q AS MATERIALIZED (SELECT {columns} FROM {subject.name} AS t WHERE {begun}{_wanted(form, subject, scope)} "
        f"ORDER BY {index_order(index, 't.')} LIMIT cardinality{whose} FOR UPDATE OF t SKIP LOCKED)",
        f"p AS MATERIALIZED (SELECT {', '.join(['d.*', 'clk.now_ms AS now_ms_', *given])} FROM clk, "
        f"(SELECT o.*, {whose}[o.place_] AS request_ FROM "
        "(SELECT q.*, (row_number() OVER ())::int AS place_ FROM q) AS o) AS d)",
    ]


def _wanted(form: Form, subject: Table, scope: Scope) -> str:
    """Which rows a sweep wants."""
    head = form.steps[0]
    assert form.pick is not None and isinstance(head, Update)
    index = INDEXES[form.pick.index]
    tests = [index_predicate(index, "t.")] if index.where else []
    tests += [f"t.{c} = {scope.value(v, subject.kinds[c])}" for c, v in form.pick.group.items()]
    if form.pick.upto is not None:
        tests.append(f"t.{index.order[0]} <= {scope.value(form.pick.upto, 'int')}")
    guards = [*form.pick.where, *head.where]
    if (
        index.primary
    ):  # rows by their keys: as with a single one, the rest stands where the planner cannot see it
        keyed = [g for g in guards if isinstance(g, Among)]
        others = " AND ".join(scope.guard(g, subject) for g in guards if g not in keyed) or "true"
        return " AND ".join(
            [
                *tests,
                *(scope.guard(g, subject) for g in keyed),
                f"CASE WHEN {others} THEN true ELSE false END",
            ]
        )
    return " AND ".join([*tests, *(scope.guard(g, subject) for g in guards)])


def _probe(form: Form, subject: Table, kinds: Mapping[str, str]) -> str:
    """In the index's own order, so that no statistics can lead elsewhere."""
    assert form.pick is not None
    scope = Scalars(
        subject, kinds, {name: at for at, name in enumerate(form.pick_args, 2)}, _NOW_MS
    )
    order = index_order(INDEXES[form.pick.index], "t.")
    return f"SELECT $1::bigint FROM {subject.name} AS t WHERE {_wanted(form, subject, scope)} ORDER BY {order} LIMIT 1"


def changed(
    head: Step,
    subject: Table,
    scope: Scope,
    keep: list[str],
    refs: list[str],
    found_by: str = "",
    called: str = "g",
) -> str:
    """The deciding update or delete, and what is handed on. Where the row is locked already, its key is all that is asked."""
    assert isinstance(head, Update | Delete)
    found = " AND ".join(f"t.{k} = {found_by}{k}" for k in subject.key)
    where = found if found_by else guarded(head, subject, scope)
    kept = ", ".join([*(f"{scope.args}.{c}" for c in keep), *(f"t.{c} AS r_{c}" for c in refs)])
    if isinstance(head, Delete):
        return f"{called} AS (DELETE FROM {subject.name} AS t USING {scope.args} WHERE {where} RETURNING {kept})"
    sets = scope.sets(head.set, subject)
    return f"{called} AS (UPDATE {subject.name} AS t SET {sets} FROM {scope.args} WHERE {where} RETURNING {kept})"


def _locked(
    head: Step, subject: Table, kinds: Mapping[str, str], was: list[str], used: list[str]
) -> str:
    """Reads what the row was under its lock, in key order, before anything changes it."""
    assert isinstance(head, Update | Delete)
    where = guarded(head, subject, Scope(subject, kinds, "a", "t."))
    columns = ", ".join(
        ["a.n_", "a.now_ms_", *(f"a.{name}" for name in used), *(f"t.{c} AS w_{c}" for c in was)]
    )
    order = ", ".join(f"t.{k}" for k in subject.key)
    return f"l AS MATERIALIZED (SELECT {columns} FROM a, {subject.name} AS t WHERE {where} ORDER BY {order} FOR UPDATE OF t)"


def _inserted(
    head: Insert, subject: Table, scope: Scope, refs: list[str], *, plain: bool
) -> list[str]:
    """INSERT cannot return the ordinal of its plan, so where later steps need it the plans are found again by their keys."""
    numbered = subject.kinds[subject.key[0]] == "auto"
    assert plain or not numbered, f"{subject.name}: an event is not followed by other steps"
    where = " AND ".join(scope.guard(g, subject, "") for g in head.where) or "true"
    kept = ", ".join(f"t.{c} AS r_{c}" for c in refs) or "1"
    insert = (
        f"INSERT INTO {subject.name} AS t ({', '.join(head.row)}) SELECT {scope.row(head.row, subject)} FROM a WHERE {where} "
        f"{'ORDER BY a.n_ ' if numbered else _OR_NOTHING}RETURNING {kept}"
    )
    if plain:
        return [f"g AS ({insert})"]
    same = " AND ".join(
        f"i.r_{k} = {scope.value(head.row[k], subject.kinds[k])}" for k in subject.key
    )
    return [f"i AS ({insert})", f"g AS MATERIALIZED (SELECT a.*, i.* FROM a JOIN i ON {same})"]


def _single(head: Insert, subject: Table, form: Form, kinds: Mapping[str, str]) -> str:
    scope = Scalars(subject, kinds, {name: at for at, name in enumerate(form.args, 2)}, _NOW_MS)
    where = (
        f" WHERE {' AND '.join(scope.guard(g, subject, '') for g in head.where)}"
        if head.where
        else ""
    )
    return (
        f"INSERT INTO {subject.name} ({', '.join(head.row)}) SELECT {scope.row(head.row, subject)}{where} "
        f"{_OR_NOTHING}RETURNING {_NOW_MS}"
    )
