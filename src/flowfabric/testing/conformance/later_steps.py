"""Steps behind the deciding one: UpdateMany and Upsert."""

from __future__ import annotations

import pytest

from flowfabric.plan import (
    Add,
    After,
    Applied,
    Arg,
    Cond,
    Form,
    Update,
    UpdateMany,
    Upsert,
)
from flowfabric.store.port import Store
from flowfabric.testing.conformance.helpers import (
    ATTEMPT,
    BUMP,
    EXEC,
    GRANT,
    SAME_KEY,
    VERSIONED,
    execution,
    get,
    insert,
    on,
    put,
    uid,
)

_TOUCH = Form(
    "t_touch_attempts",
    Update(EXEC, VERSIONED, BUMP),
    UpdateMany(
        ATTEMPT,
        (
            *(Cond(c, "=", v) for c, v in SAME_KEY.items()),
            Cond("attempt_state", "=", "created"),
        ),
        {"lease_epoch": Add(2), "attempt_state": "touched"},
    ),
)


@pytest.mark.parametrize(
    "states", [[], ["ended"], ["created"], ["created", "ended", "created", "created"]]
)
async def test_update_many_changes_all_matching_rows_or_none(
    store: Store, states: list[str]
) -> None:
    await put(
        store, execution(1), execution(2), insert(ATTEMPT, execution_id=uid(2), attempt_index=0)
    )
    for at, state in enumerate(states):
        await put(
            store,
            insert(
                ATTEMPT, execution_id=uid(1), attempt_index=at, attempt_state=state, lease_epoch=10
            ),
        )
    assert isinstance(await store.commit(on(_TOUCH, 1, version=0)), Applied)
    for at, state in enumerate(states):
        row = await get(store, ATTEMPT, 0, uid(1), at)
        assert (row["attempt_state"], row["lease_epoch"]) == (
            ("touched", 12) if state == "created" else (state, 10)
        )
    assert (await get(store, ATTEMPT, 0, uid(2), 0))["attempt_state"] == "created"


_SET_GRANT = {"worker_id": Arg("worker"), "grant_ttl_ms": Add(1), "lane_id": After("lane_id")}
_GRANTED = Form(
    "t_upsert_grant",
    Update(EXEC, VERSIONED, {**BUMP, "lane_id": Arg("lane")}),
    Upsert(
        GRANT,
        {
            **SAME_KEY,
            "grant_id": "g",
            "kind": "claim",
            "worker_id": Arg("worker"),
            "worker_instance_id": "i",
            "lane_id": After("lane_id"),
        }
        | {"grant_ttl_ms": 100, "issued_at_ms": 1, "expires_at_ms": 2},
        _SET_GRANT,
    ),
)


async def test_upsert_inserts_first_and_changes_afterwards(store: Store) -> None:
    await put(store, execution(1))
    assert isinstance(
        await store.commit(on(_GRANTED, 1, version=0, worker="a", lane="l1")), Applied
    )
    grant = await get(store, GRANT, 0, uid(1))
    assert (grant["worker_id"], grant["grant_ttl_ms"], grant["lane_id"]) == ("a", 100, "l1")
    assert isinstance(
        await store.commit(on(_GRANTED, 1, version=1, worker="b", lane="l2")), Applied
    )
    grant = await get(store, GRANT, 0, uid(1))
    assert (grant["worker_id"], grant["grant_ttl_ms"], grant["lane_id"], grant["kind"]) == (
        "b",
        101,
        "l2",
        "claim",
    )
