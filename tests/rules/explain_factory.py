"""Explanations from the rows around one execution."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flowfabric.model.execution import Lane
from flowfabric.model.explanation import (
    Budget,
    Explanation,
    Looked,
    Quota,
)
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions.explain import explain

from .factory import IDENT, NOW, execution

QUOTA_ID = UUID(int=0x90)
MIN = 60_000
FREE = Quota(QUOTA_ID, 10, 2, 2, None, (), 0)
SPENT = Budget(
    "b-1",
    {"usd": 5, "tokens": 100, "calls": 0},
    {"usd": 5, "tokens": 99, "calls": 7},
    NOW + 2 * MIN,
)


def worker(
    instance: str = "w-1", *offered: str, lanes: tuple[str, ...] = ("default",)
) -> WorkerInfo:
    return WorkerInfo("default", instance, "w", lanes, offered, NOW, 1_000, NOW + 1_000, NOW)


def lane(state: str) -> Lane:
    return Lane("default", NOW - MIN, "test", state, NOW - 3 * MIN)


def explained(
    vector: str = "READY", *, reason: str | None = None, outcome: str | None = None, **said: Any
) -> Explanation:
    around = {name: said.pop(name) for name in tuple(said) if name in Looked.__struct_fields__}
    of = around.pop("execution", None) or execution(vector, reason=reason, outcome=outcome, **said)
    found = explain(Looked(NOW, of, **around))
    assert found.execution_id == IDENT and found.as_of_ms == NOW and found.reasons
    return found


def codes(found: Explanation) -> list[str]:
    return [reason.code.value for reason in found.reasons]
