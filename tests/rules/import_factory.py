"""Rows of the original, and the invariants of what is imported from them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from flowfabric.connect.importing import whole_row
from flowfabric.rules.imports.importer import import_rows
from flowfabric.rules.imports.original import Imported, Original
from flowfabric.store.schema import TABLES
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

AT = 1_000
Tables = dict[str, list[dict[str, Any]]]
E, F, G = (UUID(int=n << 64 | 0x8 << 60) for n in (1, 2, 3))
_EXECUTION = {
    "flow_id": None,
    "lane_id": "l",
    "attempt_index": 0,
    "lifecycle_phase": "runnable",
    "ownership_state": "unowned",
    "eligibility_state": "eligible_now",
    "public_state": "waiting",
    "attempt_state": "pending_first_attempt",
    "cancellation_reason": None,
    "cancelled_by": None,
    "priority": 0,
    "created_at_ms": AT,
    "started_at_ms": None,
    "terminal_at_ms": None,
    "deadline_at_ms": None,
    "payload": b"",
    "result": None,
    "policy": None,
    "lease_reclaim_count": 0,
}


def execution(ident: UUID = E, raw: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    stored = {"namespace": "ns", "last_mutation_at": str(AT), **(raw or {})}
    known = {**_EXECUTION, "partition_key": 0, "raw_fields": json.dumps(stored)}
    return {**known, "execution_id": ident.bytes, **fields}


def attempt(ident: UUID = E, index: int = 0, **fields: Any) -> dict[str, Any]:
    known = {
        "worker_id": "w",
        "worker_instance_id": "w-1",
        "lease_epoch": 1,
        "usage": None,
        "lease_expires_at_ms": None,
        "started_at_ms": AT,
        "terminal_at_ms": None,
        "outcome": None,
        "policy": None,
        "raw_fields": "{}",
    }
    key = {"partition_key": 0, "execution_id": ident.bytes, "attempt_index": index}
    return {**known, **key, **fields}


def event(number: int, ident: UUID | str = E, **fields: Any) -> dict[str, Any]:
    stored = ident.bytes if isinstance(ident, UUID) else ident
    known = {"event_id": number, "execution_id": stored, "partition_key": 0, "namespace": "ns"}
    times = {"occurred_at_ms": AT, "committed_at_ms": AT, "delivered_at_ms": AT}
    rest = {"instance_tag": None, "dispatched_at_ms": None, "flow_id": None, "lease_id": None}
    return {**known, **times, **rest, **fields}


def imported(**tables: list[dict[str, Any]]) -> Imported:
    """The import of these tables, which keeps every invariant."""
    made = import_rows(Original(tables))
    rows = {
        name: [whole_row(TABLES[name], row) for row in made.rows.get(name, ())]
        for name in TABLES_READ
    }
    assert check(snapshot_of(rows)) == []
    return made


def facts(made: Imported, kind: str = "") -> list[tuple[str, str]]:
    return [(note.table, note.fact) for note in made.notes if note.kind.startswith(kind)]
