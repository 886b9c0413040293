"""Helpers of the suite: rows with default values, plans that write them, and reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from flowfabric.plan import Add, After, Applied, Arg, Cond, Form, Insert, Pick, Plan, Update, Wake
from flowfabric.store.port import Get, Row, Scan, Store, Tally
from flowfabric.store.schema import TABLES, Column
from flowfabric.store.wakeups import Topic

EXEC, ATTEMPT, GRANT, LANE = "ff_exec_core", "ff_attempt", "ff_claim_grant", "ff_lane_registry"
KEYS, EDGES = "ff_idempotency", "ff_edge_group"
LEASES, COMPLETIONS, OPERATIONS = "ff_lease_event", "ff_completion_event", "ff_operator_event"

KEY = (
    Cond("partition_key", "=", Arg("partition_key")),
    Cond("execution_id", "=", Arg("execution_id")),
)
VERSIONED = (*KEY, Cond("version", "=", Arg("version")))
BUMP = {"version": Add(1)}

Fields = dict[str, Any]
"""The columns of a row, by name."""

_INSERTS = {
    name: Form(
        f"test_insert_{name}",
        Insert(name, {c.name: Arg(c.name) for c in table.columns if c.kind != "auto"}),
    )
    for name, table in TABLES.items()
}
_GIVEN: dict[str, Any] = {
    "partition_key": 0,
    "lane_id": "lane",
    "lifecycle_phase": "runnable",
    "eligibility_state": "eligible_now",
    "attempt_state": "pending_first_attempt",
    "public_state": "waiting",
}
_BY_KIND: dict[str, Any] = {
    "int": 0,
    "text": "x",
    "real": 0.0,
    "bytes": b"",
    "json": "{}",
    "list": (),
}
SAME_KEY = {"partition_key": After("partition_key"), "execution_id": After("execution_id")}
WAITING = {
    "lifecycle_phase": "runnable",
    "eligibility_state": "eligible_now",
    "attempt_state": "pending_first_attempt",
    "public_state": "waiting",
    "created_at_ms": 1,
}
IN_LANE = {"lane_id": Arg("lane"), "namespace": "default", "gate": ""}
TAKEN: dict[str, Any] = {
    **BUMP,
    "eligibility_state": "not_applicable",
    "lifecycle_phase": "active",
    "ownership_state": "leased",
    "current_worker_id": Arg("worker"),
}
_TAKE = Form(
    "t_take",
    Update(EXEC, (), TAKEN),
    Wake("taken", After("lane_id")),
    pick=Pick("ready", IN_LANE),
    returning=("execution_id",),
)


def uid(n: int) -> UUID:
    """The n-th uuid of a test; their order is that of n."""
    return UUID(int=n)


def default_of(column: Column) -> object:
    if column.default is not None:
        return tuple(json.loads(str(column.default))) if column.kind == "list" else column.default
    if column.name in _GIVEN:
        return _GIVEN[column.name]
    if column.null:
        return None
    return uid(1) if column.kind in ("uuid", "uuidtext") else _BY_KIND[column.kind]


def row_of(table: str, **values: object) -> Fields:
    """A whole row: the given values, and defaults for the other columns."""
    known = TABLES[table].names
    assert set(values) <= set(known), set(values) - set(known)
    return {
        c.name: values.get(c.name, default_of(c)) for c in TABLES[table].columns if c.kind != "auto"
    }


def insert(table: str, **values: object) -> Plan:
    return _INSERTS[table](**row_of(table, **values))


def execution(n: int, **values: object) -> Plan:
    return insert(EXEC, execution_id=uid(n), **values)


def take(worker: str = "w", lane: str = "lane") -> Plan:
    return _TAKE(lane=lane, worker=worker)


def applied(answers: Sequence[object]) -> list[bool]:
    """Which of the answers say that a plan was applied."""
    return [isinstance(answer, Applied) for answer in answers]


async def commit(store: Store, plan: Plan) -> Applied:
    answer = await store.commit(plan)
    assert isinstance(answer, Applied)
    return answer


async def put(store: Store, *plans: Plan) -> None:
    assert all(applied(await store.commit_many(plans)))


async def find(store: Store, table: str, *key: object) -> Fields | None:
    rows = (await store.load((Get(table, key),))).rows[0]
    return dict(zip(TABLES[table].names, rows[0], strict=True)) if rows else None


async def get(store: Store, table: str, *key: object) -> Fields:
    found = await find(store, table, *key)
    assert found is not None, f"{table} has no {key}"
    return found


async def get_execution(store: Store, n: int) -> Fields:
    return await get(store, EXEC, 0, uid(n))


async def events(store: Store, channel: str) -> list[Fields]:
    rows = await store.read_events(channel, 0, 1_000)
    return [dict(zip(TABLES[channel].names, row, strict=True)) for row in rows]


async def count(store: Store, table: str) -> int:
    return len((await store.dump([table]))[table])


async def image(store: Store) -> bytes:
    """All tables of a store as bytes."""
    return repr(await store.dump(TABLES)).encode()


@asynccontextmanager
async def unchanged(store: Store) -> AsyncIterator[None]:
    """No table differs after the block."""
    before = await image(store)
    yield
    assert await image(store) == before


async def scan(store: Store, read: Scan | Tally) -> list[Row]:
    return (await store.load((read,))).rows[0]


class Rings:
    """The topics and due times announced to a hub, in order."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics: list[Topic] = []
        self.dues: list[tuple[str, float]] = []
        ring, due = store.hub.ring, store.hub.due

        def noted_ring(topics: Iterable[Topic]) -> None:
            noted = list(topics)
            self.topics += noted
            ring(noted)

        def noted_due(timer: str, at_ms: float) -> None:
            self.dues.append((timer, at_ms))
            due(timer, at_ms)

        monkeypatch.setattr(store.hub, "ring", noted_ring)
        monkeypatch.setattr(store.hub, "due", noted_due)


def on(form: Form, n: int, **args: object) -> Plan:
    return form(partition_key=0, execution_id=uid(n), **args)
