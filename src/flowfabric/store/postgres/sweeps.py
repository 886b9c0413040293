"""Sweeps on one connection: by themselves, behind plans that let them begin, and beside plans that ride along."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.fan_out import dealt
from flowfabric.store.port import Row
from flowfabric.store.postgres.executor import (
    Effects,
    Late,
    Session,
    answerer,
    arrays_of,
    distinct,
    in_order,
    run_in_order,
    text_of,
)
from flowfabric.store.sql.pg_combined import begun_by, can_begin, can_ride_along, ridden_along
from flowfabric.store.sql.pg_statement import PgForm

MAX_LOOKS = 3
Turn = tuple[Sequence[Plan], Plan, int]
"""What is to be done, what is to be swept, and how much of it."""
Turned = tuple[list[Answer], list[Row]]
_BEGUN: dict[tuple[Form, Form], str] = {}
_TURNS: dict[tuple[Form, Form], str] = {}


async def run_sweeps_together(
    session: Session,
    first: Sequence[Plan],
    wanted: Sequence[tuple[Plan, int]],
    now_ms: int | None,
    effects: Effects,
) -> list[list[Row]] | Refused:
    """Plans, then sweeps, all in one transaction; of one simple plan and one selection, in one statement."""
    mine, swept = Effects(), list[list[Row]]()
    runs = [
        list(run)
        for _, run in groupby(
            wanted, key=lambda each: (each[0].form, each[0].form.pick_key(each[0].values))
        )
    ]
    if len(first) == len(runs) == 1 and can_begin(first[0].form):
        return await _run_begun(session, first[0], runs[0], now_ms, effects)
    try:
        async with session.transaction():
            await run_in_order(session, first, now_ms, mine)
            for run in runs:
                swept += await run_sweeps(session, run, now_ms, mine)
    except Late as late:
        return late.answer
    effects.merge(mine.topics, mine.dues)
    return swept


async def run_sweeps(
    session: Session, wanted: Sequence[tuple[Plan, int]], now_ms: int | None, effects: Effects
) -> list[list[Row]]:
    """Equal selections share one; each request gets its share of the rows in turn.

    Rows that others took between our looking and our locking are passed over, which may leave nothing although there is more:
    then it is looked again.
    """
    form = wanted[0][0].form
    text = text_of(form)
    given, chosen = _asked(text, form, wanted)
    for _ in range(MAX_LOOKS):
        rows = await session.fetch(text.sql, now_ms, *given, *chosen)
        if rows or text.probe is None or not await session.fetch(text.probe, now_ms, *chosen):
            break
    return _shared_out(text, form, wanted, rows, effects)


async def _run_begun(
    session: Session,
    first: Plan,
    wanted: Sequence[tuple[Plan, int]],
    now_ms: int | None,
    effects: Effects,
) -> list[list[Row]] | Refused:
    form = wanted[0][0].form
    text = text_of(form)
    key = (first.form, form)
    if key not in _BEGUN:
        _BEGUN[key] = begun_by(first.form, form).sql
    given, chosen = _asked(text, form, wanted)
    rows = await session.fetch(_BEGUN[key], now_ms, *given, *chosen, *first.values)
    return (
        _shared_out(text, form, wanted, [row for row in rows if row[1] is not None], effects)
        if rows
        else Refused()
    )


def _asked(
    text: PgForm, form: Form, wanted: Sequence[tuple[Plan, int]]
) -> tuple[list[Any], list[Any]]:
    """The arguments of a sweep: those of each request with the request each row goes to, and what all choose by."""
    whose = [request for request, (_, limit) in enumerate(wanted, 1) for _ in range(limit)]
    chosen = [wanted[0][0].values[form.args.index(name)] for name in form.pick_args]
    return [*(arrays_of(text, [plan for plan, _ in wanted]) if text.sent else []), whose], chosen


def _shared_out(
    text: PgForm,
    form: Form,
    wanted: Sequence[tuple[Plan, int]],
    rows: Sequence[Any],
    effects: Effects,
) -> list[list[Row]]:
    shares: list[list[Row]] = [[] for _ in wanted]
    answer = answerer(form)
    for row in sorted(rows, key=itemgetter(2)):
        shares[row[1] - 1].append(answer(row))
    if rows:
        effects.add_rows(text, wanted, rows)
        effects.topics.update(dict.fromkeys((channel, None) for channel in text.channels))
    return shares


def fits(plans: Sequence[Plan]) -> bool:
    """Whether one statement can carry them beside a sweep."""
    if len(plans) < 2:
        return bool(plans) and can_ride_along(plans[0].form)
    form = plans[0].form
    return can_ride_along(form) and all(plan.form is form for plan in plans) and distinct(plans)


async def run_turns(
    session: Session, turns: Sequence[Turn], now_ms: int | None, effects: Effects
) -> list[Turned]:
    """Turns with one form to do and equal selections. Locks are taken in the order of the keys."""
    plans = [plan for each, _, _ in turns for plan in each]
    wanted = [(sweep, limit) for _, sweep, limit in turns]
    doing, sweeping = plans[0].form, wanted[0][0].form
    key = (doing, sweeping)
    if key not in _TURNS:
        _TURNS[key] = ridden_along(doing, sweeping).sql
    done, swept = text_of(doing), text_of(sweeping)
    order = in_order(plans)
    given, chosen = _asked(swept, sweeping, wanted)
    rows = await session.fetch(
        _TURNS[key], now_ms, *given, *chosen, *arrays_of(done, [plans[at] for at in order])
    )
    answers = _answers(doing, rows[0][0], order)
    if any(isinstance(answer, Applied) for answer in answers):
        effects.topics.update(dict.fromkeys((channel, None) for channel in done.channels))
    shares = _shared_out(
        swept, sweeping, wanted, [row for row in rows if row[1] is not None], effects
    )
    return list(zip(dealt(answers, (each for each, _, _ in turns)), shares, strict=True))


def _answers(form: Form, said: Sequence[Any] | None, order: Sequence[int]) -> list[Answer]:
    answers: list[Answer] = [Refused()] * len(order)
    if form.returning:
        answer = answerer(form)
        for row in said or ():
            answers[order[row[1] - 1]] = Applied(row[0], answer(row))
        return answers
    assert said is not None
    now_ms, *numbers = said
    for number in numbers:
        answers[order[number - 1]] = Applied(now_ms)
    return answers
