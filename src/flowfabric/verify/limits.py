"""The checks of budgets and quotas together: what is under a limit, charged to it or attached to it is of its namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

from flowfabric.model.execution import Execution
from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Violation, about

BREACHED = "budget_breached"


def executions_are_under_their_own(world: Snapshot) -> Iterator[Violation]:
    """I12: an execution is under limits of its namespace, and waits for budgets of it."""
    for key, execution in world.executions.items():
        for kind, ident in _limits_of(execution):
            owner = _owner(world, kind, ident)
            if owner not in (None, execution.namespace):
                yield Violation(
                    "I12",
                    about(key),
                    f"of {execution.namespace!r}, under {kind} {ident} of {owner!r}",
                )


def _limits_of(execution: Execution) -> Iterator[tuple[str, UUID]]:
    waits_for = (
        (execution.blocked_on or "").rpartition(":")[2]
        if execution.eligibility_state == "blocked_by_budget"
        else ""
    )
    for text in dict.fromkeys((*execution.budget_ids, waits_for)):
        with suppress(ValueError):
            yield "budget", UUID(text)
    if execution.quota_policy_id is not None:
        yield "quota", execution.quota_policy_id


def _owner(world: Snapshot, kind: str, ident: UUID) -> str | None:
    """None for a limit that is not there."""
    found = world.budgets.get(ident) if kind == "budget" else world.quotas.get(ident)
    return None if found is None else found.namespace


def reports_are_of_one_namespace(world: Snapshot) -> Iterator[Violation]:
    """I12: a budget is charged, and was refused, by executions of its namespace."""
    reporters = {(budget, key) for budget, key in world.charged}
    for key, events in world.operations.items():
        for event in events:
            if event["event_type"] == BREACHED:
                reporters.add((UUID(json.loads(event["details"])["budget_id"]), key))
    for budget, key in sorted(reporters):
        execution, owner = world.executions.get(key), _owner(world, "budget", budget)
        if execution is not None and owner not in (None, execution.namespace):
            yield Violation(
                "I12",
                about(key),
                f"of {execution.namespace!r}, reported to budget {budget} of {owner!r}",
            )


def scopes_are_of_their_limit(world: Snapshot) -> Iterator[Violation]:
    """I12: a limit is attached in its own namespace."""
    for scope in world.scopes:
        owner = _owner(world, scope.kind, scope.limit_id)
        if owner not in (None, scope.namespace) or (
            scope.scope_type == "namespace" and scope.scope_id != scope.namespace
        ):
            where = f"{scope.scope_type} {scope.scope_id!r}"
            yield Violation(
                "I12",
                f"{scope.kind} {scope.limit_id}",
                f"of {owner!r}, attached to {where} of {scope.namespace!r}",
            )


LIMIT_CHECKS: dict[str, Check] = {
    "I12: under limits": executions_are_under_their_own,
    "I12: reports": reports_are_of_one_namespace,
    "I12: scopes": scopes_are_of_their_limit,
}
