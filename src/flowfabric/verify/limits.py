"""Checks of limits and namespaces: a limit applies within its namespace only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

from flowfabric.model.execution import Execution
from flowfabric.verify.snapshot import Snapshot
from flowfabric.verify.violation import Check, Violation, violation

BREACHED = "budget_breached"


def limits_share_the_namespace(snapshot: Snapshot) -> Iterator[Violation]:
    """I12: the limits of an execution, and the budget it waits for, are of its namespace."""
    for key, execution in snapshot.executions.items():
        for kind, ident in _limits_of_execution(execution):
            owner = _owner(snapshot, kind, ident)
            if owner not in (None, execution.namespace):
                yield violation(
                    "I12", key, f"of {execution.namespace!r}, under {kind} {ident} of {owner!r}"
                )


def _limits_of_execution(execution: Execution) -> Iterator[tuple[str, UUID]]:
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


def _owner(snapshot: Snapshot, kind: str, ident: UUID) -> str | None:
    """The namespace of a limit; None if the limit does not exist."""
    found = snapshot.budgets.get(ident) if kind == "budget" else snapshot.quotas.get(ident)
    return None if found is None else found.namespace


def reports_are_of_one_namespace(snapshot: Snapshot) -> Iterator[Violation]:
    """I12: executions that report to a budget are of its namespace."""
    reporters = {(budget, key) for budget, key in snapshot.charged}
    for key, events in snapshot.operations.items():
        for event in events:
            if event["event_type"] == BREACHED:
                reporters.add((UUID(json.loads(event["details"])["budget_id"]), key))
    for budget, key in sorted(reporters):
        execution, owner = snapshot.executions.get(key), _owner(snapshot, "budget", budget)
        if execution is not None and owner not in (None, execution.namespace):
            yield violation(
                "I12", key, f"of {execution.namespace!r}, reported to budget {budget} of {owner!r}"
            )


def scopes_are_of_their_limit(snapshot: Snapshot) -> Iterator[Violation]:
    """I12: a limit is attached to scopes of its namespace."""
    for scope in snapshot.scopes:
        owner = _owner(snapshot, scope.kind, scope.limit_id)
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
    "I12: under limits": limits_share_the_namespace,
    "I12: reports": reports_are_of_one_namespace,
    "I12: scopes": scopes_are_of_their_limit,
}
