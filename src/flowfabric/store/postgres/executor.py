"""Plans as statements on one connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from typing import Any, Protocol

from msgspec import Struct

from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.batching import chunks
from flowfabric.store.port import Row
from flowfabric.store.postgres.codec import (
    Values,
    answer_reader,
    argument_arrays,
    key_reader,
    plain_key,
)
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.errors import state_of
from flowfabric.store.sql.pg_form import PgForm
from flowfabric.store.sql.pg_statement import REFUSED_AT, statement
from flowfabric.store.sql.rows import SqlRow, SqlRows

MAX_TOGETHER = 500
OPTIMISTIC_FROM = 50
"""From so many plans on, the optimistic insert is tried first."""
Key = tuple[Any, ...]
_TRAPPED = re.compile(rf"\b{REFUSED_AT}(\d+)")


class Session(Protocol):
    """A connection of the store or of a caller. A transaction inside one is a savepoint."""

    async def fetch(self, sql: str, /, *args: object) -> SqlRows: ...

    def transaction(self) -> AbstractAsyncContextManager[object]: ...


class LateRefusal(Exception):
    """A plan was refused after another of its transaction was written."""

    def __init__(self, answer: Refused) -> None:
        self.answer = answer


class _Prepared(Struct, frozen=True):
    sql: PgForm
    key: Callable[[Values], Row]
    answer: Callable[[SqlRow], Row]


_PREPARED: dict[Form, _Prepared] = {}


def _prepared(form: Form) -> _Prepared:
    found = _PREPARED.get(form)
    if found is None:
        sql = statement(form)
        found = _PREPARED[form] = _Prepared(sql, key_reader(sql), answer_reader(sql))
    return found


def statement_of(form: Form) -> PgForm:
    return _prepared(form).sql


def answerer(form: Form) -> Callable[[SqlRow], Row]:
    """Reads the `returning` columns of an answer row."""
    return _prepared(form).answer


def key_of(plan: Plan) -> Key:
    """The row that decides a plan; empty for a new numbered row."""
    form = plan.form
    prepared = _prepared(form)
    return (form.steps[0].table, prepared.key(plan.values)) if prepared.sql.key else ()


def distinct(plans: Sequence[Plan]) -> bool:
    """Plans of one form name different rows, or none."""
    prepared = _prepared(plans[0].form)
    if not prepared.sql.key:
        return True
    key = prepared.key
    return len({key(plan.values) for plan in plans}) == len(plans)


def are_new(plans: Sequence[Plan]) -> bool:
    """All insert by one form under different keys, so that their order does not matter."""
    form = plans[0].form
    return (
        form.is_insert
        and bool(statement_of(form).key)
        and all(plan.form is form for plan in plans)
        and distinct(plans)
    )


def runs_of(plans: Sequence[Plan], most: int) -> list[list[Plan]]:
    """In order: a run ends where the form changes, a row repeats, or the run is full."""
    runs: list[list[Plan]] = []
    for _, same in groupby(plans, key=lambda plan: plan.form):
        several = list(same)
        if distinct(several):
            runs += chunks(several, most)
            continue
        seen: set[Key] = set()
        runs.append([])
        for plan in several:
            key = key_of(plan)
            if key in seen or len(runs[-1]) >= most:
                runs.append([])
                seen = set()
            runs[-1].append(plan)
            seen.add(key)
    return runs


async def run_many(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects
) -> list[Answer]:
    """Like `run_plans`, on a connection that survives an error.

    Many rows at once are nearly always all new. Without ON CONFLICT the server writes them a
    fifth faster.
    """
    optimistic = statement_of(plans[0].form).optimistic
    if optimistic is not None:
        try:
            return await run_plans(session, plans, now_ms, effects, optimistic)
        except Exception as error:
            if state_of(error) != "23505":
                raise
    return await run_plans(session, plans, now_ms, effects)


async def run_plans(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects, text: str = ""
) -> list[Answer]:
    """Plans of one form about different rows, in one statement: `text`, or that of the form."""
    prepared = _prepared(plans[0].form)
    sql = prepared.sql
    if sql.single is not None and len(plans) == 1:
        return await _run_single(session, sql, sql.single, plans[0], now_ms, effects)
    order = in_key_order(plans)
    arrays = argument_arrays(sql, [plans[at] for at in order])
    try:
        rows = await session.fetch(text or sql.sql, now_ms, *arrays)
    except Exception as error:
        step = _refused_at(error) if sql.refusable and len(plans) == 1 else 0
        if not step:
            raise
        return [Refused(0, step)]
    if sql.counted:
        return _counted(prepared, plans, rows[0], effects)
    answers: list[Answer] = [Refused()] * len(plans)
    for at, row in zip(_plan_of_each(prepared, plans, order, rows), rows, strict=True):
        answers[at] = Applied(row[0], prepared.answer(row))
        if sql.wakes:
            effects.add(sql, plans[at].values, row)
    if rows:
        effects.add_channels(sql)
    return answers


def in_key_order(plans: Sequence[Plan]) -> Sequence[int]:
    """Positions sorted by key: statements that lock several rows lock them in one order."""
    prepared = _prepared(plans[0].form)
    if len(plans) < 2 or not prepared.sql.key:
        return range(len(plans))
    key = prepared.key
    return sorted(range(len(plans)), key=lambda at: key(plans[at].values))


async def _run_single(
    session: Session, sql: PgForm, text: str, plan: Plan, now_ms: int | None, effects: Effects
) -> list[Answer]:
    rows = await session.fetch(text, now_ms, *plan.values)
    if not rows:
        return [Refused()]
    effects.add(sql, plan.values, rows[0])
    return [Applied(rows[0][0])]


def _counted(
    prepared: _Prepared, plans: Sequence[Plan], row: SqlRow, effects: Effects
) -> list[Answer]:
    """Usually all rows were new; otherwise the keys in the answer show which ones."""
    applied = Applied(row[0])
    if row[1] == len(plans):
        effects.add_all(prepared.sql, plans)
        return [applied] * len(plans)
    new = {plain_key(found) for found in zip(*row[2:], strict=True)} if row[1] else set()
    inserted = [prepared.key(plan.values) in new for plan in plans]
    effects.add_all(prepared.sql, [p for p, is_new in zip(plans, inserted, strict=True) if is_new])
    return [applied if is_new else Refused() for is_new in inserted]


def _plan_of_each(
    prepared: _Prepared, plans: Sequence[Plan], order: Sequence[int], rows: SqlRows
) -> list[int]:
    """The position of the plan that each answer row belongs to."""
    sql = prepared.sql
    if sql.answer_key:
        end = 1 + sql.answer_key
        by_key = {prepared.key(plans[at].values): at for at in order}
        return [by_key[plain_key(row[1:end])] for row in rows]
    if not sql.key:
        return list(order)
    return [order[row[1] - 1] for row in rows]


def _refused_at(error: Exception) -> int:
    """The step whose trap failed the statement, or 0. A transaction around it must roll back."""
    found = _TRAPPED.search(str(error)) if state_of(error) == "22P02" else None
    return int(found[1]) if found else 0


def statement_batches(plans: Sequence[Plan], most: int) -> Iterator[list[Plan]]:
    """What one statement can carry, in order, so that a refusal can be assigned to its plan."""
    for run in runs_of(plans, most):
        sql = statement_of(run[0].form)
        yield from (chunks(run, 1) if sql.unbatchable or sql.refusable else (run,))


async def run_together(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects
) -> Answer:
    """All in order in one transaction, or none."""
    own = Effects()
    try:
        async with session.transaction():
            answer = await run_in_order(session, plans, now_ms, own)
    except LateRefusal as late:
        return late.answer
    effects.merge(own.topics, own.dues)
    return answer


async def run_groups(
    session: Session, groups: Sequence[Sequence[Plan]], now_ms: int | None, effects: Effects
) -> list[Answer]:
    """Each group whole or not at all. Nearly always all rows are new: then one transaction."""
    if len(groups) > 1:
        plans = [plan for group in groups for plan in group]
        forms = dict.fromkeys(plan.form for plan in plans)
        by_form = [plan for form in forms for plan in plans if plan.form is form]
        answer = await run_together(session, by_form, now_ms, effects)
        if isinstance(answer, Applied):
            return [answer] * len(groups)
    return [await run_together(session, group, now_ms, effects) for group in groups]


async def run_in_order(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects
) -> Answer:
    """The answer to the last. A refusal raises LateRefusal, which ends the transaction."""
    answer: Answer = Refused()
    at = 0
    for run in statement_batches(plans, MAX_TOGETHER):
        answers = await run_plans(session, run, now_ms, effects)
        for offset, answer in enumerate(answers):
            if isinstance(answer, Refused):
                raise LateRefusal(Refused(at + offset, answer.step))
        at += len(run)
    return answer
