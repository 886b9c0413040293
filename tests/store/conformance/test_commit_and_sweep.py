"""Plans and a sweep beside them: each as it would be answered by itself, whether they share a statement or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.plan import (
    After,
    Answer,
    Applied,
    Arg,
    Before,
    Cond,
    Form,
    Insert,
    Now,
    Pick,
    Plan,
    Refused,
    Update,
    Wake,
)
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock

from .helpers import BUMP, EXEC, Rings, execution, get_execution, image, put, uid

EVENTS = "ff_lease_event"
_KEYED = (Cond("partition_key", "=", Arg("p")), Cond("execution_id", "=", Arg("id")))
_LEASED = (
    *_KEYED,
    Cond("lifecycle_phase", "=", "active"),
    Cond("lease_epoch", "=", 0),
    Cond("current_worker_id", "=", Arg("worker")),
)
_TOLD = {
    "event_type": Arg("what"),
    "occurred_at_ms": Now(),
    "execution_id": After("execution_id"),
    "partition_key": After("partition_key"),
    "namespace": After("namespace"),
    "reason": Arg("why"),
}
END = Form(
    "t_end",
    Update(EXEC, _LEASED, {**BUMP, "lifecycle_phase": "terminal", "result": Arg("result")}),
    Insert(EVENTS, _TOLD),
)
END_AND_SAY = Form(
    "t_end_and_say",
    Update(EXEC, _LEASED, {**BUMP, "lifecycle_phase": "terminal", "result": Arg("result")}),
    Insert(EVENTS, {**_TOLD, "reason": Before("current_worker_id")}),
    Wake("ended", After("execution_id")),
    returning=("lane_id",),
)
_TAKEN: dict[str, Any] = {
    **BUMP,
    "eligibility_state": "not_applicable",
    "lifecycle_phase": "active",
    "ownership_state": "leased",
    "current_worker_id": Arg("worker"),
}
TAKE = Form(
    "t_take_next",
    Update(EXEC, (), _TAKEN),
    Wake("taken", After("lane_id")),
    pick=Pick("ready", {"lane_id": Arg("lane"), "namespace": "default", "gate": ""}),
    returning=("execution_id",),
)


def end(n: int, worker: str = "w", why: str = "done") -> Plan:
    return END(p=0, id=uid(n), worker=worker, result=b"r%d" % n, what="revoked", why=why)


def say(n: int, worker: str = "w") -> Plan:
    return END_AND_SAY(p=0, id=uid(n), worker=worker, result=b"s", what="revoked")


def take(worker: str = "w", lane: str = "lane") -> Plan:
    return TAKE(lane=lane, worker=worker)


async def stocked(store: Store, waiting: int = 6, held: int = 3) -> None:
    """The first are held by `w`, the others wait."""
    await put(store, *(execution(n) for n in range(1, held + waiting + 1)))
    assert len(await store.sweep(take(), held)) == held


async def phase(store: Store, *numbers: int) -> list[Any]:
    return [(await get_execution(store, n))["lifecycle_phase"] for n in numbers]


async def test_the_plans_are_done_and_others_are_taken(store: Store, clock: ManualClock) -> None:
    await stocked(store)
    answers, rows = await store.commit_and_sweep([end(2), end(1)], take("v"), 2)
    assert (answers, rows) == ([Applied(clock()), Applied(clock())], [(uid(4),), (uid(5),)])
    assert await phase(store, 1, 2, 3, 4, 5, 6) == [
        "terminal",
        "terminal",
        "active",
        "active",
        "active",
        "runnable",
    ]
    assert [(await get_execution(store, n))["result"] for n in (1, 2)] == [b"r1", b"r2"]
    assert (await get_execution(store, 4))["current_worker_id"] == "v"
    assert len((await store.dump([EVENTS]))[EVENTS]) == 2


async def test_a_plan_that_is_refused_hinders_nobody(store: Store, clock: ManualClock) -> None:
    await stocked(store)
    answers, rows = await store.commit_and_sweep([end(1, "other"), end(9), end(3)], take(), 1)
    assert (answers, rows) == ([Refused(), Refused(), Applied(clock())], [(uid(4),)])
    assert await phase(store, 1, 3, 9) == ["active", "terminal", "runnable"]
    assert len((await store.dump([EVENTS]))[EVENTS]) == 1


async def test_where_all_are_refused_the_sweep_is_done_all_the_same(store: Store) -> None:
    await stocked(store)
    assert await store.commit_and_sweep([end(1, "other")], take(), 1) == ([Refused()], [(uid(4),)])


async def test_where_nothing_is_left_the_plans_are_done_all_the_same(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store, waiting=0)
    assert await store.commit_and_sweep([end(1), end(2)], take(), 5) == ([Applied(clock())] * 2, [])
    before = await image(store)
    assert await store.commit_and_sweep([end(1)], take(lane="another"), 5) == ([Refused()], [])
    assert await image(store) == before


async def test_what_is_ended_is_not_taken_again(store: Store) -> None:
    await stocked(store, waiting=1, held=1)
    _, rows = await store.commit_and_sweep([end(1)], take(), 10)
    assert rows == [(uid(2),)]


@pytest.mark.parametrize(
    "plans",
    [
        pytest.param([end(1), say(2), end(3)], id="of several forms"),
        pytest.param([say(1), say(2)], id="that have something to say"),
        pytest.param([end(1), end(2), end(1, why="twice")], id="about one row twice"),
        pytest.param([], id="none"),
    ],
)
async def test_plans_that_cannot_share_a_statement_are_answered_as_ever(
    store: Store, clock: ManualClock, plans: list[Plan]
) -> None:
    await stocked(store)
    answers, rows = await store.commit_and_sweep(plans, take(), 1)
    expected: list[Answer] = [
        Applied(clock(), ("lane",) if plan.form is END_AND_SAY else ()) for plan in plans
    ]
    if plans and plans[-1].values == end(1, why="twice").values:
        expected[-1] = Refused()
    assert (answers, rows) == (expected, [(uid(4),)])


async def test_many_plans_at_once(store: Store, clock: ManualClock) -> None:
    await stocked(store, waiting=3, held=250)
    answers, rows = await store.commit_and_sweep([end(n) for n in range(1, 251)], take(), 5)
    assert answers == [Applied(clock())] * 250
    assert rows == [(uid(n),) for n in (251, 252, 253)]


async def test_of_many_at_once_each_gets_his_own_answers_and_rows(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store, waiting=20, held=12)
    asked = [([end(n, "w" if n % 3 else "other")], take(f"w{n}"), 1 + n % 2) for n in range(1, 13)]
    turns = await asyncio.gather(*(store.commit_and_sweep(*each) for each in asked))
    assert [answers for answers, _ in turns] == [
        [Applied(clock())] if n % 3 else [Refused()] for n in range(1, 13)
    ]
    assert [len(rows) for _, rows in turns] == [1 + n % 2 for n in range(1, 13)]
    taken = [(row[0], f"w{n}") for n, (_, rows) in enumerate(turns, 1) for row in rows]
    assert len({ident for ident, _ in taken}) == len(taken) == 18
    assert sorted(ident for ident, _ in taken) == [uid(n) for n in range(13, 31)]
    for ident, worker in taken:
        assert (await get_execution(store, ident.int))["current_worker_id"] == worker


async def test_beside_others_that_want_the_same_rows(store: Store, clock: ManualClock) -> None:
    await stocked(store, waiting=8, held=8)
    turning = [store.commit_and_sweep([end(n)], take(f"t{n}"), 1) for n in range(1, 9)]
    others = [store.commit(end(n, why="by itself")) for n in range(1, 9)] + [
        store.sweep(take("s"), 1) for _ in range(4)
    ]
    done = await asyncio.gather(*turning, *others)
    turns, plain, swept = done[:8], done[8:16], done[16:]
    for n, (turn, alone) in enumerate(zip(turns, plain, strict=True), 1):
        assert sorted(type(each).__name__ for each in (turn[0][0], alone)) == [
            "Applied",
            "Refused",
        ], n
    taken = [row for _, rows in turns for row in rows] + [row for rows in swept for row in rows]
    assert sorted(taken) == [(uid(n),) for n in range(9, 17)]
    assert len((await store.dump([EVENTS]))[EVENTS]) == 8


async def test_bells_ring_for_both(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await stocked(store)
    rings = Rings(store, monkeypatch)
    await store.commit_and_sweep([end(1)], take(), 1)
    assert {(EVENTS, None), ("taken", "lane")} <= set(rings.topics)
    rings.topics.clear()
    await store.commit_and_sweep([end(1)], take(lane="another"), 1)
    assert not {topic for topic, _ in rings.topics} & {EVENTS, "taken"}


async def test_a_value_that_does_not_fit_costs_only_its_own_turn(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store)
    bad = END(p=0, id=uid(2), worker="w", result=b"", what=None, why="bad")
    turns = await asyncio.gather(
        *(store.commit_and_sweep([plan], take(), 1) for plan in (end(1), bad, end(3))),
        return_exceptions=True,
    )
    good = [turn for turn in (turns[0], turns[2]) if not isinstance(turn, BaseException)]
    assert [answers for answers, _ in good] == [[Applied(clock())], [Applied(clock())]]
    assert all(len(rows) == 1 for _, rows in good)
    said = turns[1] if isinstance(turns[1], BaseException) else turns[1][0][0]
    assert isinstance(said, Exception)
    assert await phase(store, 1, 2, 3) == ["terminal", "active", "terminal"]
