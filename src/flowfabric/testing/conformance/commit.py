"""A plan is applied whole or refused whole, and a refusal leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

_TOLD = p.Emit(
    h.LEASES,
    "acquired",
    {"execution_id": p.After("execution_id"), "lease_epoch": p.After("lease_epoch")},
)

MOVE = p.Form(
    "t_move",
    p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "priority": p.Arg("priority")}),
    _TOLD,
    returning=("version", "priority"),
)
ENTER = p.Form(
    "t_enter",
    p.Insert(
        h.EXEC,
        {**{c: p.Arg(c) for c in ("partition_key", "execution_id", "lane_id")}, **h.WAITING},
        (
            p.Absent(
                h.LANE, (p.Cond("lane_id", "=", p.Arg("lane_id")), p.Cond("state", "=", "disabled"))
            ),
        ),
    ),
)
RENAME = p.Form("t_rename", p.Update(h.EXEC, h.KEY, {"execution_kind": p.Arg("kind")}))
COUNT = p.Form(
    "t_count", p.Update(h.EXEC, h.KEY, {"retry_count": p.Add(1)}), returning=("retry_count",)
)
REMOVE = p.Form("t_remove", p.Delete(h.EXEC, h.VERSIONED))
OPEN_LANE = p.Form(
    "t_open_lane",
    p.Insert(
        h.LANE,
        {"lane_id": p.Arg("lane_id"), "registered_at_ms": 1, "registered_by": "t"},
        (
            p.Absent(
                h.KEYS,
                (p.Cond("namespace", "=", "n"), p.Cond("idempotency_key", "=", p.Arg("closed_by"))),
            ),
        ),
    ),
    p.Wake("lanes"),
)
_ATTEMPT = {**h.SAME_KEY, "attempt_index": p.Arg("index")}
LATE_INSERT = p.Form(
    "t_late_insert",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    _TOLD,
    p.Insert(h.ATTEMPT, _ATTEMPT),
    p.Wake("late"),
)
LATE_UPDATE = p.Form(
    "t_late_update",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    _TOLD,
    p.Update(
        h.ATTEMPT,
        (
            *(p.Cond(c, "=", v) for c, v in _ATTEMPT.items()),
            p.Cond("attempt_state", "=", p.Arg("state")),
        ),
        {"attempt_state": "changed"},
    ),
)
LATE_UNLESS = p.Form(
    "t_late_unless",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    _TOLD,
    p.Insert(
        h.ATTEMPT, _ATTEMPT, (p.Absent(h.LANE, (p.Cond("lane_id", "=", p.Arg("unless_lane")),)),)
    ),
)


def move(n: int, version: int = 0, priority: int = 5) -> p.Plan:
    return MOVE(partition_key=0, execution_id=h.uid(n), version=version, priority=priority)


async def _world(store: Store) -> None:
    """Three executions; the first has an attempt, a grant and an event."""
    await h.put(store, h.execution(1), h.execution(2), h.execution(3))
    await h.put(
        store,
        h.insert(h.ATTEMPT, execution_id=h.uid(1)),
        h.insert(h.GRANT, execution_id=h.uid(1)),
        h.insert(h.LANE, lane_id="taken"),
    )
    await h.put(
        store,
        h.insert(h.KEYS, namespace="n", idempotency_key="used"),
        h.insert(h.LEASES, execution_id=h.uid(1)),
    )


REFUSED: dict[str, tuple[Callable[[], p.Plan], int]] = {
    "insert of a key that exists": (lambda: h.execution(1, priority=9), 0),
    "insert unless a row that exists": (lambda: OPEN_LANE(lane_id="new", closed_by="used"), 0),
    "update of no row": (lambda: move(99), 0),
    "update of another version": (lambda: move(1, version=1), 0),
    "update of another partition": (
        lambda: RENAME(partition_key=7, execution_id=h.uid(1), kind="x"),
        0,
    ),
    "delete of no row": (lambda: h.on(REMOVE, 99, version=0), 0),
    "delete of another version": (lambda: h.on(REMOVE, 1, version=3), 0),
    "later insert of a key that exists": (lambda: h.on(LATE_INSERT, 1, version=0, index=0), 2),
    "later insert unless a row that exists": (
        lambda: h.on(LATE_UNLESS, 2, version=0, index=0, unless_lane="taken"),
        2,
    ),
    "later update of no row": (
        lambda: h.on(LATE_UPDATE, 2, version=0, index=0, state="created"),
        2,
    ),
    "later update whose guard fails": (
        lambda: h.on(LATE_UPDATE, 1, version=0, index=0, state="other"),
        2,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_plan_leaves_everything_untouched(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store)
    before, rings = await h.image(store), h.Rings(store, monkeypatch)
    make, step = REFUSED[name]
    assert await store.commit(make()) == p.Refused(0, step)
    assert await h.image(store) == before
    assert (rings.topics, rings.dues) == ([], [])


@pytest.mark.parametrize("name", REFUSED)
async def test_a_group_refused_by_its_last_plan_leaves_everything_untouched(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store)
    before, rings = await h.image(store), h.Rings(store, monkeypatch)
    make, step = REFUSED[name]
    plans = [
        move(3),
        h.on(LATE_INSERT, 3, version=1, index=0),
        h.insert(h.LANE, lane_id="other"),
        make(),
    ]
    assert await store.commit_together(plans) == p.Refused(3, step)
    assert await h.image(store) == before
    assert (rings.topics, rings.dues) == ([], [])


async def test_a_group_refused_after_a_delete_brings_the_row_and_its_children_back(
    store: Store,
) -> None:
    await _world(store)
    async with h.unchanged(store):
        assert await store.commit_together([h.on(REMOVE, 1, version=0), move(99)]) == p.Refused(
            1, 0
        )


async def test_applied_contains_the_time_and_the_returning_columns(
    store: Store, clock: ManualClock
) -> None:
    await h.put(store, h.execution(1))
    clock.advance(5)
    assert await store.commit(move(1, priority=8)) == p.Applied(clock.now_ms, (1, 8))
    row = await h.get_execution(store, 1)
    assert (row["version"], row["priority"]) == (1, 8)
    assert [e["event_type"] for e in await h.events(store, h.LEASES)] == ["acquired"]


async def test_a_plan_sent_twice_is_refused_the_second_time(store: Store) -> None:
    await h.put(store, h.execution(1))
    await h.commit(store, move(1))
    assert await store.commit(move(1)) == p.Refused()
    assert len(await h.events(store, h.LEASES)) == 1


async def test_insert_keeps_given_values_and_fills_in_defaults(store: Store) -> None:
    form = p.Form(
        "t_small_insert",
        p.Insert(h.LANE, {"lane_id": p.Arg("lane"), "registered_at_ms": 7, "registered_by": "me"}),
    )
    await h.commit(store, form(lane="a"))
    assert await h.get(store, h.LANE, "a") == {
        "lane_id": "a",
        "registered_at_ms": 7,
        "registered_by": "me",
        "state": "active",
        "updated_at_ms": 0,
    }


async def test_later_update_applies_when_it_matches(store: Store) -> None:
    await _world(store)
    await h.commit(store, h.on(LATE_UPDATE, 1, version=0, index=0, state="created"))
    assert (await h.get(store, h.ATTEMPT, 0, h.uid(1), 0))["attempt_state"] == "changed"


# ---- several plans


async def test_commit_together_applies_all_and_returns_the_last_answer(
    store: Store, clock: ManualClock
) -> None:
    await h.put(store, h.execution(1))
    plans = [h.insert(h.LANE, lane_id="a"), h.on(COUNT, 1), move(1, priority=3)]
    assert await store.commit_together(plans) == p.Applied(clock.now_ms, (1, 3))
    assert (await h.get_execution(store, 1))["retry_count"] == 1
    assert await h.count(store, h.LANE) == 1


async def test_together_a_plan_sees_the_ones_before_it(store: Store) -> None:
    await h.put(store, h.execution(1))
    answer = await store.commit_together([move(1, 0), move(1, 1), move(1, 2, priority=9)])
    assert isinstance(answer, p.Applied) and answer.row == (3, 9)


@pytest.mark.parametrize("bad", [0, 1, 2])
async def test_together_names_the_plan_that_was_refused(store: Store, bad: int) -> None:
    await h.put(store, h.execution(1), h.execution(2), h.execution(3))
    plans = [move(n) for n in (1, 2, 3)]
    plans[bad] = move(77)
    async with h.unchanged(store):
        assert await store.commit_together(plans) == p.Refused(bad, 0)


async def test_commit_many_of_no_plans_returns_no_answers(store: Store) -> None:
    assert await store.commit_many([]) == []


async def test_many_answers_each_in_order_and_independently(
    store: Store, clock: ManualClock
) -> None:
    await h.put(store, h.execution(1), h.execution(2))
    plans = [
        move(1),
        move(9),
        move(2, priority=1),
        h.insert(h.LANE, lane_id="a"),
        h.insert(h.LANE, lane_id="a"),
        move(1, 1, 4),
    ]
    now = clock.now_ms
    assert await store.commit_many(plans) == [
        p.Applied(now, (1, 5)),
        p.Refused(),
        p.Applied(now, (1, 1)),
        p.Applied(now),
        p.Refused(),
        p.Applied(now, (2, 4)),
    ]


async def test_many_inserts_with_duplicates_inside_keep_the_first_of_each(store: Store) -> None:
    numbers = [1, 2, 2, 3, 1, 4]
    answers = await store.commit_many([h.execution(n, priority=at) for at, n in enumerate(numbers)])
    assert h.applied(answers) == [True, True, False, True, False, True]
    assert [(await h.get_execution(store, n))["priority"] for n in (1, 2, 3, 4)] == [0, 1, 3, 5]


@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 127])
async def test_many_inserts_of_any_number_are_all_written(store: Store, n: int) -> None:
    answers = await store.commit_many([h.execution(k, priority=k) for k in range(n)])
    assert all(h.applied(answers))
    assert [(await h.get_execution(store, k))["priority"] for k in range(n)] == list(range(n))


async def test_many_inserts_are_refused_individually_by_their_guards(store: Store) -> None:
    await h.put(store, h.insert(h.LANE, lane_id="shut", state="disabled"))
    plans = [
        ENTER(partition_key=0, execution_id=h.uid(n), lane_id="shut" if n % 3 == 0 else "open")
        for n in range(1, 40)
    ]
    answers = await store.commit_many(plans)
    assert h.applied(answers) == [n % 3 != 0 for n in range(1, 40)]
    assert await h.count(store, h.EXEC) == sum(n % 3 != 0 for n in range(1, 40))


async def test_many_inserts_of_events_number_them_in_order(store: Store) -> None:
    await h.put(store, *(h.insert(h.LEASES, lease_epoch=n) for n in range(20)))
    told = await h.events(store, h.LEASES)
    assert [e["lease_epoch"] for e in told] == list(range(20))
    assert [e["event_id"] for e in told] == sorted({e["event_id"] for e in told})


async def test_a_row_twice_in_one_batch_the_second_sees_the_first(store: Store) -> None:
    await h.put(store, h.execution(1), h.execution(2))
    plans = [h.on(COUNT, 1), h.on(COUNT, 2), h.on(COUNT, 1), h.on(COUNT, 1), h.on(COUNT, 2)]
    answers = await store.commit_many(plans)
    assert [a.row for a in answers if isinstance(a, p.Applied)] == [(1,), (1,), (2,), (3,), (2,)]


async def test_versioned_plans_on_a_row_in_one_batch_follow_each_other(store: Store) -> None:
    await h.put(store, h.execution(1))
    answers = await store.commit_many([move(1, 0), move(1, 0), move(1, 1), move(1, 1), move(1, 2)])
    assert h.applied(answers) == [True, False, True, False, True]
    assert (await h.get_execution(store, 1))["version"] == 3


async def test_one_of_many_concurrent_callers_wins_a_version(store: Store) -> None:
    await h.put(store, h.execution(1))
    answers = await asyncio.gather(*(store.commit(move(1, 0, n)) for n in range(50)))
    won = [n for n, a in enumerate(answers) if isinstance(a, p.Applied)]
    assert won == [0]
    assert (await h.get_execution(store, 1))["priority"] == 0


async def test_concurrent_additions_are_all_counted(store: Store) -> None:
    await h.put(store, h.execution(1))
    answers = await asyncio.gather(*(store.commit(h.on(COUNT, 1)) for _ in range(60)))
    assert [a.row[0] for a in answers if isinstance(a, p.Applied)] == list(range(1, 61))


_TAKES_THE_KEY = p.Form(
    "t_takes_the_key",
    p.Update(
        h.EXEC,
        (*h.VERSIONED, p.Absent(h.KEYS, (p.Cond("namespace", "=", "only"),))),
        {**h.BUMP, "priority": 1},
    ),
    p.Insert(
        h.KEYS,
        {"namespace": "only", "idempotency_key": p.Arg("own"), **h.SAME_KEY, "expires_at_ms": 1},
    ),
    returning=("version",),
)
_BRINGS_THE_KEY = p.Form(
    "t_brings_the_key",
    p.Insert(
        h.LANE,
        {"lane_id": p.Arg("own"), "registered_at_ms": 1, "registered_by": "t"},
        (p.Absent(h.KEYS, (p.Cond("namespace", "=", "only"),)),),
    ),
    p.Insert(
        h.KEYS,
        {
            "namespace": "only",
            "idempotency_key": p.Arg("own"),
            "partition_key": 0,
            "execution_id": p.Arg("id"),
            "expires_at_ms": 1,
        },
    ),
)


async def test_batch_mates_on_different_rows_see_each_others_further_steps_in_an_update(
    store: Store,
) -> None:
    await h.put(store, h.execution(1), h.execution(2), h.execution(3))
    answers = await store.commit_many(
        [h.on(_TAKES_THE_KEY, n, version=0, own=f"k{n}") for n in (1, 2, 3)]
    )
    assert h.applied(answers) == [True, False, False]
    assert await h.count(store, h.KEYS) == 1


async def test_batch_mates_on_different_rows_see_each_others_further_steps_in_an_insert(
    store: Store,
) -> None:
    answers = await store.commit_many(
        [_BRINGS_THE_KEY(own=f"k{n}", id=h.uid(n)) for n in (1, 2, 3)]
    )
    assert h.applied(answers) == [True, False, False]
    assert (await h.count(store, h.KEYS), await h.count(store, h.LANE)) == (1, 1)
