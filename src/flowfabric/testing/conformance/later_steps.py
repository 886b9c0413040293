"""Steps behind the first: many rows, a row per item of the caller, and refusals."""

from __future__ import annotations

import asyncio
import json

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Row, Scan, Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h

_TOUCH = p.Form(
    "t_touch_attempts",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    p.UpdateMany(
        h.ATTEMPT,
        (
            *(p.Cond(c, "=", v) for c, v in h.SAME_KEY.items()),
            p.Cond("attempt_state", "=", "created"),
        ),
        {"lease_epoch": p.Add(2), "attempt_state": "touched"},
    ),
)


@pytest.mark.parametrize(
    "states", [[], ["ended"], ["created"], ["created", "ended", "created", "created"]]
)
async def test_update_many_changes_all_matching_rows_or_none(
    store: Store, states: list[str]
) -> None:
    await h.put(
        store,
        h.execution(1),
        h.execution(2),
        h.insert(h.ATTEMPT, execution_id=h.uid(2), attempt_index=0),
    )
    for at, state in enumerate(states):
        await h.put(
            store,
            h.insert(
                h.ATTEMPT,
                execution_id=h.uid(1),
                attempt_index=at,
                attempt_state=state,
                lease_epoch=10,
            ),
        )
    await h.commit(store, h.on(_TOUCH, 1, version=0))
    for at, state in enumerate(states):
        row = await h.get(store, h.ATTEMPT, 0, h.uid(1), at)
        assert (row["attempt_state"], row["lease_epoch"]) == (
            ("touched", 12) if state == "created" else (state, 10)
        )
    assert (await h.get(store, h.ATTEMPT, 0, h.uid(2), 0))["attempt_state"] == "created"


_SET_GRANT = {"worker_id": p.Arg("worker"), "grant_ttl_ms": p.Add(1), "lane_id": p.After("lane_id")}
_GRANTED = p.Form(
    "t_upsert_grant",
    p.Update(h.EXEC, h.VERSIONED, {**h.BUMP, "lane_id": p.Arg("lane")}),
    p.Upsert(
        h.GRANT,
        {
            **h.SAME_KEY,
            "grant_id": "g",
            "kind": "claim",
            "worker_id": p.Arg("worker"),
            "worker_instance_id": "i",
            "lane_id": p.After("lane_id"),
        }
        | {"grant_ttl_ms": 100, "issued_at_ms": 1, "expires_at_ms": 2},
        _SET_GRANT,
    ),
)


async def test_upsert_inserts_first_and_changes_afterwards(store: Store) -> None:
    await h.put(store, h.execution(1))
    await h.commit(store, h.on(_GRANTED, 1, version=0, worker="a", lane="l1"))
    grant = await h.get(store, h.GRANT, 0, h.uid(1))
    assert (grant["worker_id"], grant["grant_ttl_ms"], grant["lane_id"]) == ("a", 100, "l1")
    await h.commit(store, h.on(_GRANTED, 1, version=1, worker="b", lane="l2"))
    grant = await h.get(store, h.GRANT, 0, h.uid(1))
    assert (grant["worker_id"], grant["grant_ttl_ms"], grant["lane_id"], grant["kind"]) == (
        "b",
        101,
        "l2",
        "claim",
    )


LANE_IS = (p.Cond("lane_id", "=", p.Arg("lane")), p.Cond("registered_by", "=", "x"))
BUMP_AND_ADD = p.Form(
    "t_bump_and_add",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    p.Insert(h.LANE, {"lane_id": p.Arg("lane"), "registered_at_ms": 1, "registered_by": "x"}),
    p.Wake("ready", p.Arg("lane")),
    returning=("version",),
)
BUMP_AND_CHANGE = p.Form(
    "t_bump_and_change",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    p.Insert(h.LANE, {"lane_id": p.Arg("new"), "registered_at_ms": 1, "registered_by": "x"}),
    p.Update(h.LANE, LANE_IS, {"state": "changed"}),
)


def add(n: int, lane: str, version: int = 0) -> p.Plan:
    return BUMP_AND_ADD(partition_key=0, execution_id=h.uid(n), version=version, lane=lane)


def change(n: int, new: str, lane: str) -> p.Plan:
    return BUMP_AND_CHANGE(partition_key=0, execution_id=h.uid(n), version=0, new=new, lane=lane)


async def filled(store: Store) -> None:
    await h.put(
        store,
        *(h.execution(n) for n in range(1, 9)),
        h.insert(h.LANE, lane_id="there", registered_by="x"),
    )


async def versions(store: Store) -> list[int]:
    return [(await h.get_execution(store, n))["version"] for n in range(1, 9)]


async def test_one_of_many_plans_is_refused_and_the_others_apply(store: Store) -> None:
    await filled(store)
    plans = [add(n, "there" if n == 4 else f"lane{n}") for n in range(1, 9)]
    answers = await asyncio.gather(*map(store.commit, plans))
    assert answers[3] == p.Refused(0, 1)
    assert [a.row for at, a in enumerate(answers) if at != 3 and isinstance(a, p.Applied)] == [
        (1,)
    ] * 7
    assert await versions(store) == [1, 1, 1, 0, 1, 1, 1, 1]
    assert await h.count(store, h.LANE) == 8


async def test_one_of_many_plans_of_one_call_is_refused_and_the_others_apply(store: Store) -> None:
    await filled(store)
    plans = [add(n, "there" if n == 4 else f"lane{n}", version=n == 6) for n in range(1, 9)]
    answers = await store.commit_many(plans)
    assert h.applied(answers) == [n not in (4, 6) for n in range(1, 9)]
    assert (answers[3], answers[5]) == (p.Refused(0, 1), p.Refused(0, 0))
    assert await versions(store) == [1, 1, 1, 0, 1, 0, 1, 1]


async def test_of_two_plans_that_insert_the_same_row_one_applies(store: Store) -> None:
    await filled(store)
    answers = await asyncio.gather(*(store.commit(add(n, "twice")) for n in (1, 2)))
    assert sorted(map(repr, answers))[1:] == [repr(p.Refused(0, 1))]
    assert sum(await versions(store)) == 1


async def test_the_step_that_refused_is_named(store: Store) -> None:
    await filled(store)
    assert await store.commit(change(1, "a", "nowhere")) == p.Refused(0, 2)
    assert await store.commit(change(1, "there", "there")) == p.Refused(0, 1)
    assert await store.commit_together([add(2, "b"), change(1, "a", "nowhere")]) == p.Refused(1, 2)
    assert (await versions(store), await h.count(store, h.LANE)) == ([0] * 8, 1)
    await h.commit(store, change(1, "a", "there"))


async def test_a_refused_plan_writes_nothing_and_wakes_no_waiter(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store)
    before, rings = await h.image(store), h.Rings(store, monkeypatch)
    assert await store.commit(add(1, "there")) == p.Refused(0, 1)
    assert await store.commit_together([add(1, "new"), add(2, "new")]) == p.Refused(1, 1)
    assert await h.image(store) == before
    assert ("ready", "there") not in rings.topics and ("ready", "new") not in rings.topics


META, FRAME = "ff_stream_meta", "ff_stream_frame"
OF = (*h.KEY, p.Cond("attempt_index", "=", p.Arg("attempt_index")))
HELD = p.Present(
    h.EXEC,
    (
        *h.KEY,
        p.Cond("lease_epoch", "=", p.Arg("epoch")),
        p.Cond("lease_expires_at_ms", ">", p.Now()),
    ),
)
FRAMES = p.InsertEach(
    FRAME,
    {
        "partition_key": p.After("partition_key"),
        "execution_id": p.After("execution_id"),
        "attempt_index": p.After("attempt_index"),
        "ts_ms": p.Item("ts"),
        "seq": p.Item("seq"),
        "number": p.Item("seq"),
        "mode_number": 0,
        "client_seq": p.Item("client"),
        "created_at_ms": p.Now(),
        "fields": p.Item("fields"),
    },
    p.Arg("frames"),
)
OPEN = p.Form(
    "t_open",
    p.Insert(
        META,
        {
            "partition_key": p.Arg("partition_key"),
            "execution_id": p.Arg("execution_id"),
            "attempt_index": p.Arg("attempt_index"),
            "created_at_ms": p.Now(),
            "ema_rate_hz": p.Arg("rate"),
        },
        (HELD,),
    ),
    FRAMES,
    p.Wake("frames", p.Arg("execution_id")),
)
APPEND = p.Form(
    "t_append",
    p.Update(
        META,
        (*OF, p.Cond("version", "=", p.Arg("version")), HELD),
        {"version": p.Add(1), "ema_rate_hz": p.Arg("rate")},
    ),
    FRAMES,
)
FIELDS = json.dumps({"payload": 'a "quoted" \\ \u20ac line\n', "mode": "durable"})


def frames(*ids: int) -> tuple[Row, ...]:
    return tuple((100, n, None if n % 2 else n, FIELDS) for n in ids)


def opening(n: int, *ids: int, epoch: int = 1, rate: float | None = 32.0) -> p.Plan:
    return OPEN(
        partition_key=0,
        execution_id=h.uid(n),
        attempt_index=0,
        epoch=epoch,
        rate=rate,
        frames=frames(*ids),
    )


def appending(n: int, *ids: int, version: int = 0, epoch: int = 1, rate: float = 0.1) -> p.Plan:
    given = {"version": version, "epoch": epoch, "rate": rate, "frames": frames(*ids)}
    return APPEND(partition_key=0, execution_id=h.uid(n), attempt_index=0, **given)


async def _world(store: Store, clock: ManualClock, count: int = 3) -> None:
    await h.put(
        store,
        *(
            h.execution(n, lease_epoch=1, lease_expires_at_ms=clock.now_ms + 1_000)
            for n in range(1, count + 1)
        ),
    )


async def _frames(store: Store, n: int) -> list[Row]:
    group = {"partition_key": 0, "execution_id": h.uid(n), "attempt_index": 0}
    return await h.scan(
        store, Scan("frames", group, columns=("ts_ms", "seq", "client_seq", "fields"))
    )


async def test_each_item_becomes_a_row(store: Store, clock: ManualClock) -> None:
    await _world(store, clock)
    assert await store.commit(opening(1, 0, 1, 2)) == p.Applied(clock.now_ms)
    found = await _frames(store, 1)
    assert [row[:3] for row in found] == [(100, 0, 0), (100, 1, None), (100, 2, 2)]
    assert all(json.loads(row[3]) == json.loads(FIELDS) for row in found)
    assert (await h.get(store, META, 0, h.uid(1), 0))["ema_rate_hz"] == 32.0


async def test_no_items_insert_no_rows(store: Store, clock: ManualClock) -> None:
    await _world(store, clock)
    await h.commit(store, opening(1, rate=None))
    assert await _frames(store, 1) == []
    assert (await h.get(store, META, 0, h.uid(1), 0))["ema_rate_hz"] is None


async def test_plans_of_one_form_keep_their_items_apart(store: Store, clock: ManualClock) -> None:
    await _world(store, clock, 40)
    counts = {n: n % 5 for n in range(1, 41)}
    await asyncio.gather(*(store.commit(opening(n, *range(counts[n]))) for n in counts))
    answers = await store.commit_many([appending(n, 50, 51) for n in counts])
    assert all(h.applied(answers))
    for n, few in counts.items():
        assert [row[1] for row in await _frames(store, n)] == [*range(few), 50, 51]


@pytest.mark.parametrize("how", ["another epoch", "expired", "no such row", "another version"])
async def test_without_the_guarded_row_nothing_is_written(
    store: Store, clock: ManualClock, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store, clock)
    await h.put(store, h.insert(META, execution_id=h.uid(2)), h.insert(META, execution_id=h.uid(9)))
    before, rings = await h.image(store), h.Rings(store, monkeypatch)
    if how == "expired":
        clock.advance(1_000)
    plans = {
        "another epoch": [opening(1, 0, epoch=2), appending(2, 0, epoch=2)],
        "expired": [opening(1, 0), appending(2, 0)],
        "no such row": [opening(8, 0), appending(9, 0)],
        "another version": [appending(2, 0, version=3)],
    }[how]
    for plan in plans:
        assert await store.commit(plan) == p.Refused()
    assert await h.image(store) == before
    assert rings.topics == []


async def test_a_refused_plan_does_not_affect_its_batch_mates(
    store: Store, clock: ManualClock
) -> None:
    await _world(store, clock)
    answers = await asyncio.gather(
        *(
            store.commit(plan)
            for plan in (opening(1, 0), opening(2, 0, epoch=7), opening(3, 0), opening(8, 0))
        )
    )
    assert h.applied(answers) == [True, False, True, False]
    assert await h.find(store, META, 0, h.uid(2), 0) is None


async def test_a_stream_is_woken_by_its_execution(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _world(store, clock)
    rings = h.Rings(store, monkeypatch)
    await store.commit(opening(1, 0))
    assert ("frames", h.uid(1)) in rings.topics
