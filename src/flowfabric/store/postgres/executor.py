"""Plans as statements on one connection: what is sent, what the answers mean, and whom they wake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from itertools import groupby
from typing import Any, Protocol
from uuid import UUID

import msgspec

from flowfabric.ids import uuid_of, uuid_text
from flowfabric.model.execution import UNREADABLE
from flowfabric.plan import Answer, Applied, Form, Plan, Refused
from flowfabric.store.port import Row
from flowfabric.store.postgres.errors import state_of
from flowfabric.store.sql.pg_statement import REFUSED_AT, PgForm, statement
from flowfabric.store.wakeups import Topic

_json = msgspec.json.Encoder().encode
MOST_TOGETHER = 500
MANY = 50
Decoder = Callable[[Any], Any]


def decode_list(raw: Sequence[Any]) -> tuple[str, ...]:
    """A damaged one, with a null or a list in it, must not hold up the rows that are read with it."""
    return tuple(raw) if all(type(item) is str for item in raw) else UNREADABLE


DECODERS: dict[str, Decoder] = {
    "list": decode_list,
    "uuid": lambda raw: None if raw is None else uuid_of(raw.int),
    "uuidtext": lambda raw: None if raw is None else UUID(raw),
}


class Session(Protocol):
    """A connection, ours or a user's. A transaction inside a transaction is a savepoint."""

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]: ...

    def transaction(self) -> AbstractAsyncContextManager[Any]: ...


class Effects:
    """What a commit touched: topics to ring now, and when each timer is due."""

    __slots__ = ("dues", "topics")

    def __init__(self) -> None:
        self.topics: dict[Topic, None] = {}
        self.dues: dict[str, int] = {}

    def due(self, timer: str, at_ms: int) -> None:
        """Of several times the earliest counts."""
        self.dues[timer] = min(at_ms, self.dues.get(timer, at_ms))

    def merge(self, topics: Iterable[Topic], dues: Mapping[str, int]) -> None:
        self.topics.update(dict.fromkeys(topics))
        for timer, at_ms in dues.items():
            self.due(timer, at_ms)

    def add_all(self, text: PgForm, plans: Sequence[Plan]) -> None:
        """For forms whose wake-ups are all told by the arguments."""
        for wake in text.wakes:
            if wake.at is None:
                keys = {None if wake.key is None else plan.values[wake.key] for plan in plans}
                self.topics.update(dict.fromkeys((wake.topic, key) for key in keys))
                continue
            times = [at for plan in plans if (at := plan.values[wake.at]) is not None]
            if times:
                self.due(wake.topic, min(times))

    def add_rows(
        self, text: PgForm, wanted: Sequence[tuple[Plan, int]], rows: Sequence[Any]
    ) -> None:
        """For sweeps: a time of the rows themselves is the earliest of them."""
        if any(wake.at is None or wake.at >= 0 for wake in text.wakes):
            for row in rows:
                self.add(text, wanted[row[1] - 1][0].values, row)
            return
        for wake in text.wakes:
            times = [row[wake.at] for row in rows if row[wake.at] is not None]
            if times:
                self.due(wake.topic, min(times))

    def add(self, text: PgForm, values: Sequence[Any], row: Sequence[Any]) -> None:
        for wake in text.wakes:
            if wake.at is None:
                self.topics[wake.topic, _at(wake.key, values, row)] = None
                continue
            at = _at(wake.at, values, row)
            if at is not None:
                self.due(wake.topic, at)


def _at(place: int | None, values: Sequence[Any], row: Sequence[Any]) -> Any:
    if place is None:
        return None
    return values[place] if place >= 0 else row[place]


class Late(Exception):
    """A plan was refused after something of its transaction was written."""

    def __init__(self, answer: Refused) -> None:
        self.answer = answer


_TRAPPED = re.compile(rf"\b{REFUSED_AT}(\d+)")
_TEXTS: dict[Form, PgForm] = {}
_KEYS: dict[Form, Callable[[Sequence[Any]], Any]] = {}
_ANSWERS: dict[Form, Callable[[Sequence[Any]], Row]] = {}


def text_of(form: Form) -> PgForm:
    found = _TEXTS.get(form)
    if found is None:
        found = _TEXTS[form] = statement(form)
        _KEYS[form] = _key(found)
        _ANSWERS[form] = _answer(found)
    return found


def _key(text: PgForm) -> Callable[[Sequence[Any]], Any]:
    """The key columns of a call. A uuid is hashed and compared five times faster as the number it is."""
    parts = [
        f'getattr(v[{at}], "int", v[{at}])' if text.kinds[at] == "uuid" else f"v[{at}]"
        for at in text.key
    ]
    return eval(f"lambda v: ({''.join(part + ', ' for part in parts)})", {})  # type: ignore[no-any-return]  # noqa: S307


def answerer(form: Form) -> Callable[[Sequence[Any]], Row]:
    """What a caller is told of a row."""
    text_of(form)
    return _ANSWERS[form]


def key_of(plan: Plan) -> tuple[Any, ...]:
    """The row a plan is decided by; empty when it is a new numbered one."""
    form = plan.form
    return (form.steps[0].table, _KEYS[form](plan.values)) if text_of(form).key else ()


def distinct(plans: Sequence[Plan]) -> bool:
    """Whether plans of one form are all about different rows, as far as they name one."""
    form = plans[0].form
    if not text_of(form).key:
        return True
    key = _KEYS[form]
    return len({key(plan.values) for plan in plans}) == len(plans)


def are_new(plans: Sequence[Plan]) -> bool:
    """Whether all of them insert, by one form, under keys that differ: then their order does not matter."""
    form = plans[0].form
    return (
        form.is_insert
        and bool(text_of(form).key)
        and all(plan.form is form for plan in plans)
        and distinct(plans)
    )


def cut(plans: Sequence[Plan], most: int) -> list[list[Plan]]:
    return [list(plans[at : at + most]) for at in range(0, len(plans), most)]


def runs_of(plans: Sequence[Plan], most: int) -> list[list[Plan]]:
    """In order, cut where the form changes, where a row comes again, and where a run gets too long."""
    runs: list[list[Plan]] = []
    for _, same in groupby(plans, key=lambda plan: plan.form):
        several = list(same)
        if distinct(several):
            runs += cut(several, most)
            continue
        seen: set[Any] = set()
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
    """As `run_plans`, for a connection that survives an error: many rows at once are nearly always all new.

    Where the server need not be ready for one that is there already, it writes them a fifth faster.
    """
    hopeful = text_of(plans[0].form).hopeful
    if hopeful is not None:
        try:
            return await run_plans(session, plans, now_ms, effects, hopeful)
        except Exception as error:
            if state_of(error) != "23505":
                raise
    return await run_plans(session, plans, now_ms, effects)


async def run_plans(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects, sql: str = ""
) -> list[Answer]:
    """Plans of one form about different rows, in one statement, its own unless one is given. Locks are taken in the order of the
    keys.
    """
    text = text_of(plans[0].form)
    if text.single is not None and len(plans) == 1:
        return await _run_single(session, text, text.single, plans[0], now_ms, effects)
    order = in_order(plans)
    try:
        rows = await session.fetch(
            sql or text.sql, now_ms, *arrays_of(text, [plans[at] for at in order])
        )
    except Exception as error:
        step = _refused_at(error) if text.musts and len(plans) == 1 else 0
        if not step:
            raise
        return [Refused(0, step)]
    if text.counted:
        return _counted(text, plans, rows[0], effects)
    answers: list[Answer] = [Refused()] * len(plans)
    answer = _ANSWERS[plans[0].form]
    for at, row in zip(_whose(text, plans, order, rows), rows, strict=True):
        answers[at] = Applied(row[0], answer(row))
        if text.wakes:
            effects.add(text, plans[at].values, row)
    if rows:
        effects.topics.update(dict.fromkeys((channel, None) for channel in text.channels))
    return answers


def in_order(plans: Sequence[Plan]) -> Sequence[int]:
    """Which comes when: by their keys, so that whoever locks several rows locks them as everybody else does."""
    if len(plans) < 2 or not text_of(plans[0].form).key:
        return range(len(plans))
    key = _KEYS[plans[0].form]
    return sorted(range(len(plans)), key=lambda at: key(plans[at].values))


async def _run_single(
    session: Session, text: PgForm, sql: str, plan: Plan, now_ms: int | None, effects: Effects
) -> list[Answer]:
    rows = await session.fetch(sql, now_ms, *plan.values)
    if not rows:
        return [Refused()]
    effects.add(text, plan.values, rows[0])
    return [Applied(rows[0][0])]


def _plain(key: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(getattr(part, "int", part) for part in key)


def _counted(
    text: PgForm, plans: Sequence[Plan], row: Sequence[Any], effects: Effects
) -> list[Answer]:
    """Usually all of them went in; otherwise the keys say which."""
    applied = Applied(row[0])
    if row[1] == len(plans):
        effects.add_all(text, plans)
        return [applied] * len(plans)
    new = {_plain(found) for found in zip(*row[2:], strict=True)} if row[1] else set()
    key = _KEYS[plans[0].form]
    there = [key(plan.values) in new for plan in plans]
    effects.add_all(text, [plan for plan, is_there in zip(plans, there, strict=True) if is_there])
    return [applied if is_there else Refused() for is_there in there]


def _whose(
    text: PgForm, plans: Sequence[Plan], order: Sequence[int], rows: Sequence[Any]
) -> list[int]:
    """Which plan each answer belongs to."""
    if text.by_key:
        ends = 1 + text.by_key
        key = _KEYS[plans[0].form]
        by_key = {key(plans[at].values): at for at in order}
        return [by_key[_plain(row[1:ends])] for row in rows]
    if not text.key:
        return list(order)
    return [order[row[1] - 1] for row in rows]


def _refused_at(error: Exception) -> int:
    """The step that sprang its trap, or 0. The statement was taken back; within a transaction, so must that be."""
    found = _TRAPPED.search(str(error)) if state_of(error) == "22P02" else None
    return int(found[1]) if found else 0


def carried(plans: Sequence[Plan], most: int) -> Iterator[list[Plan]]:
    """What one statement can carry, in order, so that it is known whose step it was that refused."""
    for run in runs_of(plans, most):
        text = text_of(run[0].form)
        yield from (cut(run, 1) if text.alone or text.musts else (run,))


async def run_together(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects
) -> Answer:
    """All in order in one transaction, or none."""
    mine = Effects()
    try:
        async with session.transaction():
            answer = await run_in_order(session, plans, now_ms, mine)
    except Late as late:
        return late.answer
    effects.merge(mine.topics, mine.dues)
    return answer


async def run_in_order(
    session: Session, plans: Sequence[Plan], now_ms: int | None, effects: Effects
) -> Answer:
    """The answer to the last. The first that is refused ends the transaction around them."""
    answer: Answer = Refused()
    at = 0
    for run in carried(plans, MOST_TOGETHER):
        answers = await run_plans(session, run, now_ms, effects)
        refused = next((n for n, said in enumerate(answers) if isinstance(said, Refused)), None)
        if refused is not None:
            raise Late(Refused(at + refused, getattr(answers[refused], "step", 0)))
        answer = answers[-1]
        at += len(run)
    return answer


def _answer(text: PgForm) -> Callable[[Sequence[Any]], Row]:
    """What a caller is told of a row, as one expression instead of a call per value."""
    said = {"uuid": "uuid_of(r[{0}].int) if r[{0}] is not None else None", "list": "tuple(r[{0}])"}
    said["uuidtext"] = "UUID(r[{0}]) if r[{0}] is not None else None"
    parts = [
        said.get(kind, "r[{0}]").format(at)
        for at, kind in enumerate(text.returned_kinds, text.returned[0])
    ]
    source = f"lambda r: ({''.join(part + ', ' for part in parts)})"
    return eval(source, {"uuid_of": uuid_of, "UUID": UUID})  # type: ignore[no-any-return]  # noqa: S307 - our own constants


def arrays_of(text: PgForm, plans: Sequence[Plan]) -> list[Sequence[Any]]:
    """One array per argument; where a form has none, one that only counts the plans."""
    if not text.kinds:
        return [[1] * len(plans)]
    columns: list[Sequence[Any]] = list(zip(*(plan.values for plan in plans), strict=True))
    whole = text.key or (0,)  # at least one array says how many plans there are
    arrays = []
    for at in text.sent:
        column = columns[at]
        if (
            text.packed
            and at not in whole
            and column[0] == column[-1]
            and column.count(column[0]) == len(column)
        ):
            column = column[:1]
        packing = (
            _items_packer(text.items)
            if text.kinds[at] == "items"
            else _PACKED_AS.get(text.kinds[at])
        )
        arrays.append(column if packing is None else [packing(items) for items in column])
    return arrays


def array_text(items: Sequence[str] | None) -> str | None:
    """A list as Postgres writes it; an array of lists would have to be rectangular."""
    if items is None:
        return None
    if not items:
        return "{}"
    quoted = (item.replace("\\", "\\\\").replace('"', '\\"') for item in items)
    return "{" + ",".join(f'"{item}"' for item in quoted) + "}"


@cache
def _items_packer(parts: tuple[tuple[str, str], ...]) -> Callable[[Sequence[Row]], str]:
    """Items as a list of objects; what is JSON already goes in as it is."""
    shown = [
        f'"{name}": {f"Raw(i[{at}].encode())" if kind == "json" else f"i[{at}]"}'
        for at, (name, kind) in enumerate(parts)
    ]
    source = f"lambda items: encode([{{{', '.join(shown)}}} for i in items]).decode()"
    return eval(source, {"Raw": msgspec.Raw, "encode": _json})  # type: ignore[no-any-return]  # noqa: S307 - our own constants


def uuids_text(items: Sequence[UUID]) -> str:
    return "{" + ",".join(map(uuid_text, items)) + "}"


_PACKED_AS: dict[str, Callable[[Any], str | None]] = {"list": array_text, "uuids": uuids_text}
