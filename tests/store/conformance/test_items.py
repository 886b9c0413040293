"""A row for each of the caller's items, and a plan that another table's row must go on allowing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Cond,
    Form,
    Insert,
    InsertEach,
    Item,
    Now,
    Plan,
    Present,
    Refused,
    Update,
    Wake,
)
from flowfabric.store.port import Scan, Store
from flowfabric.testing import ManualClock

from .helpers import EXEC, KEY, Rings, execution, find, get, image, insert, put, scan, uid

META, FRAME = "ff_stream_meta", "ff_stream_frame"
OF = (*KEY, Cond("attempt_index", "=", Arg("attempt_index")))
HELD = Present(
    EXEC, (*KEY, Cond("lease_epoch", "=", Arg("epoch")), Cond("lease_expires_at_ms", ">", Now()))
)
FRAMES = InsertEach(
    FRAME,
    {
        "partition_key": After("partition_key"),
        "execution_id": After("execution_id"),
        "attempt_index": After("attempt_index"),
        "ts_ms": Item("ts"),
        "seq": Item("seq"),
        "number": Item("seq"),
        "mode_number": 0,
        "client_seq": Item("client"),
        "created_at_ms": Now(),
        "fields": Item("fields"),
    },
    Arg("frames"),
)
OPEN = Form(
    "t_open",
    Insert(
        META,
        {
            "partition_key": Arg("partition_key"),
            "execution_id": Arg("execution_id"),
            "attempt_index": Arg("attempt_index"),
            "created_at_ms": Now(),
            "ema_rate_hz": Arg("rate"),
        },
        (HELD,),
    ),
    FRAMES,
    Wake("frames", Arg("execution_id")),
)
APPEND = Form(
    "t_append",
    Update(
        META,
        (*OF, Cond("version", "=", Arg("version")), HELD),
        {"version": Add(1), "ema_rate_hz": Arg("rate")},
    ),
    FRAMES,
)
FIELDS = json.dumps({"payload": 'a "quoted" \\ \u20ac line\n', "mode": "durable"})


def frames(*ids: int) -> tuple[tuple[Any, ...], ...]:
    return tuple((100, n, None if n % 2 else n, FIELDS) for n in ids)


def opening(n: int, *ids: int, epoch: int = 1, rate: float | None = 32.0) -> Plan:
    return OPEN(
        partition_key=0,
        execution_id=uid(n),
        attempt_index=0,
        epoch=epoch,
        rate=rate,
        frames=frames(*ids),
    )


def appending(n: int, *ids: int, version: int = 0, epoch: int = 1, rate: float = 0.1) -> Plan:
    given = {"version": version, "epoch": epoch, "rate": rate, "frames": frames(*ids)}
    return APPEND(partition_key=0, execution_id=uid(n), attempt_index=0, **given)


async def _world(store: Store, clock: ManualClock, count: int = 3) -> None:
    await put(
        store,
        *(
            execution(n, lease_epoch=1, lease_expires_at_ms=clock.now_ms + 1_000)
            for n in range(1, count + 1)
        ),
    )


async def _frames(store: Store, n: int) -> list[tuple[Any, ...]]:
    group = {"partition_key": 0, "execution_id": uid(n), "attempt_index": 0}
    return await scan(
        store, Scan("frames", group, columns=("ts_ms", "seq", "client_seq", "fields"))
    )


async def test_each_item_becomes_a_row(store: Store, clock: ManualClock) -> None:
    await _world(store, clock)
    assert await store.commit(opening(1, 0, 1, 2)) == Applied(clock.now_ms)
    found = await _frames(store, 1)
    assert [row[:3] for row in found] == [(100, 0, 0), (100, 1, None), (100, 2, 2)]
    assert all(json.loads(row[3]) == json.loads(FIELDS) for row in found)
    assert (await get(store, META, 0, uid(1), 0))["ema_rate_hz"] == 32.0


async def test_no_items_no_rows(store: Store, clock: ManualClock) -> None:
    await _world(store, clock)
    assert isinstance(await store.commit(opening(1, rate=None)), Applied)
    assert await _frames(store, 1) == []
    assert (await get(store, META, 0, uid(1), 0))["ema_rate_hz"] is None


async def test_plans_of_one_form_keep_their_items_apart(store: Store, clock: ManualClock) -> None:
    await _world(store, clock, 40)
    counts = {n: n % 5 for n in range(1, 41)}
    await asyncio.gather(*(store.commit(opening(n, *range(counts[n]))) for n in counts))
    answers = await store.commit_many([appending(n, 50, 51) for n in counts])
    assert all(isinstance(answer, Applied) for answer in answers)
    for n, few in counts.items():
        assert [row[1] for row in await _frames(store, n)] == [*range(few), 50, 51]


@pytest.mark.parametrize("how", ["another epoch", "expired", "no such row", "another version"])
async def test_without_the_other_row_nothing_is_written(
    store: Store, clock: ManualClock, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store, clock)
    await put(store, insert(META, execution_id=uid(2)), insert(META, execution_id=uid(9)))
    before, rings = await image(store), Rings(store, monkeypatch)
    if how == "expired":
        clock.advance(1_000)
    plans = {
        "another epoch": [opening(1, 0, epoch=2), appending(2, 0, epoch=2)],
        "expired": [opening(1, 0), appending(2, 0)],
        "no such row": [opening(8, 0), appending(9, 0)],
        "another version": [appending(2, 0, version=3)],
    }[how]
    for plan in plans:
        assert await store.commit(plan) == Refused()
    assert await image(store) == before
    assert rings.topics == []


async def test_one_that_is_refused_leaves_its_neighbours_alone(
    store: Store, clock: ManualClock
) -> None:
    await _world(store, clock)
    answers = await asyncio.gather(
        *(
            store.commit(plan)
            for plan in (opening(1, 0), opening(2, 0, epoch=7), opening(3, 0), opening(8, 0))
        )
    )
    assert [isinstance(answer, Applied) for answer in answers] == [True, False, True, False]
    assert await find(store, META, 0, uid(2), 0) is None


async def test_a_stream_is_woken_by_its_execution(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store, clock)
    rings = Rings(store, monkeypatch)
    await store.commit(opening(1, 0))
    assert ("frames", uid(1)) in rings.topics
