"""Delivers signals to the rows of a wait."""

from __future__ import annotations

from typing import Any

from flowfabric.model.execution import Execution
from flowfabric.model.waitpoint import (
    Condition,
    DeliverSignalArgs,
    Single,
    Suspension,
    Waitpoint,
)
from flowfabric.rules.decision import Commit
from flowfabric.rules.waits.signals import Delivery, deliver
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    NOW,
    applied,
    attempt,
)
from .wait_factory import (
    deliver_args,
    suspended,
    suspension,
    waitpoint,
)

MET, KEPT = "resume_condition_satisfied", "appended_to_waitpoint"
DEDUP = "ff_signal_dedup"


def around(
    of: Execution | None = None,
    at: Waitpoint | None = None,
    wait: Suspension | None = None,
    **more: Any,
) -> tuple[Delivery, list[Any]]:
    """The snapshot of a delivery, and the rows that it is applied to."""
    of, at, wait = of or suspended(flow_id=FLOW_ID), at or waitpoint(), wait or suspension()
    given: dict[str, Any] = {"now_ms": NOW, "duplicate_of": None, "signals": 0, **more}
    return Delivery(execution=of, waitpoint=at, suspension=wait, **given), [
        of,
        attempt(of),
        at,
        wait,
    ]


def delivered(
    condition: Condition = Single("a"),  # noqa: B008
    args: DeliverSignalArgs | None = None,
    *others: Waitpoint,
    at: Waitpoint | None = None,
    **columns: Any,
) -> tuple[str, MemoryStore]:
    seen, rows = around(at=at, wait=suspension(condition, **columns))
    decision = deliver(seen, args or deliver_args())
    assert isinstance(decision, Commit)
    assert decision.result.signal_id == (args or deliver_args()).signal_id
    return decision.result.effect, applied(decision, *rows, *others)
