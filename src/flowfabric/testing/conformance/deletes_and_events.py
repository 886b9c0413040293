"""Deletes delete children and record a mark; event numbers ascend and are not reused."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric import plan as p
from flowfabric.store.port import Store
from flowfabric.store.schema import OUTBOXES
from flowfabric.testing.conformance import helpers as h

REMOVE = p.Form(
    "t_remove_all", p.Delete(h.EXEC, h.VERSIONED), returning=("execution_id", "lane_id")
)
REMOVE_NOTED = p.Form(
    "t_remove_noted",
    p.Delete(h.EXEC, h.VERSIONED),
    p.Emit(
        h.OPERATIONS,
        "removed",
        {"execution_id": p.After("execution_id"), "details": p.Before("tags")},
    ),
)
_CHILDREN = (h.ATTEMPT, h.GRANT, h.LEASES, h.COMPLETIONS, h.OPERATIONS)


def remove(n: int, version: int = 0, form: p.Form = REMOVE) -> p.Plan:
    return form(partition_key=0, execution_id=h.uid(n), version=version)


async def _with_children(store: Store, n: int) -> None:
    await h.put(
        store,
        h.execution(n, lane_id=f"l{n}", tags=f'{{"a.b":"l{n}"}}'),
        h.insert(h.ATTEMPT, execution_id=h.uid(n)),
        h.insert(h.GRANT, execution_id=h.uid(n)),
    )
    await h.put(store, h.insert(h.ATTEMPT, execution_id=h.uid(n), attempt_index=1))
    await h.put(
        store, *(h.insert(channel, execution_id=h.uid(n)) for channel in OUTBOXES for _ in range(2))
    )


async def test_delete_deletes_owned_rows_and_no_others(store: Store) -> None:
    for n in (1, 2):
        await _with_children(store, n)
    answer = await h.commit(store, remove(1))
    assert answer.row == (h.uid(1), "l1")
    for table in (h.EXEC, *_CHILDREN):
        rows = (await store.dump([table]))[table]
        assert rows and all(h.uid(2) in row and h.uid(1) not in row for row in rows), table


async def test_delete_keeps_children_of_the_same_id_in_another_partition(store: Store) -> None:
    await _with_children(store, 1)
    await h.put(
        store,
        h.insert(h.EXEC, partition_key=5, execution_id=h.uid(1)),
        h.insert(h.LEASES, partition_key=5, execution_id=h.uid(1)),
    )
    await h.put(store, h.insert(h.ATTEMPT, partition_key=5, execution_id=h.uid(1)), remove(1))
    assert await h.find(store, h.EXEC, 5, h.uid(1)) is not None
    assert (await h.count(store, h.ATTEMPT), await h.count(store, h.LEASES)) == (1, 1)


async def test_delete_records_the_highest_deleted_number_of_each_outbox(store: Store) -> None:
    for n in (1, 2, 3):
        await _with_children(store, n)
    highest = {c: [e["event_id"] for e in await h.events(store, c)] for c in OUTBOXES}
    await h.put(store, remove(2))
    for channel in OUTBOXES:
        assert (await h.get(store, "ff_outbox_trim", channel))["event_id"] == highest[channel][3]
    await h.put(store, remove(1))
    for channel in OUTBOXES:
        assert (await h.get(store, "ff_outbox_trim", channel))["event_id"] == highest[channel][3], (
            "a mark never sinks"
        )
    await h.put(store, remove(3))
    for channel in OUTBOXES:
        assert (await h.get(store, "ff_outbox_trim", channel))["event_id"] == highest[channel][5]


async def test_delete_without_events_leaves_no_mark(store: Store) -> None:
    await h.put(store, h.execution(1), h.insert(h.ATTEMPT, execution_id=h.uid(1)), remove(1))
    assert await h.count(store, "ff_outbox_trim") == 0


async def test_a_refused_delete_keeps_the_children(store: Store) -> None:
    await _with_children(store, 1)
    async with h.unchanged(store):
        assert await store.commit(remove(1, version=4)) == p.Refused()


async def test_concurrent_deletes_delete_their_own_children(store: Store) -> None:
    for n in range(1, 6):
        await _with_children(store, n)
    answers = await store.commit_many([remove(1), remove(9), remove(2), remove(2), remove(4)])
    assert h.applied(answers) == [True, False, True, False, True]
    assert {row[1] for row in (await store.dump([h.ATTEMPT]))[h.ATTEMPT]} == {h.uid(3), h.uid(5)}
    assert {e["execution_id"] for e in await h.events(store, h.COMPLETIONS)} == {h.uid(3), h.uid(5)}


async def test_an_event_of_a_delete_outlives_the_row(store: Store) -> None:
    await _with_children(store, 1)
    await h.put(store, remove(1, form=REMOVE_NOTED))
    told = await h.events(store, h.OPERATIONS)
    assert [(e["event_type"], e["execution_id"], e["details"]) for e in told] == [
        ("removed", h.uid(1), '{"a.b":"l1"}')
    ]
    assert (await h.get(store, "ff_outbox_trim", h.OPERATIONS))["event_id"] < told[0]["event_id"]


async def test_a_later_delete_deletes_all_matching_rows_or_none(store: Store) -> None:
    form = p.Form(
        "t_drop_attempts",
        p.Update(h.EXEC, h.VERSIONED, h.BUMP),
        p.Delete(
            h.ATTEMPT,
            (
                p.Cond("execution_id", "=", p.After("execution_id")),
                p.Cond("attempt_index", ">=", p.Arg("least")),
            ),
        ),
    )
    await h.put(
        store,
        h.execution(1),
        *(h.insert(h.ATTEMPT, execution_id=h.uid(1), attempt_index=n) for n in range(4)),
    )
    await h.put(store, h.insert(h.ATTEMPT, execution_id=h.uid(2), attempt_index=3))
    for version, least, left in ((0, 9, 5), (1, 2, 3), (2, 0, 1)):
        await h.put(
            store, form(partition_key=0, execution_id=h.uid(1), version=version, least=least)
        )
        assert await h.count(store, h.ATTEMPT) == left


async def test_a_guarded_delete_of_a_row_without_children(store: Store) -> None:
    form = p.Form(
        "t_drop_grant", p.Delete(h.GRANT, (*h.KEY, p.Cond("expires_at_ms", "<", p.Now())))
    )
    await h.put(
        store,
        h.insert(h.GRANT, execution_id=h.uid(1), expires_at_ms=1),
        h.insert(h.GRANT, execution_id=h.uid(2), expires_at_ms=10**14),
    )
    answers = await store.commit_many(
        [form(partition_key=0, execution_id=h.uid(n)) for n in (1, 2, 3)]
    )
    assert h.applied(answers) == [True, False, False]
    assert await h.count(store, h.GRANT) == 1


# ---- events

TELL = p.Form(
    "t_tell",
    p.Update(h.EXEC, h.VERSIONED, h.BUMP),
    p.Emit(
        h.LEASES,
        "first",
        {"execution_id": p.After("execution_id"), "lease_epoch": p.After("version")},
    ),
    p.Emit(h.COMPLETIONS, "success", {"execution_id": p.After("execution_id")}, at=p.Arg("at")),
    p.Emit(
        h.LEASES,
        "second",
        {"execution_id": p.After("execution_id"), "namespace": p.After("namespace")},
    ),
)


@pytest.mark.parametrize("channel", OUTBOXES)
async def test_events_are_read_ascending_after_a_number_up_to_a_limit(
    store: Store, channel: str
) -> None:
    assert (await store.read_events(channel, 0, 10), await store.last_event(channel)) == ([], 0)
    await h.put(store, *(h.insert(channel, occurred_at_ms=n) for n in range(10)))
    rows = await store.read_events(channel, 0, 100)
    numbers = [row[0] for row in rows]
    assert numbers == sorted(set(numbers)) and len(numbers) == 10 and numbers[0] > 0
    assert await store.last_event(channel) == numbers[-1]
    assert await store.read_events(channel, numbers[3], 4) == rows[4:8]
    assert await store.read_events(channel, numbers[-1], 4) == []
    assert await store.read_events(channel, numbers[-1] + 50, 4) == []


async def test_events_of_one_commit_keep_the_order_of_their_steps(store: Store) -> None:
    await h.put(store, h.execution(1))
    for version in range(3):
        await h.put(
            store, TELL(partition_key=0, execution_id=h.uid(1), version=version, at=version)
        )
    told = await h.events(store, h.LEASES)
    assert [e["event_type"] for e in told] == ["first", "second"] * 3
    assert [e["lease_epoch"] for e in told] == [1, None, 2, None, 3, None]
    completions = await h.events(store, h.COMPLETIONS)
    assert [(e["outcome"], e["occurred_at_ms"]) for e in completions] == [
        ("success", n) for n in range(3)
    ]
    assert {e["occurred_at_ms"] for e in told} == {await store.now_ms()}


@pytest.mark.parametrize("channel", OUTBOXES)
async def test_event_numbers_are_not_reused_after_a_delete(store: Store, channel: str) -> None:
    await h.put(
        store, h.execution(1), *(h.insert(channel, execution_id=h.uid(1)) for _ in range(3))
    )
    last = await store.last_event(channel)
    await h.put(store, remove(1))
    assert await h.events(store, channel) == []
    assert await store.last_event(channel) == last
    await h.put(store, h.insert(channel, execution_id=h.uid(2)))
    assert (await h.events(store, channel))[0]["event_id"] > last


async def test_last_event_counts_only_what_was_committed(store: Store) -> None:
    await h.put(store, h.insert(h.LEASES), h.execution(1))
    last = await store.last_event(h.LEASES)
    tell = TELL(partition_key=0, execution_id=h.uid(1), version=0, at=1)
    assert await store.commit_together([tell, remove(1, version=7)]) == p.Refused(1, 0)
    assert await store.last_event(h.LEASES) == last


async def test_a_gap_left_by_a_delete_does_not_stop_the_reader(store: Store) -> None:
    await h.put(
        store,
        h.execution(1),
        h.insert(h.LEASES, execution_id=h.uid(2)),
        *(h.insert(h.LEASES, execution_id=h.uid(1)) for _ in range(5)),
    )
    await h.put(store, h.insert(h.LEASES, execution_id=h.uid(3)), remove(1))
    first = await store.read_events(h.LEASES, 0, 1)
    second = await store.read_events(h.LEASES, first[0][0], 1)
    assert [first[0][1], second[0][1]] == [h.uid(2), h.uid(3)]


async def test_the_number_of_an_event_does_not_depend_on_another_channel(store: Store) -> None:
    await h.put(store, *(h.insert(h.LEASES) for _ in range(4)), h.insert(h.OPERATIONS))
    first: dict[str, Any] = (await h.events(store, h.OPERATIONS))[0]
    assert await store.last_event(h.OPERATIONS) == first["event_id"]
    assert await store.last_event(h.COMPLETIONS) == 0


async def test_a_plan_may_insert_twice_but_not_the_same_key(store: Store) -> None:
    form = p.Form(
        "t_two_inserts",
        p.Insert(h.LANE, {"lane_id": p.Arg("a"), "registered_at_ms": 1, "registered_by": "x"}),
        *[p.Insert(h.LANE, {"lane_id": p.Arg("b"), "registered_at_ms": 2, "registered_by": "x"})],
    )
    await h.commit(store, form(a="1", b="2"))
    assert await store.commit(form(a="3", b="3")) == p.Refused(0, 1)
    assert await h.count(store, h.LANE) == 2
