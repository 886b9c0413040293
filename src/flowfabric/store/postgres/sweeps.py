"""Sweeps on one connection: alone, after plans that decide, or with unrelated plans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.batching import Sweep, selection, split_answers
from flowfabric.store.port import Row
from flowfabric.store.postgres.codec import Values, argument_arrays, random_uuids
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.executor import (
    LateRefusal,
    Session,
    answerer,
    distinct,
    in_key_order,
    run_in_order,
    statement_of,
)
from flowfabric.store.sql.pg_combined import (
    can_decide_sweep,
    can_precede_sweep,
    sweep_decided_by,
    sweep_preceded_by,
)
from flowfabric.store.sql.pg_form import PgForm
from flowfabric.store.sql.rows import SqlRow, SqlRows

MAX_ATTEMPTS = 3
CommitAndSweep = tuple[Sequence[Plan], Plan, int]
"""Plans, a sweep and its limit."""
CommittedAndSwept = tuple[list[Answer], list[Row]]
_sweep_decided_by, _sweep_preceded_by = cache(sweep_decided_by), cache(sweep_preceded_by)


async def run_sweeps_together(
    session: Session,
    first: Sequence[Plan],
    wanted: Sequence[Sweep],
    now_ms: int | None,
    effects: Effects,
) -> list[list[Row]] | Refused:
    """Plans, then sweeps, in one transaction; a simple plan and one selection in one statement."""
    own, swept = Effects(), list[list[Row]]()
    runs = [list(run) for _, run in groupby(wanted, key=lambda each: selection(each[0]))]
    if len(first) == len(runs) == 1 and can_decide_sweep(first[0].form):
        return await _run_decided(session, first[0], runs[0], now_ms, effects)
    try:
        async with session.transaction():
            await run_in_order(session, first, now_ms, own)
            for run in runs:
                swept += await run_sweeps(session, run, now_ms, own)
    except LateRefusal as late:
        return late.answer
    effects.merge(own.topics, own.dues)
    return swept


async def run_sweeps(
    session: Session, wanted: Sequence[Sweep], now_ms: int | None, effects: Effects
) -> list[list[Row]]:
    """Sweeps of one selection share a statement; each request gets its share of the rows.

    Rows that other statements locked between the read and the lock are skipped. When that leaves
    nothing although more rows match, the sweep is repeated.
    """
    form = wanted[0][0].form
    sql = statement_of(form)
    values, selected_by = _arguments(sql, form, wanted)
    for _ in range(MAX_ATTEMPTS):
        rows = await session.fetch(sql.sql, now_ms, *values, *selected_by)
        if rows or sql.probe is None or not await session.fetch(sql.probe, now_ms, *selected_by):
            break
    return _assign(sql, form, wanted, rows, effects)


async def _run_decided(
    session: Session, first: Plan, wanted: Sequence[Sweep], now_ms: int | None, effects: Effects
) -> list[list[Row]] | Refused:
    form = wanted[0][0].form
    sql = statement_of(form)
    text = _sweep_decided_by(first.form, form).sql
    values, selected_by = _arguments(sql, form, wanted)
    rows = await session.fetch(text, now_ms, *values, *selected_by, *first.values)
    return _assign(sql, form, wanted, _picked(rows), effects) if rows else Refused()


def _arguments(sql: PgForm, form: Form, wanted: Sequence[Sweep]) -> tuple[list[Any], Values]:
    """The arrays of a sweep, with the request of each row, and the values it selects by."""
    requests = [request for request, (_, limit) in enumerate(wanted, 1) for _ in range(limit)]
    selected_by = [wanted[0][0].values[form.args.index(name)] for name in form.pick_args]
    arrays = argument_arrays(sql, [plan for plan, _ in wanted]) if sql.arrays else []
    values = [*arrays, requests]
    if sql.drawn:
        values.append(random_uuids(sql.drawn * len(requests)))
    return values, selected_by


def _picked(rows: SqlRows) -> list[SqlRow]:
    """Without the row of nulls of an empty sweep."""
    return [row for row in rows if row[1] is not None]


def _assign(
    sql: PgForm, form: Form, wanted: Sequence[Sweep], rows: SqlRows, effects: Effects
) -> list[list[Row]]:
    shares: list[list[Row]] = [[] for _ in wanted]
    answer = answerer(form)
    for row in sorted(rows, key=itemgetter(2)):
        shares[row[1] - 1].append(answer(row))
    if rows:
        effects.add_swept(sql, wanted, rows)
        effects.add_channels(sql)
    return shares


def can_share_statement(plans: Sequence[Plan]) -> bool:
    """One statement can carry the plans and a sweep."""
    if len(plans) < 2:
        return bool(plans) and can_precede_sweep(plans[0].form)
    form = plans[0].form
    return can_precede_sweep(form) and all(p.form is form for p in plans) and distinct(plans)


async def run_commits_and_sweeps(
    session: Session, requests: Sequence[CommitAndSweep], now_ms: int | None, effects: Effects
) -> list[CommittedAndSwept]:
    """Requests whose plans share a form and whose sweeps share a selection."""
    plans = [plan for each, _, _ in requests for plan in each]
    wanted = [(sweep, limit) for _, sweep, limit in requests]
    plan_form, sweep_form = plans[0].form, wanted[0][0].form
    plan_sql, sweep_sql = statement_of(plan_form), statement_of(sweep_form)
    order = in_key_order(plans)
    values, selected_by = _arguments(sweep_sql, sweep_form, wanted)
    arrays = argument_arrays(plan_sql, [plans[at] for at in order])
    text = _sweep_preceded_by(plan_form, sweep_form).sql
    rows = await session.fetch(text, now_ms, *values, *selected_by, *arrays)
    said = next((row[0] for row in rows if row[0] is not None), None)
    answers = _answers(plan_form, said, order)
    if any(isinstance(answer, Applied) for answer in answers):
        effects.add_channels(plan_sql)
    shares = _assign(sweep_sql, sweep_form, wanted, _picked(rows), effects)
    split = split_answers(answers, (each for each, _, _ in requests))
    return list(zip(split, shares, strict=True))


def _answers(form: Form, column: Sequence[Any] | None, order: Sequence[int]) -> list[Answer]:
    """The answers of the plans, from the first column of the combined statement."""
    answers: list[Answer] = [Refused()] * len(order)
    if form.returning:
        answer = answerer(form)
        for row in column or ():
            answers[order[row[1] - 1]] = Applied(row[0], answer(row))
        return answers
    assert column is not None
    now_ms, *numbers = column
    for number in numbers:
        answers[order[number - 1]] = Applied(now_ms)
    return answers
