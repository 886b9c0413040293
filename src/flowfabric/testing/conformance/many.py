"""Many rows: by keys, by groups of an index, by a list of ids, and runs of one form."""

from __future__ import annotations

from uuid import UUID

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Get, GetAll, Read, Row, ScanAll, Store
from flowfabric.testing.conformance import helpers as h

EDGE, FLOW = "ff_edge", "ff_flow_core"


async def read(store: Store, *reads: Read) -> list[list[Row]]:
    return (await store.load(reads)).rows


def edge(n: int, up: int, down: int, **said: object) -> p.Plan:
    return h.insert(
        EDGE,
        flow_id=h.uid(1),
        edge_id=h.uid(n),
        upstream_eid=h.uid(up),
        downstream_eid=h.uid(down),
        **said,
    )


# ---- GetAll


async def test_rows_by_their_keys_are_those_that_exist(store: Store) -> None:
    await h.put(store, *(h.execution(n, priority=n) for n in range(1, 6)))
    keys = [(0, h.uid(n)) for n in (2, 99, 4)] + [(1, h.uid(3))]
    (found,) = await read(store, GetAll(h.EXEC, keys, ("execution_id", "priority")))
    assert sorted(found) == [(h.uid(2), 2), (h.uid(4), 4)]


async def test_rows_by_their_keys_have_all_columns_by_default(store: Store) -> None:
    await h.put(store, h.execution(1), h.execution(2))
    one, many = await read(store, Get(h.EXEC, (0, h.uid(2))), GetAll(h.EXEC, [(0, h.uid(2))]))
    assert one == many


async def test_a_read_of_no_keys_returns_no_rows(store: Store) -> None:
    await h.put(store, h.execution(1))
    none, one, nothing = await read(
        store,
        GetAll(h.EXEC, []),
        Get(h.EXEC, (0, h.uid(1)), ("execution_id",)),
        ScanAll("edges_out", []),
    )
    assert (none, one, nothing) == ([], [(h.uid(1),)], [])


async def test_a_repeated_key_returns_one_row(store: Store) -> None:
    await h.put(store, h.execution(1))
    (found,) = await read(store, GetAll(h.EXEC, [(0, h.uid(1)), (0, h.uid(1))], ("execution_id",)))
    assert set(found) == {(h.uid(1),)}


async def test_very_many_keys(store: Store) -> None:
    many = 2_500
    await h.put(store, *(h.execution(n) for n in range(1, many + 1)))
    (found,) = await read(
        store, GetAll(h.EXEC, [(0, h.uid(n)) for n in range(1, many + 50)], ("execution_id",))
    )
    assert {row[0] for row in found} == {h.uid(n) for n in range(1, many + 1)}
    assert len(found) == many


async def test_keys_of_three_columns(store: Store) -> None:
    await h.put(
        store,
        h.execution(1),
        h.insert(h.ATTEMPT, execution_id=h.uid(1), attempt_index=0),
        edge(5, 1, 2),
        edge(6, 1, 3),
    )
    keys = [(0, h.uid(1), h.uid(5)), (0, h.uid(1), h.uid(7)), (0, h.uid(2), h.uid(6))]
    attempts, edges = await read(
        store,
        GetAll(h.ATTEMPT, [(0, h.uid(1), 0), (0, h.uid(1), 1)]),
        GetAll(EDGE, keys, ("edge_id",)),
    )
    assert len(attempts) == 1
    assert edges == [(h.uid(5),)]


# ---- ScanAll


async def test_the_first_rows_of_many_groups(store: Store) -> None:
    await h.put(store, *(edge(10 * up + n, up, 100 + n) for up in (1, 2, 3) for n in range(4)))
    groups = [(0, h.uid(1)), (0, h.uid(3)), (0, h.uid(9)), (1, h.uid(2))]
    (found,) = await read(store, ScanAll("edges_out", groups, 2, ("upstream_eid", "edge_id")))
    assert sorted(found) == [
        (h.uid(1), h.uid(10)),
        (h.uid(1), h.uid(11)),
        (h.uid(3), h.uid(30)),
        (h.uid(3), h.uid(31)),
    ]
    (whole,) = await read(store, ScanAll("edges_out", [(0, h.uid(2))], 100))
    assert [row[2] for row in sorted(whole, key=lambda r: r[2].bytes)] == [
        h.uid(20),
        h.uid(21),
        h.uid(22),
        h.uid(23),
    ]


async def test_very_many_groups_each_up_to_their_limit(store: Store) -> None:
    await h.put(
        store, *(edge(10 * up + n, up, 100_000 + n) for up in range(1, 701) for n in range(3))
    )
    (found,) = await read(
        store,
        ScanAll(
            "edges_out", [(0, h.uid(up)) for up in range(1, 1_200)], 2, ("upstream_eid", "edge_id")
        ),
    )
    assert len(found) == 1_400
    assert {row[1] for row in found} == {
        h.uid(10 * up + n) for up in range(1, 701) for n in range(2)
    }


# ---- Among

MARK = p.Form(
    "t_among",
    p.Update(h.EXEC, h.VERSIONED, {"version": p.Add(1)}),
    p.UpdateMany(
        EDGE,
        (
            p.Cond("partition_key", "=", 0),
            p.Cond("flow_id", "=", p.Arg("flow_id")),
            p.Among("edge_id", p.Arg("chosen")),
        ),
        {"dep_state": "satisfied", "last_resolved_at_ms": p.Now()},
    ),
    p.UpdateMany(
        EDGE,
        (
            p.Cond("partition_key", "=", 0),
            p.Cond("flow_id", "=", p.Arg("flow_id")),
            p.Among("edge_id", p.Arg("others")),
        ),
        {"dep_state": "impossible"},
    ),
)


def marking(version: int, chosen: tuple[UUID, ...], others: tuple[UUID, ...] = ()) -> p.Plan:
    return MARK(
        partition_key=0,
        execution_id=h.uid(1),
        version=version,
        flow_id=h.uid(1),
        chosen=chosen,
        others=others,
    )


async def marks(store: Store) -> dict[UUID, str | None]:
    rows = (await store.dump([EDGE]))[EDGE]
    return {row[2]: row[6] for row in rows if row[6] is not None}


async def test_rows_among_the_ids_given_are_changed_and_no_others(store: Store) -> None:
    twin = h.insert(
        EDGE, flow_id=h.uid(2), edge_id=h.uid(11), upstream_eid=h.uid(1), downstream_eid=h.uid(2)
    )
    await h.put(store, h.execution(1), *(edge(n, 1, n) for n in range(11, 16)))
    await h.commit(store, twin)
    await h.commit(store, marking(0, (h.uid(12), h.uid(14), h.uid(99)), (h.uid(15),)))
    assert await marks(store) == {
        h.uid(12): "satisfied",
        h.uid(14): "satisfied",
        h.uid(15): "impossible",
    }


async def test_an_empty_list_of_ids_matches_no_row(store: Store) -> None:
    await h.put(store, h.execution(1), edge(11, 1, 2))
    await h.commit(store, marking(0, ()))
    assert await marks(store) == {}
    assert (await h.get_execution(store, 1))["version"] == 1


async def test_a_refused_plan_changes_none_of_its_ids(store: Store) -> None:
    await h.put(store, h.execution(1), edge(11, 1, 2))
    async with h.unchanged(store):
        assert await store.commit(marking(7, (h.uid(11),))) == p.Refused(0, 0)


async def test_lists_of_different_lengths_share_a_batch(store: Store) -> None:
    await h.put(store, h.execution(1), *(edge(n, 1, n) for n in range(11, 16)))
    answers = await store.commit_many(
        [marking(0, (h.uid(11),)), marking(1, (h.uid(12), h.uid(13))), marking(2, ())]
    )
    assert all(h.applied(answers))
    assert set(await marks(store)) == {h.uid(11), h.uid(12), h.uid(13)}


# ---- runs of one form in one transaction

_BUMP = p.Form(
    "t_bump", p.Update(h.EXEC, h.VERSIONED, {"version": p.Add(1), "priority": p.Arg("priority")})
)


def bump(n: int, version: int = 0) -> p.Plan:
    return _BUMP(partition_key=0, execution_id=h.uid(n), version=version, priority=9)


@pytest.mark.parametrize("bad", [0, 20, 39])
async def test_a_run_of_updates_refused_in_the_middle_writes_nothing_and_is_named(
    store: Store, bad: int
) -> None:
    await h.put(store, *(h.execution(n) for n in range(1, 41)))
    plans = [bump(n, 5 if n == bad + 1 else 0) for n in range(1, 41)]
    before = await h.image(store)
    lanes = [h.insert(h.LANE, lane_id="before"), h.insert(h.LANE, lane_id="too")]
    assert await store.commit_together(
        [*lanes, *plans, h.insert(h.LANE, lane_id="after")]
    ) == p.Refused(bad + 2, 0)
    assert await h.image(store) == before
    plans[bad] = bump(bad + 1)
    assert isinstance(await store.commit_together([*lanes, *plans]), p.Applied)
    assert await h.count(store, h.LANE) == 2


@pytest.mark.parametrize("bad", [0, 20, 39])
async def test_a_run_of_inserts_refused_in_the_middle_writes_nothing_and_is_named(
    store: Store, bad: int
) -> None:
    await h.put(store, h.execution(1_000 + bad))
    async with h.unchanged(store):
        plans = [h.execution(1_000 + n) for n in range(40)]
        assert await store.commit_together([h.insert(h.LANE, lane_id="l"), *plans]) == p.Refused(
            bad + 1, 0
        )


_GUARDED = p.Form(
    "t_guarded_insert",
    p.Insert(
        h.EXEC,
        {c: p.Arg(c) for c in ("partition_key", "execution_id", "lane_id")} | h.WAITING,
    ),
    p.Update(
        h.LANE,
        (p.Cond("lane_id", "=", p.Arg("lane_id")), p.Cond("state", "=", "active")),
        {"updated_at_ms": p.Now()},
    ),
)


async def test_a_run_whose_later_step_is_refused_names_plan_and_step(store: Store) -> None:
    await h.put(
        store,
        h.insert(h.LANE, lane_id="open", state="active"),
        h.insert(h.LANE, lane_id="shut", state="draining"),
    )
    async with h.unchanged(store):
        lanes = ["open", "open", "shut", "open"]
        plans = [
            _GUARDED(partition_key=0, execution_id=h.uid(n), lane_id=lane)
            for n, lane in enumerate(lanes, 1)
        ]
        assert await store.commit_together(plans) == p.Refused(2, 1)


async def test_a_run_may_touch_one_row_again_and_again(store: Store) -> None:
    await h.put(store, h.execution(1), h.execution(2))
    plans = [bump(1, 0), bump(1, 1), bump(2, 0), bump(1, 2)]
    assert isinstance(await store.commit_together(plans), p.Applied)
    assert (await h.get_execution(store, 1))["version"] == 3
    async with h.unchanged(store):
        assert await store.commit_together([bump(1, 3), bump(1, 3), bump(2, 1)]) == p.Refused(1, 0)
