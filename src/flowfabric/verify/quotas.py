"""The checks of quotas: what is held and what was admitted is within the limits, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.quota import DEFAULT_DIMENSION, Attached, QuotaPolicy
from flowfabric.rules.states import is_ended
from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Violation, about

SLOT_SLACK_MS = 120_000
"""A slot taken by hand outlives its execution until the reconciler has been by a few times."""


def places_are_within_the_cap(world: Snapshot) -> Iterator[Violation]:
    """I14: those that run, and those who hold a place by hand, are no more than may run at once.

    Where the limits were changed, more may hold a place than may now, as long as none of them took it since.
    """
    holders: dict[UUID, dict[UUID, int]] = {}
    for execution in world.executions.values():
        if execution.quota_policy_id is not None and execution.ownership_state == "leased":
            holders.setdefault(execution.quota_policy_id, {})[execution.execution_id] = (
                execution.lease_acquired_at or 0
            )
    for row in world.slots:
        holders.setdefault(row[0], {})[ExecutionId(row[1]).uuid] = row[2]
    for ident, quota in world.quotas.items():
        since = holders.get(ident, {})
        held, cap = len(since), quota.active_concurrency_cap
        if cap and held > cap and max(since.values()) > _changed_at(quota):
            yield Violation("I14", f"quota {ident}", f"{held} hold a place, {cap} may")


def _changed_at(quota: QuotaPolicy) -> int:
    return -1 if quota.changed_at_ms is None else quota.changed_at_ms


def no_place_is_left_behind(world: Snapshot) -> Iterator[Violation]:
    """I14: nobody holds a place for an execution that ended long ago."""
    latest = max((e.last_mutation_at for e in world.executions.values()), default=0)
    for row in world.slots:
        ident = ExecutionId(row[1])
        execution = world.executions.get((ident.partition_index, ident.uuid))
        if (
            execution is not None
            and is_ended(execution)
            and (execution.terminal_at_ms or 0) + SLOT_SLACK_MS < latest
        ):
            yield Violation("I14", str(ident), f"ended, but holds a place in quota {row[0]}")


def windows_are_within_the_limit(world: Snapshot) -> Iterator[Violation]:
    """I14: no stretch of a window's length holds more admissions than are allowed in one, if it ends under these limits."""
    windows: dict[UUID, list[int]] = {}
    for quota, dimension, admitted_at_ms, _ in world.entries:
        if dimension == DEFAULT_DIMENSION:
            windows.setdefault(quota, []).append(admitted_at_ms)
    for ident, quota in world.quotas.items():
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


def gates_are_known(world: Snapshot) -> Iterator[Violation]:
    """I14: an execution waits in the queue its limits lead to, and its lane knows that queue: nobody would find it there."""
    for key, execution in world.executions.items():
        gate = Attached(execution.budget_ids, execution.quota_policy_id).gate
        if execution.gate != gate:
            yield Violation(
                "I14", about(key), f"waits behind {execution.gate!r}, its limits say {gate!r}"
            )
        elif gate and (execution.lane_id, execution.namespace, gate) not in world.gates:
            yield Violation(
                "I14", about(key), f"lane {execution.lane_id!r} does not know of the gate {gate!r}"
            )


QUOTA_CHECKS: dict[str, Check] = {
    "I14 cap": places_are_within_the_cap,
    "I14 slots": no_place_is_left_behind,
    "I14 window": windows_are_within_the_limit,
    "I14 gates": gates_are_known,
}
