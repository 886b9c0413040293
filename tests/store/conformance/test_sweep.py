"""A sweep takes rows in the order of a declared index, each row once, and hides none behind another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.plan import (
    After,
    AnyOf,
    Arg,
    Before,
    Cond,
    Covered,
    Delete,
    Emit,
    Form,
    Fresh,
    Now,
    Pick,
    Update,
    Upsert,
)
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock

from .helpers import (
    ATTEMPT,
    BUMP,
    EXEC,
    GRANT,
    LEASES,
    count,
    events,
    execution,
    get_execution,
    image,
    insert,
    put,
    uid,
)

_TAKEN: dict[str, Any] = {
    **BUMP,
    "eligibility_state": "not_applicable",
    "lifecycle_phase": "active",
    "ownership_state": "leased",
    "current_worker_id": Arg("worker"),
}
_LANE = {"lane_id": Arg("lane"), "namespace": "default", "gate": ""}
_THIS = {"partition_key": After("partition_key"), "execution_id": After("execution_id")}
TAKE = Form(
    "t_take", Update(EXEC, (), _TAKEN), pick=Pick("ready", _LANE), returning=("execution_id",)
)
TAKE_CAPABLE = Form(
    "t_take_capable",
    Update(EXEC, (), _TAKEN),
    pick=Pick("ready", _LANE, where=(Covered("required_capabilities", Arg("offered")),)),
    returning=("execution_id",),
)
TAKE_WHOLE = Form(
    "t_take_whole",
    Update(
        EXEC, (), {**_TAKEN, "current_lease_id": Fresh(), "lease_expires_at_ms": Now(Arg("ttl"))}
    ),
    Upsert(
        ATTEMPT,
        {**_THIS, "attempt_index": After("attempt_index"), "lease_id": After("current_lease_id")},
        {"outcome": "again"},
    ),
    Delete(GRANT, tuple(Cond(c, "=", v) for c, v in _THIS.items())),
    Emit(
        LEASES,
        "acquired",
        {
            "execution_id": After("execution_id"),
            "lease_id": After("current_lease_id"),
            "reason": Arg("worker"),
        },
    ),
    pick=Pick("ready", _LANE),
    returning=(
        "execution_id",
        "current_lease_id",
        "lease_expires_at_ms",
        Before("lifecycle_phase"),
        "lifecycle_phase",
    ),
)
PROMOTE = Form(
    "t_promote",
    Update(EXEC, (), {"eligibility_state": "eligible_now", "delay_until_ms": None}),
    pick=Pick("delayed", upto=Now()),
    returning=("execution_id", Before("delay_until_ms"), "delay_until_ms"),
)
EXPIRE = Form(
    "t_expire",
    Update(EXEC, (Cond("priority", "=", 0),), {"ownership_state": "unowned"}),
    pick=Pick("leased", upto=Arg("upto")),
    returning=("execution_id",),
)


def take(worker: str = "w", lane: str = "lane") -> Any:
    return TAKE(lane=lane, worker=worker)


async def test_rows_come_by_priority_then_age_then_id(store: Store) -> None:
    made = [(1, 0, 5), (2, 9, 7), (3, 0, 4), (4, 9, 6), (5, 0, 4), (6, -2, 0), (7, 9, 6)]
    await put(store, *(execution(n, priority=p, created_at_ms=at) for n, p, at in made))
    assert await store.sweep(take(), 100) == [(uid(n),) for n in (4, 7, 2, 3, 5, 1, 6)]


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
async def test_no_more_rows_than_the_limit(store: Store, limit: int) -> None:
    await put(store, *(execution(n) for n in range(1, 6)))
    assert await store.sweep(take(), limit) == [(uid(n),) for n in range(1, 6)][:limit]
    left = [
        n for n in range(1, 6) if (await get_execution(store, n))["lifecycle_phase"] == "runnable"
    ]
    assert left == list(range(limit + 1, 6))


async def test_an_empty_sweep_changes_nothing(store: Store) -> None:
    await put(store, execution(1, lane_id="other"), execution(2, lifecycle_phase="submitted"))
    before = await image(store)
    assert await store.sweep(take(), 10) == []
    assert await image(store) == before


async def test_only_the_group_asked_for(store: Store) -> None:
    await put(store, *(execution(n, lane_id="even" if n % 2 == 0 else "odd") for n in range(1, 7)))
    assert await store.sweep(take(lane="even"), 10) == [(uid(2),), (uid(4),), (uid(6),)]


@pytest.mark.parametrize(("ahead", "due"), [([1], []), ([0], [1]), ([-5, 3, -9, 0], [3, 1, 4])])
async def test_upto_a_time_takes_what_is_due_and_nothing_later(
    store: Store, clock: ManualClock, ahead: list[int], due: list[int]
) -> None:
    state = {"eligibility_state": "not_eligible_until_time"}
    await put(
        store,
        *(execution(n, **state, delay_until_ms=clock.now_ms + at) for n, at in enumerate(ahead, 1)),
    )
    rows = await store.sweep(PROMOTE(), 10)
    assert rows == [(uid(n), clock.now_ms + ahead[n - 1], None) for n in due]
    assert await store.sweep(PROMOTE(), 10) == []


async def test_a_row_that_does_not_fit_hides_none_behind_it(store: Store) -> None:
    await put(
        store, *(execution(n, priority=9, required_capabilities=("gpu",)) for n in range(1, 501))
    )
    await put(store, execution(501), execution(502, required_capabilities=("cpu",)))
    assert await store.sweep(TAKE_CAPABLE(lane="lane", worker="w", offered=("cpu",)), 2) == [
        (uid(501),),
        (uid(502),),
    ]
    assert await store.sweep(TAKE_CAPABLE(lane="lane", worker="w", offered=("gpu",)), 1) == [
        (uid(1),)
    ]


async def test_rows_the_change_itself_would_refuse_are_passed_over(store: Store) -> None:
    state = {"ownership_state": "leased"}
    await put(
        store, *(execution(n, **state, lease_expires_at_ms=n, priority=n % 2) for n in range(1, 7))
    )
    assert await store.sweep(EXPIRE(upto=5), 10) == [(uid(2),), (uid(4),)]
    assert (await get_execution(store, 1))["ownership_state"] == "leased"


async def test_any_of_narrows_a_sweep(store: Store) -> None:
    form = Form(
        "t_take_mine",
        Update(EXEC, (), _TAKEN),
        pick=Pick(
            "ready",
            _LANE,
            where=(
                AnyOf((Cond("reserved_for", "is null"), Cond("reserved_for", "=", Arg("worker")))),
            ),
        ),
        returning=("execution_id",),
    )
    await put(
        store, execution(1, reserved_for="you"), execution(2, reserved_for="me"), execution(3)
    )
    assert await store.sweep(form(lane="lane", worker="me"), 10) == [(uid(2),), (uid(3),)]


async def test_every_row_of_a_sweep_takes_all_the_steps(store: Store, clock: ManualClock) -> None:
    await put(
        store,
        *(execution(n) for n in (1, 2, 3)),
        *(insert(GRANT, execution_id=uid(n)) for n in (1, 2, 3)),
    )
    rows = await store.sweep(TAKE_WHOLE(lane="lane", worker="w", ttl=50), 2)
    assert [(r[0], *r[2:]) for r in rows] == [
        (uid(n), clock.now_ms + 50, "runnable", "active") for n in (1, 2)
    ]
    stored = [(await get_execution(store, n))["current_lease_id"] for n in (1, 2)]
    assert [r[1] for r in rows] == stored and len(set(stored)) == 2
    told = [(e["execution_id"], e["lease_id"], e["reason"]) for e in await events(store, LEASES)]
    assert told == [(uid(n), lease, "w") for n, lease in zip((1, 2), stored, strict=True)]
    attempts = (await store.dump([ATTEMPT]))[ATTEMPT]
    assert sorted(row[1] for row in attempts) == [uid(1), uid(2)]
    assert [row[1] for row in (await store.dump([GRANT]))[GRANT]] == [uid(3)]


async def test_equal_sweeps_at_once_get_rows_of_their_own_and_their_own_values(
    store: Store,
) -> None:
    await put(store, *(execution(n) for n in range(1, 11)))
    got = await asyncio.gather(*(store.sweep(take(f"w{n}"), 3) for n in range(4)))
    assert [len(rows) for rows in got] == [3, 3, 3, 1]
    flat = [row for rows in got for row in rows]
    assert flat == [(uid(n),) for n in range(1, 11)]
    for worker, rows in enumerate(got):
        for (ident,) in rows:
            assert (await get_execution(store, ident.int))["current_worker_id"] == f"w{worker}"


async def test_sweeps_that_offer_different_things_at_once_do_not_mix(store: Store) -> None:
    for n in range(1, 25):
        await put(store, execution(n, required_capabilities=("gpu",) if n % 3 == 0 else ("cpu",)))
    offers = [("gpu",), ("cpu",), ("gpu",), ("cpu", "gpu"), ("cpu",)]
    got = await asyncio.gather(
        *(store.sweep(TAKE_CAPABLE(lane="lane", worker="w", offered=o), 2) for o in offers)
    )
    for offer, rows in zip(offers, got, strict=True):
        assert rows and all({"gpu" if i.int % 3 == 0 else "cpu"} <= set(offer) for (i,) in rows)
    flat = [row for rows in got for row in rows]
    assert len(flat) == len(set(flat))


async def test_many_claimers_drain_a_lane_and_each_row_goes_to_one(store: Store) -> None:
    await put(store, *(execution(n) for n in range(1, 201)))

    async def drain(worker: str) -> list[Any]:
        mine: list[Any] = []
        while rows := await store.sweep(TAKE_WHOLE(lane="lane", worker=worker, ttl=1), 7):
            mine += [row[0] for row in rows]
        return mine

    got = await asyncio.gather(*(drain(f"w{n}") for n in range(8)))
    assert sorted(i for mine in got for i in mine) == [uid(n) for n in range(1, 201)]
    assert await count(store, LEASES) == 200
    assert await count(store, ATTEMPT) == 200


async def test_a_sweep_sees_what_was_answered_before_it_and_takes_each_row_once(
    store: Store,
) -> None:
    await put(store, execution(1))
    first, _ = await asyncio.gather(store.sweep(take(), 5), store.commit(execution(2)))
    later = await store.sweep(take(), 5)
    assert (uid(1),) in first
    assert sorted(first + later) == [(uid(1),), (uid(2),)]
