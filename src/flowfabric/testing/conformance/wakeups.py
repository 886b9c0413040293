"""A commit wakes the waiters of its topics and keys; a refusal wakes none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

_EVENT = p.Emit(h.LEASES, "x", {"execution_id": p.After("execution_id")})
TOLD = p.Form("t_told_lease", p.Update(h.EXEC, h.VERSIONED, h.BUMP), _EVENT)
TOLD_BOTH = p.Form(
    "t_told_both",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    _EVENT,
    p.Emit(h.COMPLETIONS, "success", {"execution_id": p.After("execution_id")}),
)
BY_REF = p.Form(
    "t_wake_ref",
    p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "lane_id": p.Arg("lane")}),
    p.Wake("ready", p.After("lane_id")),
)
BY_ARG = p.Form("t_wake_arg", p.Update(h.EXEC, h.VERSIONED, h.BUMP), p.Wake("ready", p.Arg("lane")))
BARE = p.Form("t_wake_bare", p.Update(h.EXEC, h.VERSIONED, h.BUMP), p.Wake("workers"))
BY_UUID = p.Form(
    "t_wake_uuid", p.Update(h.EXEC, h.VERSIONED, h.BUMP), p.Wake("one", p.After("execution_id"))
)
BY_UUID_ARG = p.Form(
    "t_wake_uuid_arg", p.Update(h.EXEC, h.VERSIONED, h.BUMP), p.Wake("one", p.Arg("execution_id"))
)
AT = p.Form(
    "t_wake_at",
    p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "lease_expires_at_ms": p.Now(p.Arg("ttl"))}),
    p.Wake("leased", at=p.After("lease_expires_at_ms")),
    p.Wake("deadline", at=p.Arg("deadline")),
)
SWEEP = p.Form(
    "t_wake_sweep",
    p.Update(h.EXEC, (), {"lifecycle_phase": "active", "lease_expires_at_ms": p.Now(p.Arg("ttl"))}),
    _EVENT,
    p.Wake("leased", at=p.After("lease_expires_at_ms")),
    p.Wake("taken", p.After("lane_id")),
    pick=p.Pick("ready", {"lane_id": p.Arg("lane"), "namespace": "default", "gate": ""}),
)


def on(form: p.Form, n: int = 1, version: int = 0, **args: object) -> p.Plan:
    return form(partition_key=0, execution_id=h.uid(n), version=version, **args)


TOPICS: dict[str, tuple[p.Plan, list[tuple[str, Any]]]] = {
    "an event rings its channel": (on(TOLD), [(h.LEASES, None)]),
    "two events ring both channels": (on(TOLD_BOTH), [(h.LEASES, None), (h.COMPLETIONS, None)]),
    "an inserted event rings its channel": (h.insert(h.COMPLETIONS), [(h.COMPLETIONS, None)]),
    "a wake by the column as it is left": (on(BY_REF, lane="new"), [("ready", "new")]),
    "a wake by an argument": (on(BY_ARG, lane="some"), [("ready", "some")]),
    "a wake without a key": (on(BARE), [("workers", None)]),
    "a wake by a uuid column": (on(BY_UUID), [("one", h.uid(1))]),
    "a wake by a uuid argument": (on(BY_UUID_ARG), [("one", h.uid(1))]),
    "a row without waiters": (h.insert(h.LANE, lane_id="a"), []),
}


@pytest.mark.parametrize("name", TOPICS)
async def test_a_commit_rings_its_topics(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.put(store, h.execution(1))
    rings = h.Rings(store, monkeypatch)
    plan, topics = TOPICS[name]
    await h.put(store, plan)
    assert sorted(rings.topics, key=repr) == sorted(topics, key=repr)
    assert rings.dues == []


@pytest.mark.parametrize("name", [n for n in TOPICS if TOPICS[n][0].form in (TOLD, BY_REF, BARE)])
async def test_a_refusal_rings_nothing(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.put(store, h.execution(1))
    await h.put(store, on(TOLD))
    rings = h.Rings(store, monkeypatch)
    assert await store.commit(TOPICS[name][0]) == p.Refused()
    assert await store.commit_together(
        [on(BY_REF, version=1, lane="l"), TOPICS[name][0]]
    ) == p.Refused(1, 0)
    assert (rings.topics, rings.dues) == ([], [])


async def test_a_refused_neighbour_rings_nothing_and_the_applied_one_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.put(store, h.execution(1), h.execution(2))
    rings = h.Rings(store, monkeypatch)
    plans = [
        on(BY_REF, 1, 5, lane="refused"),
        on(BY_REF, 2, lane="applied"),
        on(BY_ARG, 1, 9, lane="refused"),
    ]
    await store.commit_many(plans)
    assert rings.topics == [("ready", "applied")]


async def test_every_lane_of_a_batch_is_rung(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await h.put(store, *(h.execution(n) for n in range(1, 6)))
    rings = h.Rings(store, monkeypatch)
    await h.put(store, *(on(BY_REF, n, lane=f"l{n % 2}") for n in range(1, 6)))
    assert set(rings.topics) == {("ready", "l0"), ("ready", "l1")}


async def test_a_timer_wakes_up_only_for_an_earlier_time(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.put(store, h.execution(1))
    rings = h.Rings(store, monkeypatch)
    now = clock.now_ms
    await h.put(store, on(AT, ttl=50, deadline=None))
    assert (rings.dues, rings.topics) == ([("leased", now + 50)], [("leased", None)])
    rings.topics.clear()
    await h.put(store, on(AT, version=1, ttl=80, deadline=None))
    assert rings.topics == []
    await h.put(store, on(AT, version=2, ttl=20, deadline=7))
    assert sorted(rings.topics) == [("deadline", None), ("leased", None)]


async def test_a_batch_announces_its_earliest_time(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.put(store, *(h.execution(n) for n in (1, 2, 3)))
    rings = h.Rings(store, monkeypatch)
    await h.put(
        store, *(on(AT, n, ttl=ttl, deadline=None) for n, ttl in ((1, 40), (2, 10), (3, 30)))
    )
    assert min(at for _, at in rings.dues) == clock.now_ms + 10
    assert {timer for timer, _ in rings.dues} == {"leased"}


async def test_a_sweep_rings_when_it_took_a_row(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.put(store, h.execution(1, lane_id="a"), h.execution(2, lane_id="a"))
    rings = h.Rings(store, monkeypatch)
    await store.sweep(SWEEP(lane="b", ttl=5), 10)
    assert (rings.topics, rings.dues) == ([], [])
    await store.sweep(SWEEP(lane="a", ttl=5), 10)
    assert set(rings.topics) == {(h.LEASES, None), ("taken", "a"), ("leased", None)}
    assert set(rings.dues) == {("leased", clock.now_ms + 5)}


async def test_a_woken_waiter_finds_the_row(store: Store) -> None:
    await h.put(store, h.execution(1))

    async def wait() -> h.Fields:
        with store.hub.waiter(("ready", "new")) as waiter:
            for _ in range(100):
                waiter.arm()
                row = await h.find(store, h.EXEC, 0, h.uid(1))
                if row is not None and row["lane_id"] == "new":
                    return row
                assert await waiter.wait(5)
        raise AssertionError("never woken by the commit")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await h.put(store, on(BY_REF, lane="new"))
    assert (await waiting)["version"] == 1


async def test_closing_the_store_wakes_all_waiters(store: Store) -> None:
    with store.hub.waiter(("never", None)) as waiter:
        waiting = asyncio.create_task(waiter.wait(5))
        await asyncio.sleep(0)
        await store.close()
        assert await waiting
