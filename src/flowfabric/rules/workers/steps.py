"""Steps of a task: recorded once, by the holder of the lease, in the order of execution."""

from __future__ import annotations

from flowfabric.errors import Conflict, ConflictKind
from flowfabric.model.lease import HandleFields
from flowfabric.model.step import StepRecord
from flowfabric.plan import Arg, Form, Insert, Now, Plan, Present
from flowfabric.rules.columns import from_args
from flowfabric.rules.fragments import EXEC, LIVE_LEASE
from flowfabric.rules.leases.attempts import held_by

STEP = "ff_step"

RECORD = Form(
    "record_step",
    Insert(
        STEP,
        {
            **from_args(
                "partition_key", "execution_id", "position", "name", "kind", "attempt_index"
            ),
            "recorded_at_ms": Now(),
            "value": Arg("value"),
        },
        (Present(EXEC, LIVE_LEASE),),
    ),
)


def record(handle: HandleFields, position: int, name: str, kind: str, value: bytes | None) -> Plan:
    return RECORD(
        **held_by(handle),
        position=position,
        name=name,
        kind=kind,
        value=value,
    )


def same(stored: StepRecord, name: str, kind: str) -> StepRecord:
    """The stored step, if a repeated call recorded the same one; otherwise an error."""
    if (stored.name, stored.kind) == (name, kind):
        return stored
    found = (
        f"position {stored.position} is already {stored.kind} {stored.name!r}, not {kind} {name!r}"
    )
    raise Conflict(ConflictKind.STEP_MISMATCH, found)
