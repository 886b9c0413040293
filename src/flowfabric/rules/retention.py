"""What is forgotten, and when."""

from __future__ import annotations

from flowfabric.model.execution import Execution
from flowfabric.plan import Arg, Cond, Delete, Form, Plan
from flowfabric.rules.parts import EXEC, UNCHANGED, named

DEFAULT_RETENTION_MS = 86_400_000
MAX_TRIM_BATCH = 1_000

TRIM = Form("trim", Delete(EXEC, (*UNCHANGED, Cond("lifecycle_phase", "in", ("terminal", "cancelled")))))
FORGET_KEY = Form(
    "forget_idempotency_key",
    Delete(
        "ff_idempotency",
        (
            Cond("namespace", "=", Arg("namespace")),
            Cond("idempotency_key", "=", Arg("idempotency_key")),
            Cond("expires_at_ms", "<=", Arg("now")),
        ),
    ),
)


def is_due(execution: Execution, retention_ms: int, now_ms: int) -> bool:
    """An ended execution is kept for its own time if its policy gives one, else for the lane's."""
    if execution.terminal_at_ms is None:
        return False
    kept = retention_ms if execution.retention_ttl_ms is None else execution.retention_ttl_ms
    return execution.terminal_at_ms + kept <= now_ms


def trim(execution: Execution) -> Plan:
    return TRIM(execution.partition_key, **named(execution))
