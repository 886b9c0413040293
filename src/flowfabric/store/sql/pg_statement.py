"""A form as one Postgres statement, the same text for one plan and for many.

Arguments are sent as arrays and numbered. The deciding step returns what it applied together with
everything that later steps need, and the later steps read from that. Guards are hidden from the
planner: a visible `lifecycle_phase = 'active'` makes it walk a partial index whose statistics say
that it is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from flowfabric.plan import (
    After,
    Arg,
    Before,
    Cond,
    Delete,
    Form,
    Insert,
    InsertEach,
    Upsert,
    Wake,
)
from flowfabric.store.schema import TABLES, Table, channels_of
from flowfabric.store.sql.forms import refusable
from flowfabric.store.sql.pg_arguments import (
    argument_rows,
    array_parameters,
    clock,
    drawn_uuids,
    step_arguments,
    wake_columns,
)
from flowfabric.store.sql.pg_deciding import (
    OR_NOTHING,
    deciding,
    present,
    present_guards,
    probe,
    single_insert,
)
from flowfabric.store.sql.pg_expr import Scope, argument_kinds
from flowfabric.store.sql.pg_form import Lead, PgForm, WakePosition
from flowfabric.store.sql.pg_steps import children, following, in_key_order, item_kinds

REFUSED_AT = "ff_refused_at_"
_SAID_ONCE = (
    "CASE WHEN g.place_ IS NULL OR g.place_ = (SELECT min(g.place_) FROM g) THEN f.said_ END"
)
"""In every row, the answers of the plans would be sent and decoded once for each row swept."""


class _Shape(Struct, frozen=True):
    """What the rendering of a form depends on."""

    subject: Table
    kinds: Mapping[str, str]
    plain: bool
    """The form is one insert."""
    answer_key: tuple[str, ...]
    """Key columns that a plain insert answers with."""
    refusable: tuple[int, ...]
    counted: bool
    key: tuple[int, ...]


def statement(form: Form, lead: Lead | None = None) -> PgForm:
    shape, head = _shape_of(form), form.steps[0]
    first, shown = _answer_columns(form, shape, lead)
    sql = (
        "WITH "
        + ",\n".join(_parts(form, shape, lead))
        + f"\nSELECT {', '.join(shown)} FROM {'g' if lead is None else 'f LEFT JOIN g ON true'}"
    )
    kinds, waking = shape.kinds, wake_columns(form)
    single = shape.counted and not present_guards(head)
    sent = form.args if form.pick is None else step_arguments(form)
    returned = [c.column if isinstance(c, Before) else c for c in form.returning]
    inserts_each = [step for step in form.steps if isinstance(step, InsertEach)]
    names_new_row = form.pick is None and shape.subject.key[0] in getattr(head, "row", {})
    return PgForm(
        sql=sql,
        single=single_insert(form, kinds) if single else None,
        optimistic=sql.replace(OR_NOTHING, "") if shape.counted else None,
        probe=probe(form, kinds) if form.pick is not None else None,
        kinds=tuple(kinds[a] for a in form.args),
        arrays=tuple(form.args.index(a) for a in sent),
        drawn=drawn_uuids(form) if form.pick is not None else 0,
        key=shape.key,
        returned=(first, first + len(returned)),
        returned_kinds=tuple(shape.subject.kinds[c] for c in returned),
        refusable=shape.refusable,
        wakes=tuple(_wake_position(w, form, waking) for w in form.wakes),
        channels=channels_of(form),
        answer_key=len(shape.answer_key),
        counted=shape.counted,
        packed=shape.plain,
        unbatchable=form.reads_itself or (names_new_row and not shape.key),
        items=tuple(pair for step in inserts_each for pair in item_kinds(step).items()),
    )


def _shape_of(form: Form) -> _Shape:
    head, subject = form.steps[0], TABLES[form.steps[0].table]
    plain = isinstance(head, Insert) and len(form.steps) == 1
    row = getattr(head, "row", {})
    answer_key = tuple(k for k in subject.key if plain and isinstance(row.get(k), Arg))
    return _Shape(
        subject=subject,
        kinds=argument_kinds(form),
        plain=plain,
        answer_key=answer_key,
        refusable=tuple(at for at, step in enumerate(form.steps[1:], 1) if refusable(step)),
        counted=bool(answer_key) and not form.returning and not wake_columns(form),
        key=_key_positions(form, subject),
    )


def _parts(form: Form, shape: _Shape, lead: Lead | None) -> list[str]:
    head, subject, kinds = form.steps[0], shape.subject, shape.kinds
    led = lead is not None and lead.decides
    if lead is None:
        parts = [clock()]
    else:
        parts = [clock(), *lead.parts] if led else [*lead.parts, clock(behind="f")]
    if form.pick is None:
        materialized = not shape.counted or bool(present_guards(head))
        parts += argument_rows(form, kinds, packed=shape.plain, materialized=materialized)
    parts += present(form, kinds)
    parts += deciding(form, kinds, plain=shape.plain, led=led)
    rest = Scope(subject, kinds, "g", "g.w_")
    rows = "g" if form.pick is None else in_key_order(subject)
    # Postgres runs parts that nothing reads from last to first: reversed, events keep their order.
    for at, step in reversed(list(enumerate(form.steps[1:], 1))):
        text = following(step, rest, rows, counted=at in shape.refusable)
        parts.append(f"w{at} AS ({text})")
    if isinstance(head, Delete):
        parts += children(subject)
    return parts


def _answer_columns(form: Form, shape: _Shape, lead: Lead | None) -> tuple[int, list[str]]:
    """The columns of the answer, and where `returning` begins."""
    time = "(SELECT now_ms FROM clk)"
    if shape.counted:
        missing = (
            f"count(*) < cardinality({array_parameters(form.args, shape.kinds)[shape.key[0]]})"
        )
        keys = [f"CASE WHEN {missing} THEN array_agg(g.r_{k}) END" for k in shape.answer_key]
        return 1 + len(shape.answer_key), [time, "count(*)", *keys]
    shown = [time if lead is None or lead.decides else _SAID_ONCE]
    if shape.answer_key:
        shown += [f"g.r_{k}" for k in shape.answer_key]
    elif shape.plain:
        shown.append("1")
    else:
        shown += ["g.request_", "g.place_"] if form.pick is not None else ["g.n_"]
    first = len(shown)
    shown += [f"g.w_{c.column}" if isinstance(c, Before) else f"g.r_{c}" for c in form.returning]
    shown += [_trap(at) for at in shape.refusable]
    shown += [f"g.r_{c}" for c in wake_columns(form)]
    return first, shown


def _trap(step: int) -> str:
    """Rolls the statement back when a step did not touch one row per plan: the cast fails.

    The text contains a count, since a constant would be cast while planning.
    """
    wrong = f"('{REFUSED_AT}{step}' || (SELECT left(count(*)::text, 0) FROM g))::int"
    same = f"(SELECT count(*) FROM w{step}) = (SELECT count(*) FROM g)"
    return f"CASE WHEN {same} THEN 0 ELSE {wrong} END"


def _wake_position(wake: Wake, form: Form, waking: list[str]) -> WakePosition:
    def position(value: object) -> int | None:
        if isinstance(value, Arg):
            return form.args.index(value.name)
        return waking.index(value.column) - len(waking) if isinstance(value, After) else None

    return WakePosition(wake.topic, position(wake.key), position(wake.at))


def _key_positions(form: Form, subject: Table) -> tuple[int, ...]:
    """Positions of the arguments that name the row; plans that share it must not share a batch."""
    head = form.steps[0]
    if form.pick is not None:
        return ()
    named: Mapping[str, Any]
    if isinstance(head, Insert | InsertEach | Upsert):
        named = head.row
    else:
        named = {c.column: c.value for c in head.where if isinstance(c, Cond) and c.op == "="}
    values = (named.get(k) for k in subject.key)
    return tuple(form.args.index(value.name) for value in values if isinstance(value, Arg))
