"""What every case of the suite needs: rows with sensible values, plans to write them, and ways to look."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from flowfabric.plan import Add, Applied, Arg, Cond, Form, Insert, Plan
from flowfabric.store.port import Get, Scan, Store, Tally
from flowfabric.store.schema import TABLES, Column

EXEC, ATTEMPT, GRANT, LANE = "ff_exec_core", "ff_attempt", "ff_claim_grant", "ff_lane_registry"
KEYS, EDGES = "ff_idempotency", "ff_edge_group"
LEASES, COMPLETIONS, OPERATIONS = "ff_lease_event", "ff_completion_event", "ff_operator_event"

KEY = (
    Cond("partition_key", "=", Arg("partition_key")),
    Cond("execution_id", "=", Arg("execution_id")),
)
VERSIONED = (*KEY, Cond("version", "=", Arg("version")))
BUMP = {"version": Add(1)}

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


def uid(n: int) -> UUID:
    """The n-th uuid of a test; their order is that of n."""
    return UUID(int=n)


def default_of(column: Column) -> Any:
    if column.default is not None:
        return tuple(json.loads(column.default)) if column.kind == "list" else column.default
    if column.name in _GIVEN:
        return _GIVEN[column.name]
    if column.null:
        return None
    return uid(1) if column.kind in ("uuid", "uuidtext") else _BY_KIND[column.kind]


def row_of(table: str, **values: Any) -> dict[str, Any]:
    """A whole row: what is given, and something sensible elsewhere."""
    known = TABLES[table].names
    assert set(values) <= set(known), set(values) - set(known)
    return {
        c.name: values.get(c.name, default_of(c)) for c in TABLES[table].columns if c.kind != "auto"
    }


def insert(table: str, **values: Any) -> Plan:
    return _INSERTS[table](**row_of(table, **values))


def execution(n: int, **values: Any) -> Plan:
    return insert(EXEC, execution_id=uid(n), **values)


async def put(store: Store, *plans: Plan) -> None:
    for answer in await store.commit_many(plans):
        assert isinstance(answer, Applied)


async def find(store: Store, table: str, *key: Any) -> dict[str, Any] | None:
    rows = (await store.load((Get(table, key),))).rows[0]
    return dict(zip(TABLES[table].names, rows[0], strict=True)) if rows else None


async def get(store: Store, table: str, *key: Any) -> dict[str, Any]:
    found = await find(store, table, *key)
    assert found is not None, f"{table} has no {key}"
    return found


async def get_execution(store: Store, n: int) -> dict[str, Any]:
    return await get(store, EXEC, 0, uid(n))


async def events(store: Store, channel: str) -> list[dict[str, Any]]:
    rows = await store.read_events(channel, 0, 1_000)
    return [dict(zip(TABLES[channel].names, row, strict=True)) for row in rows]


async def count(store: Store, table: str) -> int:
    return len((await store.dump([table]))[table])


async def image(store: Store) -> bytes:
    """Everything a store holds."""
    return repr(await store.dump(TABLES)).encode()


async def scan(store: Store, read: Scan | Tally) -> list[tuple[Any, ...]]:
    return (await store.load((read,))).rows[0]


class Rings:
    """What a hub was told, in order."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics: list[tuple[str, Any]] = []
        self.dues: list[tuple[str, float]] = []
        hub, ring, due = store.hub, store.hub.ring, store.hub.due
        monkeypatch.setattr(hub, "ring", self._noting(self.topics.extend, ring))
        monkeypatch.setattr(hub, "due", lambda timer, at_ms: self._due(due, timer, at_ms))

    def _noting(
        self, note: Callable[[Any], None], ring: Callable[[Any], None]
    ) -> Callable[[Any], None]:
        def rung(topics: Any) -> None:
            asked = list(topics)
            note(asked)
            ring(asked)

        return rung

    def _due(self, due: Callable[[str, float], None], timer: str, at_ms: float) -> None:
        self.dues.append((timer, at_ms))
        due(timer, at_ms)
