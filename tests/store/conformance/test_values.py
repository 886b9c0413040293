"""Every word a value may be: as it is stored, as it is returned, and as another row refers to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct

from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Before,
    Cond,
    Emit,
    Form,
    Fresh,
    Insert,
    Now,
    Once,
    Plan,
    Span,
    Text,
    Until,
    Update,
    When,
)
from flowfabric.store.port import Store
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .helpers import (
    BUMP,
    EXEC,
    KEY,
    LANE,
    LEASES,
    VERSIONED,
    events,
    execution,
    get,
    get_execution,
    put,
    uid,
)

Expected = Callable[[int], Any]


class Word(Struct):
    """A column, what it and others hold before, the word put into it, and what that must come to at a time."""

    column: str
    word: Any
    expected: Expected
    before: dict[str, Any] = {}
    args: dict[str, Any] = {}


def same(value: Any) -> Expected:
    return lambda now: value


def after(ms: int) -> Expected:
    return lambda now: now + ms


_BLUE = Cond("execution_kind", "=", "blue")
_COLOUR = When(
    _BLUE,
    "was blue",
    When(Cond("execution_kind", "in", ("red", "green")), "was bright", "was dull"),
)
_COUNTED = When(Cond("delay_until_ms", "is null"), Add(1), Add(10))

WORDS: dict[str, Word] = {
    "literal text": Word("public_state", "done", same("done")),
    "literal text with a quote": Word("public_state", "it's", same("it's")),
    "literal number": Word("priority", -3, same(-3)),
    "literal null": Word("delay_until_ms", None, same(None), {"delay_until_ms": 4}),
    "argument text": Word("public_state", Arg("x"), same("y"), args={"x": "y"}),
    "argument number": Word("priority", Arg("x"), same(7), args={"x": 7}),
    "argument uuid": Word("flow_id", Arg("x"), same(uid(5)), args={"x": uid(5)}),
    "argument null": Word("flow_id", Arg("x"), same(None), {"flow_id": uid(5)}, {"x": None}),
    "another column before": Word(
        "attempt_index", Before("total_attempt_count"), same(4), {"total_attempt_count": 4}
    ),
    "a column before that is null": Word(
        "deadline_at_ms", Before("delay_until_ms"), same(None), {"deadline_at_ms": 3}
    ),
    "its own column before": Word("priority", Before("priority"), same(6), {"priority": 6}),
    "now": Word("started_at_ms", Now(), after(0)),
    "now plus a constant": Word("started_at_ms", Now(250), after(250)),
    "now plus an argument": Word("started_at_ms", Now(Arg("x")), after(30), args={"x": 30}),
    "now plus a negative argument": Word(
        "started_at_ms", Now(Arg("x")), after(-30), args={"x": -30}
    ),
    "now plus a null argument": Word(
        "started_at_ms", Now(Arg("x")), same(None), {"started_at_ms": 5}, {"x": None}
    ),
    "now plus a column": Word(
        "retain_until_ms", Now(Before("retention_ttl_ms")), after(40), {"retention_ttl_ms": 40}
    ),
    "now plus a column that is null": Word(
        "retain_until_ms", Now(Before("retention_ttl_ms")), same(None)
    ),
    "now plus one of two columns": Word(
        "retain_until_ms",
        Now(When(_BLUE, Before("retention_ttl_ms"), Before("attempt_timeout_ms"))),
        after(7),
        {"execution_kind": "blue", "retention_ttl_ms": 7, "attempt_timeout_ms": 9},
    ),
    "until a time ahead": Word(
        "attempt_timeout_remaining_ms",
        Until("deadline_at_ms"),
        lambda now: 10**14 - now,
        {"deadline_at_ms": 10**14},
    ),
    "until a time past": Word(
        "attempt_timeout_remaining_ms", Until("deadline_at_ms"), same(1), {"deadline_at_ms": 5}
    ),
    "until no time": Word("attempt_timeout_remaining_ms", Until("deadline_at_ms"), same(None)),
    "between two times": Word(
        "attempt_timeout_remaining_ms",
        Span("delay_until_ms", "deadline_at_ms"),
        same(30),
        {"delay_until_ms": 5, "deadline_at_ms": 35},
    ),
    "between a time and none": Word(
        "attempt_timeout_remaining_ms",
        Span("delay_until_ms", "deadline_at_ms"),
        same(None),
        {"delay_until_ms": 5},
    ),
    "now plus the time between two": Word(
        "deadline_at_ms",
        Now(Span("delay_until_ms", "deadline_at_ms")),
        after(30),
        {"delay_until_ms": 5, "deadline_at_ms": 35},
    ),
    "add one": Word("retry_count", Add(), same(3), {"retry_count": 2}),
    "add a negative": Word("retry_count", Add(-5), same(-3), {"retry_count": 2}),
    "once while null": Word("started_at_ms", Once(Now(1)), after(1)),
    "once while set": Word("started_at_ms", Once(Now(1)), same(12), {"started_at_ms": 12}),
    "once a zero is set": Word("started_at_ms", Once(9), same(0), {"started_at_ms": 0}),
    "once an argument": Word("cancelled_by", Once(Arg("x")), same("me"), args={"x": "me"}),
    "text of all sorts": Word(
        "blocking_detail",
        Text(("until ", Now(Arg("ms")), " by ", Arg("who"), " at ", Before("lane_id"), "!")),
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
        When(Cond("flow_id", "not null"), Before("retry_count"), -1),
        same(8),
        {"flow_id": uid(1), "retry_count": 8},
    ),
    "when not null but null": Word("priority", When(Cond("flow_id", "not null"), 5, -1), same(-1)),
    "when a null equals": Word("priority", When(Cond("cancelled_by", "=", "me"), 5, -1), same(-1)),
    "when equal to an argument": Word(
        "priority", When(Cond("lane_id", "=", Arg("x")), 5, -1), same(5), args={"x": "lane"}
    ),
    "when equal to no argument": Word(
        "priority", When(Cond("cancelled_by", "=", Arg("x")), 5, -1), same(-1), args={"x": None}
    ),
    "when about itself": Word(
        "priority", When(Cond("priority", "=", 3), 0, Add(1)), same(0), {"priority": 3}
    ),
    "when once": Word("started_at_ms", When(_BLUE, Once(5), Once(6)), same(6)),
}
_REFERS = {"int": "lease_epoch", "text": "reason", "uuid": "lease_id"}


def form_of(name: str, case: Word, *, told: bool) -> Form:
    """Bare, the word only goes into its column; told, it is returned as well and an event refers to it."""
    head = Update(EXEC, VERSIONED, {**BUMP, case.column: case.word})
    if not told:
        return Form(f"t_bare {name}", head)
    into = _REFERS[TABLES[EXEC].kinds[case.column]]
    event = Emit(LEASES, "x", {"execution_id": After("execution_id"), into: After(case.column)})
    return Form(f"t_told {name}", head, event, returning=(case.column, Before(case.column)))


async def apply(store: Store, n: int, form: Form, case: Word) -> Applied:
    await put(store, execution(n, **case.before))
    answer = await store.commit(form(partition_key=0, execution_id=uid(n), version=0, **case.args))
    assert isinstance(answer, Applied)
    return answer


@pytest.mark.parametrize("name", WORDS)
async def test_a_word_is_stored_returned_and_referred_to_as_what_it_means(
    store: Store, clock: ManualClock, name: str
) -> None:
    case = WORDS[name]
    await apply(store, 1, form_of(name, case, told=False), case)
    expected = case.expected(clock.now_ms)
    assert (await get_execution(store, 1))[case.column] == expected, (
        "stored by a form that does not read it"
    )
    await put(store, execution(3))
    default = (await get_execution(store, 3))[case.column]
    answer = await apply(store, 2, form_of(name, case, told=True), case)
    assert (await get_execution(store, 2))[case.column] == expected, (
        "stored by a form that returns it"
    )
    assert answer.row == (expected, case.before.get(case.column, default))
    event = (await events(store, LEASES))[0]
    assert event[_REFERS[TABLES[EXEC].kinds[case.column]]] == expected


# ---- fresh


FRESH = Form("t_fresh", Update(EXEC, VERSIONED, {**BUMP, "current_lease_id": Fresh()}))
FRESH_TOLD = Form(
    "t_fresh_told",
    Update(
        EXEC, VERSIONED, {**BUMP, "current_lease_id": Fresh(), "current_attempt_id": Once(Fresh())}
    ),
    Emit(
        LEASES, "x", {"execution_id": After("execution_id"), "lease_id": After("current_lease_id")}
    ),
    returning=("current_lease_id", "current_attempt_id"),
)
FRESH_ALONE = Form(
    "t_fresh_alone",
    Update(
        EXEC,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("execution_id", "=", Arg("execution_id")),
        ),
        {"current_lease_id": Fresh()},
    ),
    returning=("current_lease_id",),
)


def on(form: Form, n: int, version: int = 0) -> Plan:
    return form(partition_key=0, execution_id=uid(n), version=version)


async def test_fresh_is_a_random_uuid_of_its_own_for_every_row(store: Store) -> None:
    await put(store, *(execution(n) for n in range(1, 31)))
    await put(store, *(on(FRESH, n) for n in range(1, 31)))
    made = [(await get_execution(store, n))["current_lease_id"] for n in range(1, 31)]
    assert len(set(made)) == 30
    assert {(u.version, u.variant) for u in made} == {(4, "specified in RFC 4122")}


@pytest.mark.parametrize("rounds", [1, 3])
async def test_fresh_returned_and_referred_to_is_the_one_stored(store: Store, rounds: int) -> None:
    await put(store, execution(1))
    for version in range(rounds):
        answer = await store.commit(on(FRESH_TOLD, 1, version))
    row = await get_execution(store, 1)
    assert isinstance(answer, Applied)
    assert answer.row == (row["current_lease_id"], row["current_attempt_id"])
    told = [e["lease_id"] for e in await events(store, LEASES)]
    assert told[-1] == row["current_lease_id"]
    assert len(set(told)) == rounds
    assert row["current_attempt_id"] not in told


async def test_fresh_alone_returned_is_the_one_stored(store: Store) -> None:
    await put(store, execution(1))
    answer = await store.commit(on(FRESH_ALONE, 1))
    assert isinstance(answer, Applied)
    assert answer.row == ((await get_execution(store, 1))["current_lease_id"],)


# ---- words in an insert

_ROW: dict[str, Any] = {
    "partition_key": 0,
    "execution_id": Arg("id"),
    "lane_id": Arg("lane"),
    "lifecycle_phase": "runnable",
    "eligibility_state": "eligible_now",
    "attempt_state": Text(("in ", Arg("lane"))),
    "public_state": "waiting",
    "created_at_ms": Now(),
    "deadline_at_ms": Now(Arg("within")),
}
MADE = Form("t_made", Insert(EXEC, {**_ROW, "current_lease_id": Fresh()}))
MADE_TOLD = Form(
    "t_made_told",
    Insert(EXEC, _ROW),
    Emit(
        LEASES,
        "x",
        {
            "execution_id": After("execution_id"),
            "reason": After("lane_id"),
            "lease_epoch": After("deadline_at_ms"),
        },
    ),
    returning=("execution_id", "created_at_ms", "deadline_at_ms"),
)
MADE_FRESH = Form(
    "t_made_fresh",
    Insert(EXEC, {**_ROW, "current_lease_id": Fresh()}),
    returning=("current_lease_id",),
)
MADE_TEXT = Form("t_made_text", Insert(EXEC, _ROW), returning=("attempt_state",))
MADE_DEFAULT = Form(
    "t_made_default",
    Insert(EXEC, _ROW),
    Emit(
        LEASES,
        "x",
        {
            "execution_id": After("execution_id"),
            "namespace": After("namespace"),
            "lease_epoch": After("version"),
        },
    ),
    returning=("namespace", "priority", "budget_ids", "flow_id"),
)


def made(form: Form, n: int = 1, within: int | None = 5) -> Plan:
    return form(id=uid(n), lane="a", within=within)


@pytest.mark.parametrize("within", [5, None])
async def test_an_insert_takes_arguments_the_time_texts_and_fresh_uuids(
    store: Store, clock: ManualClock, within: int | None
) -> None:
    await put(store, made(MADE, 1, within), made(MADE, 2, within))
    first, second = await get_execution(store, 1), await get_execution(store, 2)
    assert first["created_at_ms"] == clock.now_ms
    assert first["deadline_at_ms"] == (None if within is None else clock.now_ms + within)
    assert first["attempt_state"] == "in a"
    assert isinstance(first["current_lease_id"], UUID)
    assert first["current_lease_id"] != second["current_lease_id"]


async def test_an_insert_returns_and_is_referred_to_as_stored(
    store: Store, clock: ManualClock
) -> None:
    now = clock.now_ms
    assert await store.commit(made(MADE_TOLD)) == Applied(now, (uid(1), now, now + 5))
    event = (await events(store, LEASES))[0]
    assert (event["execution_id"], event["reason"], event["lease_epoch"]) == (uid(1), "a", now + 5)


async def test_an_insert_returns_the_fresh_uuid_it_stored(store: Store) -> None:
    answer = await store.commit(made(MADE_FRESH))
    assert isinstance(answer, Applied)
    assert answer.row == ((await get_execution(store, 1))["current_lease_id"],)


async def test_an_insert_returns_the_text_it_stored(store: Store) -> None:
    answer = await store.commit(made(MADE_TEXT))
    assert isinstance(answer, Applied) and answer.row == ("in a",)


async def test_an_insert_returns_and_is_referred_to_by_columns_left_at_their_default(
    store: Store,
) -> None:
    answer = await store.commit(made(MADE_DEFAULT))
    assert isinstance(answer, Applied) and answer.row == ("default", 0, (), None)
    event = (await events(store, LEASES))[0]
    assert (event["namespace"], event["lease_epoch"]) == ("default", 0)


async def test_a_later_row_uses_the_row_before_and_after(store: Store) -> None:
    form = Form(
        "t_before_and_after",
        Update(EXEC, VERSIONED, {**BUMP, "lane_id": Arg("lane")}),
        Insert(
            LANE,
            {
                "lane_id": Text((Before("lane_id"), "->", After("lane_id"))),
                "registered_at_ms": Now(After("version")),
                "registered_by": When(Cond("version", "=", 0), "first", "later"),
                "updated_at_ms": Before("version"),
            },
        ),
    )
    await put(
        store, execution(1), form(partition_key=0, execution_id=uid(1), version=0, lane="new")
    )
    found = await get(store, LANE, "lane->new")
    assert (found["registered_at_ms"], found["registered_by"], found["updated_at_ms"]) == (
        await store.now_ms() + 1,
        "first",
        0,
    )


async def test_a_column_grows_by_a_value_of_the_call(store: Store) -> None:
    by = Form("t_grow", Update(EXEC, KEY, {"version": Add(Arg("by"))}), returning=("version",))
    await put(store, execution(1), execution(2, version=5))
    answers = await store.commit_many(
        [by(partition_key=0, execution_id=uid(n), by=b) for n, b in ((1, 3), (2, -7), (1, 4))]
    )
    assert [answer.row for answer in answers if isinstance(answer, Applied)] == [(3,), (-2,), (7,)]
