"""The removal of ended executions, their flows and their idempotency keys."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from flowfabric.model.bulk import Why
from flowfabric.model.event import OPERATOR_EVENTS
from flowfabric.model.execution import Execution
from flowfabric.model.flow import Flow
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Absent, Arg, Cond, Delete, Emit, Form, Plan, Present, Update
from flowfabric.rules.columns import by_args, by_row, from_row
from flowfabric.rules.executions.create import KEY, KEY_TIME_IS_OVER, OF_KEY
from flowfabric.rules.flows.cancels import BACKLOG_MEMBER
from flowfabric.rules.flows.flow_forms import EDGE, FLOW, FLOW_UNCHANGED
from flowfabric.rules.flows.flows import named_flow
from flowfabric.rules.fragments import EXEC, UNCHANGED, details, named, operator_event

DEFAULT_RETENTION_MS = 86_400_000
DEFAULT_FAILED_RETENTION_MS = 7 * 86_400_000
MAX_TRIM_BATCH = 1_000

_NO_OPEN_EDGE = Absent(
    EDGE,
    (
        Cond("partition_key", "=", Arg("partition_key")),
        Cond("upstream_eid", "=", Arg("execution_id")),
        Cond("dep_state", "=", "unsatisfied"),
    ),
)
_TRIMMED = (
    Delete(EXEC, (*UNCHANGED, Cond("lifecycle_phase", "in", ENDED_PHASES), _NO_OPEN_EDGE)),
    Delete(
        BACKLOG_MEMBER,
        (*by_row("partition_key", "flow_id"), Cond("execution_id", "=", Arg("wire_id"))),
    ),
    Delete(KEY, (*by_row("namespace", "idempotency_key", "execution_id"), KEY_TIME_IS_OVER)),
)
TRIM = Form("trim", *_TRIMMED)
DELETE = Form("delete_execution", *_TRIMMED, operator_event("deleted", Arg("details")))
DELETE_BY_JOB = Form(
    "job_delete_execution",
    *_TRIMMED,
    Emit(
        OPERATOR_EVENTS,
        "deleted",
        {"execution_id": Arg("job_id"), **from_row("namespace"), "details": Arg("details")},
        Arg("now"),
    ),
)
"""The event belongs to the job, which is kept for a while after the execution is gone."""
TRIM_FLOW = Form("trim_flow", Delete(FLOW, FLOW_UNCHANGED))
_KEPT = (*by_args("partition_key", "execution_id"), *OF_KEY)
_EXPIRED = (*OF_KEY, Cond("expires_at_ms", "<=", Arg("now")), *by_args("execution_id"))
FORGET_KEY = Form("forget_idempotency_key", Delete(KEY, (*_EXPIRED, Absent(EXEC, _KEPT))))
KEEP_KEY = Form(
    "keep_idempotency_key",
    Update(KEY, (*_EXPIRED, Present(EXEC, _KEPT)), {"expires_at_ms": None}),
)


def forget_key(key: tuple[str, str, int, UUID], now: int, *, kept: bool) -> Plan:
    """Removes an expired key. If its execution is kept, the key is removed with it instead."""
    columns = dict(
        zip(("namespace", "idempotency_key", "partition_key", "execution_id"), key, strict=True)
    )
    return (KEEP_KEY if kept else FORGET_KEY)(**columns, now=now)


def is_unfinished(phases: Iterable[str], parent_phase: str | None) -> bool:
    """Whether a member of the flow, or the parent of its children, may still read the members."""
    parent = () if parent_phase is None else (parent_phase,)
    return any(phase not in ENDED_PHASES for phase in (*phases, *parent))


def delete(execution: Execution, why: Why, now: int) -> Plan:
    """Removes an ended execution at the request of an operator."""
    values = {**named(execution), "wire_id": str(execution.id), "now": now}
    told = details(why, execution=str(execution.id), state=execution.public_state)
    if why.job_id is None:
        return DELETE(**values, details=told)
    return DELETE_BY_JOB(**values, details=told, job_id=why.job_id)


def delete_flow(flow: Flow) -> Plan:
    """Removes a flow whose last members are removed."""
    return TRIM_FLOW(**named_flow(flow))


def trim(execution: Execution) -> Plan:
    return TRIM(**named(execution), wire_id=str(execution.id))


def trim_whole(flow: Flow, members: Iterable[Execution]) -> list[Plan]:
    """Removes a flow with its last members, unless a member has joined in between."""
    return [*map(trim, members), TRIM_FLOW(**named_flow(flow))]
