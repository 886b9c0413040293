"""After a commit those who wait are told, with the right topic and key; after a refusal nobody is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.plan import After, Arg, Emit, Form, Now, Pick, Plan, Refused, Update, Wake
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock

from .helpers import (
    BUMP,
    COMPLETIONS,
    EXEC,
    LANE,
    LEASES,
    VERSIONED,
    Rings,
    execution,
    find,
    insert,
    put,
    uid,
)

_EVENT = Emit(LEASES, "x", {"execution_id": After("execution_id")})
TOLD = Form("t_told_lease", Update(EXEC, VERSIONED, BUMP), _EVENT)
TOLD_BOTH = Form(
    "t_told_both",
    Update(EXEC, VERSIONED, BUMP),
    _EVENT,
    Emit(COMPLETIONS, "success", {"execution_id": After("execution_id")}),
)
BY_REF = Form(
    "t_wake_ref",
    Update(EXEC, VERSIONED, {**BUMP, "lane_id": Arg("lane")}),
    Wake("ready", After("lane_id")),
)
BY_ARG = Form("t_wake_arg", Update(EXEC, VERSIONED, BUMP), Wake("ready", Arg("lane")))
BARE = Form("t_wake_bare", Update(EXEC, VERSIONED, BUMP), Wake("workers"))
BY_UUID = Form("t_wake_uuid", Update(EXEC, VERSIONED, BUMP), Wake("one", After("execution_id")))
BY_UUID_ARG = Form(
    "t_wake_uuid_arg", Update(EXEC, VERSIONED, BUMP), Wake("one", Arg("execution_id"))
)
AT = Form(
    "t_wake_at",
    Update(EXEC, VERSIONED, {**BUMP, "lease_expires_at_ms": Now(Arg("ttl"))}),
    Wake("leased", at=After("lease_expires_at_ms")),
    Wake("deadline", at=Arg("deadline")),
)
SWEEP = Form(
    "t_wake_sweep",
    Update(EXEC, (), {"lifecycle_phase": "active", "lease_expires_at_ms": Now(Arg("ttl"))}),
    _EVENT,
    Wake("leased", at=After("lease_expires_at_ms")),
    Wake("taken", After("lane_id")),
    pick=Pick("ready", {"lane_id": Arg("lane"), "namespace": "default", "gate": ""}),
)


def on(form: Form, n: int = 1, version: int = 0, **args: Any) -> Plan:
    return form(partition_key=0, execution_id=uid(n), version=version, **args)


TOPICS: dict[str, tuple[Plan, list[tuple[str, Any]]]] = {
    "an event rings its channel": (on(TOLD), [(LEASES, None)]),
    "two events ring both channels": (on(TOLD_BOTH), [(LEASES, None), (COMPLETIONS, None)]),
    "an inserted event rings its channel": (insert(COMPLETIONS), [(COMPLETIONS, None)]),
    "a wake by the column as it is left": (on(BY_REF, lane="new"), [("ready", "new")]),
    "a wake by an argument": (on(BY_ARG, lane="some"), [("ready", "some")]),
    "a wake without a key": (on(BARE), [("workers", None)]),
    "a wake by a uuid column": (on(BY_UUID), [("one", uid(1))]),
    "a wake by a uuid argument": (on(BY_UUID_ARG), [("one", uid(1))]),
    "a row that wakes nobody": (insert(LANE, lane_id="a"), []),
}


@pytest.mark.parametrize("name", TOPICS)
async def test_a_commit_rings_its_topics(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, execution(1))
    rings = Rings(store, monkeypatch)
    plan, topics = TOPICS[name]
    await put(store, plan)
    assert sorted(rings.topics, key=repr) == sorted(topics, key=repr)
    assert rings.dues == []


@pytest.mark.parametrize("name", [n for n in TOPICS if TOPICS[n][0].form in (TOLD, BY_REF, BARE)])
async def test_a_refusal_rings_nothing(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, execution(1))
    await put(store, on(TOLD))
    rings = Rings(store, monkeypatch)
    assert await store.commit(TOPICS[name][0]) == Refused()
    assert await store.commit_together(
        [on(BY_REF, version=1, lane="l"), TOPICS[name][0]]
    ) == Refused(1, 0)
    assert (rings.topics, rings.dues) == ([], [])


async def test_a_refused_neighbour_rings_nothing_and_the_applied_one_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, execution(1), execution(2))
    rings = Rings(store, monkeypatch)
    plans = [
        on(BY_REF, 1, 5, lane="refused"),
        on(BY_REF, 2, lane="applied"),
        on(BY_ARG, 1, 9, lane="refused"),
    ]
    await store.commit_many(plans)
    assert rings.topics == [("ready", "applied")]


async def test_every_lane_of_a_batch_is_rung(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(store, *(execution(n) for n in range(1, 6)))
    rings = Rings(store, monkeypatch)
    await put(store, *(on(BY_REF, n, lane=f"l{n % 2}") for n in range(1, 6)))
    assert set(rings.topics) == {("ready", "l0"), ("ready", "l1")}


async def test_a_wake_at_a_time_tells_when_and_rings_only_for_something_earlier(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, execution(1))
    rings = Rings(store, monkeypatch)
    now = clock.now_ms
    await put(store, on(AT, ttl=50, deadline=None))
    assert (rings.dues, rings.topics) == ([("leased", now + 50)], [("leased", None)])
    rings.topics.clear()
    await put(store, on(AT, version=1, ttl=80, deadline=None))
    assert rings.topics == []
    await put(store, on(AT, version=2, ttl=20, deadline=7))
    assert sorted(rings.topics) == [("deadline", None), ("leased", None)]


async def test_the_earliest_time_of_a_batch_is_told(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, *(execution(n) for n in (1, 2, 3)))
    rings = Rings(store, monkeypatch)
    await put(store, *(on(AT, n, ttl=ttl, deadline=None) for n, ttl in ((1, 40), (2, 10), (3, 30))))
    assert min(at for _, at in rings.dues) == clock.now_ms + 10
    assert {timer for timer, _ in rings.dues} == {"leased"}


async def test_a_sweep_rings_once_it_took_something(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, execution(1, lane_id="a"), execution(2, lane_id="a"))
    rings = Rings(store, monkeypatch)
    await store.sweep(SWEEP(lane="b", ttl=5), 10)
    assert (rings.topics, rings.dues) == ([], [])
    await store.sweep(SWEEP(lane="a", ttl=5), 10)
    assert set(rings.topics) == {(LEASES, None), ("taken", "a"), ("leased", None)}
    assert set(rings.dues) == {("leased", clock.now_ms + 5)}


async def test_who_is_woken_finds_the_row(store: Store) -> None:
    await put(store, execution(1))

    async def wait() -> Any:
        with store.hub.waiter(("ready", "new")) as waiter:
            for _ in range(100):
                waiter.arm()
                row = await find(store, EXEC, 0, uid(1))
                if row is not None and row["lane_id"] == "new":
                    return row
                assert await waiter.wait(5)
        raise AssertionError("never woken by the commit")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await put(store, on(BY_REF, lane="new"))
    assert (await waiting)["version"] == 1


async def test_nobody_is_left_waiting_when_the_store_closes(store: Store) -> None:
    with store.hub.waiter(("never", None)) as waiter:
        waiting = asyncio.create_task(waiter.wait(5))
        await asyncio.sleep(0)
        await store.close()
        assert await waiting
