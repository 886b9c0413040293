"""What goes wrong for one caller is no other caller's business."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.plan import Applied, Arg, Form, Insert, Pick, Plan, Refused, Update
from flowfabric.store.port import Read, Scan, Store

from .helpers import EXEC, KEY, LANE, count, execution, find, get_execution, image, insert, put, uid

BROKEN = Form(
    "t_broken",
    Insert(LANE, {"lane_id": Arg("lane"), "registered_at_ms": Arg("at"), "registered_by": "x"}),
)
BREAKS = Form("t_breaks", Update(EXEC, KEY, {"execution_kind": Arg("kind")}))
BREAKS_LATE = Form(
    "t_breaks_late",
    Insert(LANE, {"lane_id": Arg("lane"), "registered_at_ms": 1, "registered_by": "x"}),
    Insert(LANE, {"lane_id": Arg("other"), "registered_at_ms": Arg("at"), "registered_by": "x"}),
)


def bad_plans() -> dict[str, Plan]:
    return {
        "an insert of a null": BROKEN(lane="bad", at=None),
        "an update to a null": BREAKS(partition_key=0, execution_id=uid(50), kind=None),
        "a later insert of a null": BREAKS_LATE(lane="bad", other="bad2", at=None),
    }


def unstorable_plans() -> dict[str, Plan]:
    """Values no database takes."""
    return {
        "a number beyond 64 bits": BROKEN(lane="bad", at=2**63),
        "a lone surrogate": BREAKS(partition_key=0, execution_id=uid(50), kind="\ud800"),
        "an object": BREAKS(partition_key=0, execution_id=uid(50), kind=object()),
        "no uuid": BREAKS(partition_key=0, execution_id="not a uuid", kind="x"),
        "no list": insert(EXEC, execution_id=uid(60), required_capabilities=5),
    }


@pytest.mark.parametrize("name", bad_plans())
async def test_a_plan_that_fails_raises_and_leaves_everything_untouched(
    store: Store, name: str
) -> None:
    await put(store, execution(50))
    before = await image(store)
    with pytest.raises(Exception, match=r"null|NULL"):
        await store.commit(bad_plans()[name])
    assert await image(store) == before
    await put(store, execution(1))


async def _beside(store: Store, bad: Plan) -> list[Any]:
    """A plan between neighbours that are sure to share its batch."""
    await put(store, execution(50))
    good = [store.commit(execution(n)) for n in range(1, 6)]
    more = [store.commit(insert(LANE, lane_id=f"l{n}")) for n in range(5)]
    found = await asyncio.gather(
        *good, store.commit(bad), *more, store.commit(execution(3)), return_exceptions=True
    )
    assert [isinstance(a, Applied) for a in found[:5] + found[6:11]] == [True] * 10, found
    assert found[11] == Refused()
    assert [await find(store, EXEC, 0, uid(n)) is not None for n in range(1, 6)] == [True] * 5
    return [found[5]]


@pytest.mark.parametrize("name", bad_plans())
async def test_a_plan_that_fails_does_not_harm_its_batch_mates(store: Store, name: str) -> None:
    (answer,) = await _beside(store, bad_plans()[name])
    assert isinstance(answer, Exception)
    assert await count(store, LANE) == 5
    assert (await get_execution(store, 50))["execution_kind"] == ""


@pytest.mark.parametrize("name", unstorable_plans())
async def test_a_plan_with_a_value_that_cannot_be_stored_does_not_harm_its_batch_mates(
    store: Store, name: str
) -> None:
    await _beside(store, unstorable_plans()[name])


async def test_a_plan_that_fails_among_many_leaves_the_others_applied(store: Store) -> None:
    plans = [
        insert(LANE, lane_id="a"),
        BROKEN(lane="bad", at=None),
        insert(LANE, lane_id="b"),
        insert(LANE, lane_id="a"),
    ]
    answers = await store.commit_many(plans)
    assert [isinstance(a, Applied) for a in answers] == [True, False, True, False]
    assert isinstance(answers[1], Exception) and answers[3] == Refused()
    assert [await find(store, LANE, lane) is not None for lane in ("a", "bad", "b")] == [
        True,
        False,
        True,
    ]


async def test_a_plan_that_fails_in_a_group_takes_the_group_with_it(store: Store) -> None:
    before = await image(store)
    with pytest.raises(Exception, match=r"null|NULL"):
        await store.commit_together(
            [insert(LANE, lane_id="a"), BROKEN(lane="bad", at=None), insert(LANE, lane_id="b")]
        )
    assert await image(store) == before


async def test_a_refused_group_does_not_harm_its_batch_mates(store: Store) -> None:
    group = [insert(LANE, lane_id="a"), execution(1), insert(LANE, lane_id="a")]
    found = await asyncio.gather(
        store.commit(insert(LANE, lane_id="x")),
        store.commit_together(group),
        store.commit(insert(LANE, lane_id="y")),
    )
    assert [isinstance(a, Applied) for a in found] == [True, False, True]
    assert found[1] == Refused(2, 0)
    assert (await count(store, LANE), await count(store, EXEC)) == (2, 0)


@pytest.mark.parametrize(
    "bad", [Scan("ready", {}), Scan("no such index"), Scan("lanes", after=("a", "b"))]
)
async def test_a_read_that_fails_does_not_harm_the_writes_beside_it(
    store: Store, bad: Read
) -> None:
    async def commit(n: int) -> Any:
        return await store.commit(execution(n))

    found = await asyncio.gather(
        *(commit(n) for n in (1, 2, 3)), store.load((bad,)), commit(4), return_exceptions=True
    )
    assert isinstance(found[3], Exception)
    assert [isinstance(a, Applied) for a in found[:3] + found[4:]] == [True] * 4, found


async def test_a_cancelled_caller_does_not_harm_its_batch_mates(store: Store) -> None:
    async def commit(plan: Plan) -> Any:
        return await store.commit(plan)

    tasks = [asyncio.create_task(commit(execution(n))) for n in range(1, 8)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(a, Applied) for a in found[1::2]), found
    assert all(isinstance(a, Applied | asyncio.CancelledError) for a in found), found
    for n in (2, 4, 6):
        assert (await get_execution(store, n))["version"] == 0
    await put(store, execution(100))


async def test_a_cancelled_sweep_does_not_take_rows_from_the_one_beside_it(store: Store) -> None:
    form = Form(
        "t_take_beside",
        Update(EXEC, (), {"lifecycle_phase": "active", "current_worker_id": Arg("w")}),
        pick=Pick("ready", {"lane_id": "lane", "namespace": "default", "gate": ""}),
        returning=("execution_id",),
    )
    await put(store, *(execution(n) for n in range(1, 5)))

    async def sweep(worker: str) -> Any:
        return await store.sweep(form(w=worker), 2)

    first, second = asyncio.create_task(sweep("one")), asyncio.create_task(sweep("two"))
    await asyncio.sleep(0)
    first.cancel()
    rows = await second
    await asyncio.gather(first, return_exceptions=True)
    assert len(rows) == 2
    for (ident,) in rows:
        assert (await get_execution(store, ident.int))["current_worker_id"] == "two"


async def test_a_closed_store_refuses_and_does_not_hang(store: Store) -> None:
    if store.label == "memory":
        pytest.skip("the reference store has nothing to close")
    await store.close()
    for call in (
        store.commit(execution(1)),
        store.load((Scan("lanes"),)),
        store.sweep(BROKEN(lane="a", at=1), 1),
    ):
        with pytest.raises(Exception, match="closed"):
            await asyncio.wait_for(call, 5)
