"""A sweep takes rows in the order of a declared index, each row once, without skipping any."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

TAKE_CAPABLE = p.Form(
    "t_take_capable",
    p.Update(h.EXEC, (), h.TAKEN),
    pick=p.Pick("ready", h.IN_LANE, where=(p.Covered("required_capabilities", p.Arg("offered")),)),
    returning=("execution_id",),
)
TAKE_WHOLE = p.Form(
    "t_take_whole",
    p.Update(
        h.EXEC,
        (),
        {**h.TAKEN, "current_lease_id": p.Fresh(), "lease_expires_at_ms": p.Now(p.Arg("ttl"))},
    ),
    p.Upsert(
        h.ATTEMPT,
        {
            **h.SAME_KEY,
            "attempt_index": p.After("attempt_index"),
            "lease_id": p.After("current_lease_id"),
        },
        {"outcome": "again"},
    ),
    p.Delete(h.GRANT, tuple(p.Cond(c, "=", v) for c, v in h.SAME_KEY.items())),
    p.Emit(
        h.LEASES,
        "acquired",
        {
            "execution_id": p.After("execution_id"),
            "lease_id": p.After("current_lease_id"),
            "reason": p.Arg("worker"),
        },
    ),
    pick=p.Pick("ready", h.IN_LANE),
    returning=(
        "execution_id",
        "current_lease_id",
        "lease_expires_at_ms",
        p.Before("lifecycle_phase"),
        "lifecycle_phase",
    ),
)
PROMOTE = p.Form(
    "t_promote",
    p.Update(h.EXEC, (), {"eligibility_state": "eligible_now", "delay_until_ms": None}),
    pick=p.Pick("delayed", upto=p.Now()),
    returning=("execution_id", p.Before("delay_until_ms"), "delay_until_ms"),
)
EXPIRE = p.Form(
    "t_expire",
    p.Update(h.EXEC, (p.Cond("priority", "=", 0),), {"ownership_state": "unowned"}),
    pick=p.Pick("leased", upto=p.Arg("upto")),
    returning=("execution_id",),
)


async def test_rows_come_by_priority_then_age_then_id(store: Store) -> None:
    made = [(1, 0, 5), (2, 9, 7), (3, 0, 4), (4, 9, 6), (5, 0, 4), (6, -2, 0), (7, 9, 6)]
    await h.put(store, *(h.execution(n, priority=rank, created_at_ms=at) for n, rank, at in made))
    assert await store.sweep(h.take(), 100) == [(h.uid(n),) for n in (4, 7, 2, 3, 5, 1, 6)]


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
async def test_no_more_rows_than_the_limit(store: Store, limit: int) -> None:
    await h.put(store, *(h.execution(n) for n in range(1, 6)))
    assert await store.sweep(h.take(), limit) == [(h.uid(n),) for n in range(1, 6)][:limit]
    left = [
        n for n in range(1, 6) if (await h.get_execution(store, n))["lifecycle_phase"] == "runnable"
    ]
    assert left == list(range(limit + 1, 6))


async def test_an_empty_sweep_changes_nothing(store: Store) -> None:
    await h.put(store, h.execution(1, lane_id="other"), h.execution(2, lifecycle_phase="submitted"))
    async with h.unchanged(store):
        assert await store.sweep(h.take(), 10) == []


async def test_only_the_group_asked_for(store: Store) -> None:
    await h.put(
        store, *(h.execution(n, lane_id="even" if n % 2 == 0 else "odd") for n in range(1, 7))
    )
    assert await store.sweep(h.take(lane="even"), 10) == [(h.uid(2),), (h.uid(4),), (h.uid(6),)]


@pytest.mark.parametrize(("ahead", "due"), [([1], []), ([0], [1]), ([-5, 3, -9, 0], [3, 1, 4])])
async def test_upto_a_time_takes_what_is_due_and_nothing_later(
    store: Store, clock: ManualClock, ahead: list[int], due: list[int]
) -> None:
    state = {"eligibility_state": "not_eligible_until_time"}
    await h.put(
        store,
        *(
            h.execution(n, **state, delay_until_ms=clock.now_ms + at)
            for n, at in enumerate(ahead, 1)
        ),
    )
    rows = await store.sweep(PROMOTE(), 10)
    assert rows == [(h.uid(n), clock.now_ms + ahead[n - 1], None) for n in due]
    assert await store.sweep(PROMOTE(), 10) == []


async def test_a_row_that_does_not_match_hides_no_later_row(store: Store) -> None:
    await h.put(
        store, *(h.execution(n, priority=9, required_capabilities=("gpu",)) for n in range(1, 501))
    )
    await h.put(store, h.execution(501), h.execution(502, required_capabilities=("cpu",)))
    assert await store.sweep(TAKE_CAPABLE(lane="lane", worker="w", offered=("cpu",)), 2) == [
        (h.uid(501),),
        (h.uid(502),),
    ]
    assert await store.sweep(TAKE_CAPABLE(lane="lane", worker="w", offered=("gpu",)), 1) == [
        (h.uid(1),)
    ]


async def test_rows_that_the_update_would_refuse_are_skipped(store: Store) -> None:
    state = {"ownership_state": "leased"}
    await h.put(
        store,
        *(h.execution(n, **state, lease_expires_at_ms=n, priority=n % 2) for n in range(1, 7)),
    )
    assert await store.sweep(EXPIRE(upto=5), 10) == [(h.uid(2),), (h.uid(4),)]
    assert (await h.get_execution(store, 1))["ownership_state"] == "leased"


async def test_any_of_narrows_a_sweep(store: Store) -> None:
    form = p.Form(
        "t_take_mine",
        p.Update(h.EXEC, (), h.TAKEN),
        pick=p.Pick(
            "ready",
            h.IN_LANE,
            where=(
                p.AnyOf(
                    (
                        p.Cond("reserved_for", "is null"),
                        p.Cond("reserved_for", "=", p.Arg("worker")),
                    )
                ),
            ),
        ),
        returning=("execution_id",),
    )
    await h.put(
        store, h.execution(1, reserved_for="you"), h.execution(2, reserved_for="me"), h.execution(3)
    )
    assert await store.sweep(form(lane="lane", worker="me"), 10) == [(h.uid(2),), (h.uid(3),)]


async def test_every_row_of_a_sweep_takes_all_the_steps(store: Store, clock: ManualClock) -> None:
    await h.put(
        store,
        *(h.execution(n) for n in (1, 2, 3)),
        *(h.insert(h.GRANT, execution_id=h.uid(n)) for n in (1, 2, 3)),
    )
    rows = await store.sweep(TAKE_WHOLE(lane="lane", worker="w", ttl=50), 2)
    assert [(r[0], *r[2:]) for r in rows] == [
        (h.uid(n), clock.now_ms + 50, "runnable", "active") for n in (1, 2)
    ]
    stored = [(await h.get_execution(store, n))["current_lease_id"] for n in (1, 2)]
    assert [r[1] for r in rows] == stored and len(set(stored)) == 2
    told = [
        (e["execution_id"], e["lease_id"], e["reason"]) for e in await h.events(store, h.LEASES)
    ]
    assert told == [(h.uid(n), lease, "w") for n, lease in zip((1, 2), stored, strict=True)]
    attempts = (await store.dump([h.ATTEMPT]))[h.ATTEMPT]
    assert sorted(row[1] for row in attempts) == [h.uid(1), h.uid(2)]
    assert [row[1] for row in (await store.dump([h.GRANT]))[h.GRANT]] == [h.uid(3)]


async def test_concurrent_equal_sweeps_get_their_own_rows_and_values(
    store: Store,
) -> None:
    await h.put(store, *(h.execution(n) for n in range(1, 11)))
    got = await asyncio.gather(*(store.sweep(h.take(f"w{n}"), 3) for n in range(4)))
    assert [len(rows) for rows in got] == [3, 3, 3, 1]
    flat = [row for rows in got for row in rows]
    assert flat == [(h.uid(n),) for n in range(1, 11)]
    for worker, rows in enumerate(got):
        for (ident,) in rows:
            assert (await h.get_execution(store, ident.int))["current_worker_id"] == f"w{worker}"


async def test_concurrent_sweeps_with_different_values_do_not_mix(store: Store) -> None:
    for n in range(1, 25):
        await h.put(
            store, h.execution(n, required_capabilities=("gpu",) if n % 3 == 0 else ("cpu",))
        )
    offers = [("gpu",), ("cpu",), ("gpu",), ("cpu", "gpu"), ("cpu",)]
    got = await asyncio.gather(
        *(store.sweep(TAKE_CAPABLE(lane="lane", worker="w", offered=o), 2) for o in offers)
    )
    for offer, rows in zip(offers, got, strict=True):
        assert rows and all({"gpu" if i.int % 3 == 0 else "cpu"} <= set(offer) for (i,) in rows)
    flat = [row for rows in got for row in rows]
    assert len(flat) == len(set(flat))


async def test_many_claimers_drain_a_lane_and_each_row_goes_to_one(store: Store) -> None:
    await h.put(store, *(h.execution(n) for n in range(1, 201)))

    async def drain(worker: str) -> list[UUID]:
        mine: list[UUID] = []
        while rows := await store.sweep(TAKE_WHOLE(lane="lane", worker=worker, ttl=1), 7):
            mine += [row[0] for row in rows]
        return mine

    got = await asyncio.gather(*(drain(f"w{n}") for n in range(8)))
    assert sorted(i for mine in got for i in mine) == [h.uid(n) for n in range(1, 201)]
    assert await h.count(store, h.LEASES) == 200
    assert await h.count(store, h.ATTEMPT) == 200


async def test_a_sweep_sees_what_was_answered_before_it_and_takes_each_row_once(
    store: Store,
) -> None:
    await h.put(store, h.execution(1))
    first, _ = await asyncio.gather(store.sweep(h.take(), 5), store.commit(h.execution(2)))
    later = await store.sweep(h.take(), 5)
    assert (h.uid(1),) in first
    assert sorted(first + later) == [(h.uid(1),), (h.uid(2),)]
