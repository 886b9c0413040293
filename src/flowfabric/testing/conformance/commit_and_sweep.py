"""Plans and sweeps in one call: separate answers, or one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

_KEYED = (p.Cond("partition_key", "=", p.Arg("p")), p.Cond("execution_id", "=", p.Arg("id")))
_LEASED = (
    *_KEYED,
    p.Cond("lifecycle_phase", "=", "active"),
    p.Cond("lease_epoch", "=", 0),
    p.Cond("current_worker_id", "=", p.Arg("worker")),
)
_TOLD = {
    "event_type": p.Arg("what"),
    "occurred_at_ms": p.Now(),
    "execution_id": p.After("execution_id"),
    "partition_key": p.After("partition_key"),
    "namespace": p.After("namespace"),
    "reason": p.Arg("why"),
}
END = p.Form(
    "t_end",
    p.Update(h.EXEC, _LEASED, {**h.BUMP, "lifecycle_phase": "terminal", "result": p.Arg("result")}),
    p.Insert(h.LEASES, _TOLD),
)
END_AND_SAY = p.Form(
    "t_end_and_say",
    p.Update(h.EXEC, _LEASED, {**h.BUMP, "lifecycle_phase": "terminal", "result": p.Arg("result")}),
    p.Insert(h.LEASES, {**_TOLD, "reason": p.Before("current_worker_id")}),
    p.Wake("ended", p.After("execution_id")),
    returning=("lane_id",),
)


def end(n: int, worker: str = "w", why: str = "done") -> p.Plan:
    return END(p=0, id=h.uid(n), worker=worker, result=b"r%d" % n, what="revoked", why=why)


def say(n: int, worker: str = "w") -> p.Plan:
    return END_AND_SAY(p=0, id=h.uid(n), worker=worker, result=b"s", what="revoked")


async def stocked(store: Store, waiting: int = 6, held: int = 3) -> None:
    """The first executions are held by `w`, the others are ready."""
    await h.put(store, *(h.execution(n) for n in range(1, held + waiting + 1)))
    assert len(await store.sweep(h.take(), held)) == held


async def phase(store: Store, *numbers: int) -> list[object]:
    return [(await h.get_execution(store, n))["lifecycle_phase"] for n in numbers]


async def test_plans_are_applied_and_other_rows_are_swept(store: Store, clock: ManualClock) -> None:
    await stocked(store)
    answers, rows = await store.commit_and_sweep([end(2), end(1)], h.take("v"), 2)
    assert (answers, rows) == ([p.Applied(clock()), p.Applied(clock())], [(h.uid(4),), (h.uid(5),)])
    assert await phase(store, *range(1, 7)) == ["terminal"] * 2 + ["active"] * 3 + ["runnable"]
    assert [(await h.get_execution(store, n))["result"] for n in (1, 2)] == [b"r1", b"r2"]
    assert (await h.get_execution(store, 4))["current_worker_id"] == "v"
    assert await h.count(store, h.LEASES) == 2


async def test_a_refused_plan_affects_neither_other_plans_nor_the_sweep(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store)
    answers, rows = await store.commit_and_sweep([end(1, "other"), end(9), end(3)], h.take(), 1)
    assert (answers, rows) == ([p.Refused(), p.Refused(), p.Applied(clock())], [(h.uid(4),)])
    assert await phase(store, 1, 3, 9) == ["active", "terminal", "runnable"]
    assert await h.count(store, h.LEASES) == 1


async def test_the_sweep_runs_when_all_plans_are_refused(store: Store) -> None:
    await stocked(store)
    assert await store.commit_and_sweep([end(1, "other")], h.take(), 1) == (
        [p.Refused()],
        [(h.uid(4),)],
    )


async def test_plans_are_applied_when_the_sweep_finds_nothing(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store, waiting=0)
    assert await store.commit_and_sweep([end(1), end(2)], h.take(), 5) == (
        [p.Applied(clock())] * 2,
        [],
    )
    async with h.unchanged(store):
        assert await store.commit_and_sweep([end(1)], h.take(lane="another"), 5) == (
            [p.Refused()],
            [],
        )


async def test_an_ended_row_is_not_swept_again(store: Store) -> None:
    await stocked(store, waiting=1, held=1)
    _, rows = await store.commit_and_sweep([end(1)], h.take(), 10)
    assert rows == [(h.uid(2),)]


@pytest.mark.parametrize(
    "plans",
    [
        pytest.param([end(1), say(2), end(3)], id="of several forms"),
        pytest.param([say(1), say(2)], id="that have something to say"),
        pytest.param([end(1), end(2), end(1, why="twice")], id="about one row twice"),
        pytest.param([], id="none"),
    ],
)
async def test_plans_that_cannot_share_a_statement_get_the_same_answers(
    store: Store, clock: ManualClock, plans: list[p.Plan]
) -> None:
    await stocked(store)
    answers, rows = await store.commit_and_sweep(plans, h.take(), 1)
    expected: list[p.Answer] = [
        p.Applied(clock(), ("lane",) if plan.form is END_AND_SAY else ()) for plan in plans
    ]
    if plans and plans[-1].values == end(1, why="twice").values:
        expected[-1] = p.Refused()
    assert (answers, rows) == (expected, [(h.uid(4),)])


async def test_many_plans_at_once(store: Store, clock: ManualClock) -> None:
    await stocked(store, waiting=3, held=250)
    answers, rows = await store.commit_and_sweep([end(n) for n in range(1, 251)], h.take(), 5)
    assert answers == [p.Applied(clock())] * 250
    assert rows == [(h.uid(n),) for n in (251, 252, 253)]


async def test_concurrent_requests_get_their_own_answers_and_rows(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store, waiting=20, held=12)
    asked = [
        ([end(n, "w" if n % 3 else "other")], h.take(f"w{n}"), 1 + n % 2) for n in range(1, 13)
    ]
    turns = await asyncio.gather(*(store.commit_and_sweep(*each) for each in asked))
    assert [answers for answers, _ in turns] == [
        [p.Applied(clock())] if n % 3 else [p.Refused()] for n in range(1, 13)
    ]
    assert [len(rows) for _, rows in turns] == [1 + n % 2 for n in range(1, 13)]
    taken = [(row[0], f"w{n}") for n, (_, rows) in enumerate(turns, 1) for row in rows]
    assert len({ident for ident, _ in taken}) == len(taken) == 18
    assert sorted(ident for ident, _ in taken) == [h.uid(n) for n in range(13, 31)]
    for ident, worker in taken:
        assert (await h.get_execution(store, ident.int))["current_worker_id"] == worker


async def test_concurrent_sweeps_of_the_same_rows_take_each_row_once(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store, waiting=8, held=8)
    turns, plain, swept = await asyncio.gather(
        asyncio.gather(
            *(store.commit_and_sweep([end(n)], h.take(f"t{n}"), 1) for n in range(1, 9))
        ),
        asyncio.gather(*(store.commit(end(n, why="by itself")) for n in range(1, 9))),
        asyncio.gather(*(store.sweep(h.take("s"), 1) for _ in range(4))),
    )
    for n, (turn, alone) in enumerate(zip(turns, plain, strict=True), 1):
        assert sorted(type(each).__name__ for each in (turn[0][0], alone)) == [
            "Applied",
            "Refused",
        ], n
    taken = [row for _, rows in turns for row in rows] + [row for rows in swept for row in rows]
    assert sorted(taken) == [(h.uid(n),) for n in range(9, 17)]
    assert await h.count(store, h.LEASES) == 8


async def test_plans_and_sweep_both_wake_their_waiters(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(store)
    rings = h.Rings(store, monkeypatch)
    await store.commit_and_sweep([end(1)], h.take(), 1)
    assert {(h.LEASES, None), ("taken", "lane")} <= set(rings.topics)
    rings.topics.clear()
    await store.commit_and_sweep([end(1)], h.take(lane="another"), 1)
    assert not {topic for topic, _ in rings.topics} & {h.LEASES, "taken"}


async def test_an_unstorable_value_fails_only_its_own_request(
    store: Store, clock: ManualClock
) -> None:
    await stocked(store)
    bad = END(p=0, id=h.uid(2), worker="w", result=b"", what=None, why="bad")
    turns = await asyncio.gather(
        *(store.commit_and_sweep([plan], h.take(), 1) for plan in (end(1), bad, end(3))),
        return_exceptions=True,
    )
    good = [turn for turn in (turns[0], turns[2]) if not isinstance(turn, BaseException)]
    assert [answers for answers, _ in good] == [[p.Applied(clock())], [p.Applied(clock())]]
    assert all(len(rows) == 1 for _, rows in good)
    said = turns[1] if isinstance(turns[1], BaseException) else turns[1][0][0]
    assert isinstance(said, Exception)
    assert await phase(store, 1, 2, 3) == ["terminal", "active", "terminal"]


QUOTA, WINDOW = "ff_quota_policy", "ff_quota_window"
TOUCH = p.Form(
    "t_touch",
    p.Update(
        QUOTA,
        (p.Cond("quota_policy_id", "=", p.Arg("quota")), p.Cond("version", "=", p.Arg("version"))),
        {"version": p.Add(1)},
    ),
    p.Wake("touched", p.After("quota_policy_id")),
)
_COUNTED = {
    "quota_policy_id": p.After("quota_policy_id"),
    "dimension": "d",
    "admitted_at_ms": 7,
    "execution_id": p.After("execution_id"),
}
TAKE_GATED = p.Form(
    "t_take_gated",
    p.Update(h.EXEC, (), h.TAKEN),
    p.Upsert(WINDOW, _COUNTED, {"dimension": "d"}),
    pick=p.Pick(
        "ready",
        {"lane_id": p.Arg("lane"), "namespace": "default", "gate": p.Arg("gate")},
        where=(p.Among("execution_id", p.Arg("ids")),),
    ),
    returning=("execution_id", "current_worker_id"),
)
Wanted = tuple[Any, int]


def touch(n: int = 1, version: int = 0) -> p.Plan:
    return TOUCH(quota=h.uid(n), version=version)


def gated(ids: tuple[int, ...], limit: int, worker: str = "w", gate: str = "q") -> Wanted:
    return TAKE_GATED(lane="lane", gate=gate, ids=tuple(map(h.uid, ids)), worker=worker), limit


def plain(limit: int) -> Wanted:
    return h.take(), limit


async def gates(store: Store) -> None:
    """Two quotas, four executions behind a gate, three plain ones."""
    await h.put(store, *(h.insert(QUOTA, quota_policy_id=h.uid(n)) for n in (1, 2)))
    await h.put(store, *(h.execution(n, gate="q", quota_policy_id=h.uid(1)) for n in range(1, 5)))
    await h.put(store, *(h.execution(n) for n in range(11, 14)))


async def test_plans_and_all_sweeps_are_applied(store: Store) -> None:
    await gates(store)
    swept = await store.sweeps([touch(1), touch(2)], [gated((1, 3), 2), plain(2)])
    assert swept == [[(h.uid(1), "w"), (h.uid(3), "w")], [(h.uid(11),), (h.uid(12),)]]
    assert [(await h.get(store, QUOTA, h.uid(n)))["version"] for n in (1, 2)] == [1, 1]
    window = (await store.dump([WINDOW]))[WINDOW]
    assert sorted(window) == [(h.uid(1), "d", 7, h.uid(1)), (h.uid(1), "d", 7, h.uid(3))]
    assert [(await h.get_execution(store, n))["lifecycle_phase"] for n in (2, 4, 13)] == [
        "runnable"
    ] * 3


@pytest.mark.parametrize(("first", "refused"), [((1, 2), 1), ((2, 1), 0), ((2,), 0)])
async def test_a_refused_plan_stops_all_sweeps(
    store: Store, first: tuple[int, ...], refused: int
) -> None:
    await gates(store)
    await h.put(store, touch(2))
    async with h.unchanged(store):
        plans = [touch(n) for n in first]
        assert await store.sweeps(plans, [gated((1,), 1), plain(1)]) == p.Refused(refused, 0)


async def test_equal_selections_share_their_rows_in_turn(store: Store) -> None:
    await gates(store)
    ids = (1, 2, 3, 4)
    swept = await store.sweeps([], [gated(ids, 1, "a"), gated(ids, 2, "b"), gated(ids, 3, "c")])
    assert swept == [[(h.uid(1), "a")], [(h.uid(2), "b"), (h.uid(3), "b")], [(h.uid(4), "c")]]
    assert [(await h.get_execution(store, n))["current_worker_id"] for n in ids] == [
        "a",
        "b",
        "b",
        "c",
    ]


async def test_a_row_is_taken_by_one_sweep_only(store: Store) -> None:
    await gates(store)
    swept = await store.sweeps(
        [], [gated((1, 2), 5), gated((2, 3), 5), gated((), 5), gated((1,), 5, gate="other")]
    )
    assert swept == [[(h.uid(1), "w"), (h.uid(2), "w")], [(h.uid(3), "w")], [], []]


async def test_no_sweeps_change_nothing(store: Store) -> None:
    await gates(store)
    async with h.unchanged(store):
        assert await store.sweeps([], []) == []
        assert await store.sweeps([], [plain(0)]) == [[]]


async def test_waiters_wake_up_after_the_commit_and_not_after_a_refusal(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gates(store)
    rings = h.Rings(store, monkeypatch)
    assert isinstance(await store.sweeps([touch(1), touch(2, version=9)], [plain(1)]), p.Refused)
    assert not {topic for topic, _ in rings.topics} & {"touched", "taken"}
    await store.sweeps([touch(1)], [plain(1)])
    assert {("touched", h.uid(1)), ("taken", "lane")} <= set(rings.topics)


async def test_concurrent_requests_of_one_version_apply_once(
    store: Store, clock: ManualClock
) -> None:
    await gates(store)
    swept = await asyncio.gather(*(store.sweeps([touch(1)], [gated((n,), 1)]) for n in range(1, 5)))
    assert sum(not isinstance(each, p.Refused) for each in swept) == 1
    assert (await h.get(store, QUOTA, h.uid(1)))["version"] == 1
    assert await h.count(store, WINDOW) == 1
