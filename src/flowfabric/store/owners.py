"""The namespace of each row, for a store in which a namespace is a place of its own.

Owners come before what they own, in the order of the declared tables. A row without a namespace
has that of its owner, so only the owners outside the namespace `default` are kept.
"""

from __future__ import annotations

import json

from flowfabric.errors import ValidationError
from flowfabric.ids import ExecutionId, name
from flowfabric.store.port import Row
from flowfabric.store.schema import Table

BASE = "default"
EVERYWHERE = frozenset({"ff_lane_registry", "ff_waitpoint_hmac", "ff_outbox_trim"})
"""Every namespace has a copy of these rows."""
BASE_ONLY = frozenset({"ff_api_token"})
JOBS = "ff_bulk_job"
COUNTED = ("matched", "changed", "skipped", "refused")
_OWNERS = ("quota_policy_id", "flow_id", "execution_id", "budget_id")
_IDS = {
    "ff_exec_core": "execution_id",
    "ff_flow_core": "flow_id",
    "ff_budget_policy": "budget_id",
    "ff_quota_policy": "quota_policy_id",
}


class Owners:
    def __init__(self) -> None:
        self._spaces: dict[object, str] = {}
        self._cells: dict[str, str] = {}

    def note(self, table: Table, row: Row) -> str | None:
        """The namespace of a row, which its children will have; None for a row of all."""
        named = self._space(table, row)
        space = None if named is None else self._cell(named)
        if space is not None and space != BASE and table.name in _IDS:
            self._spaces[row[table.names.index(_IDS[table.name])]] = space
            if table.name == "ff_exec_core":
                flow = row[table.names.index("flow_id")]
                if flow is not None:
                    self._spaces[flow] = space
        return space

    def _cell(self, namespace: str) -> str:
        """A name that no operation accepts, which an import may bring, has no cell: its executions
        are found by their ids.
        """
        if namespace not in self._cells:
            try:
                self._cells[namespace] = name(namespace, "namespace")
            except ValidationError:
                self._cells[namespace] = BASE
        return self._cells[namespace]

    def _space(self, table: Table, row: Row) -> str | None:
        if table.name in BASE_ONLY:
            return BASE
        if table.name in EVERYWHERE:
            return None
        if "namespace" in table.names:
            space = row[table.names.index("namespace")]
            if space is not None or table.name == JOBS:
                return None if space is None else str(space)
        if table.name == "ff_flow_core":
            space = _named(row[table.names.index("raw_fields")])
            if space is not None:
                return space
        column = next(each for each in _OWNERS if each in table.names)
        return self._spaces.get(row[table.names.index(column)], BASE)

    def part(self, table: Table, row: Row, namespace: str, owner: str | None) -> Row | None:
        """What a namespace gets of a row of its own, or of all. A bulk job of all goes on in each
        of them, and has its counts in one.
        """
        if owner is not None or namespace == BASE or table.name != JOBS:
            return row
        job = dict(zip(table.names, row, strict=True))
        if job["state"] != "running":
            return None
        left = [each for each in json.loads(job["follow_ups"]) if self._has(namespace, each)]
        job |= dict.fromkeys(COUNTED, 0)
        job |= {"errors": "[]", "follow_ups": json.dumps(left, separators=(",", ":"))}
        return tuple(job.values())

    def _has(self, namespace: str, execution: str) -> bool:
        return self._spaces.get(ExecutionId(execution).uuid, BASE) == namespace


def is_of_all(table: Table) -> bool:
    """Whether a row can be one of all namespaces."""
    return table.name in EVERYWHERE or table.name == JOBS


def _named(raw_fields: str) -> str | None:
    try:
        found = json.loads(raw_fields)
    except ValueError:
        return None
    space = found.get("namespace") if isinstance(found, dict) else None
    return space if isinstance(space, str) and space else None
