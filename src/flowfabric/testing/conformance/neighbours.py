"""What goes wrong for one caller is no other caller's business."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Read, Row, Scan, Store
from flowfabric.testing.conformance import helpers as h

BROKEN = p.Form(
    "t_broken",
    p.Insert(
        h.LANE, {"lane_id": p.Arg("lane"), "registered_at_ms": p.Arg("at"), "registered_by": "x"}
    ),
)
BREAKS = p.Form("t_breaks", p.Update(h.EXEC, h.KEY, {"execution_kind": p.Arg("kind")}))
BREAKS_LATE = p.Form(
    "t_breaks_late",
    p.Insert(h.LANE, {"lane_id": p.Arg("lane"), "registered_at_ms": 1, "registered_by": "x"}),
    p.Insert(
        h.LANE, {"lane_id": p.Arg("other"), "registered_at_ms": p.Arg("at"), "registered_by": "x"}
    ),
)


def bad_plans() -> dict[str, p.Plan]:
    return {
        "an insert of a null": BROKEN(lane="bad", at=None),
        "an update to a null": BREAKS(partition_key=0, execution_id=h.uid(50), kind=None),
        "a later insert of a null": BREAKS_LATE(lane="bad", other="bad2", at=None),
    }


def unstorable_plans() -> dict[str, p.Plan]:
    """Values that no database stores."""
    return {
        "a number beyond 64 bits": BROKEN(lane="bad", at=2**63),
        "a lone surrogate": BREAKS(partition_key=0, execution_id=h.uid(50), kind="\ud800"),
        "an object": BREAKS(partition_key=0, execution_id=h.uid(50), kind=object()),
        "no uuid": BREAKS(partition_key=0, execution_id="not a uuid", kind="x"),
        "no list": h.insert(h.EXEC, execution_id=h.uid(60), required_capabilities=5),
    }


@pytest.mark.parametrize("name", bad_plans())
async def test_a_plan_that_fails_raises_and_leaves_everything_untouched(
    store: Store, name: str
) -> None:
    await h.put(store, h.execution(50))
    async with h.unchanged(store):
        with pytest.raises(Exception, match=r"null|NULL"):
            await store.commit(bad_plans()[name])
    await h.put(store, h.execution(1))


async def _beside(store: Store, bad: p.Plan) -> list[object]:
    """A plan between two others of the same batch."""
    await h.put(store, h.execution(50))
    good = [store.commit(h.execution(n)) for n in range(1, 6)]
    more = [store.commit(h.insert(h.LANE, lane_id=f"l{n}")) for n in range(5)]
    found = await asyncio.gather(
        *good, store.commit(bad), *more, store.commit(h.execution(3)), return_exceptions=True
    )
    assert h.applied(found[:5] + found[6:11]) == [True] * 10, found
    assert found[11] == p.Refused()
    assert [await h.find(store, h.EXEC, 0, h.uid(n)) is not None for n in range(1, 6)] == [True] * 5
    return [found[5]]


@pytest.mark.parametrize("name", bad_plans())
async def test_a_plan_that_fails_does_not_affect_its_batch_mates(store: Store, name: str) -> None:
    (answer,) = await _beside(store, bad_plans()[name])
    assert isinstance(answer, Exception)
    assert await h.count(store, h.LANE) == 5
    assert (await h.get_execution(store, 50))["execution_kind"] == ""


@pytest.mark.parametrize("name", unstorable_plans())
async def test_a_plan_with_an_unstorable_value_does_not_affect_its_batch_mates(
    store: Store, name: str
) -> None:
    await _beside(store, unstorable_plans()[name])


async def test_a_plan_that_fails_among_many_leaves_the_others_applied(store: Store) -> None:
    plans = [
        h.insert(h.LANE, lane_id="a"),
        BROKEN(lane="bad", at=None),
        h.insert(h.LANE, lane_id="b"),
        h.insert(h.LANE, lane_id="a"),
    ]
    answers = await store.commit_many(plans)
    assert h.applied(answers) == [True, False, True, False]
    assert isinstance(answers[1], Exception) and answers[3] == p.Refused()
    assert [await h.find(store, h.LANE, lane) is not None for lane in ("a", "bad", "b")] == [
        True,
        False,
        True,
    ]


async def test_a_plan_that_fails_in_a_group_fails_the_group(store: Store) -> None:
    async with h.unchanged(store):
        with pytest.raises(Exception, match=r"null|NULL"):
            await store.commit_together(
                [
                    h.insert(h.LANE, lane_id="a"),
                    BROKEN(lane="bad", at=None),
                    h.insert(h.LANE, lane_id="b"),
                ]
            )


async def test_a_refused_group_does_not_affect_its_batch_mates(store: Store) -> None:
    group = [h.insert(h.LANE, lane_id="a"), h.execution(1), h.insert(h.LANE, lane_id="a")]
    found = await asyncio.gather(
        store.commit(h.insert(h.LANE, lane_id="x")),
        store.commit_together(group),
        store.commit(h.insert(h.LANE, lane_id="y")),
    )
    assert h.applied(found) == [True, False, True]
    assert found[1] == p.Refused(2, 0)
    assert (await h.count(store, h.LANE), await h.count(store, h.EXEC)) == (2, 0)


@pytest.mark.parametrize(
    "bad", [Scan("ready", {}), Scan("no such index"), Scan("lanes", after=("a", "b"))]
)
async def test_a_read_that_fails_does_not_affect_concurrent_writes(store: Store, bad: Read) -> None:
    async def commit(n: int) -> object:
        return await store.commit(h.execution(n))

    found = await asyncio.gather(
        *(commit(n) for n in (1, 2, 3)), store.load((bad,)), commit(4), return_exceptions=True
    )
    assert isinstance(found[3], Exception)
    assert h.applied(found[:3] + found[4:]) == [True] * 4, found


async def test_a_cancelled_caller_does_not_affect_its_batch_mates(store: Store) -> None:
    async def commit(plan: p.Plan) -> object:
        return await store.commit(plan)

    tasks = [asyncio.create_task(commit(h.execution(n))) for n in range(1, 8)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(h.applied(found[1::2])), found
    assert all(isinstance(a, p.Applied | asyncio.CancelledError) for a in found), found
    for n in (2, 4, 6):
        assert (await h.get_execution(store, n))["version"] == 0
    await h.put(store, h.execution(100))


async def test_a_cancelled_sweep_takes_no_rows_from_a_concurrent_one(store: Store) -> None:
    form = p.Form(
        "t_take_beside",
        p.Update(h.EXEC, (), {"lifecycle_phase": "active", "current_worker_id": p.Arg("w")}),
        pick=p.Pick("ready", {"lane_id": "lane", "namespace": "default", "gate": ""}),
        returning=("execution_id",),
    )
    await h.put(store, *(h.execution(n) for n in range(1, 5)))

    async def sweep(worker: str) -> list[Row]:
        return await store.sweep(form(w=worker), 2)

    first, second = asyncio.create_task(sweep("one")), asyncio.create_task(sweep("two"))
    await asyncio.sleep(0)
    first.cancel()
    rows = await second
    await asyncio.gather(first, return_exceptions=True)
    assert len(rows) == 2
    for (ident,) in rows:
        assert (await h.get_execution(store, ident.int))["current_worker_id"] == "two"


async def test_a_closed_store_refuses_and_does_not_hang(store: Store) -> None:
    await store.close()
    for call in (
        store.commit(h.execution(1)),
        store.load((Scan("lanes"),)),
        store.sweep(BROKEN(lane="a", at=1), 1),
    ):
        with pytest.raises(Exception, match="closed"):
            await asyncio.wait_for(call, 5)
