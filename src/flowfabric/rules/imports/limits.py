"""Budgets and quotas, their usage, and the queues of the executions under them."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from flowfabric.model.budget import MAX_AMOUNT
from flowfabric.model.quota import Attached
from flowfabric.rules.imports.original import (
    Imported,
    Original,
    Row,
    copied,
    json_of,
    text_of,
    uuid_of,
)

EXEC = "ff_exec_core"
BUDGET, QUOTA = "ff_budget_policy", "ff_quota_policy"
_NUMBERS = ("requests_per_window_seconds", "max_requests_per_window", "active_concurrency_cap")


def import_limits(original: Original, made: Imported) -> None:
    spaces = _namespaces(original, made)
    for row in original.rows(BUDGET):
        ident = uuid_of(row["budget_id"])
        policy = text_of(_clamped(json_of(row["policy_json"]), ident, made))
        space = _only(spaces[ident])
        made.add(BUDGET, {**row, "budget_id": ident, "policy_json": policy, "namespace": space})
    budgets = {row["budget_id"]: row["namespace"] for row in made.rows[BUDGET]}
    for row in original.rows("ff_budget_usage"):
        made.add("ff_budget_usage", {**row, "budget_id": uuid_of(row["budget_id"])})
    for row in original.rows("ff_budget_usage_dedup"):
        fact = "the original does not name its budget: a repeat of the report would count again"
        made.left_out("ff_budget_usage_dedup", row["dedup_key"], fact)
    _charges(original, made, budgets)
    for row in original.rows(QUOTA):
        _quota(row, _only(spaces[uuid_of(row["quota_policy_id"])]), made)
    quotas = {row["quota_policy_id"]: row["namespace"] for row in made.rows[QUOTA]}
    _admissions(original, made)
    for execution in made.rows[EXEC]:
        _check_limits(execution, budgets, quotas, made)
    _gates(made)


def _namespaces(original: Original, made: Imported) -> dict[UUID, set[str]]:
    """The namespaces of the executions under each limit: the original's limits have none."""
    found: dict[UUID, set[str]] = defaultdict(set)
    by_id = {row["execution_id"]: row for row in made.rows[EXEC]}
    for row in made.rows[EXEC]:
        for text in row["budget_ids"]:
            found[UUID(text)].add(row["namespace"])
        if row["quota_policy_id"] is not None:
            found[row["quota_policy_id"]].add(row["namespace"])
    for table, column in (
        ("ff_budget_usage_by_exec", "budget_id"),
        ("ff_quota_admitted", "quota_policy_id"),
        ("ff_quota_window", "quota_policy_id"),
    ):
        for row in original.rows(table):
            execution = by_id.get(uuid_of(row["execution_id"]))
            if execution is not None:
                found[uuid_of(row[column])].add(execution["namespace"])
    return found


def _only(spaces: set[str]) -> str:
    return next(iter(spaces)) if len(spaces) == 1 else "default"


def _clamped(policy: Row, ident: UUID, made: Imported) -> Row:
    for name in ("hard_limits", "soft_limits"):
        policy[name] = policy.get(name) or {}
        for dimension, limit in policy[name].items():
            if limit > MAX_AMOUNT:
                policy[name][dimension] = MAX_AMOUNT
                made.changed(BUDGET, ident, f"{name} {dimension}: {limit} becomes {MAX_AMOUNT}")
    return policy


def _charges(original: Original, made: Imported, budgets: dict[UUID, str]) -> None:
    executions = {row["execution_id"]: row for row in made.rows[EXEC]}
    for row in original.rows("ff_budget_usage_by_exec"):
        ident, budget = uuid_of(row["execution_id"]), uuid_of(row["budget_id"])
        execution = executions.get(ident)
        if execution is None or budgets.get(budget) != execution["namespace"]:
            fact = f"its execution {ident} is not in the database, or of another namespace"
            made.left_out("ff_budget_usage_by_exec", budget, fact)
            continue
        made.add(
            "ff_budget_usage_by_exec",
            {
                **copied(row, "dimensions_key", "delta_total", "updated_at_ms"),
                **copied(execution, "partition_key", "execution_id"),
                "budget_id": budget,
            },
        )


def _quota(row: Row, namespace: str, made: Imported) -> None:
    ident = uuid_of(row["quota_policy_id"])
    numbers = {name: max(row[name], 0) for name in _NUMBERS}
    if any(row[name] < 0 for name in _NUMBERS):
        made.changed(QUOTA, ident, "negative numbers become 0, which is no limit")
    made.add(
        QUOTA,
        {
            **row,
            **numbers,
            "quota_policy_id": ident,
            "namespace": namespace,
            "active_concurrency": 0,
        },
    )
    if row["active_concurrency"]:
        made.changed(QUOTA, ident, "its slots are free: no lease of the original is continued")


def _admissions(original: Original, made: Imported) -> None:
    for row in original.rows("ff_quota_window"):
        ident = uuid_of(row["quota_policy_id"])
        made.add(
            "ff_quota_window",
            {**row, "quota_policy_id": ident, "execution_id": uuid_of(row["execution_id"])},
        )
    for row in original.rows("ff_quota_admitted"):
        fact = "its slot is free: no lease of the original is continued"
        made.left_out("ff_quota_admitted", row["execution_id"], fact)


def _check_limits(
    execution: Row, budgets: dict[UUID, str], quotas: dict[UUID, str], made: Imported
) -> None:
    space, ident = execution["namespace"], execution["execution_id"]
    own = [text for text in execution["budget_ids"] if budgets.get(UUID(text), space) == space]
    if len(own) < len(execution["budget_ids"]):
        made.changed(EXEC, ident, "some of its budgets are shared by several namespaces: released")
        execution["budget_ids"] = tuple(own)
    quota = execution["quota_policy_id"]
    if quota is not None and quotas.get(quota, space) != space:
        made.changed(EXEC, ident, "its quota is shared by several namespaces: released")
        execution["quota_policy_id"] = None
    execution["gate"] = Attached(tuple(own), execution["quota_policy_id"]).gate


def _gates(made: Imported) -> None:
    gates = {
        (row["lane_id"], row["namespace"], row["gate"]): row["quota_policy_id"]
        for row in made.rows[EXEC]
        if row["gate"]
    }
    for (lane, namespace, gate), quota in gates.items():
        made.add(
            "ff_lane_gate",
            {"lane_id": lane, "namespace": namespace, "gate": gate, "quota_policy_id": quota},
        )
