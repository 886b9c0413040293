"""A step behind the deciding one that finds no row, or one too many, takes its own plan back and nobody else's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.plan import Applied, Arg, Cond, Form, Insert, Plan, Refused, Update, Wake
from flowfabric.store.port import Store

from .helpers import (
    BUMP,
    EXEC,
    LANE,
    VERSIONED,
    Rings,
    count,
    execution,
    get_execution,
    image,
    insert,
    put,
    uid,
)

LANE_IS = (Cond("lane_id", "=", Arg("lane")), Cond("registered_by", "=", "x"))
BUMP_AND_ADD = Form(
    "t_bump_and_add",
    Update(EXEC, VERSIONED, BUMP),
    Insert(LANE, {"lane_id": Arg("lane"), "registered_at_ms": 1, "registered_by": "x"}),
    Wake("ready", Arg("lane")),
    returning=("version",),
)
BUMP_AND_CHANGE = Form(
    "t_bump_and_change",
    Update(EXEC, VERSIONED, BUMP),
    Insert(LANE, {"lane_id": Arg("new"), "registered_at_ms": 1, "registered_by": "x"}),
    Update(LANE, LANE_IS, {"state": "changed"}),
)


def add(n: int, lane: str, version: int = 0) -> Plan:
    return BUMP_AND_ADD(partition_key=0, execution_id=uid(n), version=version, lane=lane)


def change(n: int, new: str, lane: str) -> Plan:
    return BUMP_AND_CHANGE(partition_key=0, execution_id=uid(n), version=0, new=new, lane=lane)


async def filled(store: Store) -> None:
    await put(
        store,
        *(execution(n) for n in range(1, 9)),
        insert(LANE, lane_id="there", registered_by="x"),
    )


async def versions(store: Store) -> list[Any]:
    return [(await get_execution(store, n))["version"] for n in range(1, 9)]


async def test_one_of_many_is_refused_and_the_others_stand(store: Store) -> None:
    await filled(store)
    plans = [add(n, "there" if n == 4 else f"lane{n}") for n in range(1, 9)]
    answers = await asyncio.gather(*map(store.commit, plans))
    assert answers[3] == Refused(0, 1)
    assert [a.row for at, a in enumerate(answers) if at != 3 and isinstance(a, Applied)] == [
        (1,)
    ] * 7
    assert await versions(store) == [1, 1, 1, 0, 1, 1, 1, 1]
    assert await count(store, LANE) == 8


async def test_the_same_in_one_call(store: Store) -> None:
    await filled(store)
    plans = [add(n, "there" if n == 4 else f"lane{n}", version=n == 6) for n in range(1, 9)]
    answers = await store.commit_many(plans)
    assert [isinstance(a, Applied) for a in answers] == [
        True,
        True,
        True,
        False,
        True,
        False,
        True,
        True,
    ]
    assert (answers[3], answers[5]) == (Refused(0, 1), Refused(0, 0))
    assert await versions(store) == [1, 1, 1, 0, 1, 0, 1, 1]


async def test_of_two_that_add_the_same_one_stands(store: Store) -> None:
    await filled(store)
    answers = await asyncio.gather(*(store.commit(add(n, "twice")) for n in (1, 2)))
    assert sorted(map(repr, answers))[1:] == [repr(Refused(0, 1))]
    assert sum(await versions(store)) == 1


async def test_the_step_that_refused_is_named(store: Store) -> None:
    await filled(store)
    assert await store.commit(change(1, "a", "nowhere")) == Refused(0, 2)
    assert await store.commit(change(1, "there", "there")) == Refused(0, 1)
    assert await store.commit_together([add(2, "b"), change(1, "a", "nowhere")]) == Refused(1, 2)
    assert (await versions(store), await count(store, LANE)) == ([0] * 8, 1)
    assert isinstance(await store.commit(change(1, "a", "there")), Applied)


async def test_a_refused_plan_leaves_and_rings_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store)
    before, rings = await image(store), Rings(store, monkeypatch)
    assert await store.commit(add(1, "there")) == Refused(0, 1)
    assert await store.commit_together([add(1, "new"), add(2, "new")]) == Refused(1, 1)
    assert await image(store) == before
    assert ("ready", "there") not in rings.topics and ("ready", "new") not in rings.topics
