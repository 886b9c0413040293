"""The erasure of a namespace: its executions are cancelled and deleted, then its other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flowfabric.ids import FLOW_PARTITIONS
from flowfabric.plan import Delete, Form, Plan, Wake
from flowfabric.rules.columns import by_args
from flowfabric.rules.limits.limit_scopes import LIMITS

CANCEL, DELETE, ROWS = "cancel", "delete", "rows"
_NEXT = {CANCEL: DELETE, DELETE: ROWS}


class Progress(Struct, frozen=True):
    """Where an erasure is: its phase, and the position within it."""

    phase: str
    position: str | None = None


def progress_of(cursor: str | None) -> Progress:
    phase, _, position = (cursor or CANCEL).partition(":")
    return Progress(phase, position or None)


def cursor_of(phase: str, position: str | None) -> str | None:
    """The cursor behind a page. Without a position the phase is over."""
    if position is not None:
        return f"{phase}:{position}"
    return _NEXT.get(phase)


class Erased(Struct, frozen=True):
    """A table with rows of namespaces, and an index that reads all of it. `key` names a row."""

    table: str
    index: str
    by: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key, *self.by)))


_SCOPE = ("scope_type", "scope_id", "kind", "limit_id")
_GATE = ("lane_id", "namespace", "gate")
_WORKER = ("namespace", "worker_instance_id")
TABLES = (
    Erased(
        "ff_idempotency",
        "idempotency",
        ("expires_at_ms", "namespace", "idempotency_key"),
        ("namespace", "idempotency_key"),
    ),
    Erased("ff_worker_registry", "all_workers", _WORKER, _WORKER),
    Erased("ff_worker_registry_event", "worker_events", ("event_at_ms", "event_id"), ("event_id",)),
    Erased("ff_schedule", "all_schedules", ("namespace", "name"), ("namespace", "name")),
    Erased("ff_task", "all_tasks", ("namespace", "name"), ("namespace", "name")),
    Erased("ff_api_token", "api_tokens", ("token_id",), ("token_id",)),
    Erased("ff_limit_scope", "limit_scopes", _SCOPE, _SCOPE),
    Erased("ff_lane_gate", "all_gates", _GATE, _GATE),
    Erased("ff_budget_policy", "budgets", ("budget_id",), ("budget_id",)),
    Erased("ff_quota_policy", "quotas", ("quota_policy_id",), ("quota_policy_id",)),
    Erased("ff_bulk_job", "bulk_jobs", ("created_at_ms", "job_id"), ("job_id",)),
)
PARTS = FLOW_PARTITIONS + len(TABLES)
"""Flows are read partition by partition, then the tables."""


def _form(erased: Erased) -> Form:
    columns = tuple(dict.fromkeys((*erased.key, "namespace")))
    wakes = (Wake(LIMITS),) if erased.table == "ff_limit_scope" else ()
    name = erased.table.removeprefix("ff_")
    return Form(f"erase_{name}", Delete(erased.table, by_args(*columns)), *wakes)


_FORMS = {erased.table: _form(erased) for erased in TABLES}


def erase(erased: Erased, namespace: str, rows: Sequence[Sequence[Any]]) -> list[Plan]:
    """Plans that remove these rows, whose first columns are the key."""
    form = _FORMS[erased.table]
    keys = [dict(zip(erased.key, row, strict=False)) for row in rows]
    return [form(**{**key, "namespace": namespace}) for key in keys]
