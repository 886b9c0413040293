"""Deleting takes the children along and leaves a mark; events are read in order and their numbers never come back."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.plan import (
    After,
    Applied,
    Arg,
    Before,
    Cond,
    Delete,
    Emit,
    Form,
    Insert,
    Now,
    Plan,
    Refused,
    Update,
)
from flowfabric.store.port import Store
from flowfabric.store.schema import OUTBOXES

from .helpers import (
    ATTEMPT,
    BUMP,
    COMPLETIONS,
    EXEC,
    GRANT,
    KEY,
    LANE,
    LEASES,
    OPERATIONS,
    VERSIONED,
    count,
    events,
    execution,
    find,
    get,
    image,
    insert,
    put,
    uid,
)

REMOVE = Form("t_remove_all", Delete(EXEC, VERSIONED), returning=("execution_id", "lane_id"))
REMOVE_NOTED = Form(
    "t_remove_noted",
    Delete(EXEC, VERSIONED),
    Emit(OPERATIONS, "removed", {"execution_id": After("execution_id"), "details": Before("tags")}),
)
_CHILDREN = (ATTEMPT, GRANT, LEASES, COMPLETIONS, OPERATIONS)


def remove(n: int, version: int = 0, form: Form = REMOVE) -> Plan:
    return form(partition_key=0, execution_id=uid(n), version=version)


async def _with_children(store: Store, n: int) -> None:
    await put(
        store,
        execution(n, lane_id=f"l{n}", tags=f'{{"a.b":"l{n}"}}'),
        insert(ATTEMPT, execution_id=uid(n)),
        insert(GRANT, execution_id=uid(n)),
    )
    await put(store, insert(ATTEMPT, execution_id=uid(n), attempt_index=1))
    await put(
        store, *(insert(channel, execution_id=uid(n)) for channel in OUTBOXES for _ in range(2))
    )


async def test_delete_takes_the_owned_rows_along_and_no_others(store: Store) -> None:
    for n in (1, 2):
        await _with_children(store, n)
    answer = await store.commit(remove(1))
    assert isinstance(answer, Applied) and answer.row == (uid(1), "l1")
    for table in (EXEC, *_CHILDREN):
        rows = (await store.dump([table]))[table]
        assert rows and all(uid(2) in row and uid(1) not in row for row in rows), table


async def test_delete_keeps_children_of_the_same_id_in_another_partition(store: Store) -> None:
    await _with_children(store, 1)
    await put(
        store,
        insert(EXEC, partition_key=5, execution_id=uid(1)),
        insert(LEASES, partition_key=5, execution_id=uid(1)),
    )
    await put(store, insert(ATTEMPT, partition_key=5, execution_id=uid(1)), remove(1))
    assert await find(store, EXEC, 5, uid(1)) is not None
    assert (await count(store, ATTEMPT), await count(store, LEASES)) == (1, 1)


async def test_delete_marks_the_highest_number_each_outbox_lost(store: Store) -> None:
    for n in (1, 2, 3):
        await _with_children(store, n)
    highest = {c: [e["event_id"] for e in await events(store, c)] for c in OUTBOXES}
    await put(store, remove(2))
    for channel in OUTBOXES:
        assert (await get(store, "ff_outbox_trim", channel))["event_id"] == highest[channel][3]
    await put(store, remove(1))
    for channel in OUTBOXES:
        assert (await get(store, "ff_outbox_trim", channel))["event_id"] == highest[channel][3], (
            "a mark never sinks"
        )
    await put(store, remove(3))
    for channel in OUTBOXES:
        assert (await get(store, "ff_outbox_trim", channel))["event_id"] == highest[channel][5]


async def test_delete_without_events_leaves_no_mark(store: Store) -> None:
    await put(store, execution(1), insert(ATTEMPT, execution_id=uid(1)), remove(1))
    assert await count(store, "ff_outbox_trim") == 0


async def test_a_refused_delete_keeps_the_children(store: Store) -> None:
    await _with_children(store, 1)
    before = await image(store)
    assert await store.commit(remove(1, version=4)) == Refused()
    assert await image(store) == before


async def test_many_deletes_at_once_take_each_its_own_children(store: Store) -> None:
    for n in range(1, 6):
        await _with_children(store, n)
    answers = await store.commit_many([remove(1), remove(9), remove(2), remove(2), remove(4)])
    assert [isinstance(a, Applied) for a in answers] == [True, False, True, False, True]
    assert {row[1] for row in (await store.dump([ATTEMPT]))[ATTEMPT]} == {uid(3), uid(5)}
    assert {e["execution_id"] for e in await events(store, COMPLETIONS)} == {uid(3), uid(5)}


async def test_an_event_told_by_a_delete_outlives_the_row(store: Store) -> None:
    await _with_children(store, 1)
    await put(store, remove(1, form=REMOVE_NOTED))
    told = await events(store, OPERATIONS)
    assert [(e["event_type"], e["execution_id"], e["details"]) for e in told] == [
        ("removed", uid(1), '{"a.b":"l1"}')
    ]
    assert (await get(store, "ff_outbox_trim", OPERATIONS))["event_id"] < told[0]["event_id"]


async def test_a_later_delete_takes_whatever_matches_be_it_nothing(store: Store) -> None:
    form = Form(
        "t_drop_attempts",
        Update(EXEC, VERSIONED, BUMP),
        Delete(
            ATTEMPT,
            (
                Cond("execution_id", "=", After("execution_id")),
                Cond("attempt_index", ">=", Arg("least")),
            ),
        ),
    )
    await put(
        store,
        execution(1),
        *(insert(ATTEMPT, execution_id=uid(1), attempt_index=n) for n in range(4)),
    )
    await put(store, insert(ATTEMPT, execution_id=uid(2), attempt_index=3))
    for version, least, left in ((0, 9, 5), (1, 2, 3), (2, 0, 1)):
        await put(store, form(partition_key=0, execution_id=uid(1), version=version, least=least))
        assert await count(store, ATTEMPT) == left


async def test_a_guarded_delete_of_a_row_without_children(store: Store) -> None:
    form = Form("t_drop_grant", Delete(GRANT, (*KEY, Cond("expires_at_ms", "<", Now()))))
    await put(
        store,
        insert(GRANT, execution_id=uid(1), expires_at_ms=1),
        insert(GRANT, execution_id=uid(2), expires_at_ms=10**14),
    )
    answers = await store.commit_many(
        [form(partition_key=0, execution_id=uid(n)) for n in (1, 2, 3)]
    )
    assert [isinstance(a, Applied) for a in answers] == [True, False, False]
    assert await count(store, GRANT) == 1


# ---- events

TELL = Form(
    "t_tell",
    Update(EXEC, VERSIONED, BUMP),
    Emit(LEASES, "first", {"execution_id": After("execution_id"), "lease_epoch": After("version")}),
    Emit(COMPLETIONS, "success", {"execution_id": After("execution_id")}, at=Arg("at")),
    Emit(
        LEASES, "second", {"execution_id": After("execution_id"), "namespace": After("namespace")}
    ),
)


@pytest.mark.parametrize("channel", OUTBOXES)
async def test_events_are_read_ascending_after_a_number_up_to_a_limit(
    store: Store, channel: str
) -> None:
    assert (await store.read_events(channel, 0, 10), await store.last_event(channel)) == ([], 0)
    await put(store, *(insert(channel, occurred_at_ms=n) for n in range(10)))
    rows = await store.read_events(channel, 0, 100)
    numbers = [row[0] for row in rows]
    assert numbers == sorted(set(numbers)) and len(numbers) == 10 and numbers[0] > 0
    assert await store.last_event(channel) == numbers[-1]
    assert await store.read_events(channel, numbers[3], 4) == rows[4:8]
    assert await store.read_events(channel, numbers[-1], 4) == []
    assert await store.read_events(channel, numbers[-1] + 50, 4) == []


async def test_events_of_one_commit_come_in_the_order_they_were_told(store: Store) -> None:
    await put(store, execution(1))
    for version in range(3):
        await put(store, TELL(partition_key=0, execution_id=uid(1), version=version, at=version))
    told = await events(store, LEASES)
    assert [e["event_type"] for e in told] == ["first", "second"] * 3
    assert [e["lease_epoch"] for e in told] == [1, None, 2, None, 3, None]
    completions = await events(store, COMPLETIONS)
    assert [(e["outcome"], e["occurred_at_ms"]) for e in completions] == [
        ("success", n) for n in range(3)
    ]
    assert {e["occurred_at_ms"] for e in told} == {await store.now_ms()}


@pytest.mark.parametrize("channel", OUTBOXES)
async def test_a_number_is_never_given_again_after_a_delete(store: Store, channel: str) -> None:
    await put(store, execution(1), *(insert(channel, execution_id=uid(1)) for _ in range(3)))
    last = await store.last_event(channel)
    await put(store, remove(1))
    assert await events(store, channel) == []
    assert await store.last_event(channel) == last
    await put(store, insert(channel, execution_id=uid(2)))
    assert (await events(store, channel))[0]["event_id"] > last


async def test_last_event_counts_only_what_was_committed(store: Store) -> None:
    await put(store, insert(LEASES), execution(1))
    last = await store.last_event(LEASES)
    tell = TELL(partition_key=0, execution_id=uid(1), version=0, at=1)
    assert await store.commit_together([tell, remove(1, version=7)]) == Refused(1, 0)
    assert await store.last_event(LEASES) == last


async def test_a_gap_left_by_a_delete_does_not_stop_the_reader(store: Store) -> None:
    await put(
        store,
        execution(1),
        insert(LEASES, execution_id=uid(2)),
        *(insert(LEASES, execution_id=uid(1)) for _ in range(5)),
    )
    await put(store, insert(LEASES, execution_id=uid(3)), remove(1))
    first = await store.read_events(LEASES, 0, 1)
    second = await store.read_events(LEASES, first[0][0], 1)
    assert [first[0][1], second[0][1]] == [uid(2), uid(3)]


async def test_the_number_of_an_event_does_not_depend_on_another_channel(store: Store) -> None:
    await put(store, *(insert(LEASES) for _ in range(4)), insert(OPERATIONS))
    first: dict[str, Any] = (await events(store, OPERATIONS))[0]
    assert await store.last_event(OPERATIONS) == first["event_id"]
    assert await store.last_event(COMPLETIONS) == 0


async def test_a_plan_may_insert_twice_but_not_the_same_key(store: Store) -> None:
    form = Form(
        "t_two_inserts",
        Insert(LANE, {"lane_id": Arg("a"), "registered_at_ms": 1, "registered_by": "x"}),
        *[Insert(LANE, {"lane_id": Arg("b"), "registered_at_ms": 2, "registered_by": "x"})],
    )
    assert isinstance(await store.commit(form(a="1", b="2")), Applied)
    assert await store.commit(form(a="3", b="3")) == Refused(0, 1)
    assert await count(store, LANE) == 2
