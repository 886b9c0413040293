"""Many rows at once: by their keys, by groups of an index, by a list of ids, and runs of one form in one transaction."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.plan import (
    Add,
    Among,
    Applied,
    Arg,
    Cond,
    Form,
    Insert,
    Now,
    Refused,
    Update,
    UpdateMany,
)
from flowfabric.store.port import Get, GetAll, ScanAll, Store

from .helpers import (
    ATTEMPT,
    EXEC,
    LANE,
    VERSIONED,
    count,
    execution,
    get_execution,
    image,
    insert,
    put,
    uid,
)

EDGE, FLOW = "ff_edge", "ff_flow_core"


async def read(store: Store, *reads: Any) -> list[list[tuple[Any, ...]]]:
    return (await store.load(reads)).rows


def edge(n: int, up: int, down: int, **said: Any) -> Any:
    return insert(
        EDGE, flow_id=uid(1), edge_id=uid(n), upstream_eid=uid(up), downstream_eid=uid(down), **said
    )


# ---- GetAll


async def test_rows_by_their_keys_are_those_that_exist(store: Store) -> None:
    await put(store, *(execution(n, priority=n) for n in range(1, 6)))
    keys = [(0, uid(n)) for n in (2, 99, 4)] + [(1, uid(3))]
    (found,) = await read(store, GetAll(EXEC, keys, ("execution_id", "priority")))
    assert sorted(found) == [(uid(2), 2), (uid(4), 4)]


async def test_rows_by_their_keys_come_whole_when_no_columns_are_named(store: Store) -> None:
    await put(store, execution(1), execution(2))
    one, many = await read(store, Get(EXEC, (0, uid(2))), GetAll(EXEC, [(0, uid(2))]))
    assert one == many


async def test_no_keys_are_no_rows_beside_other_reads(store: Store) -> None:
    await put(store, execution(1))
    none, one, nothing = await read(
        store, GetAll(EXEC, []), Get(EXEC, (0, uid(1)), ("execution_id",)), ScanAll("edges_out", [])
    )
    assert (none, one, nothing) == ([], [(uid(1),)], [])


async def test_a_key_asked_for_twice_is_one_row(store: Store) -> None:
    await put(store, execution(1))
    (found,) = await read(store, GetAll(EXEC, [(0, uid(1)), (0, uid(1))], ("execution_id",)))
    assert set(found) == {(uid(1),)}


async def test_very_many_keys(store: Store) -> None:
    many = 2_500
    await put(store, *(execution(n) for n in range(1, many + 1)))
    (found,) = await read(
        store, GetAll(EXEC, [(0, uid(n)) for n in range(1, many + 50)], ("execution_id",))
    )
    assert {row[0] for row in found} == {uid(n) for n in range(1, many + 1)}
    assert len(found) == many


async def test_keys_of_three_columns(store: Store) -> None:
    await put(
        store,
        execution(1),
        insert(ATTEMPT, execution_id=uid(1), attempt_index=0),
        edge(5, 1, 2),
        edge(6, 1, 3),
    )
    keys = [(0, uid(1), uid(5)), (0, uid(1), uid(7)), (0, uid(2), uid(6))]
    attempts, edges = await read(
        store, GetAll(ATTEMPT, [(0, uid(1), 0), (0, uid(1), 1)]), GetAll(EDGE, keys, ("edge_id",))
    )
    assert len(attempts) == 1
    assert edges == [(uid(5),)]


# ---- ScanAll


async def test_the_first_rows_of_many_groups(store: Store) -> None:
    await put(store, *(edge(10 * up + n, up, 100 + n) for up in (1, 2, 3) for n in range(4)))
    groups = [(0, uid(1)), (0, uid(3)), (0, uid(9)), (1, uid(2))]
    (found,) = await read(store, ScanAll("edges_out", groups, 2, ("upstream_eid", "edge_id")))
    assert sorted(found) == [
        (uid(1), uid(10)),
        (uid(1), uid(11)),
        (uid(3), uid(30)),
        (uid(3), uid(31)),
    ]
    (whole,) = await read(store, ScanAll("edges_out", [(0, uid(2))], 100))
    assert [row[2] for row in sorted(whole, key=lambda r: r[2].bytes)] == [
        uid(20),
        uid(21),
        uid(22),
        uid(23),
    ]


async def test_very_many_groups_each_up_to_their_limit(store: Store) -> None:
    await put(
        store, *(edge(10 * up + n, up, 100_000 + n) for up in range(1, 701) for n in range(3))
    )
    (found,) = await read(
        store,
        ScanAll(
            "edges_out", [(0, uid(up)) for up in range(1, 1_200)], 2, ("upstream_eid", "edge_id")
        ),
    )
    assert len(found) == 1_400
    assert {row[1] for row in found} == {uid(10 * up + n) for up in range(1, 701) for n in range(2)}


# ---- Among

MARK = Form(
    "t_among",
    Update(EXEC, VERSIONED, {"version": Add(1)}),
    UpdateMany(
        EDGE,
        (
            Cond("partition_key", "=", 0),
            Cond("flow_id", "=", Arg("flow_id")),
            Among("edge_id", Arg("chosen")),
        ),
        {"dep_state": "satisfied", "last_resolved_at_ms": Now()},
    ),
    UpdateMany(
        EDGE,
        (
            Cond("partition_key", "=", 0),
            Cond("flow_id", "=", Arg("flow_id")),
            Among("edge_id", Arg("others")),
        ),
        {"dep_state": "impossible"},
    ),
)


def marking(version: int, chosen: tuple[UUID, ...], others: tuple[UUID, ...] = ()) -> Any:
    return MARK(
        partition_key=0,
        execution_id=uid(1),
        version=version,
        flow_id=uid(1),
        chosen=chosen,
        others=others,
    )


async def marks(store: Store) -> dict[UUID, str | None]:
    rows = (await store.dump([EDGE]))[EDGE]
    return {row[2]: row[6] for row in rows if row[6] is not None}


async def test_rows_among_the_ids_given_are_changed_and_no_others(store: Store) -> None:
    twin = insert(EDGE, flow_id=uid(2), edge_id=uid(11), upstream_eid=uid(1), downstream_eid=uid(2))
    await put(store, execution(1), *(edge(n, 1, n) for n in range(11, 16)))
    assert isinstance(await store.commit(twin), Applied)
    assert isinstance(
        await store.commit(marking(0, (uid(12), uid(14), uid(99)), (uid(15),))), Applied
    )
    assert await marks(store) == {uid(12): "satisfied", uid(14): "satisfied", uid(15): "impossible"}


async def test_nobody_among_no_ids(store: Store) -> None:
    await put(store, execution(1), edge(11, 1, 2))
    assert isinstance(await store.commit(marking(0, ())), Applied)
    assert await marks(store) == {}
    assert (await get_execution(store, 1))["version"] == 1


async def test_a_refused_plan_changes_nobody_among_its_ids(store: Store) -> None:
    await put(store, execution(1), edge(11, 1, 2))
    before = await image(store)
    assert await store.commit(marking(7, (uid(11),))) == Refused(0, 0)
    assert await image(store) == before


async def test_lists_of_different_lengths_ride_together(store: Store) -> None:
    await put(store, execution(1), *(edge(n, 1, n) for n in range(11, 16)))
    answers = await store.commit_many(
        [marking(0, (uid(11),)), marking(1, (uid(12), uid(13))), marking(2, ())]
    )
    assert all(isinstance(answer, Applied) for answer in answers)
    assert set(await marks(store)) == {uid(11), uid(12), uid(13)}


# ---- runs of one form in one transaction

_BUMP = Form("t_bump", Update(EXEC, VERSIONED, {"version": Add(1), "priority": Arg("priority")}))


def bump(n: int, version: int = 0) -> Any:
    return _BUMP(partition_key=0, execution_id=uid(n), version=version, priority=9)


@pytest.mark.parametrize("bad", [0, 20, 39])
async def test_a_run_of_updates_refused_in_the_middle_writes_nothing_and_is_named(
    store: Store, bad: int
) -> None:
    await put(store, *(execution(n) for n in range(1, 41)))
    plans = [bump(n, 5 if n == bad + 1 else 0) for n in range(1, 41)]
    before = await image(store)
    lanes = [insert(LANE, lane_id="before"), insert(LANE, lane_id="too")]
    assert await store.commit_together([*lanes, *plans, insert(LANE, lane_id="after")]) == Refused(
        bad + 2, 0
    )
    assert await image(store) == before
    plans[bad] = bump(bad + 1)
    assert isinstance(await store.commit_together([*lanes, *plans]), Applied)
    assert await count(store, LANE) == 2


@pytest.mark.parametrize("bad", [0, 20, 39])
async def test_a_run_of_inserts_refused_in_the_middle_writes_nothing_and_is_named(
    store: Store, bad: int
) -> None:
    await put(store, execution(1_000 + bad))
    before = await image(store)
    plans = [execution(1_000 + n) for n in range(40)]
    assert await store.commit_together([insert(LANE, lane_id="l"), *plans]) == Refused(bad + 1, 0)
    assert await image(store) == before


_GUARDED = Form(
    "t_guarded_insert",
    Insert(EXEC, {c: Arg(c) for c in ("partition_key", "execution_id", "lane_id")} | {
        "lifecycle_phase": "runnable", "eligibility_state": "eligible_now", "public_state": "waiting",
        "attempt_state": "pending_first_attempt", "created_at_ms": 0,
    }),
    Update(LANE, (Cond("lane_id", "=", Arg("lane_id")), Cond("state", "=", "active")), {"updated_at_ms": Now()}),
)  # fmt: skip


async def test_a_run_whose_later_step_is_refused_names_plan_and_step(store: Store) -> None:
    await put(
        store,
        insert(LANE, lane_id="open", state="active"),
        insert(LANE, lane_id="shut", state="draining"),
    )
    before = await image(store)
    lanes = ["open", "open", "shut", "open"]
    plans = [
        _GUARDED(partition_key=0, execution_id=uid(n), lane_id=lane)
        for n, lane in enumerate(lanes, 1)
    ]
    assert await store.commit_together(plans) == Refused(2, 1)
    assert await image(store) == before


async def test_a_run_may_touch_one_row_again_and_again(store: Store) -> None:
    await put(store, execution(1), execution(2))
    plans = [bump(1, 0), bump(1, 1), bump(2, 0), bump(1, 2)]
    assert isinstance(await store.commit_together(plans), Applied)
    assert (await get_execution(store, 1))["version"] == 3
    before = await image(store)
    assert await store.commit_together([bump(1, 3), bump(1, 3), bump(2, 1)]) == Refused(1, 0)
    assert await image(store) == before
