"""What is forgotten, and when."""

from __future__ import annotations

from flowfabric.model.execution import Execution
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Absent, Arg, Cond, Delete, Form, Plan, Ref
from flowfabric.rules.flow_cancels import BACKLOG_MEMBER
from flowfabric.rules.flows import EDGE
from flowfabric.rules.parts import EXEC, UNCHANGED, named

DEFAULT_RETENTION_MS = 86_400_000
MAX_TRIM_BATCH = 1_000

_NOBODY_WAITS = Absent(
    EDGE,
    (
        Cond("partition_key", "=", Arg("partition_key")),
        Cond("upstream_eid", "=", Arg("execution_id")),
        Cond("dep_state", "=", "unsatisfied"),
    ),
)
TRIM = Form(
    "trim",
    Delete(EXEC, (*UNCHANGED, Cond("lifecycle_phase", "in", ENDED_PHASES), _NOBODY_WAITS)),
    Delete(
        BACKLOG_MEMBER,
        (
            Cond("partition_key", "=", Ref("partition_key")),
            Cond("flow_id", "=", Ref("flow_id")),
            Cond("execution_id", "=", Arg("wire_id")),
        ),
    ),
)
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
    return TRIM(execution.partition_key, **named(execution), wire_id=str(execution.id))
