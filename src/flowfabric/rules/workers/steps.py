"""Steps of a task: recorded once, by whoever holds the lease, in the order they were reached."""

from __future__ import annotations

from flowfabric.errors import Conflict, ConflictKind
from flowfabric.model.lease import HandleFields
from flowfabric.model.step import StepRecord
from flowfabric.plan import Arg, Form, Insert, Now, Plan, Present
from flowfabric.rules.fragments import EXEC, LIVE_LEASE

STEP = "ff_step"

RECORD = Form(
    "record_step",
    Insert(
        STEP,
        {
            "partition_key": Arg("partition_key"),
            "execution_id": Arg("execution_id"),
            "position": Arg("position"),
            "name": Arg("name"),
            "kind": Arg("kind"),
            "attempt_index": Arg("attempt_index"),
            "recorded_at_ms": Now(),
            "value": Arg("value"),
        },
        (Present(EXEC, LIVE_LEASE),),
    ),
)


def record(handle: HandleFields, position: int, name: str, kind: str, value: bytes | None) -> Plan:
    return RECORD(
        partition_key=handle.execution_id.partition_index,
        execution_id=handle.execution_id.uuid,
        attempt_index=handle.attempt_index,
        lease_epoch=handle.lease_epoch,
        lease_id=handle.lease_id,
        worker_instance_id=handle.worker_instance_id,
        position=position,
        name=name,
        kind=kind,
        value=value,
    )


def same(stored: StepRecord, name: str, kind: str) -> StepRecord:
    """What was recorded before, if it was the same step: the answer got lost, the work did not."""
    if (stored.name, stored.kind) == (name, kind):
        return stored
    found = (
        f"position {stored.position} is already {stored.kind} {stored.name!r}, not {kind} {name!r}"
    )
    raise Conflict(ConflictKind.STEP_MISMATCH, found)
