"""Every kind of value: stored, returned, and referred to by another row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

Expected = Callable[[int], Any]


class Word(Struct):
    """A column, the row before, the value written into it, and the expected result."""

    column: str
    word: Any
    expected: Expected
    before: dict[str, Any] = {}
    args: dict[str, Any] = {}


def same(value: object) -> Expected:
    return lambda now: value


def after(ms: int) -> Expected:
    return lambda now: now + ms


_BLUE = p.Cond("execution_kind", "=", "blue")
_COLOUR = p.When(
    _BLUE,
    "was blue",
    p.When(p.Cond("execution_kind", "in", ("red", "green")), "was bright", "was dull"),
)
_COUNTED = p.When(p.Cond("delay_until_ms", "is null"), p.Add(1), p.Add(10))

WORDS: dict[str, Word] = {
    "literal text": Word("public_state", "done", same("done")),
    "literal text with a quote": Word("public_state", "it's", same("it's")),
    "literal number": Word("priority", -3, same(-3)),
    "literal null": Word("delay_until_ms", None, same(None), {"delay_until_ms": 4}),
    "argument text": Word("public_state", p.Arg("x"), same("y"), args={"x": "y"}),
    "argument number": Word("priority", p.Arg("x"), same(7), args={"x": 7}),
    "argument uuid": Word("flow_id", p.Arg("x"), same(h.uid(5)), args={"x": h.uid(5)}),
    "argument null": Word("flow_id", p.Arg("x"), same(None), {"flow_id": h.uid(5)}, {"x": None}),
    "another column before": Word(
        "attempt_index", p.Before("total_attempt_count"), same(4), {"total_attempt_count": 4}
    ),
    "a column before that is null": Word(
        "deadline_at_ms", p.Before("delay_until_ms"), same(None), {"deadline_at_ms": 3}
    ),
    "its own column before": Word("priority", p.Before("priority"), same(6), {"priority": 6}),
    "now": Word("started_at_ms", p.Now(), after(0)),
    "now plus a constant": Word("started_at_ms", p.Now(250), after(250)),
    "now plus an argument": Word("started_at_ms", p.Now(p.Arg("x")), after(30), args={"x": 30}),
    "now plus a negative argument": Word(
        "started_at_ms", p.Now(p.Arg("x")), after(-30), args={"x": -30}
    ),
    "now plus a null argument": Word(
        "started_at_ms", p.Now(p.Arg("x")), same(None), {"started_at_ms": 5}, {"x": None}
    ),
    "now plus a column": Word(
        "retain_until_ms", p.Now(p.Before("retention_ttl_ms")), after(40), {"retention_ttl_ms": 40}
    ),
    "now plus a column that is null": Word(
        "retain_until_ms", p.Now(p.Before("retention_ttl_ms")), same(None)
    ),
    "now plus one of two columns": Word(
        "retain_until_ms",
        p.Now(p.When(_BLUE, p.Before("retention_ttl_ms"), p.Before("attempt_timeout_ms"))),
        after(7),
        {"execution_kind": "blue", "retention_ttl_ms": 7, "attempt_timeout_ms": 9},
    ),
    "until a time ahead": Word(
        "attempt_timeout_remaining_ms",
        p.Until("deadline_at_ms"),
        lambda now: 10**14 - now,
        {"deadline_at_ms": 10**14},
    ),
    "until a time past": Word(
        "attempt_timeout_remaining_ms", p.Until("deadline_at_ms"), same(1), {"deadline_at_ms": 5}
    ),
    "until no time": Word("attempt_timeout_remaining_ms", p.Until("deadline_at_ms"), same(None)),
    "between two times": Word(
        "attempt_timeout_remaining_ms",
        p.Span("delay_until_ms", "deadline_at_ms"),
        same(30),
        {"delay_until_ms": 5, "deadline_at_ms": 35},
    ),
    "between a time and none": Word(
        "attempt_timeout_remaining_ms",
        p.Span("delay_until_ms", "deadline_at_ms"),
        same(None),
        {"delay_until_ms": 5},
    ),
    "now plus the time between two": Word(
        "deadline_at_ms",
        p.Now(p.Span("delay_until_ms", "deadline_at_ms")),
        after(30),
        {"delay_until_ms": 5, "deadline_at_ms": 35},
    ),
    "add one": Word("retry_count", p.Add(), same(3), {"retry_count": 2}),
    "add a negative": Word("retry_count", p.Add(-5), same(-3), {"retry_count": 2}),
    "once while null": Word("started_at_ms", p.Once(p.Now(1)), after(1)),
    "once while set": Word("started_at_ms", p.Once(p.Now(1)), same(12), {"started_at_ms": 12}),
    "once a zero is set": Word("started_at_ms", p.Once(9), same(0), {"started_at_ms": 0}),
    "once an argument": Word("cancelled_by", p.Once(p.Arg("x")), same("me"), args={"x": "me"}),
    "text of all sorts": Word(
        "blocking_detail",
        p.Text(
            ("until ", p.Now(p.Arg("ms")), " by ", p.Arg("who"), " at ", p.Before("lane_id"), "!")
        ),
        lambda now: f"until {now + 5} by w at lane!",
        args={"ms": 5, "who": "w"},
    ),
    "when equal": Word("public_state", _COLOUR, same("was blue"), {"execution_kind": "blue"}),
    "when nested among": Word(
        "public_state", _COLOUR, same("was bright"), {"execution_kind": "green"}
    ),
    "when nested otherwise": Word(
        "public_state", _COLOUR, same("was dull"), {"execution_kind": "grey"}
    ),
    "when null": Word("retry_count", _COUNTED, same(1)),
    "when null but set": Word("retry_count", _COUNTED, same(10), {"delay_until_ms": 0}),
    "when not null": Word(
        "priority",
        p.When(p.Cond("flow_id", "not null"), p.Before("retry_count"), -1),
        same(8),
        {"flow_id": h.uid(1), "retry_count": 8},
    ),
    "when not null but null": Word(
        "priority", p.When(p.Cond("flow_id", "not null"), 5, -1), same(-1)
    ),
    "when a null equals": Word(
        "priority", p.When(p.Cond("cancelled_by", "=", "me"), 5, -1), same(-1)
    ),
    "when equal to an argument": Word(
        "priority", p.When(p.Cond("lane_id", "=", p.Arg("x")), 5, -1), same(5), args={"x": "lane"}
    ),
    "when equal to no argument": Word(
        "priority",
        p.When(p.Cond("cancelled_by", "=", p.Arg("x")), 5, -1),
        same(-1),
        args={"x": None},
    ),
    "when about itself": Word(
        "priority", p.When(p.Cond("priority", "=", 3), 0, p.Add(1)), same(0), {"priority": 3}
    ),
    "when once": Word("started_at_ms", p.When(_BLUE, p.Once(5), p.Once(6)), same(6)),
}
_REFERS = {"int": "lease_epoch", "text": "reason", "uuid": "lease_id"}


def form_of(name: str, case: Word, *, told: bool) -> p.Form:
    """Bare, the value is only stored; otherwise it is also returned, and an event refers to it."""
    head = p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, case.column: case.word})
    if not told:
        return p.Form(f"t_bare {name}", head)
    into = _REFERS[TABLES[h.EXEC].kinds[case.column]]
    event = p.Emit(
        h.LEASES, "x", {"execution_id": p.After("execution_id"), into: p.After(case.column)}
    )
    return p.Form(f"t_told {name}", head, event, returning=(case.column, p.Before(case.column)))


async def apply(store: Store, n: int, form: p.Form, case: Word) -> p.Applied:
    await h.put(store, h.execution(n, **case.before))
    return await h.commit(store, h.on(form, n, version=0, **case.args))


@pytest.mark.parametrize("name", WORDS)
async def test_a_value_is_stored_returned_and_referred_to(
    store: Store, clock: ManualClock, name: str
) -> None:
    case = WORDS[name]
    await apply(store, 1, form_of(name, case, told=False), case)
    expected = case.expected(clock.now_ms)
    assert (await h.get_execution(store, 1))[case.column] == expected, (
        "stored by a form that does not read it"
    )
    await h.put(store, h.execution(3))
    default = (await h.get_execution(store, 3))[case.column]
    answer = await apply(store, 2, form_of(name, case, told=True), case)
    assert (await h.get_execution(store, 2))[case.column] == expected, (
        "stored by a form that returns it"
    )
    assert answer.row == (expected, case.before.get(case.column, default))
    event = (await h.events(store, h.LEASES))[0]
    assert event[_REFERS[TABLES[h.EXEC].kinds[case.column]]] == expected


# ---- fresh


FRESH = p.Form("t_fresh", p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "current_lease_id": p.Fresh()}))
FRESH_TOLD = p.Form(
    "t_fresh_told",
    p.Update(
        h.EXEC,
        h.VERSIONED,
        {**h.BUMP, "current_lease_id": p.Fresh(), "current_attempt_id": p.Once(p.Fresh())},
    ),
    p.Emit(
        h.LEASES,
        "x",
        {"execution_id": p.After("execution_id"), "lease_id": p.After("current_lease_id")},
    ),
    returning=("current_lease_id", "current_attempt_id"),
)
FRESH_ALONE = p.Form(
    "t_fresh_alone",
    p.Update(
        h.EXEC,
        (
            p.Cond("partition_key", "=", p.Arg("partition_key")),
            p.Cond("execution_id", "=", p.Arg("execution_id")),
        ),
        {"current_lease_id": p.Fresh()},
    ),
    returning=("current_lease_id",),
)


def on(form: p.Form, n: int, version: int = 0) -> p.Plan:
    return form(partition_key=0, execution_id=h.uid(n), version=version)


async def test_fresh_is_a_random_uuid_of_its_own_for_every_row(store: Store) -> None:
    await h.put(store, *(h.execution(n) for n in range(1, 31)))
    await h.put(store, *(on(FRESH, n) for n in range(1, 31)))
    made = [(await h.get_execution(store, n))["current_lease_id"] for n in range(1, 31)]
    assert len(set(made)) == 30
    assert {(u.version, u.variant) for u in made} == {(4, "specified in RFC 4122")}


@pytest.mark.parametrize("rounds", [1, 3])
async def test_fresh_returned_and_referred_to_is_the_one_stored(store: Store, rounds: int) -> None:
    await h.put(store, h.execution(1))
    for version in range(rounds):
        answer = await h.commit(store, on(FRESH_TOLD, 1, version))
    row = await h.get_execution(store, 1)
    assert answer.row == (row["current_lease_id"], row["current_attempt_id"])
    told = [e["lease_id"] for e in await h.events(store, h.LEASES)]
    assert told[-1] == row["current_lease_id"]
    assert len(set(told)) == rounds
    assert row["current_attempt_id"] not in told


async def test_fresh_alone_returned_is_the_one_stored(store: Store) -> None:
    await h.put(store, h.execution(1))
    answer = await h.commit(store, on(FRESH_ALONE, 1))
    assert answer.row == ((await h.get_execution(store, 1))["current_lease_id"],)
