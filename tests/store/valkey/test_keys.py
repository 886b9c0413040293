"""The keys of a cell: what a refused unit leaves, and what one call writes against many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from flowfabric import plan as p
from flowfabric.errors import TransportError
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h
from tests import valkey

QUOTA, EDGES = h.uid(900), "ff_edge"
MOVE = p.Form(
    "keys_move",
    p.Update(
        h.EXEC,
        h.VERSIONED,
        {
            **h.BUMP,
            "priority": p.Arg("priority"),
            "lane_id": p.Arg("lane"),
            "deadline_at_ms": p.Arg("deadline"),
            "result": p.Arg("result"),
        },
    ),
    p.Insert(h.LEASES, {**h.SAME_KEY, "event_type": "moved", "occurred_at_ms": p.Now()}),
)
END = p.Form(
    "keys_end",
    p.Update(
        h.EXEC,
        h.VERSIONED,
        {
            **h.BUMP,
            "lifecycle_phase": "terminal",
            "ownership_state": "unowned",
            "terminal_outcome": p.Arg("outcome"),
            "terminal_at_ms": p.Now(),
            "deadline_at_ms": None,
        },
    ),
)
CLOSE = p.Form(
    "keys_close_and_trip",
    p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "priority": 7}),
    p.UpdateMany(
        h.LANE, (p.Cond("state", "=", "active"),), {"state": "paused", "updated_at_ms": p.Now()}
    ),
    p.Delete(h.ATTEMPT, (p.Cond("execution_id", "=", p.After("execution_id")),)),
    p.Insert(h.LANE, {"lane_id": "there", "registered_at_ms": 1, "registered_by": ""}),
)
NAME = p.Form(
    "keys_name_a_lane",
    p.Update(
        h.EXEC,
        h.VERSIONED,
        {**h.BUMP, "deadline_at_ms": None, "result": p.Arg("result")},
    ),
    p.Insert(h.LANE, {"lane_id": p.Arg("lane"), "registered_at_ms": 1, "registered_by": ""}),
)
DROP = p.Form("keys_drop", p.Delete(h.EXEC, h.KEY))
TAKE = p.Form(
    "keys_take",
    p.Update(
        h.EXEC,
        (),
        {**h.BUMP, "ownership_state": "leased", "lifecycle_phase": "active", "priority": 3},
    ),
    p.Insert(h.LEASES, {**h.SAME_KEY, "event_type": "taken", "occurred_at_ms": p.Now()}),
    p.Insert(h.LANE, {"lane_id": p.Arg("mark"), "registered_at_ms": 1, "registered_by": ""}),
    pick=p.Pick("ready", {"lane_id": "lane", "namespace": "default", "gate": ""}),
    returning=("execution_id",),
)


@asynccontextmanager
async def opened(clock: ManualClock) -> AsyncIterator[tuple[ValkeyStore, Connection]]:
    store = valkey.new_store(clock)
    connection = await Connection.open(store.options)
    try:
        yield store, connection
    finally:
        await store.close()
        await connection.close()


async def keys(store: ValkeyStore, connection: Connection) -> dict[bytes, object]:
    """Every key of the cell but the time, without its prefix, and what it holds."""
    prefix = f"{store.options.prefix}:".encode()
    found: dict[bytes, object] = {}
    for key in await connection.command("KEYS", "*"):
        if not key.startswith(prefix) or key == prefix + b"T":
            continue
        kind = await connection.command("TYPE", key)
        read = {
            b"hash": ["HGETALL", key],
            b"zset": ["ZRANGE", key, "0", "-1"],
            b"string": ["GET", key],
        }
        found[key.removeprefix(prefix)] = await connection.command(*read[kind])
    return found


def drop(n: int) -> p.Plan:
    return DROP(partition_key=0, execution_id=h.uid(n))


def move(n: int, version: int, lane: str = "lane", **values: object) -> p.Plan:
    given = {"priority": 1, "deadline": None, "result": None, **values}
    return MOVE(partition_key=0, execution_id=h.uid(n), version=version, lane=lane, **given)


def end(n: int, version: int, outcome: str = "success") -> p.Plan:
    return END(partition_key=0, execution_id=h.uid(n), version=version, outcome=outcome)


def close(n: int, version: int) -> p.Plan:
    return CLOSE(partition_key=0, execution_id=h.uid(n), version=version)


def name(n: int, version: int, lane: str | None) -> p.Plan:
    given = {"version": version, "lane": lane, "result": b"new"}
    return NAME(partition_key=0, execution_id=h.uid(n), **given)


async def stock(store: ValkeyStore) -> None:
    await h.put(
        store,
        *(h.execution(n, payload=b"p%d" % n, deadline_at_ms=n) for n in (1, 2, 3)),
        h.insert(h.ATTEMPT, execution_id=h.uid(1), attempt_index=0),
        h.insert(h.ATTEMPT, execution_id=h.uid(1), attempt_index=1),
        h.insert(h.LANE, lane_id="there"),
        h.insert(h.LANE, lane_id="other"),
        h.insert(EDGES, edge_id=h.uid(5), flow_id=h.uid(6), downstream_eid=h.uid(1)),
        move(1, 0, result=b"early"),
    )


REFUSED = {
    "a row is made": [h.execution(9, payload=b"new")],
    "a row changes twice": [
        move(1, 1, "b", priority=5, deadline=9, result=b"late"),
        move(1, 2, "c", result=b"later"),
    ],
    "a row loses its result": [move(1, 1, result=None), end(1, 2)],
    "a row is made, changed and deleted": [h.execution(9), move(9, 0, result=b"r"), drop(9)],
    "a row is changed and deleted": [move(1, 1, "b", result=b"late"), drop(1)],
    "a row is deleted and made anew": [drop(1), h.execution(1, payload=None, priority=4)],
    "a row is deleted, made, changed and deleted": [
        drop(1),
        h.execution(1, result=b"x"),
        move(1, 0, "b", result=b"y"),
        drop(1),
    ],
    "an event is numbered": [move(2, 0), move(3, 0)],
    "an end": [end(2, 0), end(3, 0, "failed")],
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_unit_leaves_every_key_as_it_was(name: str, clock: ManualClock) -> None:
    async with opened(clock) as (store, connection):
        await stock(store)
        before = await keys(store, connection)
        refused = await store.commit_together([*REFUSED[name], move(2, 77)])
        assert refused == p.Refused(len(REFUSED[name]), 0)
        assert await keys(store, connection) == before
        assert isinstance(await store.commit_together(REFUSED[name]), p.Applied)
        assert await keys(store, connection) != before


async def test_a_plan_refused_by_its_last_step_leaves_every_key_as_it_was(
    clock: ManualClock,
) -> None:
    async with opened(clock) as (store, connection):
        await stock(store)
        before = await keys(store, connection)
        assert await store.commit(close(1, 1)) == p.Refused(0, 3)
        assert await keys(store, connection) == before


async def test_a_plan_that_fails_in_its_last_step_leaves_every_key_as_it_was(
    clock: ManualClock,
) -> None:
    async with opened(clock) as (store, connection):
        await stock(store)
        before = await keys(store, connection)
        with pytest.raises(TransportError, match="lane_id is null"):
            await store.commit(name(1, 1, None))
        assert await keys(store, connection) == before
        assert isinstance(await store.commit(name(1, 1, "new")), p.Applied)


async def test_sweeps_behind_a_refused_sweep_leave_every_key_as_it_was(clock: ManualClock) -> None:
    """The first sweep takes rows that the plans before it have changed."""
    async with opened(clock) as (store, connection):
        await stock(store)
        before = await keys(store, connection)
        wanted = [(TAKE(mark="new"), 1), (TAKE(mark="there"), 1)]
        refused = await store.sweeps([move(2, 0, priority=9)], wanted)
        assert isinstance(refused, p.Refused)
        assert await keys(store, connection) == before
        answers, rows = await store.commit_and_sweep([move(2, 0)], TAKE(mark="new"), 1)
        assert h.applied(answers) == [True] and len(rows) == 1


def drawn(draw: Random, versions: dict[int, int]) -> p.Plan:
    """A plan on one of six rows, which some of the time expects a version that is not there."""
    n = draw.randrange(1, 7)
    version = versions.get(n, 0) + (draw.random() < 0.2)
    match draw.randrange(6):
        case 0:
            versions[n] = 0
            return h.execution(n, payload=draw.choice([None, b"p"]), quota_policy_id=QUOTA)
        case 1:
            return drop(n)
        case 2:
            return end(n, version, draw.choice(["success", "failed"]))
        case 3:
            return h.insert(h.ATTEMPT, execution_id=h.uid(n), attempt_index=draw.randrange(2))
        case 4:
            return close(n, version)
    versions[n] = version + 1
    lane, deadline = draw.choice(["lane", "b"]), draw.choice([None, 5])
    return move(n, version, lane, deadline=deadline, result=draw.choice([None, b"r"]))


@pytest.mark.parametrize("seed", range(20))
async def test_one_call_writes_what_many_calls_write(seed: int, clock: ManualClock) -> None:
    draw, versions = Random(seed), dict[int, int]()
    plans = [drawn(draw, versions) for _ in range(60)]
    async with opened(clock) as (one, connection), opened(clock) as (other, _):
        apart: list[object] = [await one.commit(plan) for plan in plans]
        together = await asyncio.gather(*map(other.commit, plans))
        assert together == apart and len(set(h.applied(apart))) == 2
        assert await keys(other, connection) == await keys(one, connection)


@pytest.mark.parametrize("seed", range(20))
async def test_what_is_left_of_a_call_are_its_applied_plans(seed: int, clock: ManualClock) -> None:
    """A refused group among others leaves what the others write."""
    draw, versions = Random(100 + seed), dict[int, int]()
    groups = [[drawn(draw, versions) for _ in range(draw.randrange(1, 5))] for _ in range(20)]
    async with opened(clock) as (one, connection), opened(clock) as (other, _):
        answers = await asyncio.gather(*map(one.commit_together, groups))
        assert len(set(h.applied(answers))) == 2
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, p.Applied):
                assert await other.commit_together(group) == answer
        assert await keys(other, connection) == await keys(one, connection)
