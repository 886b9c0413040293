"""The limits of a new execution, and the scopes that limits are attached to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from flowfabric.errors import NotFound, invalid
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.policy import MAX_BUDGETS, ExecutionPolicy
from flowfabric.model.quota import SCOPE_TYPES, Attached, LimitScope
from flowfabric.plan import Arg, Delete, Form, Insert, Now, Plan, Wake
from flowfabric.rules.columns import by_args, from_args

SCOPE, GATE = "ff_limit_scope", "ff_lane_gate"
_NAMED = ("scope_type", "scope_id", "kind", "limit_id")
UNKNOWN = {"budget": "budget", "quota": "quota_policy"}
"""The entity of a not-found error, by the kind of the limit."""
Limit = tuple[str, UUID]
LIMITS = "limits"
GATES = "gates"

ATTACH = Form(
    "attach_limit",
    Insert(SCOPE, {**from_args(*_NAMED, "namespace"), "attached_at_ms": Now()}),
    Wake(LIMITS),
)
DETACH = Form("detach_limit", Delete(SCOPE, by_args(*_NAMED)), Wake(LIMITS))
OPEN_GATE = Form(
    "open_gate",
    Insert(GATE, from_args("lane_id", "namespace", "gate", "quota_policy_id")),
    Wake(GATES, Arg("lane_id")),
)

Scopes = Mapping[tuple[str, str], tuple[LimitScope, ...]]
NOTHING = Attached()


def scopes_of(found: Iterable[LimitScope]) -> dict[tuple[str, str], tuple[LimitScope, ...]]:
    grouped: dict[tuple[str, str], tuple[LimitScope, ...]] = {}
    for scope in found:
        key = (scope.scope_type, scope.scope_id)
        grouped[key] = (*grouped.get(key, ()), scope)
    return grouped


def attached(
    args: CreateExecutionArgs,
    policy: ExecutionPolicy | None,
    scopes: Scopes,
    flow_id: UUID | None = None,
) -> Attached:
    """All budgets apply, but one quota: of the nearest scope, the one that was attached last."""
    budgets: tuple[str, ...] = () if policy is None else policy.budget_ids
    stated = None if policy is None else policy.quota_policy_id
    quota = None if stated is None else UUID(stated)
    if scopes:
        near = [_at(scopes, scope_type, args, flow_id) for scope_type in SCOPE_TYPES]
        found = {str(s.limit_id) for here in near for s in here if s.kind == "budget"}
        budgets = tuple(sorted({*budgets, *found}))
        if len(budgets) > MAX_BUDGETS:
            most = (
                f"at most {MAX_BUDGETS} budgets, with those of its flow, tags, lane and namespace"
            )
            raise invalid("budget_ids", most, len(budgets))
        quotas = ([s for s in here if s.kind == "quota"] for here in near)
        nearest = next((several for several in quotas if several), None)
        if quota is None and nearest is not None:
            quota = max(nearest, key=lambda s: (s.attached_at_ms, s.limit_id)).limit_id
    return Attached(budgets, quota) if budgets or quota is not None else NOTHING


def _at(
    scopes: Scopes, scope_type: str, args: CreateExecutionArgs, flow_id: UUID | None
) -> list[LimitScope]:
    match scope_type:
        case "task":
            ids = [args.execution_kind]
        case "flow":
            ids = [] if flow_id is None else [str(flow_id)]
        case "tag":
            ids = [f"{key}={value}" for key, value in args.tags.items()]
        case "lane":
            ids = [args.lane_id]
        case _:
            ids = [args.namespace]
    found = (scope for ident in ids for scope in scopes.get((scope_type, ident), ()))
    return [scope for scope in found if scope.namespace == args.namespace]


def limits_named(policy: ExecutionPolicy | None) -> list[Limit]:
    """The limits that the policy of an execution names."""
    if policy is None:
        return []
    quota = [] if policy.quota_policy_id is None else [("quota", UUID(policy.quota_policy_id))]
    return [*(("budget", UUID(ident)) for ident in policy.budget_ids), *quota]


def unknown(named: Iterable[Limit], known: Mapping[Limit, str], namespace: str) -> NotFound | None:
    """The error for the first limit that does not exist in this namespace."""
    for kind, ident in named:
        if known.get((kind, ident)) != namespace:
            return NotFound(UNKNOWN[kind], ident)
    return None


def open_gate(lane: str, namespace: str, limits: Attached) -> Plan:
    return OPEN_GATE(
        lane_id=lane,
        namespace=namespace,
        gate=limits.gate,
        quota_policy_id=limits.quota_policy_id,
    )
