"""Checks of budgets, of quotas, and of the scopes and namespaces that they apply to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.quota import DEFAULT_DIMENSION, Attached, QuotaPolicy
from flowfabric.rules.states import is_ended
from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Finding, invariant

BREACHED = "budget_breached"
SLOT_SLACK_MS = 120_000
"""Time in which the reconciler removes the slot of an ended execution."""


@invariant("I13")
def usage_within_limits(snapshot: Snapshot) -> Iterator[Finding]:
    """I13: usage is not negative and not above the highest hard limit so far."""
    for (budget, dimension), used in snapshot.usage.items():
        policy = snapshot.budgets.get(budget)
        hard = 0 if policy is None else policy.limits.hard_limits.get(dimension, 0)
        most = hard if policy is None else policy.limits.formerly.get(dimension, hard)
        if used < 0 or (hard and most and used > most):
            yield str(budget), f"{dimension}: {used} used, the limit is {hard or 'none'}"


@invariant("I13")
def accounts_are_covered(snapshot: Snapshot) -> Iterator[Finding]:
    """I13: usage is at least the sum of the charges to executions."""
    for (budget, dimension), charged in snapshot.accounts.items():
        used = snapshot.usage.get((budget, dimension), 0)
        if charged > used:
            yield str(budget), f"{dimension}: {charged} charged, {used} used"


@invariant("I14")
def running_is_within_the_cap(snapshot: Snapshot) -> Iterator[Finding]:
    """I14: running executions and acquired slots are within the concurrency cap.

    After a change of the cap, slots acquired before the change may exceed it.
    """
    holders: dict[UUID, dict[UUID, int]] = {}
    for execution in snapshot.executions.values():
        if execution.quota_policy_id is not None and execution.ownership_state == "leased":
            since = holders.setdefault(execution.quota_policy_id, {})
            since[execution.execution_id] = execution.lease_acquired_at or 0
    for row in snapshot.slots:
        holders.setdefault(row[0], {})[ExecutionId(row[1]).uuid] = row[2]
    for ident, quota in snapshot.quotas.items():
        since = holders.get(ident, {})
        held, cap = len(since), quota.active_concurrency_cap
        if cap and held > cap and max(since.values()) > _changed_at(quota):
            yield f"quota {ident}", f"{held} slots in use, the cap is {cap}"


def _changed_at(quota: QuotaPolicy) -> int:
    return -1 if quota.changed_at_ms is None else quota.changed_at_ms


@invariant("I14")
def slots_are_released(snapshot: Snapshot) -> Iterator[Finding]:
    """I14: no slot belongs to an execution that ended long ago."""
    latest = max((e.last_mutation_at for e in snapshot.executions.values()), default=0)
    for row in snapshot.slots:
        ident = ExecutionId(row[1])
        execution = snapshot.executions.get((ident.partition_index, ident.uuid))
        if execution is None or not is_ended(execution):
            continue
        if (execution.terminal_at_ms or 0) + SLOT_SLACK_MS < latest:
            yield str(ident), f"ended, but holds a slot of quota {row[0]}"


@invariant("I14")
def windows_are_within_the_limit(snapshot: Snapshot) -> Iterator[Finding]:
    """I14: no interval of a window's length has more admissions than the limit allows.

    Intervals that end before the last change of the limit are not checked.
    """
    windows: dict[UUID, list[int]] = {}
    for quota, dimension, admitted_at_ms, _ in snapshot.quota_windows:
        if dimension == DEFAULT_DIMENSION:
            windows.setdefault(quota, []).append(admitted_at_ms)
    for ident, quota in snapshot.quotas.items():
        most, times = quota.max_requests_per_window, sorted(windows.get(ident, ()))
        since, pairs = _changed_at(quota), zip(times, times[most:], strict=False)
        if most and any(late > since and late - early < quota.window_ms for early, late in pairs):
            yield f"quota {ident}", f"more than {most} were admitted within {quota.window_ms} ms"


@invariant("I14")
def gates_are_known(snapshot: Snapshot) -> Iterator[Finding]:
    """I14: an execution is in the queue of its limits, and its lane lists that queue."""
    for key, execution in snapshot.executions.items():
        gate = Attached(execution.budget_ids, execution.quota_policy_id).gate
        if execution.gate != gate:
            yield key, f"is in the queue {execution.gate!r}, its limits require {gate!r}"
        elif gate and (execution.lane_id, execution.namespace, gate) not in snapshot.gates:
            yield key, f"lane {execution.lane_id!r} does not list the gate {gate!r}"


@invariant("I12")
def limits_share_the_namespace(snapshot: Snapshot) -> Iterator[Finding]:
    """I12: the limits of an execution, and the budget it waits for, are of its namespace."""
    for key, execution in snapshot.executions.items():
        for kind, ident in _limits_of_execution(execution):
            owner = _owner(snapshot, kind, ident)
            if owner not in (None, execution.namespace):
                yield key, f"of {execution.namespace!r}, under {kind} {ident} of {owner!r}"


def _limits_of_execution(execution: Execution) -> Iterator[tuple[str, UUID]]:
    waits = execution.eligibility_state == "blocked_by_budget"
    waits_for = (execution.blocked_on or "").rpartition(":")[2] if waits else ""
    for text in dict.fromkeys((*execution.budget_ids, waits_for)):
        with suppress(ValueError):
            yield "budget", UUID(text)
    if execution.quota_policy_id is not None:
        yield "quota", execution.quota_policy_id


def _owner(snapshot: Snapshot, kind: str, ident: UUID) -> str | None:
    """The namespace of a limit; None if the limit does not exist."""
    found = snapshot.budgets.get(ident) if kind == "budget" else snapshot.quotas.get(ident)
    return None if found is None else found.namespace


@invariant("I12")
def reports_are_of_one_namespace(snapshot: Snapshot) -> Iterator[Finding]:
    """I12: executions that report to a budget are of its namespace."""
    reporters = {(budget, key) for budget, key in snapshot.charged}
    for key, events in snapshot.operations.items():
        for event in events:
            if event["event_type"] == BREACHED:
                reporters.add((UUID(json.loads(event["details"])["budget_id"]), key))
    for budget, key in sorted(reporters):
        execution, owner = snapshot.executions.get(key), _owner(snapshot, "budget", budget)
        if execution is not None and owner not in (None, execution.namespace):
            yield key, f"of {execution.namespace!r}, reported to budget {budget} of {owner!r}"


@invariant("I12")
def scopes_are_of_their_limit(snapshot: Snapshot) -> Iterator[Finding]:
    """I12: a limit is attached to scopes of its namespace."""
    for scope in snapshot.scopes:
        owner = _owner(snapshot, scope.kind, scope.limit_id)
        is_other = scope.scope_type == "namespace" and scope.scope_id != scope.namespace
        if is_other or owner not in (None, scope.namespace):
            where = f"{scope.scope_type} {scope.scope_id!r} of {scope.namespace!r}"
            yield f"{scope.kind} {scope.limit_id}", f"of {owner!r}, attached to {where}"


LIMIT_CHECKS: dict[str, Check] = {
    "I13: limits": usage_within_limits,
    "I13: accounts": accounts_are_covered,
    "I14 cap": running_is_within_the_cap,
    "I14 slots": slots_are_released,
    "I14 window": windows_are_within_the_limit,
    "I14 gates": gates_are_known,
    "I12: under limits": limits_share_the_namespace,
    "I12: reports": reports_are_of_one_namespace,
    "I12: scopes": scopes_are_of_their_limit,
}
