"""What is forgotten, and when."""

from __future__ import annotations

from flowfabric.model.execution import Execution
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Arg, Cond, Delete, Form, Plan
from flowfabric.rules.parts import EXEC, UNCHANGED, named

DEFAULT_RETENTION_MS = 86_400_000
MAX_TRIM_BATCH = 1_000

TRIM = Form("trim", Delete(EXEC, (*UNCHANGED, Cond("lifecycle_phase", "in", ENDED_PHASES))))
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


def trim(execution: Execution) -> Plan:
    return TRIM(execution.partition_key, **named(execution))
