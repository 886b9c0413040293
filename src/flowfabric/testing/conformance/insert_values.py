"""Values of an insert: stored, returned, and referred to by later steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Before,
    Cond,
    Emit,
    Form,
    Fresh,
    Insert,
    Now,
    Plan,
    Text,
    Update,
    When,
)
from flowfabric.store.port import Store
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance.helpers import (
    BUMP,
    EXEC,
    KEY,
    LANE,
    LEASES,
    VERSIONED,
    events,
    execution,
    get,
    get_execution,
    put,
    uid,
)

_ROW: dict[str, Any] = {
    "partition_key": 0,
    "execution_id": Arg("id"),
    "lane_id": Arg("lane"),
    "lifecycle_phase": "runnable",
    "eligibility_state": "eligible_now",
    "attempt_state": Text(("in ", Arg("lane"))),
    "public_state": "waiting",
    "created_at_ms": Now(),
    "deadline_at_ms": Now(Arg("within")),
}
MADE = Form("t_made", Insert(EXEC, {**_ROW, "current_lease_id": Fresh()}))
MADE_TOLD = Form(
    "t_made_told",
    Insert(EXEC, _ROW),
    Emit(
        LEASES,
        "x",
        {
            "execution_id": After("execution_id"),
            "reason": After("lane_id"),
            "lease_epoch": After("deadline_at_ms"),
        },
    ),
    returning=("execution_id", "created_at_ms", "deadline_at_ms"),
)
MADE_FRESH = Form(
    "t_made_fresh",
    Insert(EXEC, {**_ROW, "current_lease_id": Fresh()}),
    returning=("current_lease_id",),
)
MADE_TEXT = Form("t_made_text", Insert(EXEC, _ROW), returning=("attempt_state",))
MADE_DEFAULT = Form(
    "t_made_default",
    Insert(EXEC, _ROW),
    Emit(
        LEASES,
        "x",
        {
            "execution_id": After("execution_id"),
            "namespace": After("namespace"),
            "lease_epoch": After("version"),
        },
    ),
    returning=("namespace", "priority", "budget_ids", "flow_id"),
)


def made(form: Form, n: int = 1, within: int | None = 5) -> Plan:
    return form(id=uid(n), lane="a", within=within)


@pytest.mark.parametrize("within", [5, None])
async def test_an_insert_takes_arguments_the_time_texts_and_fresh_uuids(
    store: Store, clock: ManualClock, within: int | None
) -> None:
    await put(store, made(MADE, 1, within), made(MADE, 2, within))
    first, second = await get_execution(store, 1), await get_execution(store, 2)
    assert first["created_at_ms"] == clock.now_ms
    assert first["deadline_at_ms"] == (None if within is None else clock.now_ms + within)
    assert first["attempt_state"] == "in a"
    assert isinstance(first["current_lease_id"], UUID)
    assert first["current_lease_id"] != second["current_lease_id"]


async def test_an_insert_returns_and_is_referred_to_as_stored(
    store: Store, clock: ManualClock
) -> None:
    now = clock.now_ms
    assert await store.commit(made(MADE_TOLD)) == Applied(now, (uid(1), now, now + 5))
    event = (await events(store, LEASES))[0]
    assert (event["execution_id"], event["reason"], event["lease_epoch"]) == (uid(1), "a", now + 5)


async def test_an_insert_returns_the_fresh_uuid_it_stored(store: Store) -> None:
    answer = await store.commit(made(MADE_FRESH))
    assert isinstance(answer, Applied)
    assert answer.row == ((await get_execution(store, 1))["current_lease_id"],)


async def test_an_insert_returns_the_text_it_stored(store: Store) -> None:
    answer = await store.commit(made(MADE_TEXT))
    assert isinstance(answer, Applied) and answer.row == ("in a",)


async def test_an_insert_returns_and_is_referred_to_by_columns_left_at_their_default(
    store: Store,
) -> None:
    answer = await store.commit(made(MADE_DEFAULT))
    assert isinstance(answer, Applied) and answer.row == ("default", 0, (), None)
    event = (await events(store, LEASES))[0]
    assert (event["namespace"], event["lease_epoch"]) == ("default", 0)


async def test_a_later_row_uses_the_row_before_and_after(store: Store) -> None:
    form = Form(
        "t_before_and_after",
        Update(EXEC, VERSIONED, {**BUMP, "lane_id": Arg("lane")}),
        Insert(
            LANE,
            {
                "lane_id": Text((Before("lane_id"), "->", After("lane_id"))),
                "registered_at_ms": Now(After("version")),
                "registered_by": When(Cond("version", "=", 0), "first", "later"),
                "updated_at_ms": Before("version"),
            },
        ),
    )
    await put(
        store, execution(1), form(partition_key=0, execution_id=uid(1), version=0, lane="new")
    )
    found = await get(store, LANE, "lane->new")
    assert (found["registered_at_ms"], found["registered_by"], found["updated_at_ms"]) == (
        await store.now_ms() + 1,
        "first",
        0,
    )


async def test_add_takes_a_value_of_the_call(store: Store) -> None:
    by = Form("t_grow", Update(EXEC, KEY, {"version": Add(Arg("by"))}), returning=("version",))
    await put(store, execution(1), execution(2, version=5))
    answers = await store.commit_many(
        [by(partition_key=0, execution_id=uid(n), by=b) for n, b in ((1, 3), (2, -7), (1, 4))]
    )
    assert [answer.row for answer in answers if isinstance(answer, Applied)] == [(3,), (-2,), (7,)]
