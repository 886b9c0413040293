"""Checks of quotas: slots and admissions are within the limits, and slots are released."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.quota import DEFAULT_DIMENSION, Attached, QuotaPolicy
from flowfabric.rules.states import is_ended
from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Violation, violation

SLOT_SLACK_MS = 120_000
"""Time in which the reconciler removes the slot of an ended execution."""


def running_is_within_the_cap(snapshot: Snapshot) -> Iterator[Violation]:
    """I14: running executions and acquired slots are within the concurrency cap.

    After a change of the cap, slots acquired before the change may exceed it.
    """
    holders: dict[UUID, dict[UUID, int]] = {}
    for execution in snapshot.executions.values():
        if execution.quota_policy_id is not None and execution.ownership_state == "leased":
            holders.setdefault(execution.quota_policy_id, {})[execution.execution_id] = (
                execution.lease_acquired_at or 0
            )
    for row in snapshot.slots:
        holders.setdefault(row[0], {})[ExecutionId(row[1]).uuid] = row[2]
    for ident, quota in snapshot.quotas.items():
        since = holders.get(ident, {})
        held, cap = len(since), quota.active_concurrency_cap
        if cap and held > cap and max(since.values()) > _changed_at(quota):
            yield Violation("I14", f"quota {ident}", f"{held} slots in use, the cap is {cap}")


def _changed_at(quota: QuotaPolicy) -> int:
    return -1 if quota.changed_at_ms is None else quota.changed_at_ms


def slots_are_released(snapshot: Snapshot) -> Iterator[Violation]:
    """I14: no slot belongs to an execution that ended long ago."""
    latest = max((e.last_mutation_at for e in snapshot.executions.values()), default=0)
    for row in snapshot.slots:
        ident = ExecutionId(row[1])
        execution = snapshot.executions.get((ident.partition_index, ident.uuid))
        if (
            execution is not None
            and is_ended(execution)
            and (execution.terminal_at_ms or 0) + SLOT_SLACK_MS < latest
        ):
            yield Violation("I14", str(ident), f"ended, but holds a slot of quota {row[0]}")


def windows_are_within_the_limit(snapshot: Snapshot) -> Iterator[Violation]:
    """I14: no interval of a window's length has more admissions than the limit allows.

    Intervals that end before the last change of the limit are not checked.
    """
    windows: dict[UUID, list[int]] = {}
    for quota, dimension, admitted_at_ms, _ in snapshot.quota_windows:
        if dimension == DEFAULT_DIMENSION:
            windows.setdefault(quota, []).append(admitted_at_ms)
    for ident, quota in snapshot.quotas.items():
        most, times, since = (
            quota.max_requests_per_window,
            sorted(windows.get(ident, ())),
            _changed_at(quota),
        )
        pairs = (
            (early, late) for early, late in zip(times, times[most:], strict=False) if late > since
        )
        if most and any(late - early < quota.window_ms for early, late in pairs):
            yield Violation(
                "I14",
                f"quota {ident}",
                f"more than {most} were admitted within {quota.window_ms} ms",
            )


def gates_are_known(snapshot: Snapshot) -> Iterator[Violation]:
    """I14: an execution is in the queue of its limits, and its lane lists that queue."""
    for key, execution in snapshot.executions.items():
        gate = Attached(execution.budget_ids, execution.quota_policy_id).gate
        if execution.gate != gate:
            yield violation(
                "I14", key, f"is in the queue {execution.gate!r}, its limits require {gate!r}"
            )
        elif gate and (execution.lane_id, execution.namespace, gate) not in snapshot.gates:
            yield violation(
                "I14", key, f"lane {execution.lane_id!r} does not list the gate {gate!r}"
            )


QUOTA_CHECKS: dict[str, Check] = {
    "I14 cap": running_is_within_the_cap,
    "I14 slots": slots_are_released,
    "I14 window": windows_are_within_the_limit,
    "I14 gates": gates_are_known,
}
