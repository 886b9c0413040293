"""Plans and sweeps in one transaction: all of it or nothing, and nobody hears of it before it stands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.plan import Add, After, Among, Arg, Cond, Form, Pick, Refused, Update, Upsert, Wake
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock

from .helpers import BUMP, EXEC, Rings, execution, get, get_execution, image, insert, put, uid

QUOTA, WINDOW = "ff_quota_policy", "ff_quota_window"
_TAKEN: dict[str, Any] = {
    **BUMP,
    "eligibility_state": "not_applicable",
    "lifecycle_phase": "active",
    "ownership_state": "leased",
    "current_worker_id": Arg("worker"),
}
TOUCH = Form(
    "t_touch",
    Update(
        QUOTA,
        (Cond("quota_policy_id", "=", Arg("quota")), Cond("version", "=", Arg("version"))),
        {"version": Add(1)},
    ),
    Wake("touched", After("quota_policy_id")),
)
TAKE = Form(
    "t_take_plain",
    Update(EXEC, (), _TAKEN),
    Wake("taken", After("lane_id")),
    pick=Pick("ready", {"lane_id": Arg("lane"), "namespace": "default", "gate": ""}),
    returning=("execution_id",),
)
_COUNTED = {
    "quota_policy_id": After("quota_policy_id"),
    "dimension": "d",
    "admitted_at_ms": 7,
    "execution_id": After("execution_id"),
}
TAKE_GATED = Form(
    "t_take_gated",
    Update(EXEC, (), _TAKEN),
    Upsert(WINDOW, _COUNTED, {"dimension": "d"}),
    pick=Pick(
        "ready",
        {"lane_id": Arg("lane"), "namespace": "default", "gate": Arg("gate")},
        where=(Among("execution_id", Arg("ids")),),
    ),
    returning=("execution_id", "current_worker_id"),
)
Wanted = tuple[Any, int]


def touch(n: int = 1, version: int = 0) -> Any:
    return TOUCH(quota=uid(n), version=version)


def gated(ids: tuple[int, ...], limit: int, worker: str = "w", gate: str = "q") -> Wanted:
    return TAKE_GATED(lane="lane", gate=gate, ids=tuple(map(uid, ids)), worker=worker), limit


def plain(limit: int, worker: str = "w") -> Wanted:
    return TAKE(lane="lane", worker=worker), limit


async def stocked(store: Store) -> None:
    """Two quotas, four executions behind a gate, three plain ones."""
    await put(store, *(insert(QUOTA, quota_policy_id=uid(n)) for n in (1, 2)))
    await put(store, *(execution(n, gate="q", quota_policy_id=uid(1)) for n in range(1, 5)))
    await put(store, *(execution(n) for n in range(11, 14)))


async def test_the_plans_and_all_the_sweeps_are_done(store: Store) -> None:
    await stocked(store)
    swept = await store.sweeps([touch(1), touch(2)], [gated((1, 3), 2), plain(2)])
    assert swept == [[(uid(1), "w"), (uid(3), "w")], [(uid(11),), (uid(12),)]]
    assert [(await get(store, QUOTA, uid(n)))["version"] for n in (1, 2)] == [1, 1]
    window = (await store.dump([WINDOW]))[WINDOW]
    assert sorted(window) == [(uid(1), "d", 7, uid(1)), (uid(1), "d", 7, uid(3))]
    assert [(await get_execution(store, n))["lifecycle_phase"] for n in (2, 4, 13)] == [
        "runnable"
    ] * 3


@pytest.mark.parametrize(("first", "refused"), [((1, 2), 1), ((2, 1), 0), ((2,), 0)])
async def test_a_guard_that_does_not_hold_refuses_everything(
    store: Store, first: tuple[int, ...], refused: int
) -> None:
    await stocked(store)
    await put(store, touch(2))
    before = await image(store)
    plans = [touch(n) for n in first]
    assert await store.sweeps(plans, [gated((1,), 1), plain(1)]) == Refused(refused, 0)
    assert await image(store) == before


async def test_equal_selections_share_their_rows_in_turn(store: Store) -> None:
    await stocked(store)
    ids = (1, 2, 3, 4)
    swept = await store.sweeps([], [gated(ids, 1, "a"), gated(ids, 2, "b"), gated(ids, 3, "c")])
    assert swept == [[(uid(1), "a")], [(uid(2), "b"), (uid(3), "b")], [(uid(4), "c")]]
    assert [(await get_execution(store, n))["current_worker_id"] for n in ids] == [
        "a",
        "b",
        "b",
        "c",
    ]


async def test_what_an_earlier_sweep_took_a_later_one_does_not(store: Store) -> None:
    await stocked(store)
    swept = await store.sweeps(
        [], [gated((1, 2), 5), gated((2, 3), 5), gated((), 5), gated((1,), 5, gate="other")]
    )
    assert swept == [[(uid(1), "w"), (uid(2), "w")], [(uid(3), "w")], [], []]


async def test_nothing_asked_for_is_nothing_done(store: Store) -> None:
    await stocked(store)
    before = await image(store)
    assert await store.sweeps([], []) == []
    assert await store.sweeps([], [plain(0)]) == [[]]
    assert await image(store) == before


async def test_bells_ring_once_it_stands_and_not_when_it_was_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(store)
    rings = Rings(store, monkeypatch)
    assert isinstance(await store.sweeps([touch(1), touch(2, version=9)], [plain(1)]), Refused)
    assert not {topic for topic, _ in rings.topics} & {"touched", "taken"}
    await store.sweeps([touch(1)], [plain(1)])
    assert {("touched", uid(1)), ("taken", "lane")} <= set(rings.topics)


async def test_of_many_at_once_under_one_guard_each_version_is_won_once(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store)
    swept = await asyncio.gather(*(store.sweeps([touch(1)], [gated((n,), 1)]) for n in range(1, 5)))
    assert sum(not isinstance(each, Refused) for each in swept) == 1
    assert (await get(store, QUOTA, uid(1)))["version"] == 1
    assert len((await store.dump([WINDOW]))[WINDOW]) == 1
