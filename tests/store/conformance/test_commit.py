"""A plan is applied whole or refused whole, and a refusal leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric.plan import (
    Absent,
    Add,
    After,
    Applied,
    Arg,
    Cond,
    Delete,
    Emit,
    Form,
    Insert,
    Plan,
    Refused,
    Update,
    UpdateMany,
    Upsert,
    Wake,
)
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock

from .helpers import (
    ATTEMPT,
    BUMP,
    EXEC,
    GRANT,
    KEY,
    KEYS,
    LANE,
    LEASES,
    VERSIONED,
    Rings,
    count,
    events,
    execution,
    get,
    get_execution,
    image,
    insert,
    put,
    uid,
)

_TOLD = Emit(
    LEASES, "acquired", {"execution_id": After("execution_id"), "lease_epoch": After("lease_epoch")}
)
_THIS = {"partition_key": After("partition_key"), "execution_id": After("execution_id")}

_WAITING = {
    "lifecycle_phase": "runnable",
    "eligibility_state": "eligible_now",
    "attempt_state": "pending_first_attempt",
    "public_state": "waiting",
    "created_at_ms": 1,
}

MOVE = Form(
    "t_move",
    Update(EXEC, VERSIONED, {**BUMP, "priority": Arg("priority")}),
    _TOLD,
    returning=("version", "priority"),
)
ENTER = Form(
    "t_enter",
    Insert(
        EXEC,
        {**{c: Arg(c) for c in ("partition_key", "execution_id", "lane_id")}, **_WAITING},
        (Absent(LANE, (Cond("lane_id", "=", Arg("lane_id")), Cond("state", "=", "disabled"))),),
    ),
)
RENAME = Form("t_rename", Update(EXEC, KEY, {"execution_kind": Arg("kind")}))
COUNT = Form("t_count", Update(EXEC, KEY, {"retry_count": Add(1)}), returning=("retry_count",))
REMOVE = Form("t_remove", Delete(EXEC, VERSIONED))
OPEN_LANE = Form(
    "t_open_lane",
    Insert(
        LANE,
        {"lane_id": Arg("lane_id"), "registered_at_ms": 1, "registered_by": "t"},
        (
            Absent(
                KEYS, (Cond("namespace", "=", "n"), Cond("idempotency_key", "=", Arg("closed_by")))
            ),
        ),
    ),
    Wake("lanes"),
)
_ATTEMPT = {**_THIS, "attempt_index": Arg("index")}
LATE_INSERT = Form(
    "t_late_insert", Update(EXEC, VERSIONED, BUMP), _TOLD, Insert(ATTEMPT, _ATTEMPT), Wake("late")
)
LATE_UPDATE = Form(
    "t_late_update",
    Update(EXEC, VERSIONED, BUMP),
    _TOLD,
    Update(
        ATTEMPT,
        (*(Cond(c, "=", v) for c, v in _ATTEMPT.items()), Cond("attempt_state", "=", Arg("state"))),
        {"attempt_state": "changed"},
    ),
)
LATE_UNLESS = Form(
    "t_late_unless",
    Update(EXEC, VERSIONED, BUMP),
    _TOLD,
    Insert(ATTEMPT, _ATTEMPT, (Absent(LANE, (Cond("lane_id", "=", Arg("unless_lane")),)),)),
)


def move(n: int, version: int = 0, priority: int = 5) -> Plan:
    return MOVE(partition_key=0, execution_id=uid(n), version=version, priority=priority)


def on(form: Form, n: int, **args: Any) -> Plan:
    return form(partition_key=0, execution_id=uid(n), **args)


async def _world(store: Store) -> None:
    """Three executions; the first has an attempt, a grant and an event."""
    await put(store, execution(1), execution(2), execution(3))
    await put(
        store,
        insert(ATTEMPT, execution_id=uid(1)),
        insert(GRANT, execution_id=uid(1)),
        insert(LANE, lane_id="taken"),
    )
    await put(
        store,
        insert(KEYS, namespace="n", idempotency_key="used"),
        insert(LEASES, execution_id=uid(1)),
    )


REFUSED: dict[str, tuple[Callable[[], Plan], int]] = {
    "insert of a key that exists": (lambda: execution(1, priority=9), 0),
    "insert unless a row that exists": (lambda: OPEN_LANE(lane_id="new", closed_by="used"), 0),
    "update of no row": (lambda: move(99), 0),
    "update of another version": (lambda: move(1, version=1), 0),
    "update of another partition": (
        lambda: RENAME(partition_key=7, execution_id=uid(1), kind="x"),
        0,
    ),
    "delete of no row": (lambda: on(REMOVE, 99, version=0), 0),
    "delete of another version": (lambda: on(REMOVE, 1, version=3), 0),
    "later insert of a key that exists": (lambda: on(LATE_INSERT, 1, version=0, index=0), 2),
    "later insert unless a row that exists": (
        lambda: on(LATE_UNLESS, 2, version=0, index=0, unless_lane="taken"),
        2,
    ),
    "later update of no row": (lambda: on(LATE_UPDATE, 2, version=0, index=0, state="created"), 2),
    "later update whose guard fails": (
        lambda: on(LATE_UPDATE, 1, version=0, index=0, state="other"),
        2,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_plan_leaves_everything_untouched(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store)
    before, rings = await image(store), Rings(store, monkeypatch)
    make, step = REFUSED[name]
    assert await store.commit(make()) == Refused(0, step)
    assert await image(store) == before
    assert (rings.topics, rings.dues) == ([], [])


@pytest.mark.parametrize("name", REFUSED)
async def test_a_group_refused_by_its_last_plan_leaves_everything_untouched(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store)
    before, rings = await image(store), Rings(store, monkeypatch)
    make, step = REFUSED[name]
    plans = [move(3), on(LATE_INSERT, 3, version=1, index=0), insert(LANE, lane_id="other"), make()]
    assert await store.commit_together(plans) == Refused(3, step)
    assert await image(store) == before
    assert (rings.topics, rings.dues) == ([], [])


async def test_a_group_refused_after_a_delete_brings_the_row_and_its_children_back(
    store: Store,
) -> None:
    await _world(store)
    before = await image(store)
    assert await store.commit_together([on(REMOVE, 1, version=0), move(99)]) == Refused(1, 0)
    assert await image(store) == before


async def test_applied_says_the_time_and_what_was_asked_for(
    store: Store, clock: ManualClock
) -> None:
    await put(store, execution(1))
    clock.advance(5)
    assert await store.commit(move(1, priority=8)) == Applied(clock.now_ms, (1, 8))
    row = await get_execution(store, 1)
    assert (row["version"], row["priority"]) == (1, 8)
    assert [e["event_type"] for e in await events(store, LEASES)] == ["acquired"]


async def test_a_plan_sent_twice_is_refused_the_second_time(store: Store) -> None:
    await put(store, execution(1))
    assert isinstance(await store.commit(move(1)), Applied)
    assert await store.commit(move(1)) == Refused()
    assert len(await events(store, LEASES)) == 1


async def test_insert_keeps_given_values_and_fills_in_defaults(store: Store) -> None:
    form = Form(
        "t_small_insert",
        Insert(LANE, {"lane_id": Arg("lane"), "registered_at_ms": 7, "registered_by": "me"}),
    )
    assert isinstance(await store.commit(form(lane="a")), Applied)
    assert await get(store, LANE, "a") == {
        "lane_id": "a",
        "registered_at_ms": 7,
        "registered_by": "me",
        "state": "active",
        "updated_at_ms": 0,
    }


async def test_later_update_applies_when_it_matches(store: Store) -> None:
    await _world(store)
    answer = await store.commit(on(LATE_UPDATE, 1, version=0, index=0, state="created"))
    assert isinstance(answer, Applied)
    assert (await get(store, ATTEMPT, 0, uid(1), 0))["attempt_state"] == "changed"


# ---- several plans


async def test_together_applies_all_and_answers_for_the_last(
    store: Store, clock: ManualClock
) -> None:
    await put(store, execution(1))
    plans = [insert(LANE, lane_id="a"), on(COUNT, 1), move(1, priority=3)]
    assert await store.commit_together(plans) == Applied(clock.now_ms, (1, 3))
    assert (await get_execution(store, 1))["retry_count"] == 1
    assert await count(store, LANE) == 1


async def test_together_a_plan_sees_the_ones_before_it(store: Store) -> None:
    await put(store, execution(1))
    answer = await store.commit_together([move(1, 0), move(1, 1), move(1, 2, priority=9)])
    assert isinstance(answer, Applied) and answer.row == (3, 9)


@pytest.mark.parametrize("bad", [0, 1, 2])
async def test_together_names_the_plan_that_was_refused(store: Store, bad: int) -> None:
    await put(store, execution(1), execution(2), execution(3))
    plans = [move(n) for n in (1, 2, 3)]
    plans[bad] = move(77)
    before = await image(store)
    assert await store.commit_together(plans) == Refused(bad, 0)
    assert await image(store) == before


async def test_many_of_nothing_is_nothing(store: Store) -> None:
    assert await store.commit_many([]) == []


async def test_many_answers_each_in_order_and_independently(
    store: Store, clock: ManualClock
) -> None:
    await put(store, execution(1), execution(2))
    plans = [
        move(1),
        move(9),
        move(2, priority=1),
        insert(LANE, lane_id="a"),
        insert(LANE, lane_id="a"),
        move(1, 1, 4),
    ]
    now = clock.now_ms
    assert await store.commit_many(plans) == [
        Applied(now, (1, 5)),
        Refused(),
        Applied(now, (1, 1)),
        Applied(now),
        Refused(),
        Applied(now, (2, 4)),
    ]


async def test_many_inserts_with_duplicates_inside_keep_the_first_of_each(store: Store) -> None:
    numbers = [1, 2, 2, 3, 1, 4]
    answers = await store.commit_many([execution(n, priority=at) for at, n in enumerate(numbers)])
    assert [isinstance(a, Applied) for a in answers] == [True, True, False, True, False, True]
    assert [(await get_execution(store, n))["priority"] for n in (1, 2, 3, 4)] == [0, 1, 3, 5]


@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 127])
async def test_many_inserts_of_any_number_are_all_there(store: Store, n: int) -> None:
    answers = await store.commit_many([execution(k, priority=k) for k in range(n)])
    assert all(isinstance(a, Applied) for a in answers)
    assert [(await get_execution(store, k))["priority"] for k in range(n)] == list(range(n))


async def test_many_inserts_are_refused_one_by_one_where_another_row_forbids(store: Store) -> None:
    await put(store, insert(LANE, lane_id="shut", state="disabled"))
    plans = [
        ENTER(partition_key=0, execution_id=uid(n), lane_id="shut" if n % 3 == 0 else "open")
        for n in range(1, 40)
    ]
    answers = await store.commit_many(plans)
    assert [isinstance(a, Applied) for a in answers] == [n % 3 != 0 for n in range(1, 40)]
    assert await count(store, EXEC) == sum(n % 3 != 0 for n in range(1, 40))


async def test_many_inserts_of_events_number_them_in_order(store: Store) -> None:
    await put(store, *(insert(LEASES, lease_epoch=n) for n in range(20)))
    told = await events(store, LEASES)
    assert [e["lease_epoch"] for e in told] == list(range(20))
    assert [e["event_id"] for e in told] == sorted({e["event_id"] for e in told})


async def test_a_row_twice_in_one_batch_the_second_sees_the_first(store: Store) -> None:
    await put(store, execution(1), execution(2))
    plans = [on(COUNT, 1), on(COUNT, 2), on(COUNT, 1), on(COUNT, 1), on(COUNT, 2)]
    answers = await store.commit_many(plans)
    assert [a.row for a in answers if isinstance(a, Applied)] == [(1,), (1,), (2,), (3,), (2,)]


async def test_versioned_plans_on_a_row_in_one_batch_follow_each_other(store: Store) -> None:
    await put(store, execution(1))
    answers = await store.commit_many([move(1, 0), move(1, 0), move(1, 1), move(1, 1), move(1, 2)])
    assert [isinstance(a, Applied) for a in answers] == [True, False, True, False, True]
    assert (await get_execution(store, 1))["version"] == 3


async def test_one_of_many_concurrent_callers_wins_a_version(store: Store) -> None:
    await put(store, execution(1))
    answers = await asyncio.gather(*(store.commit(move(1, 0, n)) for n in range(50)))
    won = [n for n, a in enumerate(answers) if isinstance(a, Applied)]
    assert won == [0]
    assert (await get_execution(store, 1))["priority"] == 0


async def test_concurrent_additions_are_all_counted(store: Store) -> None:
    await put(store, execution(1))
    answers = await asyncio.gather(*(store.commit(on(COUNT, 1)) for _ in range(60)))
    assert [a.row[0] for a in answers if isinstance(a, Applied)] == list(range(1, 61))


_TAKES_THE_KEY = Form(
    "t_takes_the_key",
    Update(
        EXEC, (*VERSIONED, Absent(KEYS, (Cond("namespace", "=", "only"),))), {**BUMP, "priority": 1}
    ),
    Insert(KEYS, {"namespace": "only", "idempotency_key": Arg("own"), **_THIS, "expires_at_ms": 1}),
    returning=("version",),
)
_BRINGS_THE_KEY = Form(
    "t_brings_the_key",
    Insert(
        LANE,
        {"lane_id": Arg("own"), "registered_at_ms": 1, "registered_by": "t"},
        (Absent(KEYS, (Cond("namespace", "=", "only"),)),),
    ),
    Insert(
        KEYS,
        {
            "namespace": "only",
            "idempotency_key": Arg("own"),
            "partition_key": 0,
            "execution_id": Arg("id"),
            "expires_at_ms": 1,
        },
    ),
)


async def test_batch_mates_on_different_rows_see_each_others_further_steps_in_an_update(
    store: Store,
) -> None:
    await put(store, execution(1), execution(2), execution(3))
    answers = await store.commit_many(
        [on(_TAKES_THE_KEY, n, version=0, own=f"k{n}") for n in (1, 2, 3)]
    )
    assert [isinstance(a, Applied) for a in answers] == [True, False, False]
    assert await count(store, KEYS) == 1


async def test_batch_mates_on_different_rows_see_each_others_further_steps_in_an_insert(
    store: Store,
) -> None:
    answers = await store.commit_many([_BRINGS_THE_KEY(own=f"k{n}", id=uid(n)) for n in (1, 2, 3)])
    assert [isinstance(a, Applied) for a in answers] == [True, False, False]
    assert (await count(store, KEYS), await count(store, LANE)) == (1, 1)


# ---- the further steps


_TOUCH = Form(
    "t_touch_attempts",
    Update(EXEC, VERSIONED, BUMP),
    UpdateMany(
        ATTEMPT,
        (*(Cond(c, "=", v) for c, v in _THIS.items()), Cond("attempt_state", "=", "created")),
        {"lease_epoch": Add(2), "attempt_state": "touched"},
    ),
)


@pytest.mark.parametrize(
    "states", [[], ["ended"], ["created"], ["created", "ended", "created", "created"]]
)
async def test_update_many_changes_what_matches_be_it_nothing(
    store: Store, states: list[str]
) -> None:
    await put(
        store, execution(1), execution(2), insert(ATTEMPT, execution_id=uid(2), attempt_index=0)
    )
    for at, state in enumerate(states):
        await put(
            store,
            insert(
                ATTEMPT, execution_id=uid(1), attempt_index=at, attempt_state=state, lease_epoch=10
            ),
        )
    assert isinstance(await store.commit(on(_TOUCH, 1, version=0)), Applied)
    for at, state in enumerate(states):
        row = await get(store, ATTEMPT, 0, uid(1), at)
        assert (row["attempt_state"], row["lease_epoch"]) == (
            ("touched", 12) if state == "created" else (state, 10)
        )
    assert (await get(store, ATTEMPT, 0, uid(2), 0))["attempt_state"] == "created"


_SET_GRANT = {"worker_id": Arg("worker"), "grant_ttl_ms": Add(1), "lane_id": After("lane_id")}
_GRANTED = Form(
    "t_upsert_grant",
    Update(EXEC, VERSIONED, {**BUMP, "lane_id": Arg("lane")}),
    Upsert(
        GRANT,
        {
            **_THIS,
            "grant_id": "g",
            "kind": "claim",
            "worker_id": Arg("worker"),
            "worker_instance_id": "i",
            "lane_id": After("lane_id"),
        }
        | {"grant_ttl_ms": 100, "issued_at_ms": 1, "expires_at_ms": 2},
        _SET_GRANT,
    ),
)


async def test_upsert_inserts_first_and_changes_afterwards(store: Store) -> None:
    await put(store, execution(1))
    assert isinstance(
        await store.commit(on(_GRANTED, 1, version=0, worker="a", lane="l1")), Applied
    )
    grant = await get(store, GRANT, 0, uid(1))
    assert (grant["worker_id"], grant["grant_ttl_ms"], grant["lane_id"]) == ("a", 100, "l1")
    assert isinstance(
        await store.commit(on(_GRANTED, 1, version=1, worker="b", lane="l2")), Applied
    )
    grant = await get(store, GRANT, 0, uid(1))
    assert (grant["worker_id"], grant["grant_ttl_ms"], grant["lane_id"], grant["kind"]) == (
        "b",
        101,
        "l2",
        "claim",
    )


def test_an_upsert_cannot_decide_for_it_is_never_refused() -> None:
    lane = {"lane_id": Arg("lane"), "registered_at_ms": 1, "registered_by": "t"}
    with pytest.raises(AssertionError, match="can be refused"):
        Form("t_lane_seen", Upsert(LANE, lane, {"updated_at_ms": Add(1)}))
